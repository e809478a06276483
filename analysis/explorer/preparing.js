// A message in place of a tab's content from the click on another tab until the server has sent that tab.

let hidden = []  // elements of the tab that is left

globalThis.show_preparing = (models, name) => {
  show_prepared()
  hidden = models.map((model) => Bokeh.index.find_one(model).el)
  const message = document.getElementById("preparing")
  message.style.top = `${hidden[0].getBoundingClientRect().top + scrollY}px`
  message.textContent = `${name}: being prepared …`
  document.querySelector("main").ariaBusy = "true"
  for (const element of hidden) Object.assign(element, {inert: true}).style.visibility = "hidden"
}

globalThis.show_prepared = () => {
  document.getElementById("preparing").textContent = ""
  document.querySelector("main").ariaBusy = null
  for (const element of hidden) Object.assign(element, {inert: false}).style.visibility = ""
  hidden = []
}

addEventListener("keydown", (event) => {  // what is hidden has no keys
  if (hidden.length && event.key != "Tab") event.stopPropagation()
}, {capture: true})
