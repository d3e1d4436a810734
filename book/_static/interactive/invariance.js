// What a norm does not see: change the weights or the data of norm(W x) and watch the outputs.

import { InteractiveFigure, action, colourOf, make, numberOf, say, set, slider } from "./figure.js";
import { layer } from "./norms.js";

export const NAMES = ["none", "WeightNorm", "BatchNorm", "LayerNorm", "RMSNorm"];

// Six tokens with three features, and four units.
export const X = [
  [0.9, -0.3, 1.4], [-1.1, 0.8, 0.2], [0.4, 1.7, -0.6],
  [1.6, 0.5, 0.3], [-0.7, -1.2, 1.1], [0.2, 0.9, -1.5],
];
export const W = [[0.8, -0.5, 0.3], [-0.2, 1.1, 0.6], [0.7, 0.4, -0.9], [-1.0, 0.2, 0.5]];

/** The six tokens and four units after the changes that the sliders ask for. */
export function changed({ weightScale, weightShift, unitScale, dataScale, dataShift, tokenScale }) {
  return {
    X: X.map((x, i) => x.map((v) => (v * dataScale + dataShift) * (i === 0 ? tokenScale : 1))),
    // The shift adds the same row to the weights of every unit.
    W: W.map((w, i) => w.map((v) => (v * weightScale + weightShift) * (i === 0 ? unitScale : 1))),
  };
}

