const number = source.data.number[0]
const [rows_, columns_] = number.shape
const at = (value, low, high, count) => {
  const place = Math.floor((value - low) / (high - low) * count)
  return Math.min(count - 1, Math.max(0, place))
}
const row = at(special_vars.y, box[2], box[3], rows_), column = at(special_vars.x, box[0], box[1], columns_)
const found = number[row * columns_ + column]
if (names) return names[found] ?? ""
const level = found > levels ? "no number" : Number((low + found / levels * (high - low)).toPrecision(3))
return `${rows[row]}, ${columns[column]}: ${level}`
