// Buffers of an exported page: base64 of zlib of differences from frame to frame (analysis/explorer/codec.py).

const inflated = async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer())
}

const released = async ({text, kind, width, low, step}) => {
  const raw = await inflated(text), wide = kind == "uint16", count = wide ? raw.length / 2 : raw.length
  const level = wide ? new Uint16Array(count) : raw
  if (wide) for (let k = 0; k < count; k++) level[k] = raw[k] + (raw[count + k] << 8)  // low bytes, then high ones
  for (let k = width; k < count; k++) level[k] += level[k - width]  // modulo 2^8 or 2^16
  if (low === null) return Object.assign(level, {dtype: kind, shape: [count / width, width]})
  const values = Float32Array.from(level, (each) => each > 65534 ? NaN : low + each * step)
  return Object.assign(values, {dtype: "float32", shape: [count / width, width]})
}

const unpack = async (buffers, frames) => {  // a batch of all frames, and batches of some frames of large buffers
  const parcel = {}, large = {}
  for (const [name, words] of Object.entries(buffers)) (name in frames ? large : parcel)[name] = await released(words)
  return [parcel, ...Object.entries(large).map(([name, data]) => ({[name]: data, frame: frames[name]}))]
}

const said = document.getElementById("buffers")
const {buffers, frames} = JSON.parse(said.textContent)
said.remove()
scrubber.stage.pending = true  // the time bar remains disabled
unpack(buffers, frames).then((parcels) => {
  scrubber.stage.pending = false
  parcels.forEach((parcel) => scrubber.receive(parcel))
})
