const number = source.data.number[0], [height, width] = number.shape
const at = (value, {start, end}, count) => Math.min(count - 1, Math.max(0, Math.floor((value - start) / (end - start) * count)))
const row = at(special_vars.y, plot.y_range, height), column = at(special_vars.x, plot.x_range, width)
const index = number[row * width + column]
if (!rows) return names[index] ?? ""
const level = index > levels ? "no number" : Number((low + index / levels * (high - low)).toPrecision(3))
return `${rows[row]}, ${columns[column]}: ${level}`
