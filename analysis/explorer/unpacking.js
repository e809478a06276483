// Buffers of an exported page: base64 of zlib of differences from frame to frame (analysis/explorer/codec.py).

const unpack = async ({text, kind, width, low, step}) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
  const raw = new Uint8Array(await new Response(stream).arrayBuffer())
  const wide = kind == "uint16", count = wide ? raw.length / 2 : raw.length
  const level = wide ? new Uint16Array(count) : raw
  if (wide) for (let k = 0; k < count; k++) level[k] = raw[k] + (raw[count + k] << 8)  // low bytes, then high ones
  for (let k = width; k < count; k++) level[k] += level[k - width]  // modulo 2^8 or 2^16
  if (low === null) return Object.assign(level, {dtype: kind, shape: [count / width, width]})
  const values = Float32Array.from(level, (number) => number > 65534 ? NaN : low + number * step)
  return Object.assign(values, {dtype: "float32", shape: [count / width, width]})
}

const element = document.getElementById("buffers"), buffers = Object.entries(JSON.parse(element.textContent))
element.remove()
scrubber.stage.pending = true  // the time bar remains disabled
Promise.all(buffers.map(async ([name, words]) => ({[name]: await unpack(words), frame: words.frames}))).then((parcels) => {
  scrubber.stage.pending = false
  parcels.forEach((parcel) => scrubber.receive(parcel))
})