export const NEUTRAL = {
  weightScale: 1, weightShift: 0, unitScale: 1, dataScale: 1, dataShift: 0, tokenScale: 1,
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

const REACH = 3.2; // outputs beyond this are drawn as a mark at the edge

// Rounding in double precision stays far below this, a visible change far above.
const ROUNDING = 1e-9;

// What can be changed: on the sliders factors are powers of two.
const CHANGES = {
  weightScale: ["all weights ×", "all weights × 2", 1], unitScale: ["unit 1 ×", "unit 1 × 2", 1],
  weightShift: ["all units +", "all units + 1", 1], dataScale: ["all data ×", "all data × 2", 1],
  dataShift: ["all tokens +", "all tokens + 1", 1], tokenScale: ["token 1 ×", "token 1 × 2", 1],
};
const isFactor = (key) => key.endsWith("Scale");

class Invariance extends InteractiveFigure {
  static title = "What a norm does not see";

  static hint = ["one change after the other with the buttons.",
    "which norms put out the same as before: their row says “stays”."];

  static style = `
    .presets { margin-bottom: 0.75rem; }
    .sliders { display: grid; gap: 0.3rem 1.5rem;
      grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
    .sliders label { display: grid; grid-template-columns: 9.5rem minmax(6.5rem, 1fr) 4rem; gap: 0.5rem; align-items: center; }
    .sliders input[type="range"] { min-width: 0; width: 100%; }
    .row { display: grid; grid-template-columns: 6.5rem 1fr 9.5rem; gap: 0.75rem; align-items: center;
      border-top: 1px solid var(--nt-line); padding: 0.35rem 0; }
    .rows { margin-top: 0.75rem; }
    .rows .row:last-child { border-bottom: 1px solid var(--nt-line); }
    .name { border-left: 0.4rem solid var(--norm); padding-left: 0.4rem; font-weight: 700; }
    .stays { color: var(--nt-muted); }
    .moves { font-weight: 700; }
    line { stroke: currentColor; opacity: 0.35; }
    line.tick { opacity: 0.6; }
    line.way { stroke: var(--norm); opacity: 0.55; stroke-width: 1.5; }
    svg text { font-size: 11px; opacity: 0.8; }
    circle.before { fill: none; stroke: currentColor; stroke-width: 1.2; }
    circle.after, polygon.beyond { fill: var(--norm); }
    .key { font-size: 0.88rem; color: var(--nt-muted); }
    @media (max-width: 34rem) {
      .row { grid-template-columns: 1fr 1fr; }
      .row svg { grid-column: 1 / -1; }
      svg text { font-size: 15px; }
      .sliders label { grid-template-columns: 8.5rem 1fr 3.5rem; }
      .sliders label.idle { display: none; }
    }
  `;

  build() {
    this.settings = { ...NEUTRAL, weightScale: 2 };
    this.eps = 0;
    this.sliders = Object.fromEntries(Object.entries(CHANGES).map(([key, [label]]) => [key, slider(label, {
      min: -2, max: 2, step: 0.25, value: isFactor(key) ? Math.log2(this.settings[key]) : 0,
      show: isFactor(key) ? (v) => `× ${say(2 ** v)}` : (v) => `+ ${say(v)}`,
      change: (v) => { this.settings[key] = isFactor(key) ? 2 ** v : v; this.update(); },
    })]));
    this.epsSlider = slider("ε", {
      min: -7, max: 0, step: 1, value: -7, show: (v) => (v === -7 ? "0" : `1e${say(v, 0)}`),
      change: (v) => { this.eps = v === -7 ? 0 : 10 ** v; this.update(); },
    });
    const presets = Object.entries(CHANGES).map(([key, [, name, at]]) =>
      [key, action(name, () => this.#use({ [key]: isFactor(key) ? 2 ** at : at }))]);
    this.presets = Object.fromEntries(presets);
    this.rows = Object.fromEntries(NAMES.map((name) => [name, this.#row(name)]));
    return [
      make("div", { class: "controls presets" }, ...presets.map(([, button]) => button),
        action("ε = 0.1", () => this.#use({ weightScale: 2 }, 0.1)), action("no change", () => this.#use({}))),
      make("div", { class: "sliders" }, ...Object.values(this.sliders).map((one) => one.element),
        this.epsSlider.element),
      make("div", { class: "rows" }, ...Object.values(this.rows).map((row) => row.element)),
      make("p", { class: "key" }, "The outputs of norm(Wx) for six tokens and four units. Hollow: before. Filled: after "
        + "your change. A triangle at the edge: beyond it."),
    ];
  }

  #use(some, eps = 0) {
    this.settings = { ...NEUTRAL, ...some };
    for (const [key, one] of Object.entries(this.sliders)) {
      one.show(isFactor(key) ? Math.log2(this.settings[key]) : this.settings[key]);
    }
    this.eps = eps;
    this.epsSlider.show(eps === 0 ? -7 : Math.round(Math.log10(eps)));
    this.update();
  }

  parameters() {
    const changed = Object.entries(this.settings).filter(([key, v]) => v !== NEUTRAL[key]);
    return { ...Object.fromEntries(changed), ...(this.eps ? { eps: this.eps } : {}) };
  }

  restore(asked) {
    const some = {};
    for (const key of Object.keys(CHANGES)) {
      some[key] = numberOf(asked[key], isFactor(key) ? 0.25 : -2, isFactor(key) ? 4 : 2, NEUTRAL[key]);
    }
    this.#use(some, numberOf(asked.eps, 1e-6, 1, 0));
  }

  #row(name) {
    const picture = make("svg", { viewBox: "0 0 400 34", "aria-hidden": "true" });
    const verdict = make("span", {});
    const element = make("div", { class: "row" },
      make("span", { class: "name" }, LABELS[name]), picture, verdict);
    element.style.setProperty("--norm", colourOf(name));
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
      const { picture, verdict } = this.rows[name];
      verdict.className = stays ? "stays" : "moves";
      verdict.textContent = stays
        ? "stays" : `moves by ${say(largest)}${through ? ", through ε alone" : ""}`;
      const place = (v) => 200 + (190 * Math.max(-REACH, Math.min(REACH, v))) / REACH;
      picture.replaceChildren(
        make("line", { x1: 5, x2: 395, y1: 13, y2: 13 }),
        ...[-3, -2, -1, 0, 1, 2, 3].flatMap((v) => [
          make("line", { class: "tick", x1: place(v), x2: place(v), y1: 19, y2: 23 }),
          make("text", { x: place(v), y: 33, "text-anchor": "middle" }, say(v, 0))]),
        ...(stays ? [] : before.map((v, i) => make("line",
          { class: "way", x1: place(v), x2: place(after[i]), y1: 13, y2: 13 }))),
        ...before.map((v) => make("circle", { class: "before", cx: place(v), cy: 13, r: 5.5 })),
        ...after.map((v) => (Math.abs(v) <= REACH
          ? make("circle", { class: "after", cx: place(v), cy: 13, r: 3 })
          : make("polygon", { class: "beyond",
            points: v > 0 ? "392,7 400,13 392,19" : "8,7 0,13 8,19" }))),
      );
    }
    const changed = Object.keys(NEUTRAL).filter((key) => this.settings[key] !== NEUTRAL[key]);
    for (const [key, one] of Object.entries(this.sliders)) {
      one.element.classList.toggle("idle", changed.length > 0 && !changed.includes(key));
      set(this.presets[key], { "aria-pressed": String(changed.length === 1 && changed[0] === key) });
    }
    this.epsSlider.element.classList.toggle("idle", this.eps === 0);
    const list = (names) => (names.length ? names.join(", ") : "none");
    this.announce(changed.length === 0
      ? "Nothing is changed yet. Choose a change."
      : `Outputs stay: ${list(unmoved)}. Outputs move: ${list(moved)}.`);
  }
}

customElements.define("nt-invariance", Invariance);
