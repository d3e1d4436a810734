// Why normalize: how large the values are, layer by layer, for some scale of the initial weights.

import { InteractiveFigure, buttons, colourOf, fit, make, numberOf, oneOf, say, set, slider }
  from "./figure.js";
import { Chance, spread } from "./network.js";
import { TRAINABLE } from "./norms.js";

export const LAYERS = 20;
export const WIDTH = 48;
export const CASES = 64;
const NORMS = ["none", "BatchNorm", "LayerNorm", "RMSNorm"];
const CHOICES = ["no norm", ...NORMS.slice(1)];

// The axis reaches over these powers of ten.
const [LOW, HIGH] = [-8, 8];

const chance = new Chance(7);
const normal = (n) => Float64Array.from({ length: n }, () => chance.normal());
export const INPUT = normal(CASES * WIDTH);
/** Weights of standard deviation 1; the scale and sqrt(2 / width) come with the use. */
export const WEIGHTS = Array.from({ length: LAYERS }, () => normal(WIDTH * WIDTH));

/** What enters the activation of each layer: W h, normalized or not; h = ReLU of it. */
export function signal(name, scale) {
  const size = scale * Math.sqrt(2 / WIDTH);
  let h = INPUT;
  return WEIGHTS.map((W) => {
    const a = new Float64Array(CASES * WIDTH);
    for (let i = 0; i < CASES; i += 1) {
      for (let o = 0; o < WIDTH; o += 1) {
        let sum = 0;
        for (let k = 0; k < WIDTH; k += 1) sum += W[o * WIDTH + k] * h[i * WIDTH + k];
        a[i * WIDTH + o] = size * sum;
      }
    }
    const y = name === "none" ? a : new TRAINABLE[name](WIDTH).forward(a, CASES, true).slice();
    h = y.map((v) => Math.max(0, v));
    return y;
  });
}

/** Shares of the sizes |v| in `bins` bins between the ends of the axis, as powers of ten. */
export function sizes(values, bins) {
  const counts = new Array(bins).fill(0);
  for (const v of values) {
    const place = (Math.log10(Math.max(Math.abs(v), 1e-300)) - LOW) / (HIGH - LOW);
    counts[Math.max(0, Math.min(bins - 1, Math.floor(place * bins)))] += 1 / values.length;
  }
  return counts;
}

const power = (p) => (p === 0 ? "1" : `10${String(p).replace("-", "\u207b")
  .replace(/\d/g, (d) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[d])}`);

class Depth extends InteractiveFigure {
  static title = "A signal on its way through twenty layers";

  static hint = ["making the initial weights a little larger or smaller, then choosing a norm.",
    "the values explode or vanish without a norm, and stay where they are with one."];

  static redraws = true;

  static style = `
    .controls { margin-bottom: 0.5rem; }
    .blob { fill: var(--norm); opacity: 0.45; }
    .spread { fill: none; stroke: var(--norm); stroke-width: 2.5; }
    .none { stroke-dasharray: 7 4; }
    .ghost { fill: none; stroke: var(--norm-none); stroke-width: 2; stroke-dasharray: 7 4; }
    .grid { stroke: currentColor; opacity: 0.15; }
    .one { stroke: currentColor; opacity: 0.6; }
    svg text.end { font-weight: 700; fill: var(--norm); }
    svg text.ghost-end { fill: var(--norm-none); stroke: none; }
  `;

  build() {
    this.norm = buttons("norm", CHOICES, () => this.update());
    this.log = -1;
    this.scale = slider("initial weights", {
      min: -1, max: 1, step: 0.125, value: this.log, show: (v) => `× ${say(2 ** v)}`,
      change: (v) => { this.log = v; this.update(); },
    });
    this.picture = make("svg", { role: "img" });
    return [
      make("div", { class: "controls" }, this.scale.element,
        set(this.norm.element, { class: "chips" })),
      this.picture,
    ];
  }

  parameters() {
    return { weights: this.log, norm: this.norm.value };
  }

