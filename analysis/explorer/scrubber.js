// Shows any frame of recorded runs, wholly in the browser: slices of buffers are written into Bokeh's data sources, and
// of each figure only the upper canvas is painted, which holds what changes. There is one player on a page.
//
// A stage is what is shown: parts (what changes in each figure), lanes (one a run: which of its frames belongs to each
// place of the time line), marks (events), and buffers, (frame, width) each, that come after it in parcels.

const KINDS = {float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array}
const plain = (value) => value instanceof Map ? Object.fromEntries(value) : value
const near = (value, low, high) => Math.min(Math.max(value, low), high)

class Player {
  constructor() {
    Object.assign(this, {place: 0, last: 0, playing: false, speed: 30, painted: 0, stage: null, bar: null})
    for (const kind of ["click", "input", "keydown"]) document.addEventListener(kind, (event) => this.hear(kind, event))
    setInterval(() => { if (this.stage && !this.bar?.isConnected) this.show(this.place) }, 250)  // back from another tab
  }

  // -------------------------------------------------------------------------------------------- stage and buffers

  take(stage) {
    const before = this.stage
    for (const name of ["parts", "lanes", "marks"]) stage[name] = stage[name].map(plain)
    this.stage = {...stage, buffers: new Map()}
    this.last = stage.times.length - 1
    if (stage.start >= 0) this.place = stage.start
    else if (before?.unit == stage.unit) this.place = this.at(before.times[Math.floor(this.place)])
    else this.place = 0
    this.place = near(this.place, 0, this.last)
    this.bar = this.views = null
    if (!this.chosen) this.speed = this.last > 600 ? 60 : this.last > 60 ? 30 : 10
  }

