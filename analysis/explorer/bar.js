// The time bar (HTML: analysis/explorer/timebar.py): displays the state of the player and passes on its events.

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

  dress({marks, times}, speed) {  // show the marks and times of a stage
    const last = times.length - 1, share = (place) => 100 * place / Math.max(last, 1)
    Object.assign(this.control("seek"), {max: last, disabled: !last})
    this.control("speed").value = String(speed)
    this.element.querySelector(".ticks").replaceChildren(...marks.map(({begin, place, end, kind, words}) => {
      const tick = document.createElement("button")
      Object.assign(tick, {title: words, className: kind, tabIndex: -1})
      tick.setAttribute("aria-label", words)
      tick.dataset.to = place
      Object.assign(tick.style, kind == "plateau"
        ? {left: `${share(begin)}%`, width: `${share(end - begin)}%`} : {left: `${share(place)}%`})
      return tick
    }))
    for (const name of ["before", "after"]) this.control(name).disabled = !marks.length
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
