// Padding: a slider appends empty tokens to a sentence; what BatchNorm then makes of the real ones.

import { InteractiveFigure, fit, make, numberOf, say, set, slider } from "./figure.js";
import { normalize } from "./norms.js";

/** One feature of six real tokens. */
export const TOKENS = [2.1, 1.2, 3.0, 1.7, 2.6, 0.9];
const MOST = 18;

/** The real tokens and `count` empty ones through BatchNorm, which counts the empty ones or not. */
export function padded(count, masked) {
  const values = [...TOKENS, ...new Array(count).fill(0)];
  const mask = values.map((_, i) => i < TOKENS.length);
  const cells = normalize("BatchNorm", values, [1, values.length, 1], { mask: masked ? mask : null });
  const { mean, square } = cells[0];
  return { mean, deviation: Math.sqrt(square), outputs: cells.slice(0, TOKENS.length).map(({ y }) => y) };
}

class Padding extends InteractiveFigure {
  static title = "Padding moves the real tokens";

  static hint = ["appending padding with the slider.",
    "the same six real tokens slide under BatchNorm, unless a mask keeps the padding out of its statistics."];

  static redraws = true;

  static style = `
    svg { margin-top: 0.5rem; }
    .axis { stroke: currentColor; opacity: 0.5; }
    .real { fill: var(--norm-batchnorm); }
    .pad { fill: none; stroke: var(--nt-muted); stroke-width: 1.5; }
    .move { stroke: var(--norm-batchnorm); opacity: 0.5; }
    .mean { stroke: var(--norm-batchnorm); stroke-width: 3; }
    .still { stroke: var(--nt-muted); stroke-width: 2; stroke-dasharray: 5 3; }
    svg text.head { font-weight: 600; }
    svg text.small { font-size: 12px; }
  `;

  build() {
    this.count = 6;
    this.slider = slider("padding tokens", {
      min: 0, max: MOST, step: 1, value: this.count, show: (v) => say(v, 0),
      change: (v) => { this.count = v; this.update(); },
    });
    this.picture = make("svg", { role: "img" });
    return [make("div", { class: "controls" }, this.slider.element), this.picture];
  }

  parameters() {
    return { padding: this.count };
  }

  restore({ padding }) {
    this.count = Math.round(numberOf(padding, 0, MOST, this.count));
    this.slider.show(this.count);
  }

  update() {
    const [counted, masked, alone] = [padded(this.count, false), padded(this.count, true), padded(0, false)];
    const height = 354;
    const width = fit(this.picture, height);
    const scale = (from, to) => (v) => 16 + ((width - 32) * (v - from)) / (to - from);
    const [before, after] = [scale(-0.6, 3.6), scale(-2.2, 3)];
    const marks = [];
    const axis = (at, y, ticks) => marks.push(
      make("line", { class: "axis", x1: 8, x2: width - 8, y1: y, y2: y }),
      ...ticks.flatMap((v) => [
        make("line", { class: "axis", x1: at(v), x2: at(v), y1: y, y2: y + 5 }),
        make("text", { class: "small", x: at(v), y: y + 18, "text-anchor": "middle" }, say(v, 0))]),
    );
    const head = (y, ...text) => marks.push(make("text", { class: "head", x: 0, y }, ...text));
    const dot = (at, v, y, kind = "real", r = 6) =>
      marks.push(make("circle", { class: kind, cx: at(v), cy: y, r }));
    /** A mean with one standard deviation to each side. */
    const bracket = ({ mean, deviation }, y, kind) => marks.push(
      make("line", { class: kind, x1: before(mean - deviation), x2: before(mean + deviation), y1: y, y2: y }),
      make("line", { class: kind, x1: before(mean), x2: before(mean), y1: y - 7, y2: y + 7 }));

    head(14, "before: real tokens, padding (hollow)");
    axis(before, 84, [0, 1, 2, 3]);
    TOKENS.forEach((v) => dot(before, v, 75));
    for (let i = 0; i < this.count; i += 1) {
      const column = Math.floor(i / 4) - Math.floor((this.count - 1) / 4) / 2;
      marks.push(make("circle", { class: "pad", cx: before(0) + 12 * column, cy: 75 - 12 * (i % 4), r: 5 }));
    }
    bracket(counted, 118, "mean");
    marks.push(make("text", { class: "small", x: Math.min(before(counted.mean + counted.deviation) + 8, width - 62), y: 122 },
      "all"));
    bracket(masked, 140, "still");
    marks.push(make("text", { class: "small", x: Math.min(before(masked.mean + masked.deviation) + 8, width - 62), y: 144 },
      "real ones"));
    marks.push(make("text", { class: "small", x: 0, y: 166 }, "mean ± one standard deviation"));

    head(200, "padding counted (small dots: without it)");
    axis(after, 240, [-2, -1, 0, 1, 2, 3]);
    counted.outputs.forEach((v, i) => {
      const from = alone.outputs[i];
      if (Math.abs(v - from) > 0.02) {
        marks.push(make("line", { class: "move", x1: after(from), x2: after(v), y1: 213, y2: 231 }));
      }
      dot(after, from, 213, "real", 3);
      dot(after, v, 231);
    });
    head(292, "padding masked");
    axis(after, 332, [-2, -1, 0, 1, 2, 3]);
    masked.outputs.forEach((v) => dot(after, v, 323));
    this.picture.replaceChildren(...marks);
    const largest = Math.max(...counted.outputs.map((v, i) => Math.abs(v - alone.outputs[i])));
    const text = this.count === 0
      ? `No padding: mean ${say(alone.mean)}, standard deviation ${say(alone.deviation)}. Both versions agree.`
      : `${this.count} padding tokens: the mean falls from ${say(alone.mean)} to ${say(counted.mean)}, and a real token `
        + `moves by up to ${say(largest)} under BatchNorm. With a mask nothing moves.`;
    set(this.picture, { "aria-label": `Number lines of one feature before and after BatchNorm. ${text}` });
    this.announce(text);
  }
}

customElements.define("nt-padding", Padding);
