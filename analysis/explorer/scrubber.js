// Shows any frame of recorded runs in the browser, without the server. A page has one player.
//
// A stage holds parts (the changing glyphs of each figure), lanes (one per run: its frame at each index of the time line),
// marks (events), and buffers, which arrive later in batches (buffers.js). figures.js paints the figures; bar.js shows the
// position and whether the player is playing.

class Player {
  constructor() {
    Object.assign(this, {place: 0, last: 0, playing: false, interrupted: false, speed: 30, painted: 0, stage: null, shown: null})
    for (const kind of ["click", "input", "keydown"]) document.addEventListener(kind, (event) => this.hear(kind, event))
    document.addEventListener("visibilitychange", () => this.go_on(!document.hidden))
    setInterval(() => { if (this.stage && !this.shown?.connected) this.show(this.place) }, 250)  // the user returned from another tab
  }

  // ------------------------------------------------------------------------------------------------------ a stage

  take(stage) {
    const before = this.stage
    for (const name of ["parts", "lanes", "marks"]) stage[name] = stage[name].map(plain)
    this.stage = {...stage, buffers: new Buffers(stage.lanes)}
    this.figures?.forget()
    this.figures = new Figures(this.stage, () => this.show(this.place))
    this.last = stage.times.length - 1
    this.place = stage.keep && before?.unit == stage.unit ? this.at(before.times[Math.floor(this.place)]) : stage.start
    this.shown = null
    if (!this.chosen) this.speed = this.last > 600 ? 60 : this.last > 60 ? 30 : 10
  }

  get bar() {  // the visible element
    return this.shown?.element ?? null
  }

  at(time) {  // the last index whose time is not later than a given time
    const later = this.stage.times.findIndex((other) => other > time)
    return later < 0 ? this.last : Math.max(later - 1, 0)
  }

  receive(parcel) {
    this.stage.buffers.receive(parcel)
    this.show(this.place)
  }

  find_bar() {  // whether the bar is on the page; a new bar gets the marks and times of the stage
    if (this.shown?.connected) return true
    const element = Bokeh.index.find_one(this.stage.bar)?.shadow_el?.querySelector(".bar")
    if (!element?.isConnected) return false
    this.shown = new Bar(element)
    this.shown.dress(this.stage, this.speed)
    this.figures.forget()
    return true
  }

  // ------------------------------------------------------------------------------------------------------- a frame

  show(place) {
    this.place = Math.min(Math.max(place, 0), this.last)
    this.asked ??= requestAnimationFrame(() => { this.asked = null; this.draw() })
  }

  draw() {
    if (!this.stage || this.stage.pending || !this.find_bar()) return
    const place = Math.floor(this.place)
    this.say(place)
    this.figures.paint(place).then(() => { this.painted++ })
  }

  say(place) {  // show the position on the bar
    if (!this.shown?.connected) return
    this.drawn = place
    this.shown.show_place(this.stage.lanes, place)
    this.shown.show_playing(this.playing)
  }

  // ---------------------------------------------------------------------------------------------------------- time

  play(on = true) {
    if (this.playing == on || !this.stage) return
    this.playing = on
    if (on && this.place >= this.last) this.place = 0
    let before = performance.now()
    const tick = (now) => {
      if (!this.playing) return
      this.place = Math.min(this.place + Math.max(now - before, 0) / 1000 * this.speed, this.last)
      before = now
      if (!this.find_bar()) this.playing = false  // the page is hidden
      else if (Math.floor(this.place) != this.drawn) this.draw()
      if (this.place >= this.last) this.play(false)
      else requestAnimationFrame(tick)
    }
    if (on) requestAnimationFrame(tick)
    else this.report()
    this.say(Math.floor(this.place))
  }

  go_on(visible) {  // pause while the browser's tab is hidden
    const interrupted = this.interrupted
    this.interrupted = !visible && this.playing
    this.play(visible && interrupted)
  }

  go(place) {  // pause at an index
    this.play(false)
    this.show(place)
    this.report()
  }

  step(by) {
    this.go(Math.floor(this.place) + by)
  }

  event(direction) {  // go to the next or previous event
    const here = Math.floor(this.place)
    const places = this.stage.marks.map((mark) => mark.place).filter((place) => (place - here) * direction > 0)
    if (places.length) this.go(direction > 0 ? Math.min(...places) : Math.max(...places))
  }

  point(x, lane) {  // go to a time on a panel's axis
    const {clock, frames} = this.stage.lanes[lane]
    const away = [...frames].map((frame) => Math.abs(clock[frame] - x))
    this.go(away.indexOf(Math.min(...away)))
  }

  get step_shown() {
    const [lane] = this.stage.lanes
    return lane.steps[lane.frames[Math.floor(this.place)]]
  }

  report() {  // report the position to Python when it stops changing
    clearTimeout(this.reporting)
    this.reporting = setTimeout(() => this.tell(), 250)
  }

  tell() {
    this.stage.told?.setv({tags: [this.step_shown]})
  }

  // ------------------------------------------------------------------------------------------------------- user input

  hear(kind, event) {
    if (!this.stage || this.stage.pending || !this.find_bar()) return
    const path = event.composedPath()
    if (kind == "keydown") return this.press(event, path[0])
    const control = path.includes(this.shown.element) && path.find((node) => node.dataset?.do || node.dataset?.to)
    if (!control) return
    const {do: name, to} = control.dataset, value = Number(control.value)
    if (kind == "input" && name == "seek") this.go(value)
    if (kind == "input" && name == "speed") [this.speed, this.chosen] = [value, true]
    if (kind != "click") return
    if (to) { this.show(Number(to)); this.report() }
    const actions = {
      play: () => this.play(!this.playing), back: () => this.step(-1), on: () => this.step(1),
      before: () => this.event(-1), after: () => this.event(1),
    }
    actions[name]?.()
  }

  press(event, on) {  // handle keys that no other element uses
    const slider = on === this.shown.control("seek")
    if (event.ctrlKey || event.altKey || event.metaKey || !this.shown.visible) return
    if (on.matches?.("input, textarea, select, [role=slider], [contenteditable]") && !(slider && event.key == " ")) return
    if (on.matches?.("button, a, summary") && [" ", "Enter"].includes(event.key)) return
    const by = event.shiftKey ? 10 : 1
    const act = {
      " ": () => this.play(!this.playing), ArrowLeft: () => this.step(-by), ArrowRight: () => this.step(by),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      PageUp: () => this.event(-1), PageDown: () => this.event(1),
    }[event.key]
    if (!act) return
    event.preventDefault()
    act()
  }
}
