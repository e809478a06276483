// A button on each figure that saves it, with its heading, as a PNG file. Bokeh paints the figure; the heading is HTML.

const add_picture_button = (root) => {
  const {name} = root.host.dataset, button = document.createElement("button"), label = `Save as PNG: ${name}`
  Object.assign(button, {className: "picture", textContent: "⤓", title: label, onclick: () => save_picture(root.host)})
  button.setAttribute("aria-label", label)
  root.append(button)
}

const paint_heading = (pen, node, left, top) => {  // texts and the swatches of a legend, where the page has them
  if (node.nodeType == Node.TEXT_NODE) {
    const range = document.createRange(), {font, color} = getComputedStyle(node.parentElement)
    Object.assign(pen, {font, fillStyle: color, textBaseline: "middle"})
    for (const {0: word, index} of node.data.matchAll(/\S+/g)) {  // word by word, as lines may break between them
      range.setStart(node, index)
      range.setEnd(node, index + word.length)
      const {x, y, height} = range.getBoundingClientRect()
      pen.fillText(word, x - left, y + height / 2 - top)
    }
  }
  if (node.localName == "i") {
    const {x, y, width, height} = node.getBoundingClientRect(), {backgroundColor, backgroundImage} = getComputedStyle(node)
    const shades = backgroundImage.match(/rgb\([^)]*\)/g) ?? [backgroundColor, backgroundColor]
    const gradient = pen.createLinearGradient(x - left, 0, x - left + width, 0)
    shades.forEach((shade, k) => gradient.addColorStop(k / (shades.length - 1), shade))
    pen.fillStyle = gradient
    pen.fillRect(x - left, y - top, width, height)
  }
  if (!["style", "details"].includes(node.localName)) for (const child of node.childNodes) paint_heading(pen, child, left, top)
}

const picture_name = ({dataset: {panel}}, {model: plot}) => {  // with the run and the step of a figure
  const part = globalThis.scrubber?.stage?.parts.find((part) => part.plot === plot), parts = [panel]
  if (part) {
    const {picture, steps, frames} = scrubber.stage.lanes[part.lane]
    parts.unshift(picture, `step${steps[frames[Math.floor(scrubber.place)]]}`)
  } else {
    const query = new URLSearchParams(model("address").text), clock = find_deep(".clock")?.shadowRoot.textContent
    parts.unshift(query.get("tab"), `seed${query.get("seed")}`, /\b(step|epoch) \d+/.exec(clock ?? "")?.[0].replace(" ", "") ?? "")
  }
  return parts.filter(Boolean).join("-").replace(/[^\p{L}\d_.]+/gu, "-") + ".png"
}

const save_picture = (host) => {
  const view = [...Bokeh.index.all_views()].find((view) => view.el === host), figure = view.export("png").canvas
  const heading = host.previousElementSibling?.shadowRoot.querySelector(".bk-clearfix")
  const {left, top, width} = host.getBoundingClientRect(), scale = figure.width / width
  const above = heading ? top - heading.getBoundingClientRect().top : 0
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d")
  Object.assign(canvas, {width: figure.width, height: figure.height + Math.round(scale * above)})
  pen.fillStyle = getComputedStyle(host).backgroundColor
  pen.fillRect(0, 0, canvas.width, canvas.height)
  pen.drawImage(figure, 0, canvas.height - figure.height)
  pen.scale(scale, scale)
  if (heading) paint_heading(pen, heading, left, top - above)
  canvas.toBlob((blob) => {
    const link = document.createElement("a")
    Object.assign(link, {href: URL.createObjectURL(blob), download: picture_name(host, view)})
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10000)
  })
}
