// Three hints on the first visit: a box beside what it explains, which it never covers.

const HINTS = [
  [".bar", "Play the run here, or drag the slider to a frame. The marks above the slider are events, such as drops and spikes."],
  [".run-list", "Choose a run here. Below are a second run to compare with it, and the panels. The other tabs run a simulation live."],
  [".key-Space", "Start and pause the run here."],
  [".setting", "The sliders change the run while it runs, except those that start it again, such as the seed."],
  [".tools", "Copy a link to this view, or Python lines that repeat it. The button with the question mark lists the keys."],
]
const SEEN = "explorer-tour"
const GAP = 10
const tour = {box: document.getElementById("tour"), ring: document.getElementById("ring"), hints: []}

const was_seen = () => {
  try { return localStorage.getItem(SEEN) } catch { return null }
}

const available_hints = () => HINTS.map(([selector, words]) => ({target: find_deep(selector), words})).filter(({target}) => target)

const show_tour = () => {
  tour.hints = available_hints()
  tour.before = document.activeElement
  tour.box.hidden = tour.ring.hidden = false
  tour.timer = setInterval(place_hint, 200)
  show_hint(0)
}

const show_hint = (k) => {
  if (k >= tour.hints.length) return close_tour()
  tour.shown = k
  const next = tour.box.querySelector(".next")
  document.getElementById("hint").textContent = tour.hints[k].words
  tour.box.querySelector("span").textContent = `${k + 1} of ${tour.hints.length}`
  const last = k + 1 == tour.hints.length
  next.textContent = last ? "Done" : "Next"
  tour.box.querySelector(".close").hidden = last
  tour.hints[k].target.scrollIntoView({block: "nearest"})
  place_hint()
  next.focus({preventScroll: true})
}

const place_hint = () => {  // where there is room: above or below the target, so that panels remain visible, or beside it
  const {target} = tour.hints[tour.shown]
  if (!target.isConnected) return close_tour()
  const {left, top, right, bottom, width, height} = target.getBoundingClientRect(), {style} = tour.box
  const {offsetWidth: wide, offsetHeight: tall} = tour.box, {clientWidth: across, clientHeight: down} = document.documentElement
  const x = within_page(left, across - wide), y = within_page(top, down - tall), last = within_page(right - wide, across - wide)
  const below = [x, bottom + GAP], above = [width > 2 * wide ? last : x, top - GAP - tall]
  const before = [left - GAP - wide, y]
  const places = width > 2 * wide ? [[last, bottom + GAP], above, before] : [below, above, [right + GAP, y], before]
  const fits = ([x, y]) => x >= 0 && y >= 0 && x + wide <= across && y + tall <= down
  const [to_x, to_y] = places.find(fits) ?? below
  Object.assign(style, {left: `${to_x}px`, top: `${to_y}px`})
  const around = {left: left - 4, top: top - 4, width: width + 4, height: height + 4}
  for (const [name, value] of Object.entries(around)) tour.ring.style[name] = `${value}px`
}
const within_page = (value, high) => Math.max(GAP, Math.min(value, high - GAP))

const close_tour = () => {
  clearInterval(tour.timer)
  tour.box.hidden = tour.ring.hidden = true
  tour.before?.focus?.()
  try { localStorage.setItem(SEEN, "seen") } catch { /* the browser stores nothing: the hints come again */ }
}

tour.box.querySelector(".next").addEventListener("click", () => show_hint(tour.shown + 1))
tour.box.querySelector(".close").addEventListener("click", close_tour)
document.addEventListener("keydown", (event) => { if (event.key == "Escape" && !tour.box.hidden) close_tour() })

const show_tour_when_ready = () => {  // after the page's first paint, and not over the story
  const ready = Bokeh.documents[0]?.is_idle && find_deep(".tools") && !find_deep("training-story")
  if (ready) show_tour()
  else setTimeout(show_tour_when_ready, 500)
}
if (!was_seen()) setTimeout(show_tour_when_ready, 500)
