// Who sees the future: edit the last token of a sentence, and see which norm moves the first one.

import { InteractiveFigure, buttons, colourOf, fit, make, numberOf, oneOf, say, set, slider }
  from "./figure.js";
import { at, normalize } from "./norms.js";

export const SHAPE = [2, 6, 4];
const WORDS = ["the", "cat", "sat", "on", "the", "mat"];
const NORMS = ["BatchNorm", "InstanceNorm", "GroupNorm", "LayerNorm", "RMSNorm"];
const SEES = {
  BatchNorm: "every token of the batch", InstanceNorm: "every token of this sentence",
  GroupNorm: "every token of this sentence", LayerNorm: "one token alone", RMSNorm: "one token alone",
};

/** Two sentences of six tokens with four features. */
export const START = [
  0.6, -0.8, 1.1, 0.2, 1.4, 0.3, -0.6, 0.9, -0.4, 1.2, 0.5, -1.0,
  0.2, -0.3, 0.8, 1.3, 0.6, -0.8, 1.1, 0.2, 1.0, 0.7, -0.9, 0.4,
  -0.7, 0.4, 1.3, 0.8, 0.5, -1.1, 0.3, 1.2, 1.5, 0.2, -0.2, -0.6,
  -0.3, 0.9, 0.7, 0.1, 0.8, -0.5, 1.0, -0.9, 0.4, 1.1, -0.7, 0.6,
];
const EDIT = [1, -0.6, 0.8, -1];

/** The block after an edit of the last token of the first sentence. */
export function edited(amount) {
  const values = [...START];
  EDIT.forEach((v, h) => { values[at(SHAPE, 0, SHAPE[1] - 1, h)] += amount * v; });
  return values;
}

/** What a norm puts out before and after the edit, and by how much each token of the sentence moves. */
export function moved(name, amount) {
  const [before, after] = [0, amount].map((a) => normalize(name, edited(a), SHAPE).map(({ y }) => y));
  const moves = WORDS.map((_, l) => Math.max(...EDIT.map((__, h) =>
    Math.abs(after[at(SHAPE, 0, l, h)] - before[at(SHAPE, 0, l, h)]))));
  return { before, after, moves };
}

class Future extends InteractiveFigure {
  static title = "Who sees the future?";

  static hint = ["editing the last token, then another norm.",
    "under BatchNorm, InstanceNorm and GroupNorm the first token changes; under LayerNorm and RMSNorm it does not."];

  static redraws = true;

  static style = `
    svg { margin-top: 0.75rem; }
    .bar { fill: var(--norm); }
    .input { fill: var(--nt-muted); }
    .ghost { fill: none; stroke: currentColor; stroke-width: 1.3; stroke-dasharray: 3 2; }
    .zero { stroke: currentColor; opacity: 0.5; }
    .box { fill: none; stroke: currentColor; opacity: 0.25; }
    .moved { stroke-width: 3; opacity: 1; stroke: var(--norm); }
    svg text.bold { font-weight: 700; }
    svg text.small { font-size: 12px; }
  `;

  build() {
    this.amount = 2;
    this.norm = buttons("norm", NORMS, () => this.update());
    this.slider = slider("edit the last token", {
      min: -3, max: 3, step: 0.1, value: this.amount, show: (v) => say(v, 1),
      change: (v) => { this.amount = v; this.update(); },
    });
    this.picture = make("svg", { role: "img" });
    return [
      make("div", { class: "controls" }, this.slider.element, this.norm.element),
      this.picture,
    ];
  }

  parameters() {
    return { norm: this.norm.value, edit: this.amount };
  }

  restore({ norm, edit }) {
    this.norm.show(oneOf(NORMS, norm, this.norm.value));
    this.amount = numberOf(edit, -3, 3, this.amount);
    this.slider.show(this.amount);
  }

  update() {
    const name = this.norm.value;
    this.style.setProperty("--norm", colourOf(name));
    const { before, after, moves } = moved(name, this.amount);
    const input = edited(this.amount);
    const height = 300;
    const width = fit(this.picture, height);
    const each = width / WORDS.length;
    const marks = [];
    const bars = (values, l, middle, kind, zoom) => EDIT.forEach((_, h) => {
      const v = values[at(SHAPE, 0, l, h)];
      const size = zoom * Math.abs(v);
      const w = (each - 18) / 4;
      marks.push(make("rect", {
        class: kind, x: l * each + 9 + h * w + 1, y: v > 0 ? middle - size : middle, width: w - 2, height: size,
      }));
    });
    marks.push(make("text", { class: "bold", x: 0, y: 13 }, "in"),
      make("text", { class: "bold", x: 0, y: 159 }, `out of ${name}`),
      make("text", { class: "small", x: width, y: 13, "text-anchor": "end" }, "dashed: before the edit"),
      make("text", { class: "small", x: width, y: 159, "text-anchor": "end" }, "below: the largest change"));
    WORDS.forEach((word, l) => {
      const middle = l * each + each / 2;
      const last = l === WORDS.length - 1;
      const stays = moves[l] < 1e-9;
      marks.push(
        make("rect", { class: "box", x: l * each + 3, y: 22, width: each - 6, height: 114, rx: 5 }),
        make("text", { class: last ? "bold" : "", x: middle, y: 38, "text-anchor": "middle" }, last ? `${word} ✎` : word),
        make("line", { class: "zero", x1: l * each + 8, x2: (l + 1) * each - 8, y1: 88, y2: 88 }),
        make("rect", { class: `box ${stays ? "" : "moved"}`, x: l * each + 3, y: 168, width: each - 6, height: 106, rx: 5 }),
        make("line", { class: "zero", x1: l * each + 8, x2: (l + 1) * each - 8, y1: 221, y2: 221 }),
        make("text", { class: stays ? "small" : "small bold", x: middle, y: 291, "text-anchor": "middle" },
          stays ? "stays" : `by ${say(moves[l])}`),
      );
      bars(input, l, 88, "input", 11);
      if (last) bars(edited(0), l, 88, "ghost", 11);
      bars(after, l, 221, "bar", 17);
      if (!stays) bars(before, l, 221, "ghost", 17);
    });
    this.picture.replaceChildren(...marks);
    const count = moves.slice(0, -1).filter((v) => v > 1e-9).length;
    const text = this.amount === 0
      ? "Nothing is edited yet."
      : count
        ? `${name} takes its statistic from ${SEES[name]}: the edit of the last token moves ${count === 5 ? "all five" : count} tokens before it, `
          + `the first by ${say(moves[0])}. In training, they have seen the future.`
        : `${name} takes its statistic from ${SEES[name]}: only the last token moves. The past does not depend on the future.`;
    set(this.picture, { "aria-label": `Six tokens with four features each, before and after ${name}. ${text}` });
    this.announce(text);
  }
}

customElements.define("nt-future", Future);
