// A button on each figure that saves it with its heading as a PNG file.

const SCALE = 4  // pixels of the file per pixel of the page

const add_picture_button = (root) => {
  const {name} = root.host.dataset, button = document.createElement("button"), label = `Save as PNG: ${name}`
  Object.assign(button, {className: "picture", textContent: "⤓", title: label, onclick: () => save_picture(root.host)})
  button.setAttribute("aria-label", label)
  button.style.cssText = `position: absolute; left: 0; bottom: ${root.host.dataset.picture == "below" ? -27 : 0}px; z-index: 3; `
    + "width: 24px; height: 24px; padding: 0; border: 1px solid #c5ccd3; border-radius: 6px; background: white; color: #0b6fa4; "
    + "font: bold 15px/1 sans-serif; cursor: pointer"
  root.append(button)
}

const paint_figure = (host) => {  // Bokeh's canvas of a figure, at a higher resolution
  const plot = [...Bokeh.index.all_views()].find((view) => view.el === host), layer = plot.export("png")
  Object.assign(layer.canvas, {width: SCALE * plot.bbox.width, height: SCALE * plot.bbox.height})
  layer._pixel_ratio = SCALE
  plot.force_paint(() => {
    const context = layer.prepare()
    plot._paint_primary(context)
    plot._paint_overlays(context)
    layer.finish()
  })
  return layer.canvas
}

const paint_texts = (context, node, left, top) => {  // the texts of a heading and the swatches of a legend
  if (node.nodeType == Node.TEXT_NODE) {
    const range = document.createRange(), style = getComputedStyle(node.parentElement)
    Object.assign(context, {font: style.font, fillStyle: style.color, textBaseline: "middle"})
    for (const {0: word, index} of node.data.matchAll(/\S+/g)) {  // word by word, as lines may break between them
      range.setStart(node, index)
      range.setEnd(node, index + word.length)
      const {x, y, height} = range.getBoundingClientRect()
      if (height) context.fillText(word, x - left, y + height / 2 - top)
    }
  }
  if (node.localName == "i") {
    const {x, y, width, height} = node.getBoundingClientRect(), {backgroundColor, backgroundImage} = getComputedStyle(node)
    const shades = backgroundImage.match(/rgb\([^)]*\)/g) ?? [backgroundColor, backgroundColor]  // of a colour bar, or one
    const gradient = context.createLinearGradient(x - left, 0, x - left + width, 0)
    shades.forEach((shade, k) => gradient.addColorStop(k / (shades.length - 1), shade))
    context.fillStyle = gradient
    context.fillRect(x - left, y - top, width, height)
  }
  const inner = node.shadowRoot ?? node
  if (inner.localName != "style") for (const child of inner.childNodes) paint_texts(context, child, left, top)
}

const picture = (host) => {
  const headings = [...host.parentNode.children].filter((element) => element !== host && element.getClientRects().length)
  const {left, top: below, width, height} = host.getBoundingClientRect()
  const top = Math.min(below, ...headings.map((element) => element.getBoundingClientRect().top))
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d")
  Object.assign(canvas, {width: SCALE * width, height: SCALE * (below - top + height)})
  context.fillStyle = "white"
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(paint_figure(host), 0, SCALE * (below - top))
  context.scale(SCALE, SCALE)
  for (const element of headings) paint_texts(context, element, left, top)
  return canvas
}

const picture_place = (host) => {  // the run and the step of a figure: of a recorded run, or of the live one
  const {model: plot} = [...Bokeh.index.all_views()].find((view) => view.el === host)
  const part = globalThis.scrubber?.stage?.parts.find((each) => each.plot === plot)
  if (part) {
    const {picture, steps, frames} = scrubber.stage.lanes[part.lane]
    return [picture, `step${steps[frames[Math.floor(scrubber.place)]]}`]
  }
  const query = new URLSearchParams(model("address").text), clock = find_deep(".clock")?.shadowRoot.querySelector(".bk-clearfix")
  return [query.get("tab"), `seed${query.get("seed")}`, /^\w+ \d+/.exec(clock?.textContent ?? "")?.[0].replace(" ", "") ?? ""]
}

const picture_name = (host) => {
  const {panel, name} = host.dataset
  return [...picture_place(host), panel ?? name].filter(Boolean).join("-").replace(/[^\p{L}\d_.]+/gu, "-") + ".png"
}

const save_picture = (host) => picture(host).toBlob((blob) => {
  const link = document.createElement("a")
  Object.assign(link, {href: URL.createObjectURL(blob), download: picture_name(host)})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
})
