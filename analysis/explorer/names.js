// Names and states for screen readers on what Bokeh leaves without them, also on what appears later in shadow roots.

const find_deep = (selector, root = document) => {  // the first match, shadow roots included; null if there is none
  for (const element of root.querySelectorAll("*")) {
    if (element.matches(selector)) return element
    const inner = element.shadowRoot && find_deep(selector, element.shadowRoot)
    if (inner) return inner
  }
  return null
}

const set_attributes = (element, values) => {
  for (const [name, value] of Object.entries(values)) {
    if (value && element.getAttribute(name) !== value) element.setAttribute(name, value)
  }
}

const name_once = (root, selector, name) => {
  for (const element of root.querySelectorAll(selector)) {
    if (!element.hasAttribute("aria-label")) set_attributes(element, {"aria-label": name})
  }
}

const name_controls = (root) => {
  const text = (selector) => root.querySelector(selector)?.textContent.replace(/:.*$/, "").trim()  // without a value
  name_once(root, ".bk-btn", root.host?.title)
  name_once(root, ".noUi-handle", text(".bk-slider-title"))
  name_once(root, "input:not([type=checkbox]), select", text("label"))
  name_once(root, ".bk-spin-btn-up", `more ${text("label")}`)
  name_once(root, ".bk-spin-btn-down", `less ${text("label")}`)
  for (const group of root.querySelectorAll(".bk-btn-group")) {
    const buttons = group.querySelectorAll(".bk-btn")
    if (buttons.length < 2 && !group.querySelector(".bk-active")) continue
    for (const button of buttons) set_attributes(button, {"aria-pressed": String(button.classList.contains("bk-active"))})
  }
  if (root.host?.dataset.name && !root.querySelector(".picture")) add_picture_button(root)
  for (const events of root.querySelectorAll(".bk-events:not([role])")) {  // figures have no controls for keys
    set_attributes(events, {role: "img", tabindex: "-1", "aria-label": root.host.getRootNode().host.dataset.name})
  }
}

const watched = new WeakSet()
const watch = (root) => {
  if (watched.has(root)) return
  watched.add(root)
  const look = () => {
    name_controls(root)
    for (const element of root.querySelectorAll("*")) if (element.shadowRoot) watch(element.shadowRoot)
  }
  new MutationObserver(look).observe(root, {childList: true, subtree: true, attributeFilter: ["class"]})
  look()
}
watch(document.body)
