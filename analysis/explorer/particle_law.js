{
const TINY = 1e-280
globalThis.ParticleLaw = [{...{"name": "like_attraction", "pairs": "like", "constant": "ga", "balance": "none", "against": ""}, add: (q, first, end, {sums}, field) => {
  const qx = sums[2 * q], qy = sums[2 * q + 1]
  let onX = 0, onY = 0, total = 0
  for (let p = first; p < end; p++) {
    const x = sums[2 * p] - qx, y = sums[2 * p + 1] - qy
    const square = x * x + y * y
    if (square > TINY) {
      const base = 1 / Math.sqrt(square), factor = base * -1.0, size = 1.0
      field[2 * p] += x * factor
      field[2 * p + 1] += y * factor
      onX -= x * factor
      onY -= y * factor
      total += size
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return total
}}, {...{"name": "unlike_repulsion", "pairs": "unlike", "constant": "gr", "balance": "magnitude", "against": "like_attraction"}, add: (q, first, end, {sums}, field) => {
  const qx = sums[2 * q], qy = sums[2 * q + 1]
  let onX = 0, onY = 0, total = 0
  for (let p = first; p < end; p++) {
    const x = sums[2 * p] - qx, y = sums[2 * p + 1] - qy
    const square = x * x + y * y
    if (square > TINY) {
      const base = 1 / square, factor = base * 1.0, size = Math.sqrt(base) * 1.0
      field[2 * p] += x * factor
      field[2 * p + 1] += y * factor
      onX -= x * factor
      onY -= y * factor
      total += size
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return total
}}, {...{"name": "like_alignment", "pairs": "like", "constant": "fa", "balance": "none", "against": ""}, add: (q, first, end, {units}, field) => {
  const strength = (c) => Number(c > (0.0))
  const qx = units[2 * q], qy = units[2 * q + 1]
  if (qx === 0 && qy === 0) return 0
  let onX = 0, onY = 0, size = 0
  for (let p = first; p < end; p++) {
    const x = units[2 * p], y = units[2 * p + 1], c = x * qx + y * qy
    const value = strength(c > 1 ? 1 : c < -1 ? -1 : c)
    if (value !== 0 && (x !== 0 || y !== 0)) {
      field[2 * p] += value * qx
      field[2 * p + 1] += value * qy
      onX += value * x
      onY += value * y
      size += Math.abs(value)
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return size
}}, {...{"name": "unlike_alignment", "pairs": "unlike", "constant": "fa", "balance": "count", "against": "like_alignment"}, add: (q, first, end, {units}, field) => {
  const strength = (c) => (-Number(c > (0.0)))
  const qx = units[2 * q], qy = units[2 * q + 1]
  if (qx === 0 && qy === 0) return 0
  let onX = 0, onY = 0, size = 0
  for (let p = first; p < end; p++) {
    const x = units[2 * p], y = units[2 * p + 1], c = x * qx + y * qy
    const value = strength(c > 1 ? 1 : c < -1 ? -1 : c)
    if (value !== 0 && (x !== 0 || y !== 0)) {
      field[2 * p] += value * qx
      field[2 * p + 1] += value * qy
      onX += value * x
      onY += value * y
      size += Math.abs(value)
    }
  }
  field[2 * q] += onX
  field[2 * q + 1] += onY
  return size
}}]
}
