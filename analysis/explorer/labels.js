// Offsets in pixels of labels beside their marks: to the right as in figures (analysis/plots/drawing/artists.py), but to
// the left, above or below if the label would leave the panel or lie on another mark or label. Of labels that overlap
// everywhere, only the first is drawn; the others are NaN. Returns vertical or horizontal offsets.
const {x, y, label} = source.data, {x_range, y_range} = plot
const {inner_width} = plot.properties, side = inner_width.is_unset ? 200 : inner_width.get_value()  // unset before layout
const marks = Array.from(x, (_, k) => ({
  x: side * (x[k] - x_range.start) / (x_range.end - x_range.start),
  y: side * (y_range.end - y[k]) / (y_range.end - y_range.start), across: size, up: size,
}))
const overlap = (one, other) => 2 * Math.abs(one.x - other.x) < one.across + other.across
  && 2 * Math.abs(one.y - other.y) < one.up + other.up
const drawn = [], offsets = new Float64Array(x.length).fill(NaN)
marks.forEach((mark, k) => {
  const across = letter * label[k].length, beside = (size + across) / 2 + 1.5, above = (size + line) / 2
  const places = [[beside, 0], [-beside, 0], [0, -above], [0, above]].map(([dx, dy]) => (
    {x: mark.x + dx, y: mark.y + dy, across, up: line, offset: vertical ? dy : dx}))
  const within = (at, extent) => at > extent / 2 && at < side - extent / 2
  const inside = places.filter((place) => (
    within(place.x, across) && within(place.y, line) && !drawn.some((other) => overlap(place, other))))
  const found = inside.find((place) => !marks.some((other) => other !== mark && overlap(place, other))) ?? inside[0]
  if (!found || !isFinite(found.x + found.y)) return
  drawn.push(found)
  offsets[k] = found.offset
})
return offsets
