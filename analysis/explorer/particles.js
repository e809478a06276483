// The particles of CA section 6 in the plane, without Python: `Particles` computes, the element
// <particle-view> shows them. The forces come from Python (particle_law.py); sums and steps are those of
// dynamics/particles/pair_forces.py and integrator.py with the default settings. A test compares both step by step.
"use strict";

const TINY = 1e-280; // squared lengths up to this count as zero
const ROUNDING = (16 * 2 ** -52) ** 2; // a smaller relative spread counts as zero
const SQUARED_LIMIT = 1e76; // squared norms from here on: the run has diverged and stays where it is
const CIRCLE_RATIO = 1.2; // largest norm over smallest norm below which numbers form a circle (CA algorithm 1)
const GRID_FRACTION = 0.2; // a grid has at most this fraction of imperfect pair sums (CA algorithm 2 counts them)

class Particles {
  // positions: [[x, y], ...] of the numbers 0 to N - 1, which are normalised first. law: its forces (particle_law.py).
  constructor(positions, {fa = 1, ga = 1, gr = 1, stepSize = 0.003, law = ParticleLaw} = {}) {
    Object.assign(this, {fa, ga, gr, stepSize, step: 0, n: positions.length});
    const n = this.n;
    this.pairs = [];
    this.classStart = [0]; // pairs are sorted by class i + j mod N
    for (let residue = 0; residue < n; residue++) {
      for (let i = 0; i < n; i++) {
        const j = (residue - i + n) % n;
        if (i <= j) this.pairs.push([i, j]);
      }
      this.classStart.push(this.pairs.length);
    }
    const count = this.pairs.length;
    this.residue = Uint16Array.from(this.pairs, ([i, j]) => (i + j) % n);
    let like = 0; // pairs of pair sums of equal class
    for (let c = 0; c < n; c++) {
      const size = this.classStart[c + 1] - this.classStart[c];
      like += size * (size - 1) / 2;
    }
    const all = count * (count - 1) / 2;
    this.counts = {like, unlike: all - like, all};
    this.sums = new Float64Array(2 * count);
    this.units = new Float64Array(2 * count);
    this.forces = law.map((force) => ({...force, field: new Float64Array(2 * count), magnitude: new Float64Array(count)}));
    this.x = this.normalise(Float64Array.from(positions.flat()));
    this.addPairSums();
  }