  restore({ weights, norm }) {
    this.log = numberOf(weights, -1, 1, this.log);
    this.scale.show(this.log);
    this.norm.show(oneOf(CHOICES, norm, this.norm.value));
  }

  update() {
    const name = NORMS[CHOICES.indexOf(this.norm.value)];
    this.style.setProperty("--norm", colourOf(name));
    const layers = signal(name, 2 ** this.log);
    const spreads = layers.map(spread);
    const plain = name === "none" ? null : signal("none", 2 ** this.log).map(spread);
    const height = 330;
    const width = fit(this.picture, height);
    const [left, right, top, bottom] = [44, 64, 24, 44];
    const x = (l) => left + 14 + ((width - left - right - 20) * (l - 1)) / (LAYERS - 1);
    const y = (p) => top + ((height - top - bottom) * (HIGH - Math.max(LOW, Math.min(HIGH, p))))
      / (HIGH - LOW);
    const step = x(2) - x(1);
    const bins = 64;
    const marks = [make("text", { x: 0, y: 13 }, "size of the values that enter the activation")];
    for (let p = LOW; p <= HIGH; p += 4) {
      marks.push(make("line", { class: p === 0 ? "one" : "grid", x1: left, x2: width - right + 8, y1: y(p), y2: y(p) }),
        make("text", { x: left - 6, y: y(p) + 4, "text-anchor": "end" }, power(p)));
    }
    for (const l of [1, 5, 10, 15, 20]) {
      marks.push(make("text", { x: x(l), y: height - bottom + 18, "text-anchor": "middle" }, l));
    }
    marks.push(make("text", { x: width - right, y: height - 6, "text-anchor": "end" }, "layer"));
    layers.forEach((values, i) => {
      const shares = sizes(values, bins);
      const most = Math.max(...shares);
      const edge = (side) => shares.map((share, k) => {
        const p = LOW + ((k + 0.5) * (HIGH - LOW)) / bins;
        return share ? `${x(i + 1) + side * 0.46 * step * (share / most)},${y(p)}` : null;
      }).filter(Boolean);
      marks.push(make("polygon", { class: "blob", points: [...edge(1), ...edge(-1).reverse()].join(" ") }));
    });
    const line = (values) => values.map((v, i) => `${x(i + 1)},${y(Math.log10(v))}`).join(" ");
    if (plain) marks.push(make("polyline", { class: "ghost", points: line(plain) }));
    marks.push(make("polyline", { class: `spread ${name}`, points: line(spreads) }));
    const last = spreads[LAYERS - 1];
    const end = (kind, text, at) => make("text", { class: kind, x: x(LAYERS) + 6 + 0.46 * step, y: at }, text);
    const at = y(Math.log10(last)) + 4;
    marks.push(end("end", this.#short(last), at));
    if (plain) {
      const there = y(Math.log10(plain[LAYERS - 1])) + 4;
      if (Math.abs(there - at) > 15) {
        marks.push(end("ghost-end", this.#short(plain[LAYERS - 1]), there));
      }
    }
    this.picture.replaceChildren(...marks);
    const factor = last / spreads[0];
    const fate = factor > 20 ? "The signal explodes" : factor < 0.05 ? "The signal vanishes" : "The signal stays in scale";
    const text = `${fate}: weights × ${say(2 ** this.log)}, ${name === "none" ? "no norm" : name}; `
      + `the spread goes from ${say(spreads[0], 3)} in layer 1 to ${say(last, 3)} in layer ${LAYERS}.`;
    set(this.picture, { "aria-label": `Twenty layers from left to right, the size of their values upwards, logarithmic. ${text}` });
    this.announce(text);
  }

  #short(v) {
    if (v >= 0.01 && v < 100) return say(v);
    const p = Math.floor(Math.log10(v));
    return `${say(v / 10 ** p, 0)}·${power(p)}`;
  }
}

customElements.define("nt-depth", Depth);
