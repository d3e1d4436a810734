// What a norm does not see: change the weights or the data of norm(W x) and watch the outputs.

import { InteractiveFigure, make, say, slider } from "./figure.js";
import { layer } from "./norms.js";

export const NAMES = ["none", "WeightNorm", "BatchNorm", "LayerNorm", "RMSNorm"];

// Six cases with three features, and four units.
export const X = [
  [0.9, -0.3, 1.4], [-1.1, 0.8, 0.2], [0.4, 1.7, -0.6],
  [1.6, 0.5, 0.3], [-0.7, -1.2, 1.1], [0.2, 0.9, -1.5],
];
export const W = [[0.8, -0.5, 0.3], [-0.2, 1.1, 0.6], [0.7, 0.4, -0.9], [-1.0, 0.2, 0.5]];

/** The six cases and four units after the changes that the sliders ask for. */
export function changed({ weightScale, weightShift, unitScale, dataScale, dataShift, caseScale }) {
  return {
    X: X.map((x, i) => x.map((v) => (v * dataScale + dataShift) * (i === 0 ? caseScale : 1))),
    // The shift adds the same row to the weights of every unit.
    W: W.map((w, i) => w.map((v) => (v * weightScale + weightShift) * (i === 0 ? unitScale : 1))),
  };
}

export const NEUTRAL = {
  weightScale: 1, weightShift: 0, unitScale: 1, dataScale: 1, dataShift: 0, caseScale: 1,
};

/** The largest change of an output, before and after. */
export function movement(name, settings, eps) {
  const before = layer(name, X, W, eps).flat();
  const now = changed(settings);
  const after = layer(name, now.X, now.W, eps).flat();
  return { before, after, largest: Math.max(...before.map((v, i) => Math.abs(after[i] - v))) };
}

const LABELS = { none: "no norm" };
for (const name of NAMES.slice(1)) LABELS[name] = name;

const REACH = 3.2; // outputs beyond this are drawn at the end of the line

// Rounding in double precision stays far below this, a visible change far above.
const ROUNDING = 1e-9;

class Invariance extends InteractiveFigure {
  static title = "What a norm does not see";

  static style = `
    .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); }
    .controls label { display: grid; grid-template-columns: 9.5rem 1fr 4rem; }
    .controls input[type="range"] { min-width: 0; width: 100%; }
    .row { display: grid; grid-template-columns: 6.5rem 1fr 9.5rem; gap: 0.75rem; align-items: center;
      border-top: 1px solid var(--pst-color-border, #c9c9c9); padding: 0.35rem 0; }
    .rows { margin-top: 1rem; }
    .rows .row:last-child { border-bottom: 1px solid var(--pst-color-border, #c9c9c9); }
    .stays { font-weight: 600; color: var(--nt-accent); }
    .moves { font-weight: 600; color: var(--nt-second); }
    line { stroke: currentColor; opacity: 0.35; }
    circle.before { fill: none; stroke: currentColor; stroke-width: 1.2; }
    circle.after { fill: var(--nt-second); }
    .stays-row circle.after { fill: var(--nt-accent); }
    @media (max-width: 34rem) {
      .row { grid-template-columns: 1fr 1fr; }
      .row svg { grid-column: 1 / -1; }
      .controls label { grid-template-columns: 8.5rem 1fr 3.5rem; }
    }
  `;

  build() {
    this.settings = { ...NEUTRAL };
    this.eps = 0;
    const factor = (label, key) => this.#slider(label, key, {
      min: -2, max: 2, step: 0.25, value: 0, show: (v) => `× ${say(2 ** v)}`, read: (v) => 2 ** v,
    });
    const shift = (label, key) => this.#slider(label, key, {
      min: -2, max: 2, step: 0.25, value: 0, show: (v) => `+ ${say(v)}`, read: (v) => v,
    });
    this.sliders = [
      factor("scale all weights", "weightScale"), shift("shift all weights", "weightShift"),
      factor("scale unit 1 alone", "unitScale"), factor("scale the data", "dataScale"),
      shift("shift the data", "dataShift"), factor("scale case 1 alone", "caseScale"),
    ];
    this.epsSlider = slider("ε", {
      min: -7, max: 0, step: 1, value: -7, show: (v) => (v === -7 ? "0" : `1e${say(v, 0)}`),
      change: (v) => { this.eps = v === -7 ? 0 : 10 ** v; this.update(); },
    });
    const reset = make("button", { type: "button" }, "back to the start");
    reset.addEventListener("click", () => {
      for (const one of [...this.sliders, this.epsSlider]) one.reset();
      this.settings = { ...NEUTRAL };
      this.eps = 0;
      this.update();
    });
    this.rows = Object.fromEntries(NAMES.map((name) => [name, this.#row(name)]));
    return [
      make("p", {}, "Each row shows the outputs of norm(Wx) for six cases and four units. Hollow: "
        + "before. Filled: after your change."),
      make("div", { class: "controls" }, ...this.sliders.map((one) => one.element),
        this.epsSlider.element, make("div", {}, reset)),
      make("div", { class: "rows" }, ...Object.values(this.rows).map((row) => row.element)),
    ];
  }

  #slider(label, key, { read, ...options }) {
    return slider(label, {
      ...options, change: (v) => { this.settings[key] = read(v); this.update(); },
    });
  }

  #row(name) {
    const picture = make("svg", { viewBox: "0 0 400 28", "aria-hidden": "true" });
    const verdict = make("span", {});
    const element = make("div", { class: "row" },
      make("span", {}, LABELS[name]), picture, verdict);
    return { element, picture, verdict };
  }

  update() {
    const unmoved = [];
    const moved = [];
    for (const name of NAMES) {
      const { before, after, largest } = movement(name, this.settings, this.eps);
      const stays = largest < ROUNDING;
      const through = !stays && movement(name, this.settings, 0).largest < ROUNDING;
      (stays ? unmoved : moved).push(LABELS[name] + (through ? " (through ε alone)" : ""));
      const { element, picture, verdict } = this.rows[name];
      element.classList.toggle("stays-row", stays);
      verdict.className = stays ? "stays" : "moves";
      verdict.textContent = stays
        ? "stays" : `moves by ${say(largest)}${through ? ", through ε alone" : ""}`;
      const place = (v) => 200 + (195 * Math.max(-REACH, Math.min(REACH, v))) / REACH;
      picture.replaceChildren(
        make("line", { x1: 5, x2: 395, y1: 14, y2: 14 }),
        ...before.map((v) => make("circle", { class: "before", cx: place(v), cy: 14, r: 5.5 })),
        ...after.map((v) => make("circle", { class: "after", cx: place(v), cy: 14, r: 3 })),
      );
    }
    const list = (names) => (names.length ? names.join(", ") : "none");
    const neutral = Object.keys(NEUTRAL).every((key) => this.settings[key] === NEUTRAL[key]);
    this.announce(neutral
      ? "Nothing is changed yet. Move a slider."
      : `Outputs stay: ${list(unmoved)}. Outputs move: ${list(moved)}.`);
  }
}

customElements.define("nt-invariance", Invariance);
