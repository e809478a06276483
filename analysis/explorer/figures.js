// Figures of a stage. Slices of buffers are written into the data sources of the figures that are in sight; then their upper
// canvases, which hold the changing glyphs, are painted at once: a signal of the source would take twice as long.

class Figures {
  constructor(stage, changed) {
    Object.assign(this, {stage, changed, views: new Map()})
    this.sight = new IntersectionObserver((entries) => {
      for (const {target, isIntersecting} of entries) {
        for (const view of this.views.values()) if (view.element == target) view.in_sight = isIntersecting
      }
      changed()
    }, {rootMargin: "60px"})
  }

  forget() {  // the figures have been put on the page again
    this.views.clear()
    this.sight.disconnect()
  }

  get columns() {  // number of panels of a run in a row
    const places = [...this.views].filter(([part]) => part.lane == 0).map(([, {element}]) => element.getBoundingClientRect().left)
    return new Set(places.map(Math.round)).size
  }

  paint(place) {  // show an index of the time line; returns a promise that resolves when all figures are painted
    if (this.views.size < this.stage.parts.length) this.find_views()
    const notes = new Map(), work = [], changed = new Map()
    for (const [part, view] of this.views) {
      if (!view.in_sight) continue
      if (this.write(part, place)) {
        changed.set(view.plot, [...changed.get(view.plot) ?? [], ...view.renderers])
        for (const {glyph, all_indices} of view.renderers) {
          work.push(glyph.set_data(part.source, all_indices, null).then(() => glyph.after_visuals()))
        }
      }
      notes.set(view.note, this.stale_note(part, place) || notes.get(view.note) || "")
    }
    for (const [element, words] of notes) if (element.textContent != words) element.textContent = words
    return Promise.all(work).then(() => {
      for (const [plot, renderers] of changed) {
        plot.invalidate_painters(...renderers)
        plot.paint()
      }
    })
  }

  find_views() {  // find Bokeh's views, some of which may be made later, and watch which are in sight
    const glyphs = [...Bokeh.index.all_views()].filter(({glyph}) => glyph)
    for (const part of this.stage.parts) {
      const plot = Bokeh.index.find_one(part.plot), heading = Bokeh.index.find_one(part.heading)
      const note = heading?.shadow_el.querySelector("em")
      if (this.views.has(part) || !plot || !note) continue
      const renderers = glyphs.filter(({model}) => model.data_source === part.source)
      this.views.set(part, {plot, renderers, element: plot.el, note, in_sight: true})
      this.sight.observe(plot.el)
    }
    if (this.views.size < this.stage.parts.length) setTimeout(this.changed, 100)
  }

  write(part, place) {  // write the slice of a frame into the source; nothing if the buffer has not arrived
    const lane = this.stage.lanes[part.lane], frame = lane.frames[place], to = part.source.data
    if (part.kind == "cursor") {
      to.x = new Float64Array([part.clock[frame]])
      part.shown = frame
      return true
    }
    const slice = this.stage.buffers.slice(`${part.lane}/${part.array}`, frame)
    const away = (index) => Math.abs(index - frame)
    if (!slice || away(part.shown) < away(slice.from)) return false
    const {numbers, from} = slice, {count} = part
    part.shown = from
    if (part.kind == "pixels") {
      colour(part, numbers)
    } else {
      const names = part.kind == "points" ? ["x", "y"] : ["x0", "y0", "x1", "y1"]
      names.forEach((name, k) => { to[name] = numbers.subarray(k * count, (k + 1) * count) })
      if (part.kind == "arrows") to.angle = to.x0.map((x, k) => Math.atan2(to.y1[k] - to.y0[k], to.x1[k] - x) - Math.PI / 2)
    }
    return true
  }

  stale_note({lane, shown, map}, place) {  // says which frame a part shows, if it is not that of the time line
    const {frames, unit, clock} = this.stage.lanes[lane]
    const [is, wanted] = [shown, frames[place]].map((frame) => Number(clock[frame].toPrecision(7)))
    if (shown == frames[place]) return ""
    if (!this.stage.told) return `map of ${unit} ${is}`  // an exported page has only some maps
    return `computing ${map ? "map of " : ""}${unit} ${wanted}; shown: ${is}`
  }
}

// Pixels of class indices: one for each, or two by two if the map has contours. The index then encodes contours
// (analysis/panels/contours.py): 4 number, + 1 for a contour at the right edge, + 2 for one at the upper edge.
const colour = ({source, palette, edges, columns}, numbers) => {
  const {image: [image], number: [shown]} = source.data, count = numbers.length
  const pixels = new Uint32Array(image.buffer, image.byteOffset, image.length)
  if (!edges) {
    for (let k = 0; k < count; k++) pixels[k] = palette[shown[k] = numbers[k]]
    return
  }
  for (let k = 0, column = 0, to = 0; k < count; k++) {
    const four = 4 * numbers[k]
    shown[k] = numbers[k] >> 2
    pixels[to] = palette[four]
    pixels[to + 1] = palette[four + 1]
    pixels[to + 2 * columns] = palette[four + 2]
    pixels[to + 2 * columns + 1] = palette[four + 3]
    to += 2
    if (++column == columns) { column = 0; to += 2 * columns }
  }
}
