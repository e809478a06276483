// Copies of a view: a link, and Python lines that the server writes. A refused clipboard shows the text selected.

const say = (words) => {
  const said = document.getElementById("said")
  said.textContent = words
  clearTimeout(say.later)
  say.later = setTimeout(() => { said.textContent = "" }, 4000)
}

const copy = async (name, words) => {
  if (!words) return say("There is nothing to copy")
  try {
    await navigator.clipboard.writeText(words)
    say(`${name} copied`)
  } catch {
    const dialog = document.getElementById("lines"), area = dialog.querySelector("textarea")
    dialog.querySelector("h2").textContent = name
    area.value = words
    dialog.showModal()
    area.select()
  }
}
globalThis.copy_from_page = copy  // for the answers of the server

const model = (name) => Bokeh.documents[0]?.get_model_by_name(name)
const ask = (...words) => model("asked")?.setv({tags: words})
const player = () => globalThis.scrubber?.bar?.isConnected ? scrubber : null

const view_link = () => {
  const link = new URL("?" + model("address").text, location)
  if (link.searchParams.get("tab") == "story") link.hash = location.hash  // the chapter
  if (player()) link.searchParams.set("step", player().step_shown)
  return link.href.replaceAll("%2C", ",")
}

document.addEventListener("reached", ({detail: {fa, seed}}) => ask("reached", fa, seed))  // in the story
document.addEventListener("visibilitychange", () => ask(document.hidden ? "hidden" : "visible"))  // the server pauses

const ACTIONS = {
  "copy-link": () => copy("Link", view_link()),
  "copy-python": () => {
    const story = find_deep("training-story")
    if (story) return copy("Python", story.python)
    player()?.tell()
    ask("python", performance.now(), player()?.figures.columns ?? 0)
  },
  "copy-command": (button) => copy("Command", button.parentElement.querySelector("code").textContent),
  "show-help": () => document.getElementById("help").showModal(),
  "close": (button) => button.closest("dialog").close(),
}
document.addEventListener("click", (event) => {
  for (const element of event.composedPath()) {
    for (const name of element.classList ?? []) ACTIONS[name]?.(element)
  }
})
