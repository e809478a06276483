// The story of the particles and networks, as the element <training-story>: chapters with a picture that plays.
// Uses particles.js and the recorded runs of story_data.js (analysis/explorer/story_data.py). The last chapter
// shows what stands inside the element: links to what a reader can do next.
"use strict";

if (globalThis.customElements) {
  const {networks, circles, grids} = StoryData.network;
  const CHAPTERS = [
    {id: "numbers", title: "Seventeen numbers", view: {sums: "no", controls: "no", rate: 30, last: 360, seed: 26}, text: [
      "A network that learns to add gives every number a point, and moves the points while it learns.",
      "Here are the points of 0 to 16. There is no network yet: forces between the points move them."]},
    {id: "sums", title: "Equal sums attract", view: {pair: "3 5", controls: "no", rate: 20, last: 400, seed: 26}, text: [
      "Add the positions of 3 and 5 as seen from the centre, the small dot: the ring is their sum. Numbers count as on a clock with 17 hours, so 12 + 13 is 8 as well. The large dots are all sums that are 8.",
      "Equal sums attract each other. Different sums repel each other.",
      "Choose two other numbers, or drag one."]},
    {id: "alignment", title: "Alignment makes a circle", view: {seed: 26, stop: 300}, text: [
      "A third force, alignment, turns equal sums into one direction from the centre, and different sums into different ones. It rises now: the cloud opens, and the numbers form a circle. There, to add is to turn, as on a clock.",
      "A run ends after 300 steps; another alignment begins a new one. Set it to 0.5 and try other starts (seeds): many end as a grid, with clumps of equal sums in rows. Most of these grids are nearly flat."]},
    {id: "network", title: "Some networks do it too", text: [
      "First picture: a network learns to add from examples. Second: particles from the same start. Both end as a circle with the numbers in the same order.",
      "Blue arrows are the pull of the examples (the negative gradient of the loss), orange ones the forces of particles at the same points, both without what shifts or scales all points alike. They agree while the circle forms, by 0.7 at step 100, and hardly later: these forces are a model of the beginning.",
      `Not every network does it: of ${networks} with weight decay 0.6, ${circles} form a circle, ${grids} a grid, and ${networks - circles - grids} neither.`]},
    {id: "decision", title: "When is the end firm?", text: [
      "Two runs differ only in their start: the first ends as a circle, the second as a nearly flat grid.",
      "At every fifth step, 100 copies of each run are shifted at random, by about a fifth of the spread of their points, and run on.",
      "At the first step the end is nearly open: 56 and 59 of 100 copies end as their run does. It is firm (dashed lines) from the step on at which 90 or more do."]},
    {id: "transformer", title: "First by heart, then by rule", text: [
      "A transformer, a network with attention, learns to add as on a clock with 43 hours, from half of all sums. After 200 epochs, which are passes through these sums, it knows them by heart. New sums, of numbers that it has seen together in neither order, are wrong.",
      "Training goes on, and the numbers form circles, of which one is shown. The loss, which measures the error, first rises for new sums and then falls. The network memorises, forms the circuits of the rule, and cleans up what it had memorised. In this run nine of ten new sums are correct after 4,300 epochs."]},
    {id: "spike", title: "A spike of the loss", text: [
      "Another network learns another sum. Its input is a row of 12 bits, 0 or 1, and it says whether the sum of the first five is even or odd. Each dot is an input, and its direction from the centre decides the answer.",
      "At step 37,046 the loss jumps: groups of dots have crossed a boundary within one step, and their answers are wrong (rings). The next step brings them back, but other dots cross, the loss is high again at step 37,052, and then it falls slowly."]},
    {id: "turn", title: "Your turn", view: {}, text: [
      "Equal sums attract, different sums repel. Strong alignment makes a circle, weak alignment often a grid. Some networks form the same circle, though no force is written into them.",
      "Go on from here:"]},
  ];
  const WEAK = 1.5, STRONG = 3.5, SHAPES = ["circle", "grid", "neither"], TEN = 10, PAUSE = 2000;
  const STORY = `
<style>
  :host { display: block; max-width: 1440px; margin-bottom: 24px; font: 16px/1.5 system-ui, sans-serif; color: inherit; --side: calc(100vh - 290px); }
  nav { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 16px; }
  button { font: inherit; font-size: 14px; min-height: 30px; padding: 2px 12px; color: inherit; background: transparent;
    border: 1px solid color-mix(in srgb, currentColor 55%, transparent); border-radius: 6px; cursor: pointer; }
  nav button { font-size: 13px; padding: 2px 6px; }
  nav button[aria-current] { font-weight: 650; border: 2px solid currentColor; padding: 1px 5px; }
  button:focus-visible, input:focus-visible { outline: 3px solid #2a7de1; outline-offset: 2px; }
  h2 { margin: 0 0 8px; font-size: 24px; line-height: 1.25; }
  section { display: grid; grid-template-columns: minmax(260px, 2fr) minmax(0, 6fr); gap: 8px 36px; align-items: start; }
  p { margin: 0 0 12px; }
  .live { font-weight: 600; margin-top: 12px; }
  .live:empty { display: none; }
  .ends { display: flex; flex-wrap: wrap; gap: 4px; margin: 4px 0 8px; }
  .buttons { display: flex; flex-wrap: wrap; gap: 8px; }
  particle-view { max-width: none; }
  .pictures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px 14px; margin: 0 0 8px; }
  figure { display: flex; flex-direction: column; margin: 0; }
  figcaption { font-size: 14px; margin: 0 0 4px; }
  figcaption span { display: inline-block; margin-left: 14px; }
  figcaption span::before { content: ""; display: inline-block; width: 18px; margin-right: 6px; vertical-align: middle; border-top: 3px solid var(--colour); }
  canvas { display: block; width: 100%; aspect-ratio: 1; box-sizing: border-box;
    border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 8px; }
  .live canvas { width: 60px; }
  .live figcaption { font-size: 13px; line-height: 1.3; font-weight: 400; margin: 0; text-align: center; }
  .chart canvas { aspect-ratio: auto; flex: 1 1 210px; height: 210px; }
  .points { max-width: var(--side); }
  .pictures:has(.points + .points + .chart) { grid-template-columns: repeat(2, minmax(0, calc(0.6 * var(--side)))) 1fr; }
  .points + .points + .chart { grid-column: 1 / -1; }
  .player { display: flex; gap: 12px; align-items: center; }
  .player input { flex: 1; max-width: 420px; min-height: 26px; }
  .line { font-size: 14px; font-variant-numeric: tabular-nums; margin: 4px 0 0; min-height: 3em; }
  @media (max-width: 760px) { /* text and picture fit on a phone's screen together */
    :host { --side: 36vh; font: 15px/1.4 system-ui, sans-serif; }
    section { display: flex; flex-direction: column; align-items: stretch; }
    particle-view { --side: 34vh; } particle-view:not([controls=no]) { --side: 26vh; } /* with its buttons on one screen */
    .words { display: contents; } .live, .buttons { order: 1; } .live { min-height: 4.2em; margin: 0; }
    .points { width: 100%; margin: 0 auto; }
    h2 { font-size: 19px; margin: 0; } p { margin: 0 0 8px; } .text p:last-child { margin: 0; }
    nav { gap: 4px; margin: 0 0 8px; } nav button { min-width: 32px; padding: 2px 4px; } nav span { display: none; }
    .chart canvas { flex: 1 1 130px; height: 130px; } .points:first-child + .chart canvas { flex-basis: 165px; }
    .pictures:has(.points + .points + .chart) { grid-template-columns: repeat(2, minmax(0, 1fr)); }
    figcaption { font-size: 13px; } figcaption span { margin: 0 8px 0 0; } .line { min-height: 2.8em; } ::slotted(ul) { margin: 0; padding-left: 20px; }
  }
  @media (pointer: coarse) {
    button, .player input { min-height: 40px; }
    nav button { min-width: 40px; }
  }
</style>
<nav aria-label="Chapters"></nav>
<section><div class="words"><h2 tabindex="-1"></h2><div class="text"></div><slot hidden></slot>
<div class="buttons"><button class="more" hidden></button><button class="next">Next chapter</button></div><div class="live"></div></div><div class="picture"></div></section>`;

  const line = (pen, points) => { pen.beginPath(); points.forEach(([x, y]) => pen.lineTo(x, y)); pen.stroke(); };
  const disc = (pen, x, y, radius) => { pen.beginPath(); pen.arc(x, y, radius, 0, 7); };

  // The regions of two answers in a frame, whose border is where the interpolated distances of the pixels to it are 4.5.
  function drawRegions(pen, {regions, region_hues}, at, size) {
    const distances = Uint8Array.from(regions[at], Number), side = Math.sqrt(distances.length), fine = Math.round(size);
    const image = new OffscreenCanvas(fine, fine), brush = image.getContext("2d");
    region_hues.forEach((hue, k) => { brush.fillStyle = `hsl(${360 * hue} 70% 60% / 0.28)`; brush.fillRect(k, 0, 1, 1); });
    const shades = new Uint32Array(brush.getImageData(0, 0, 2, 1).data.buffer), pixels = new Uint32Array(fine * fine);
    const places = Array.from(Array(fine), (_, k) => {
      const place = Math.min(Math.max((k + 0.5) * side / fine - 0.5, 0), side - 1.001), near = Math.floor(place);
      return [near, place - near];
    });
    places.forEach(([row, down], i) => places.forEach(([column, across], j) => {
      const [a, b, c, d] = [0, 1, side, side + 1].map((step) => distances[side * row + column + step]);
      pixels[i * fine + j] = shades[Number((a + across * (b - a)) * (1 - down) + (c + across * (d - c)) * down > 4.5)];
    }));
    brush.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), fine), 0, 0);
    pen.drawImage(image, 0, 0, size, size);
  }

  // One frame of points in a square picture.
  function drawPoints(pen, panel, at, size, height, ink) {
    const place = ([x, y]) => [size / 2 * (1 + x), size / 2 * (1 - y)], {names, arrows = [], wrong} = panel;
    const points = panel.points[at].map(place), few = points.length < 30;
    const radius = names ? (few ? Math.max(8, size / 38) : Math.max(6.5, size / 50)) : Math.min(3.5, size / 48);
    if (panel.regions) drawRegions(pen, panel, at, size);
    pen.font = `600 ${1.1 * radius}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const {colour, tips} of arrows) {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 2;
      tips[at].map(place).forEach(([x, y], k) => {
        const [fromX, fromY] = points[k], turn = Math.atan2(y - fromY, x - fromX);
        line(pen, [[fromX, fromY], [x, y]]);
        line(pen, [-2.6, 0, 2.6].map((angle) => (angle ? [x + 6 * Math.cos(turn + angle), y + 6 * Math.sin(turn + angle)] : [x, y])));
      });
    }
    points.forEach(([x, y], k) => {
      const hue = 360 * panel.hues[k];
      disc(pen, x, y, radius);
      pen.fillStyle = names ? `hsl(${hue} 70% 88%)` : markColour(panel.hues[k]);
      pen.fill();
      if (!names) return;
      pen.strokeStyle = `hsl(${hue} 70% 50%)`;
      pen.lineWidth = 2;
      pen.stroke();
      pen.fillStyle = "#111";
      pen.fillText(names[k], x, y + 0.5);
    });
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    for (const k of wrong ? wrong[at] : []) { disc(pen, ...points[k], 6); pen.stroke(); }
  }

  // Places above a chart for names of steps, each joined to its step by a line: [[left end of the name, row], ...]. No name covers
  // another or lies on the line of another. A name is centred on its line, or begins or ends there, in as few rows as possible.
  function placesOf(pen, names, left, right) {
    const joins = (upper, lower) => upper.row > lower.row && lower.begin - 4 < upper.middle && upper.middle < lower.end + 4;
    const meet = (a, b) => (a.row === b.row ? a.begin < b.end + 8 && b.begin < a.end + 8 : joins(a, b) || joins(b, a));
    const search = (rows, found) => {
      if (found.length === names.length) return found;
      const {name, middle} = names[found.length], {width} = pen.measureText(name);
      for (let row = 0; row < rows; row++) {
        for (const share of [0.5, 0, 1]) {
          const begin = Math.max(Math.min(middle - share * width, right - width), left), place = {row, middle, begin, end: begin + width};
          const all = !found.some((other) => meet(place, other)) && search(rows, [...found, place]);
          if (all) return all;
        }
      }
      return null;
    };
    let places = null;
    for (let rows = 1; !places && rows <= names.length; rows++) places = search(rows, []);
    return (places || names.map(({middle}, row) => ({begin: Math.max(left, middle), row}))).map(({begin, row}) => [begin, row]);
  }

  // Curves over all steps, with a dot at a frame. Phases are shades and marked steps dashed lines, with their names above; the present
  // phase is emphasised.
  function drawChart(pen, {lines, limits: [low, high], steps, bands = [], marks = [], unit = "step"}, at, size, height, ink) {
    const left = 34, right = size - 14, bottom = height - 30, x = (step) => left + (right - left) * (step - steps[0]) / (steps.at(-1) - steps[0]);
    pen.font = "13px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.lineWidth = 1;
    const names = [...bands.map(({name, begin, end}) => ({name, from: begin, to: end, middle: x((begin + end) / 2)})),
      ...marks.map(({name, step, colour}) => ({name, colour, middle: x(step)}))];
    const rows = placesOf(pen, names, 4, size - 4), top = 18 * (1 + Math.max(-1, ...rows.map(([, row]) => row))) + 14;
    const y = (value) => bottom - (bottom - top) * (value - low) / (high - low);
    names.forEach(({name, from, to, middle, colour}, k) => {
      const here = colour || (from <= steps[at] && steps[at] < to), [begin, row] = rows[k], foot = top - 8 - 18 * row;
      pen.fillStyle = ink;
      pen.strokeStyle = colour || ink;
      pen.globalAlpha = here ? 0.2 : 0.07;
      if (!colour) pen.fillRect(x(from) + 0.5, top, x(to) - x(from) - 1, bottom - top);
      pen.globalAlpha = here ? 1 : 0.7;
      pen.fillText(name, begin, foot - 6);
      pen.setLineDash(colour ? [5, 4] : []);
      line(pen, [[middle, foot + 2], [middle, colour ? bottom : top]]);
    });
    pen.globalAlpha = 1;
    pen.setLineDash([]);
    pen.strokeStyle = pen.fillStyle = ink;
    line(pen, [[left, top], [left, bottom], [right, bottom]]);
    pen.textAlign = "right";
    for (const value of [low, high]) pen.fillText(value, left - 7, y(value));
    pen.fillText(`${unit} ${steps.at(-1).toLocaleString("en")}`, right, bottom + 15);
    pen.textAlign = "left";
    if (size > 240) pen.fillText(steps[0].toLocaleString("en"), left, bottom + 15);
    for (const {colour, values} of lines) {
      pen.fillStyle = pen.strokeStyle = colour;
      pen.lineWidth = 2.5;
      line(pen, values.map((value, frame) => [x(steps[frame]), y(value)]));
      disc(pen, x(steps[at]), y(values[at]), 6);
      pen.fill();
    }
  }

  // The pair sums at the end of a run, as a small picture with its verdict below. words: a longer description.
  function smallPicture({sums, residue, n}, verdict, words) {
    const canvas = document.createElement("canvas"), side = 120, reach = 1.1 * Math.max(...sums.map(Math.abs));
    const points = Array.from(residue, (_, k) => [sums[2 * k] / reach, sums[2 * k + 1] / reach]);
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    caption.textContent = verdict;
    Object.assign(canvas, {width: side, height: side, title: words, role: "img", ariaLabel: words});
    drawPoints(canvas.getContext("2d"), {points: [points], hues: Array.from(residue, (sum) => sum / n)}, 0, side);
    figure.append(canvas, caption);
    return figure;
  }

  // Python lines that repeat runs. calls: of simulate. notes: comments above them.
  function pythonOf(calls, notes = []) {
    const names = [...new Set(calls.join().match(/\b(\w+Settings|simulate|replay)\b/g))].sort();
    return [`from dynamics import ${names.join(", ")}\n\n`, ...notes.map((note) => `# ${note}\n`),
      ...calls.map((call, k) => `trajectory${k ? k + 1 : ""} = ${call}\n`)].join("");
  }
  const CHANGES = {
    alignment: "On the page the alignment changed during the run; here it has its last value from the start.",
    numbers: "On the page numbers were dragged during the run; here none is.",
  };

  let opened = 0; // the chapter, for a story that is shown again

  class TrainingStory extends HTMLElement {
    connectedCallback() {
      const root = this.shadowRoot || this.attachShadow({mode: "open"});
      root.innerHTML = STORY;
      this.select = (name) => root.querySelector(name);
      if (matchMedia("(pointer: coarse)").matches) {
        for (const link of this.querySelectorAll("a")) {
          link.style.padding = "11px 0";
          link.parentElement.style.marginBottom = "18px";
        }
      }
      CHAPTERS.forEach(({title}, index) => {
        const button = document.createElement("button");
        button.innerHTML = `${index + 1}<span> ${title}</span>`;
        button.setAttribute("aria-label", `${index + 1} ${title}`);
        button.onclick = () => this.open(index, true);
        this.select("nav").append(button);
      });
      this.select(".next").onclick = () => this.open(this.index + 1, true);
      this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.ends = {rising: [], weak: [], strong: []};
      this.reached = {fa: STRONG, seed: 26};
      this.onhash = () => {
        const index = CHAPTERS.findIndex(({id}) => `#${id}` === location.hash);
        this.open(index < 0 ? opened : index);
      };
      this.onkey = (event) => {
        const {key} = event, [on] = event.composedPath(), play = this.select(".player button") || this.select("particle-view").play;
        if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
        if (key === " " && on === document.body) { event.preventDefault(); play.click(); }
        const next = /^\d$/.test(key) ? key - 1 : this.index + {ArrowRight: 1, ArrowLeft: -1}[key];
        const fields = /^\d$/.test(key) ? "input:not([type=range], [type=checkbox]), textarea, select" : "input, textarea, select, canvas";
        if (CHAPTERS[next] && !on.matches?.(fields)) this.open(next, true);
      };
      addEventListener("hashchange", this.onhash);
      addEventListener("keydown", this.onkey);
      this.onhash();
    }

    disconnectedCallback() {
      removeEventListener("hashchange", this.onhash);
      removeEventListener("keydown", this.onkey);
      cancelAnimationFrame(this.frame);
    }

    open(index, byHand = false) {
      const {id, title, text, view} = CHAPTERS[index];
      cancelAnimationFrame(this.frame);
      this.index = opened = index;
      if (byHand) history.replaceState(null, "", `#${id}`);
      this.select("nav").childNodes.forEach((button, k) => (k === index ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current")));
      this.select("h2").textContent = title;
      this.select(".text").replaceChildren(...text.map((words) => Object.assign(document.createElement("p"), {textContent: words})));
      this.select("slot").hidden = id !== "turn";
      this.select(".live").textContent = "";
      this.select(".more").hidden = true;
      this.select(".next").hidden = index === CHAPTERS.length - 1;
      this.select(".picture").replaceChildren();
      if (view) this.showParticles(id, view);
      else this.showRecord(StoryData[id]);
      if (byHand && this.select("h2").getBoundingClientRect().top < 0) this.select("h2").scrollIntoView();
    }

    // Python lines that repeat the runs of the chapter.
    get python() {
      const {id, view} = CHAPTERS[this.index], {particles, seed, changes} = this.select("particle-view") || {};
      if (!view) return pythonOf(StoryData[id].code);
      const call = `simulate(ParticleSettings(fa=${particles.fa}), runs=1, seed=${seed.value}, steps=${particles.step}, every=1)`;
      return pythonOf([call], [...changes].map((name) => CHANGES[name]));
    }

    // A button beside the text of a chapter.
    setMore(words, action) {
      Object.assign(this.select(".more"), {textContent: words, onclick: action, hidden: false});
    }

    showParticles(id, view) {
      const particles = document.createElement("particle-view");
      for (const [name, value] of Object.entries(view)) particles.setAttribute(name, value);
      this.select(".picture").append(particles);
      if (id === "turn") this.offerSetting(particles);
      if (id === "sums") this.tellNeighbours(particles);
      if (id === "alignment") this.countShapes(particles);
    }

    tellNeighbours(view) {
      let atStart = 0;
      const tell = () => {
        const [a, b] = view.getAttribute("pair").split(" ").map(Number), {n, pairs, step} = view.particles;
        const nearEqual = pairs.length - view.particles.imperfections();
        if (step === 0) atStart = nearEqual;
        this.select(".live").textContent = `${a} + ${b} = ${(a + b) % n}${a + b < n ? "" : ` (${a + b} − ${n})`}. Of all ${pairs.length} sums, ${nearEqual} have an equal sum as their nearest neighbour. At the start ${atStart} had one.`;
      };
      view.addEventListener("judged", tell);
      view.addEventListener("pair", tell);
      this.setMore("Another pair", () => view.setPair([0, 0].map(() => Math.floor(Math.random() * view.particles.n))));
      tell();
    }

    // Raise the alignment, and show and count how runs with weak and strong alignment end.
    countShapes(view) {
      const words = (ends) => SHAPES.map((shape) => `${shape} ${ends.filter(({verdict}) => verdict === shape).length}`).join(", ");
      const tell = () => {
        const kinds = [["rising alignment", this.ends.rising], [`weak alignment (below ${WEAK})`, this.ends.weak], ["strong alignment", this.ends.strong]]
          .filter(([, ends]) => ends.length);
        const place = ({verdict}) => SHAPES.indexOf(verdict);
        const rows = kinds.flatMap(([name, ends]) => {
          const line = document.createElement("div"), pictures = document.createElement("div");
          line.textContent = `${name}: ${words(ends)}`;
          pictures.className = "ends";
          pictures.append(...ends.slice(-TEN).sort((a, b) => place(a) - place(b)).map(({picture}) => picture));
          return [line, pictures];
        });
        this.select(".live").replaceChildren(...(rows.length ? ["Ends of runs, and their sums", ...rows] : []));
      };
      view.addEventListener("judged", ({detail: {verdict, particles}}) => {
        const {fa} = particles, seed = Number(view.seed.value);
        this.reach({fa, seed});
        if (!view.ended || view.changes.has("numbers")) return;
        const kind = view.changes.has("alignment") ? "rising" : (fa < WEAK ? "weak" : "strong");
        this.ends[kind].push({verdict, picture: smallPicture(particles, verdict, `seed ${seed}, alignment ${fa}: ${verdict}`)});
        tell();
      });
      let rest = 0;
      const runNext = () => {
        if (!view.isConnected) return;
        if (!rest) return this.select(".live").scrollIntoView({block: "nearest"});
        rest -= 1;
        view.restart(view.nextSeed());
        view.move(view.stop);
        setTimeout(runNext, 150);
      };
      let rising = true;
      this.setMore("Try ten starts", () => {
        if (rising) view.slider.value = STRONG;
        rising = false;
        rest = TEN;
        runNext();
      });
      tell();
      view.slider.addEventListener("input", () => { rising = false; });
      const raise = () => {
        if (!rising || !view.isConnected || view.slider.value >= STRONG) return;
        if (view.playing) view.slider.stepUp();
        view.setAlignment();
        setTimeout(raise, 60);
      };
      setTimeout(raise, 800);
    }

    // The tabs and the links of the last chapter begin with the setting that is reached.
    offerSetting(view) {
      view.slider.value = this.reached.fa;
      view.restart(this.reached.seed);
      const offer = () => {
        this.reach({fa: Number(view.slider.value), seed: Number(view.seed.value)});
        for (const link of this.querySelectorAll("a[data-setting]")) {
          link.search = `?${link.dataset.setting}&fa=${this.reached.fa}&seed=${this.reached.seed}`;
        }
      };
      view.addEventListener("judged", offer);
      view.slider.addEventListener("input", offer);
      offer();
    }

    reach(setting) {
      if (setting.fa === this.reached.fa && setting.seed === this.reached.seed) return;
      this.reached = setting;
      this.dispatchEvent(new CustomEvent("reached", {detail: setting, bubbles: true, composed: true}));
    }

    showRecord({panels, words, rate}) {
      const last = words.length - 1, pictures = document.createElement("div"), player = document.createElement("div");
      pictures.className = "pictures";
      player.className = "player";
      player.innerHTML = `<button></button><input type="range" min="0" max="${last}" step="1" aria-label="Frame">`;
      const [play, slider] = player.children, caption = Object.assign(document.createElement("p"), {className: "line"});
      const canvases = panels.map(({label, points, lines = []}) => {
        const figure = document.createElement("figure"), names = lines.length > 1 ? lines : [];
        figure.className = points ? "points" : "chart";
        figure.innerHTML = "<figcaption></figcaption><canvas role='img'></canvas>";
        figure.firstChild.append(label, ...names.map(({name, colour}) => {
          const key = Object.assign(document.createElement("span"), {textContent: name});
          key.style.setProperty("--colour", colour);
          return key;
        }));
        figure.lastChild.setAttribute("aria-label", label);
        pictures.append(figure);
        return figure.lastChild;
      });
      this.select(".picture").append(pictures, player, caption);
      let playing, place = 0, before = null;
      const setPlaying = (value) => { playing = value; play.textContent = playing ? "Pause" : "Play"; };
      play.onclick = () => setPlaying(!playing);
      slider.oninput = () => { setPlaying(false); place = Number(slider.value); };
      setPlaying(!this.calm);
      const draw = (now) => {
        if (playing && before) place += (now - before) * rate / 1000;
        if (place > last + rate * PAUSE / 1000) place = 0;
        before = now;
        const at = Math.min(last, Math.floor(place));
        slider.value = at;
        slider.setAttribute("aria-valuetext", words[at]);
        caption.textContent = words[at];
        canvases.forEach((canvas, k) => {
          const {clientWidth: width, clientHeight: height} = canvas, ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
          const ink = getComputedStyle(canvas).color, drawn = [at, width, height, ratio, ink].join();
          if (canvas.drawn === drawn) return;
          canvas.drawn = drawn;
          Object.assign(canvas, {width: Math.round(width * ratio), height: Math.round(height * ratio)});
          pen.setTransform(ratio, 0, 0, ratio, 0, 0);
          (panels[k].points ? drawPoints : drawChart)(pen, panels[k], at, width, height, ink);
        });
        this.frame = requestAnimationFrame(draw);
      };
      this.frame = requestAnimationFrame(draw);
    }
  }
  customElements.define("training-story", TrainingStory);
}
