// The time bar (HTML: timebar.html): displays the state of the player and passes on its events.

const TICK_SPACE = 6  // smallest distance between the marks of events, in pixels

class Bar {
  constructor(element) {
    this.element = element
  }

  get connected() {
    return this.element.isConnected
  }

  get visible() {
    return this.element.getClientRects().length > 0
  }

  control(name) {
    return this.element.querySelector(`[data-do=${name}]`)
  }

  dress({marks, times, lanes}, speed) {  // show the marks and times of a stage; until then, all controls are disabled
    const last = times.length - 1, ticks = this.element.querySelector(".ticks"), two = lanes.length > 1
    for (const control of this.element.querySelectorAll("[data-do]")) control.disabled = false
    Object.assign(this.control("seek"), {max: last, disabled: !last})
    this.control("speed").value = String(speed)
    this.element.querySelector(".line").classList.toggle("two", two)
    ticks.replaceChildren(...lanes.map(({name}, lane) => {
      const row = document.createElement("div"), some = marks.filter((mark) => mark.lane == lane)
      if (two) row.dataset.name = name
      row.append(...this.ticks(some, Math.max(last, 1), ticks.clientWidth || 1000))
      return row
    }))
    for (const name of ["before", "after"]) this.control(name).disabled = !marks.length
    const kinds = new Set(marks.map((mark) => mark.kind))
    for (const legend of this.element.querySelectorAll(".kinds > span")) legend.hidden = !kinds.has(legend.textContent)
  }

  ticks(marks, last, width) {  // buttons of one run's events, which are apart from one another; width: in pixels
    let before = -Infinity
    return marks.map(({begin, place, end, kind, words}) => {
      const tick = document.createElement("button"), share = (place) => `${100 * place / last}%`
      Object.assign(tick, {title: words, className: kind, tabIndex: -1})
      tick.setAttribute("aria-label", words)
      tick.dataset.to = place
      if (kind == "plateau") {
        Object.assign(tick.style, {left: share(begin), width: share(end - begin)})
      } else {
        const at = width * place / last
        before = Math.max(at, before + TICK_SPACE)
        tick.style.left = `calc(${share(place)} + ${before - at}px)`
      }
      return tick
    })
  }

  show_place(lanes, place) {
    const seek = this.control("seek")
    const words = lanes.map(({frames, steps, clock, unit, name}, _, {length}) => {
      const frame = frames[place], at = `${unit} ${Number(clock[frame].toPrecision(7))}`
      const step = unit == "step" ? "" : ` · step ${steps[frame]}`
      return (length > 1 ? `${name}: ` : "") + at + step
    }).join("  |  ")
    seek.value = place
    seek.setAttribute("aria-valuetext", words)
    this.element.querySelector("output").textContent = words
  }

  show_playing(playing) {
    const play = this.control("play"), label = playing ? "Pause" : "Play"
    if (play.getAttribute("aria-label") == label) return
    play.setAttribute("aria-label", label)
    play.title = `${label} (space)`
    this.element.querySelector("output").ariaLive = playing ? "off" : "polite"
    play.className = playing ? "main playing" : "main"
  }
}
