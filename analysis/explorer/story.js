// The story of the particles and networks, as the element <training-story>: chapters with a picture that plays. Uses particles.js
// and the recorded runs of story_data.js (analysis/explorer/story_data.py).
"use strict";

if (globalThis.customElements) {
  const CHAPTERS = [
    {id: "numbers", title: "Seventeen numbers", view: {},
      text: "A network that learns to add places each number at a point in the plane. Here the numbers 0 to 16 move as particles."},
    {id: "sums", title: "Sums of two", view: {pair: "3 5"},
      text: "The sum of 3 and 5 lies where their two positions add up. It belongs to class 8, marked here, with all pairs whose sum modulo 17 is 8. "
        + "Equal sums attract each other, all others repel."},
    {id: "alignment", title: "Alignment makes a circle", view: {fa: 3, seed: 17}, count: true,
      text: "Sums now also pull in their own direction, which is alignment f_a. It rises to 3: the cloud opens, sums fall onto rays, and the numbers form a circle. "
        + "Set it back to 0.5 and try other seeds: grids remain."},
    {id: "network", title: "A network does it too", record: "network",
      text: "Left: a network in training (seed 0), which learns sums modulo 17 from examples. Right: particles from the same start. Nobody told the network about forces."},
    {id: "decision", title: "The decision", record: "decision",
      text: "When was the circle certain? From each step of one run we started 64 copies with small random shifts: the curve is the share of them that became circles."},
  ];
  const STORY = `
<style>
  :host { display: block; max-width: 1040px; font: 16px/1.5 system-ui, sans-serif; color: inherit; }
  nav { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 14px; }
  button { font: inherit; font-size: 14px; min-height: 30px; padding: 2px 12px; color: inherit; background: transparent;
    border: 1px solid currentColor; border-radius: 6px; cursor: pointer; }
  button[aria-current] { font-weight: 650; border-width: 2px; }
  button:focus-visible { outline: 3px solid #2a7de1; outline-offset: 2px; }
  h2 { margin: 0 0 6px; font-size: 24px; }
  section { display: grid; grid-template-columns: minmax(240px, 2fr) minmax(300px, 3fr); gap: 10px 32px; align-items: start; }
  section p { margin: 0 0 12px; }
  figure { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 8px; }
  figure canvas { flex: 1 1 220px; min-width: 0; width: 100%; aspect-ratio: 1; border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 8px; }
  @media (max-width: 700px) { section { grid-template-columns: minmax(0, 1fr); } h2 { font-size: 20px; } }
</style>
<nav aria-label="Chapters"></nav>
<section><div><h2 tabindex="-1"></h2><p class="text"></p><p class="count" aria-live="polite"></p><button class="next">Next chapter</button></div><div class="picture"></div></section>`;

  const line = (pen, points) => { pen.beginPath(); points.forEach(([x, y]) => pen.lineTo(x, y)); pen.stroke(); };

  // One frame of numbers in a square at the left edge `left` of side `size`.
  function drawNumbers(pen, frame, size, ink) {
    const reach = Math.max(1, ...frame.map(([x, y]) => Math.hypot(x, y))) * 1.2;
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    frame.forEach(([x, y], number) => {
      const at = [size / 2 * (1 + x / reach), size / 2 * (1 - y / reach)];
      pen.beginPath(); pen.arc(...at, 11, 0, 7);
      pen.fillStyle = `hsl(${360 * number / frame.length} 70% 88%)`; pen.fill();
      pen.strokeStyle = `hsl(${360 * number / frame.length} 70% 50%)`; pen.lineWidth = 2; pen.stroke();
      pen.fillStyle = "#111"; pen.fillText(number, at[0], at[1] + 0.5);
    });
  }

  // The share of circles (0 to 1) by step, up to a step of which a point shows the place.
  function drawCurve(pen, {steps, shares}, place, size, ink) {
    const at = (k) => [40 + (size - 60) * steps[k] / steps.at(-1), size - 44 - (size - 70) * shares[k]];
    pen.strokeStyle = pen.fillStyle = ink;
    pen.font = "13px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.lineWidth = 1;
    line(pen, [[40, 20], [40, size - 44], [size - 14, size - 44]]);
    pen.fillText("share that become circles", 46, 16);
    pen.fillText("1", 24, 30); pen.fillText("0", 24, size - 40);
    pen.textAlign = "right";
    pen.fillText(`step ${steps.at(-1)}`, size - 14, size - 26);
    pen.strokeStyle = "#2a7de1";
    pen.lineWidth = 3;
    line(pen, steps.map((step, k) => at(k)));
    pen.fillStyle = "#2a7de1";
    const k = Math.max(0, steps.findLastIndex((step) => step <= place));
    pen.beginPath(); pen.arc(...at(k), 7, 0, 7); pen.fill();
  }

  class TrainingStory extends HTMLElement {
    connectedCallback() {
      const root = this.shadowRoot || this.attachShadow({mode: "open"});
      root.innerHTML = STORY;
      this.select = (name) => root.querySelector(name);
      CHAPTERS.forEach(({title}, index) => {
        const button = document.createElement("button");
        button.textContent = `${index + 1} ${title}`;
        button.onclick = () => this.open(index, true);
        this.select("nav").append(button);
      });
      this.select(".next").onclick = () => this.open((this.index + 1) % CHAPTERS.length, true);
      this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.counts = {circle: 0, grid: 0, neither: 0};
      this.onhash = () => this.open(Math.max(0, CHAPTERS.findIndex(({id}) => `#${id}` === location.hash)));
      this.onkey = (event) => {
        const target = event.composedPath()[0].tagName;
        const turn = {ArrowRight: 1, ArrowLeft: -1}[event.key];
        if (!turn || event.defaultPrevented || target === "INPUT" || target === "CANVAS") return;
        this.open(Math.min(Math.max(this.index + turn, 0), CHAPTERS.length - 1), true);
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
      const chapter = CHAPTERS[index];
      cancelAnimationFrame(this.frame);
      this.index = index;
      if (byHand) history.replaceState(null, "", `#${chapter.id}`);
      this.select("nav").childNodes.forEach((button, k) => button.toggleAttribute("aria-current", k === index));
      this.select("h2").textContent = chapter.title;
      this.select(".text").textContent = chapter.text;
      this.select(".count").textContent = "";
      this.select(".next").hidden = index === CHAPTERS.length - 1;
      if (chapter.record) this.showRecord(chapter.record);
      else this.showParticles(chapter);
    }

    showParticles({view, count}) {
      const particles = document.createElement("particle-view");
      for (const name of ["pair", "seed"]) if (view[name]) particles.setAttribute(name, view[name]);
      this.select(".picture").replaceChildren(particles);
      if (!count) return;
      this.last = null;
      particles.addEventListener("verdict", ({detail}) => {
        if (detail.verdict === "circle" && this.last !== detail.seed) {
          this.last = detail.seed;
          this.counts.circle += 1;
        }
        this.select(".count").textContent = `Circles so far: ${this.counts.circle}`;
      });
      const raise = () => {
        if (!particles.isConnected) return;
        particles.slider.value = Math.min(view.fa, Number(particles.slider.value) + 0.1);
        particles.setAlignment();
        if (particles.particles.fa < view.fa) setTimeout(raise, 60);
      };
      setTimeout(raise, 800);
    }

    showRecord(name) {
      const record = StoryData[name], figure = document.createElement("figure");
      const labels = name === "network" ? ["Network: the numbers' positions", "Particles from the same start"]
        : ["One run of particles", "Share of shifted copies that become circles"];
      const canvases = labels.map((label) => {
        const canvas = document.createElement("canvas");
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", label);
        figure.append(canvas);
        return canvas;
      });
      const play = document.createElement("button");
      let playing = !this.calm, place = this.calm ? record.first.length - 1 : 0, before = 0;
      const setLabel = () => { play.textContent = playing ? "Pause" : "Play"; };
      play.onclick = () => { playing = !playing; if (playing && place >= record.first.length - 1) place = 0; setLabel(); };
      setLabel();
      this.select(".picture").replaceChildren(figure, play);
      const draw = (now) => {
        if (playing) place = Math.min(record.first.length - 1, place + (before ? (now - before) * record.rate / 1000 : 0));
        before = now;
        canvases.forEach((canvas, k) => {
          const size = canvas.clientWidth, ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
          const ink = getComputedStyle(canvas).color, at = Math.floor(place);
          canvas.width = canvas.height = Math.round(size * ratio);
          pen.setTransform(ratio, 0, 0, ratio, 0, 0);
          if (k === 0) drawNumbers(pen, record.first[at], size, ink);
          else if (name === "network") drawNumbers(pen, record.second[at], size, ink);
          else drawCurve(pen, record, record.recorded[at], size, ink);
        });
        this.frame = requestAnimationFrame(draw);
      };
      this.frame = requestAnimationFrame(draw);
    }
  }
  customElements.define("training-story", TrainingStory);
}
