// Buffers of an exported page: base64 of zlib of differences from frame to frame (analysis/explorer/codec.py).

const unpack = async ({text, kind, width}) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
  const raw = new Uint8Array(await new Response(stream).arrayBuffer())
  const numbers = {uint8: Uint8Array, uint16: Uint16Array, float32: Uint32Array}[kind]
  const size = numbers.BYTES_PER_ELEMENT, count = raw.length / size
  const level = new numbers(count)
  for (let byte = 0; byte < size; byte++) {  // low bytes, then higher ones
    for (let k = 0; k < count; k++) level[k] |= raw[byte * count + k] << 8 * byte
  }
  for (let k = width; k < count; k++) level[k] += level[k - width]  // modulo 2^bits
  const values = kind == "float32" ? new Float32Array(level.map((bits) => bits << 10).buffer) : level
  return Object.assign(values, {dtype: kind, shape: [count / width, width]})
}

const element = document.getElementById("buffers"), buffers = Object.entries(JSON.parse(element.textContent))
element.remove()
scrubber.stage.pending = true  // the time bar remains disabled
Promise.all(buffers.map(async ([name, words]) => ({[name]: await unpack(words), frame: words.frames}))).then((parcels) => {
  scrubber.stage.pending = false
  parcels.forEach((parcel) => scrubber.receive(parcel))
})
