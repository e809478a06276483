// Keys of the whole page: numbers open tabs, except in the story, where they open its chapters (story.js), and keys press the buttons of live pages that have a class such as key-Space.
// Keys of the time line: scrubber.js.

const FIELDS = "input:not([type=checkbox], [type=range]), textarea, select, [role=slider], [contenteditable]"
const key_name = (event) => event.key == " " ? "Space" : event.key

const pressed_button = (event, on) => {
  const path = event.composedPath(), name = key_name(event)
  const host = on.getRootNode().host, idle = name == "Space" && on.matches("button")  // of buttons that space does not change
    && (host?.matches(".key-Space") || (host?.matches(".tabs") && on.matches(".bk-active")))
  if (on.matches("button, summary") && ["Space", "Enter"].includes(name) && !idle) return null
  if (/^[1-9]$/.test(name)) return find_deep("training-story") ? null : find_deep(".tabs")?.shadowRoot.querySelectorAll(".bk-btn")[name - 1]
  const group = path.find((node) => node.classList?.contains("arrow-keys"))
  const found = (group && find_deep(`.${CSS.escape(name)}`, group.shadowRoot)) ?? find_deep(`.key-${CSS.escape(name)}`)
  return found?.shadowRoot.querySelector("button")
}

const close_explanation = () => {  // of a panel; its button has the focus then
  const details = find_deep("details[open]")
  if (!details) return
  details.open = false
  details.querySelector("summary").focus()
}

document.addEventListener("keydown", (event) => {
  const on = event.composedPath()[0]
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || on.matches?.(FIELDS)) return
  if (event.repeat && event.key == " ") return event.preventDefault()  // a key that is held must not start and pause
  if (document.querySelector("dialog[open]")) return
  if (event.key == "Escape") return close_explanation()
  if (event.key == "?") ACTIONS["show-help"]()
  const button = pressed_button(event, on.matches ? on : document.body)
  if (!button) return
  event.preventDefault()
  button.click()
  document.addEventListener("keyup", (event) => event.preventDefault(), {once: true})  // nor does the button react to it
})