  // Mean 0 and standard deviation 1 over all coordinates, in place.
  normalise(x) {
    const n = this.n;
    let meanX = 0, meanY = 0, total = 0;
    for (let i = 0; i < n; i++) { meanX += x[2 * i]; meanY += x[2 * i + 1]; }
    meanX /= n; meanY /= n;
    for (let i = 0; i < n; i++) {
      x[2 * i] -= meanX; x[2 * i + 1] -= meanY;
      total += x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1];
    }
    const spread = Math.sqrt(total / (2 * n));
    const enough = total - (meanX * meanX + meanY * meanY) * (n * ROUNDING) > 0;
    for (let k = 0; k < 2 * n; k++) x[k] = enough ? x[k] / spread : 0;
    this.spreadSquare = total;
    return x;
  }

  // x_ij = x_i + x_j and its direction, for every pair.
  addPairSums() {
    const {x, sums, units} = this;
    this.pairs.forEach(([i, j], k) => {
      const a = x[2 * i] + x[2 * j], b = x[2 * i + 1] + x[2 * j + 1];
      const square = a * a + b * b, nonzero = square > TINY, inverse = 1 / Math.sqrt(square);
      sums[2 * k] = nonzero ? a : 0; sums[2 * k + 1] = nonzero ? b : 0;
      units[2 * k] = nonzero ? a * inverse : 0; units[2 * k + 1] = nonzero ? b * inverse : 0;
    });
  }

  // The constant of a force times its weight, which balances it with another force.
  factorOf({constant, balance, against, magnitude, pairs}) {
    const factor = typeof constant === "number" ? constant : this[constant];
    const other = this.forces.find(({name}) => name === against);
    const total = (sizes) => sizes.reduce((sum, value) => sum + value, 0);
    const ratio = (above, below) => (below > 0 ? above / below : 0);
    if (balance === "magnitude") return factor * ratio(total(other.magnitude), total(magnitude));
    if (balance === "count") return factor * ratio(this.counts[other.pairs], this.counts[pairs]);
    return factor;
  }

  // The balanced force on every number.
  force() {
    const {n, pairs, classStart, forces} = this;
    const [like, unlike] = ["like", "unlike"].map((kind) => forces.filter((force) => [kind, "all"].includes(force.pairs)));
    for (const {field, magnitude} of forces) { field.fill(0); magnitude.fill(0); }
    for (let c = 0; c < n; c++) {
      for (let q = classStart[c]; q < classStart[c + 1]; q++) {
        for (const {add, field, magnitude} of unlike) magnitude[q] += add(q, 0, classStart[c], this, field);
        for (const {add, field, magnitude} of like) magnitude[q] += add(q, classStart[c], q, this, field);
      }
    }
    const total = new Float64Array(2 * n), onNumbers = new Float64Array(2 * n);
    for (const force of forces) {
      const {field} = force, factor = this.factorOf(force);
      onNumbers.fill(0);
      for (let k = 0; k < pairs.length; k++) {
        for (const number of pairs[k]) { // the pair (i, i) acts twice on i
          onNumbers[2 * number] += field[2 * k]; onNumbers[2 * number + 1] += field[2 * k + 1];
        }
      }
      for (let k = 0; k < 2 * n; k++) total[k] += factor * onNumbers[k];
    }
    return total;
  }

  // x <- normalise(x + step size * force)
  advance(steps = 1) {
    for (let count = 0; count < steps; count++) {
      const force = this.force();
      let square = 0;
      for (const value of force) square += value * value;
      const moved = this.normalise(this.x.map((value, k) => value + force[k] * this.stepSize));
      if (!(square < SQUARED_LIMIT && this.spreadSquare < SQUARED_LIMIT)) return;
      this.x = moved;
      this.step += 1;
      this.addPairSums();
    }
  }

  // Move a number to (a, b), the others as in `from`, and normalise.
  place(number, a, b, from = this.x) {
    const moved = Float64Array.from(from);
    moved.set([a, b], 2 * number);
    this.x = this.normalise(moved);
    this.addPairSums();
  }

  // Largest norm of a number over the smallest.
  normRatio() {
    const norms = this.pairs.filter(([i, j]) => i === j).map(([i]) => Math.hypot(this.x[2 * i], this.x[2 * i + 1]));
    return Math.max(...norms) / Math.min(...norms);
  }

  // Number of pair sums whose nearest other pair sum is of another class; the first pair wins ties.
  imperfections() {
    const {sums, residue, pairs, n} = this;
    const order = pairs.map(([i, j]) => i * n + j);
    let count = 0;
    for (let p = 0; p < pairs.length; p++) {
      let nearest = Infinity, result = -1;
      for (let q = 0; q < pairs.length; q++) {
        const dx = sums[2 * p] - sums[2 * q], dy = sums[2 * p + 1] - sums[2 * q + 1];
        const distance = Math.sqrt(dx * dx + dy * dy);
        const nearer = distance < nearest || (distance === nearest && order[q] < order[result]);
        if (q !== p && nearer) { nearest = distance; result = q; }
      }
      if (result < 0 || residue[result] !== residue[p]) count += 1;
    }
    return count;
  }

  verdict() {
    if (this.normRatio() < CIRCLE_RATIO) return "circle";
    return this.imperfections() <= GRID_FRACTION * this.pairs.length ? "grid" : "neither";
  }
}

globalThis.Particles = Particles;

