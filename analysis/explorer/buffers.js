// Buffers of a stage, each (frame, width), with keys "lane/array". They arrive in batches of the frames listed in the entry
// "frame". For a frame that has not arrived yet, the nearest one is shown.

const KINDS = {float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array}
const plain = (value) => value instanceof Map ? Object.fromEntries(value) : value

class Buffers extends Map {
  constructor(lanes) {
    super()
    this.lanes = lanes
  }

  receive(parcel) {
    const {frame: frames, ...arrays} = plain(parcel)
    for (const [name, array] of Object.entries(arrays)) {
      const width = array.shape[1], all = this.lanes[Number(name.split("/")[0])].steps.length
      const data = new KINDS[array.dtype](array.buffer, array.byteOffset, array.length)
      if (!this.has(name)) this.set(name, {data: new data.constructor(all * width), width, held: new Uint8Array(all)})
      const buffer = this.get(name)
      for (let k = 0; k < frames.length; k++) {
        buffer.data.set(data.subarray(k * width, (k + 1) * width), frames[k] * width)
        if (buffer.held) buffer.held[frames[k]] = 1
      }
      if (buffer.held?.every((held) => held)) delete buffer.held
    }
  }

  slice(name, frame) {  // values and index of a frame or the nearest available one; null if there is none
    const buffer = this.get(name), from = buffer ? nearest(buffer.held, frame) : -1
    return from < 0 ? null : {from, numbers: buffer.data.subarray(from * buffer.width, (from + 1) * buffer.width)}
  }
}

const nearest = (held, frame) => {
  if (!held) return frame
  for (let away = 0; away < held.length; away++) {
    if (held[frame - away]) return frame - away
    if (held[frame + away]) return frame + away
  }
  return -1
}
