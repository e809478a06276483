// Offsets in pixels of labels on their marks: 0, or NaN, so that the label is not drawn, if a later mark covers it.
const {x, y} = source.data, {x_range, y_range} = plot
const {inner_width} = plot.properties, side = inner_width.is_unset ? 200 : inner_width.get_value()  // unset before layout
const across = side / (x_range.end - x_range.start), up = side / (y_range.end - y_range.start)
return Float64Array.from(x, (_, k) => {
  for (let later = k + 1; later < x.length; later++) {
    if (Math.hypot(across * (x[later] - x[k]), up * (y[later] - y[k])) < covering) return NaN
  }
  return 0
})