if (globalThis.customElements) {
  // A colour of a hue (0 to 1) whose contrast with white and with black is above 3:1 (WCAG 1.4.11), for small marks.
  const LUMINANCE = 0.24, colours = new Map();
  const luminance = (hue, light) => [[0, 0.2126], [8, 0.7152], [4, 0.0722]].reduce((sum, [shift, weight]) => {
    const turn = (shift + 12 * hue) % 12, value = light - 0.7 * Math.min(light, 1 - light) * Math.max(-1, Math.min(turn - 3, 9 - turn, 1));
    return sum + weight * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  }, 0);
  globalThis.markColour = (hue) => {
    if (!colours.has(hue)) {
      let low = 0, high = 1;
      for (let k = 0; k < 12; k++) {
        const middle = (low + high) / 2;
        if (luminance(hue, middle) < LUMINANCE) low = middle; else high = middle;
      }
      colours.set(hue, `hsl(${360 * hue} 70% ${(100 * low).toFixed(1)}%)`);
    }
    return colours.get(hue);
  };

  const STEPS_A_SECOND = 60, REACH = 3.6, VERDICT_EVERY = 10;
  const VIEW = `
<style>
  :host { display: block; max-width: 34rem; font: 15px/1.4 system-ui, sans-serif; }
  canvas { width: min(100%, var(--side, 100%)); aspect-ratio: 1; display: block; border: 1px solid color-mix(in srgb, currentColor 30%, transparent);
    border-radius: 8px; touch-action: manipulation; cursor: pointer; }
  canvas:focus-visible, button:focus-visible, input:focus-visible { outline: 3px solid #2a7de1; outline-offset: 2px; }
  div { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; margin: 8px 0; }
  label { display: flex; gap: 8px; align-items: center; }
  button, input[type=number] { font: inherit; color: inherit; background: transparent; min-height: 30px; padding: 2px 12px;
    border: 1px solid currentColor; border-radius: 6px; }
  button { cursor: pointer; }
  input[type=number] { width: 4.5em; padding: 2px 6px; }
  input[type=range] { width: 11em; min-height: 26px; }
  output { font-variant-numeric: tabular-nums; }
  @media (pointer: coarse) {
    button, label, input[type] { min-height: 40px; box-sizing: border-box; }
    input[type=checkbox] { width: 24px; }
  }
  @media (max-width: 760px) { /* a phone: the whole width for a slider with forty values */
    canvas { margin: 0 auto; } .words { display: none; }
    div { gap: 4px 10px; margin: 6px 0; }
    label:has(.fa) { flex: 1; }
    input[type=range] { flex: 1; width: auto; min-width: 0; }
  }
  :host([controls=no]) :is(.controls, .words, .verdict) { display: none; }
  .verdict { font-weight: 650; border-radius: 99px; padding: 1px 12px; border: 1.5px solid currentColor; }
</style>
<canvas tabindex="0" role="img" aria-label="The numbers 0 to 16 in the plane, and small points for the sums of two of them"></canvas>
<div class="controls"><label><span>Alignment f<sub>a</sub></span><input class="fa" type="range" min="0" max="4" step="0.1"><output class="value"></output></label></div>
<div><button class="play"></button><button class="again">Another start</button>
  <label class="controls">seed <input class="seed" type="number" min="0"></label><output class="verdict" aria-live="polite"></output>
  <label class="controls"><input class="sums" type="checkbox" checked> sums of pairs</label><output class="words"></output></div>`;

  // Attributes: seed; fa; rate, steps a second; last, the step after which it begins again; stop, the step at which it ends, until
  // Play or another seed begin it again, while another alignment always does; sums and controls, "no" hides them; and pair ("3 5"), which
  // marks two numbers and the class of their sum. Event "judged": the verdict, every ten steps; "pair": another pair.
  // `changes` says what the reader has changed since the first step, which a run from the same seed with the last alignment lacks.
  class ParticleView extends HTMLElement {
    connectedCallback() {
      const root = this.shadowRoot || this.attachShadow({mode: "open"});
      root.innerHTML = VIEW;
      const part = (name) => root.querySelector(name);
      Object.assign(this, {canvas: part("canvas"), play: part(".play"), slider: part(".fa"), seed: part(".seed"),
        sums: part(".sums"), words: part(".words"), badge: part(".verdict"), value: part(".value")});
      this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.slider.value = this.getAttribute("fa") || "1";
      this.seed.value = this.getAttribute("seed") || "26";
      this.seed.max = ParticleStarts.length - 1;
      this.rate = Number(this.getAttribute("rate")) || STEPS_A_SECOND;
      this.end = Number(this.getAttribute("last")) || Infinity;
      this.stop = Number(this.getAttribute("stop")) || Infinity;
      this.sums.checked = this.getAttribute("sums") !== "no";
      this.play.onclick = () => (this.ended ? this.restart(Number(this.seed.value)) : this.setPlaying(!this.playing));
      part(".again").onclick = () => this.restart(this.nextSeed());
      this.seed.onchange = () => this.restart(Math.min(Math.max(Math.trunc(Number(this.seed.value)), 0), this.seed.max));
      this.slider.oninput = () => (this.stop < Infinity ? this.restart(Number(this.seed.value)) : this.setAlignment());
      this.sums.onchange = () => this.draw();
      this.canvas.onpointerdown = (event) => this.hold(event);
      this.canvas.onpointermove = (event) => this.drag(event);
      this.canvas.onpointerup = this.canvas.onpointercancel = () => { this.held = null; };
      this.canvas.addEventListener("touchstart", (event) => { if (this.held) event.preventDefault(); }, {passive: false});
      this.canvas.onkeydown = (event) => this.onKey(event);
      this.resize = new ResizeObserver(() => this.draw());
      this.resize.observe(this.canvas);
      this.watch = new IntersectionObserver(([entry]) => { this.visible = entry.isIntersecting; });
      this.watch.observe(this.canvas);
      this.restart(Number(this.seed.value));
      this.setPlaying(!this.calm);
      this.frame = requestAnimationFrame((now) => this.onFrame(now));
    }

    disconnectedCallback() {
      cancelAnimationFrame(this.frame);
      this.resize.disconnect();
      this.watch.disconnect();
    }

    get ended() {
      return this.particles?.step >= this.stop;
    }

    restart(seed) {
      if (this.ended) this.setPlaying(true);
      this.seed.value = seed;
      this.changes = new Set();
      this.particles = new Particles(ParticleStarts[seed], {fa: Number(this.slider.value)});
      this.setAlignment();
      this.judge();
      this.draw();
    }

    nextSeed() {
      return (Number(this.seed.value) + 1) % ParticleStarts.length;
    }

    // A number can be dragged; a click makes it one of the pair, if there is one.
    hold(event) {
      const [a, b] = this.placeOf(event), {x, n} = this.particles, pair = this.getAttribute("pair");
      const distance = (i) => Math.hypot(a - x[2 * i], b - x[2 * i + 1]);
      const nearest = Array.from({length: n}, (_, i) => i).reduce((best, i) => (distance(i) < distance(best) ? i : best));
      if (distance(nearest) > REACH * 48 / this.canvas.clientWidth) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.held = {number: nearest, at: null, from: x};
      if (pair) this.setPair([pair.split(" ")[1], nearest]);
    }

    placeOf({offsetX, offsetY}, most = REACH) {
      const half = this.canvas.clientWidth / 2, inside = (value) => Math.min(Math.max(value, -most), most);
      return [inside(REACH * (offsetX / half - 1)), inside(REACH * (1 - offsetY / half))];
    }

    drag(event) {
      if (!this.held) return;
      this.held.at = this.placeOf(event, REACH / 2); // so that its sums stay in the picture
      this.changes.add("numbers");
      this.particles.place(this.held.number, ...this.held.at, this.held.from);
      this.draw();
    }

    setPair(pair) {
      this.setAttribute("pair", pair.join(" "));
      this.draw();
      this.dispatchEvent(new CustomEvent("pair"));
    }

    setAlignment() {
      const fa = Number(this.slider.value);
      if (fa !== this.particles.fa && this.particles.step > 0) this.changes.add("alignment");
      this.particles.fa = fa;
      this.value.textContent = this.particles.fa.toFixed(1);
    }

    setPlaying(playing) {
      this.playing = playing;
      this.play.textContent = playing ? "Pause" : "Play";
    }

    // Space plays and pauses; the right arrow takes ten steps; up and down change the alignment.
    onKey(event) {
      const actions = {" ": () => this.play.click(), ArrowRight: () => this.move(10),
        ArrowUp: () => this.slide("stepUp"), ArrowDown: () => this.slide("stepDown")};
      if (!actions[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    }

    slide(way) {
      this.slider[way]();
      this.slider.dispatchEvent(new Event("input"));
    }

    onFrame(now) {
      const steps = Math.min(4, Math.round((now - (this.last ?? now)) * this.rate / 1000));
      if (steps > 0 || this.last === undefined) this.last = now;
      if (this.playing && this.visible && steps > 0) this.move(steps);
      this.frame = requestAnimationFrame((time) => this.onFrame(time));
    }

    move(steps) {
      const before = this.particles.step, {held} = this;
      if (held?.at) this.particles.place(held.number, ...held.at, held.from);
      this.particles.advance(Math.min(steps, this.stop - before));
      if (held) held.from = this.particles.x;
      if (Math.trunc(before / VERDICT_EVERY) !== Math.trunc(this.particles.step / VERDICT_EVERY)) this.judge();
      if (this.ended) this.setPlaying(false);
      if (this.particles.step >= this.end) this.restart(Number(this.seed.value));
      this.draw();
    }

    judge() {
      const {particles} = this, {step, pairs} = particles, near = pairs.length - particles.imperfections(), verdict = particles.verdict();
      if (this.badge.textContent !== verdict) this.badge.textContent = verdict;
      this.dispatchEvent(new CustomEvent("judged", {detail: {verdict, particles}}));
      this.words.textContent = `step ${step}; ${near} of ${pairs.length} sums are nearest to an equal one`;
    }

    draw() {
      const {canvas, particles} = this, size = canvas.clientWidth, ratio = devicePixelRatio || 1;
      if (!size) return;
      if (canvas.width !== Math.round(size * ratio)) canvas.width = canvas.height = Math.round(size * ratio);
      const pen = canvas.getContext("2d"), scale = size / 2 / REACH, ink = getComputedStyle(canvas).color;
      const at = (points, k) => [size / 2 + scale * points[2 * k], size / 2 - scale * points[2 * k + 1]];
      const colour = (residue) => `hsl(${360 * residue / particles.n} 70% 50%)`;
      const disc = (x, y, radius) => { pen.beginPath(); pen.arc(x, y, radius, 0, 7); };
      const pair = (this.getAttribute("pair") || "").split(" ").filter(Boolean).map(Number);
      const chosen = pair.length ? (pair[0] + pair[1]) % particles.n : -1;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, size, size);
      if (this.sums.checked) {
        particles.pairs.forEach(([i, j], k) => {
          pen.fillStyle = markColour(particles.residue[k] / particles.n);
          disc(...at(particles.sums, k), particles.residue[k] === chosen ? 6 : (chosen < 0 ? 3 : 2.2));
          pen.fill();
          if (pair.length && i === Math.min(...pair) && j === Math.max(...pair)) {
            pen.strokeStyle = ink; pen.lineWidth = 1.5;
            disc(...at(particles.sums, k), 8); pen.stroke();
            for (const number of pair) { // from the centre to the number, and on to the sum
              pen.beginPath(); pen.moveTo(size / 2, size / 2); pen.lineTo(...at(particles.x, number)); pen.lineTo(...at(particles.sums, k)); pen.stroke();
            }
            pen.fillStyle = ink;
            disc(size / 2, size / 2, 3.5); pen.fill();
          }
        });
      }
      pen.font = "600 12px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (let number = 0; number < particles.n; number++) {
        const [x, y] = at(particles.x, number);
        disc(x, y, 11);
        pen.fillStyle = `hsl(${360 * number / particles.n} 70% 88%)`;
        pen.fill();
        pen.strokeStyle = pair.includes(number) ? ink : colour(number);
        pen.lineWidth = pair.includes(number) ? 3.5 : 2;
        pen.stroke();
        pen.fillStyle = "#111";
        pen.fillText(number, x, y + 0.5);
      }
    }
  }
  customElements.define("particle-view", ParticleView);
}