  at(time) {  // the last place that is not after a time
    const {times} = this.stage
    let low = 0, high = times.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (times[middle] <= time) low = middle; else high = middle
    }
    return low
  }

  receive(parcel) {  // buffers by lane/array, of all frames, or of those that "frame" has
    for (const [name, array] of Object.entries(plain(parcel))) {
      if (name == "frame") continue
      const width = array.shape[1]
      const data = new KINDS[array.dtype](array.buffer, array.byteOffset, array.length)
      if (parcel.frame) this.add(name, data, width, parcel.frame)
      else this.stage.buffers.set(name, {data, width})
    }
    this.show(this.place)
  }

  add(name, data, width, frames) {  // until all frames of a large buffer are there, the nearest one is shown
    const {buffers, lanes} = this.stage, all = lanes[Number(name.split("/")[0])].steps.length
    if (!buffers.has(name)) buffers.set(name, {data: new data.constructor(all * width), width, held: new Uint8Array(all)})
    const buffer = buffers.get(name)
    for (let k = 0; k < frames.length; k++) {
      buffer.data.set(data.subarray(k * width, (k + 1) * width), frames[k] * width)
      buffer.held[frames[k]] = 1
    }
    if (buffer.held.every((held) => held)) delete buffer.held
  }

  nearest({held}, frame) {
    if (!held) return frame
    for (let away = 0; away < held.length; away++) {
      if (held[frame - away]) return frame - away
      if (held[frame + away]) return frame + away
    }
    return -1
  }

  // ------------------------------------------------------------------------------------------------------- a frame

  show(place) {
    this.place = near(place, 0, this.last)
    this.asked ??= requestAnimationFrame(() => { this.asked = null; this.draw() })
  }

  draw() {
    if (!this.stage || !this.dressed()) return
    const place = Math.floor(this.place), work = [], dirty = new Map()
    this.tell(place)
    for (const part of this.stage.parts) {
      const seen = this.seen(part)
      if (!seen || !this.write(part, place)) continue
      dirty.set(seen.plot, [...(dirty.get(seen.plot) ?? []), ...seen.renderers])
      for (const view of seen.renderers) work.push(view.glyph.set_data(part.source, view.all_indices, null))
    }
    return Promise.all(work).then(() => {  // still before the browser paints
      for (const [plot, renderers] of dirty) {
        plot.invalidate_painters(...renderers)
        plot.paint()
      }
      this.painted++
    })
  }

  seen(part) {  // the views of a part that is in sight
    if (!this.views) this.look()
    const found = this.views.get(part)
    return found?.inside ? found : null
  }

  look() {  // find the views of all parts, and watch which are in sight
    this.views = new Map()
    this.watch?.disconnect()
    this.watch = new IntersectionObserver((changes) => {
      for (const {target, isIntersecting} of changes) {
        for (const found of this.views.values()) if (found.plot.el == target) found.inside = isIntersecting
      }
      this.show(this.place)
    }, {rootMargin: "60px"})
    const views = new Map([...Bokeh.index.all_views()].map((view) => [view.model, view]))
    for (const part of this.stage.parts) {
      const renderers = part.renderers.map((model) => views.get(model)), plot = views.get(part.plot)
      if (!plot || renderers.some((view) => !view)) continue
      this.views.set(part, {plot, renderers, inside: true})
      this.name(plot)
      this.watch.observe(plot.el)
    }
    if (this.views.size < this.stage.parts.length) setTimeout(() => { this.views = null; this.show(this.place) }, 100)
  }

  name(plot) {  // for a screen reader; there is nothing to press in it
    const events = plot.canvas_view?.events_el
    if (!events) return
    events.tabIndex = -1
    events.setAttribute("role", "img")
    events.setAttribute("aria-label", plot.model.name)
  }

  write(part, place) {  // the slice of a frame into the source; nothing where the buffer is not there yet
    const lane = this.stage.lanes[part.lane], frame = lane.frames[place], to = part.source.data
    if (part.kind == "cursor") {
      to.x = new Float64Array([part.clock[frame]])
      return true
    }
    const buffer = this.stage.buffers.get(`${part.lane}/${part.array}`)
    const from = buffer ? this.nearest(buffer, frame) : -1
    if (from < 0) return false
    const {data, width} = buffer, begin = from * width
    if (part.kind == "pixels") {
      this.colour(part, data.subarray(begin, begin + width))
      this.admit(part, lane, frame, from)
    } else {
      const names = part.kind == "points" ? ["x", "y"] : ["x0", "y0", "x1", "y1"]
      names.forEach((name, k) => { to[name] = data.subarray(begin + k * part.count, begin + (k + 1) * part.count) })
      if (part.kind == "arrows") to.angle = to.x0.map((x, k) => Math.atan2(to.y1[k] - to.y0[k], to.x1[k] - x) - Math.PI / 2)
    }
    return true
  }

  colour({source, palette, edges, columns}, numbers) {  // four pixels a number where edges are drawn: right and upper ones differ where the neighbour does
    const {image: [image], number: [shown]} = source.data, count = numbers.length
    const pixels = new Uint32Array(image.buffer, image.byteOffset, image.length)
    shown.set(numbers)
    if (!edges) {
      for (let k = 0; k < count; k++) pixels[k] = palette[numbers[k]]
      return
    }
    for (let k = 0, column = 0, to = 0; k < count; k++) {
      const number = numbers[k], inside = palette[number], line = edges[number]
      const right = column + 1 < columns && numbers[k + 1] != number ? line : inside
      const above = k + columns < count && numbers[k + columns] != number
      pixels[to] = inside
      pixels[to + 1] = right
      pixels[to + 2 * columns] = above ? line : inside
      pixels[to + 2 * columns + 1] = above ? line : right
      to += 2
      if (++column == columns) { column = 0; to += 2 * columns }
    }
  }

  admit(part, lane, frame, from) {  // that a map is of another frame than the rest
    if (!part.map || part.of === from - frame) return
    part.of = from - frame
    const words = from == frame ? "" : `map of ${lane.unit} ${lane.clock[from]}`
    if (part.note.text != words) part.note.setv({text: words}, {sync: false})
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
      if (!this.dressed()) this.playing = false  // nobody looks at it
      else if (Math.floor(this.place) != this.drawn) this.draw()
      if (this.place >= this.last) this.play(false)
      else requestAnimationFrame(tick)
    }
    if (on) requestAnimationFrame(tick)
    else this.report()
    this.tell(Math.floor(this.place))
  }

  step(by) {
    this.play(false)
    this.show(Math.floor(this.place) + by)
    this.report()
  }

  event(direction) {  // the next event, or the one before
    const here = Math.floor(this.place)
    const places = this.stage.marks.map((mark) => mark.place).filter((place) => (place - here) * direction > 0)
    if (!places.length) return
    this.play(false)
    this.show(direction > 0 ? Math.min(...places) : Math.max(...places))
    this.report()
  }

  point(x, lane) {  // to a place on a panel's clock
    const {clock, frames} = this.stage.lanes[lane]
    const away = (place) => Math.abs(clock[frames[place]] - x)
    let best = 0
    for (let place = 1; place <= this.last; place++) if (away(place) < away(best)) best = place
    this.show(best)
    this.report()
  }

  report() {  // to Python, when it has come to rest
    clearTimeout(this.reporting)
    this.reporting = setTimeout(() => {
      const place = Math.floor(this.place), {told, lanes: [lane]} = this.stage
      told?.setv({tags: [lane.steps[lane.frames[place]]]})
    }, 250)
  }

  // ------------------------------------------------------------------------------------------------------- the bar

  dressed() {  // whether the bar is on the page; what it has of the stage is written when it is new
    if (this.bar?.isConnected) return true
    this.bar = Bokeh.index.find_one(this.stage.bar)?.shadow_el?.querySelector(".bar")
    if (!this.bar?.isConnected) return false
    this.views = null
    this.part = (name) => this.bar.querySelector(`[data-do=${name}]`)
    Object.assign(this.part("seek"), {max: this.last, disabled: !this.last})
    this.part("speed").value = String(this.speed)
    const ticks = this.bar.querySelector(".ticks")
    ticks.replaceChildren(...this.stage.marks.map(({begin, place, end, kind, words}) => {
      const tick = document.createElement("button"), share = (where) => 100 * where / Math.max(this.last, 1)
      Object.assign(tick, {title: words, className: kind, tabIndex: -1})
      tick.setAttribute("aria-label", words)
      tick.dataset.to = place
      Object.assign(tick.style, kind == "plateau"
        ? {left: `${share(begin)}%`, width: `${share(end - begin)}%`} : {left: `${share(place)}%`})
      return tick
    }))
    for (const name of ["before", "after"]) this.part(name).disabled = !this.stage.marks.length
    return true
  }

  tell(place) {
    if (!this.bar?.isConnected) return
    this.drawn = place
    const seek = this.part("seek"), play = this.part("play")
    const words = this.stage.lanes.map(({frames, steps, clock, unit, name}, _, {length}) => {
      const frame = frames[place], at = `${unit} ${Number(clock[frame].toPrecision(7))}`
      const step = unit == "step" ? "" : ` · step ${steps[frame]}`
      return (length > 1 ? `${name}: ` : "") + at + step
    }).join("  |  ")
    seek.value = place
    seek.setAttribute("aria-valuetext", words)
    this.bar.querySelector("output").textContent = words
    const label = this.playing ? "Pause" : "Play"
    if (play.getAttribute("aria-label") != label) {
      play.setAttribute("aria-label", label)
      play.title = `${label} (space)`
      play.className = this.playing ? "main playing" : "main"
    }
  }

  hear(kind, event) {
    if (!this.stage || !this.dressed()) return
    const path = event.composedPath(), on = path[0]
    if (kind == "keydown") return this.press(event, on)
    const ours = path.includes(this.bar)
    const asked = ours && path.find((node) => node.dataset?.do || node.dataset?.to)
    if (!asked) return
    if (kind == "input" && asked.dataset.do == "seek") {
      const to = Number(asked.value)  // before the bar is told where it was
      this.play(false)
      this.show(to)
      this.report()
    }
    if (kind == "input" && asked.dataset.do == "speed") [this.speed, this.chosen] = [Number(asked.value), true]
    if (kind != "click") return
    if (asked.dataset.to) { this.show(Number(asked.dataset.to)); this.report() }
    const act = {
      play: () => this.play(!this.playing), back: () => this.step(-1), on: () => this.step(1),
      before: () => this.event(-1), after: () => this.event(1),
    }[asked.dataset.do]
    act?.()
  }

  press(event, on) {  // keys that nothing else on the page has a use for
    const slider = on === this.part("seek")
    if (event.ctrlKey || event.altKey || event.metaKey || this.bar.getClientRects().length == 0) return
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
