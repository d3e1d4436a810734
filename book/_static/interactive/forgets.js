// What LayerNorm forgets of a token: its mean and its scale. RMSNorm forgets the scale alone.

import { InteractiveFigure, action, colourOf, fit, make, numberOf, say, set, slider } from "./figure.js";
import { normalize } from "./norms.js";

/** A token with five features. */
export const TOKEN = [0.4, 2.2, -0.9, 1.3, 0.2];

/** LayerNorm or RMSNorm of one token, without affine map and with an ε too small to matter here. */
export const through = (name, x) =>
  normalize(name, x, [1, 1, x.length], { eps: 1e-12 }).map(({ y }) => y);

const ROWS = ["", "LayerNorm", "RMSNorm"];

class Forgets extends InteractiveFigure {
  static title = "What LayerNorm forgets of a token";

  static hint = ["other factors and shifts for the token in the middle.",
    "LayerNorm gives the same output again, as long as the factor is positive. RMSNorm notices the shift."];

  static redraws = true;

  static style = `
    svg { margin-top: 0.75rem; }
    .bar { fill: var(--nt-muted); }
    .zero { stroke: currentColor; opacity: 0.6; }
    .layer { fill: ${colourOf("LayerNorm")}; }
    .rms { fill: ${colourOf("RMSNorm")}; }
    svg text.bold { font-weight: 700; }
    svg text.small { font-size: 12px; }
    .cut { stroke: var(--pst-color-surface, #f5f5f5); stroke-width: 3; }
  `;

  build() {
    [this.factor, this.shift] = [3, 2];
    this.sliders = [
      slider("times", { min: -3, max: 3, step: 0.25, value: 3, show: (v) => say(v), change: (v) => { this.factor = v; this.update(); } }),
      slider("plus", { min: -3, max: 3, step: 0.25, value: 2, show: (v) => say(v), change: (v) => { this.shift = v; this.update(); } }),
    ];
    this.picture = make("svg", { role: "img" });
    return [
      make("div", { class: "controls" }, ...this.sliders.map(({ element }) => element),
        action("3x + 2", () => this.#use(3, 2)), action("2x", () => this.#use(2, 0)), action("x + 2", () => this.#use(1, 2))),
      this.picture,
    ];
  }

  parameters() {
    return { times: this.factor, plus: this.shift };
  }

  restore({ times, plus }) {
    this.#use(numberOf(times, -3, 3, this.factor), numberOf(plus, -3, 3, this.shift));
  }

  #use(factor, shift) {
    [this.factor, this.shift] = [factor, shift];
    this.sliders[0].show(factor);
    this.sliders[1].show(shift);
    this.update();
  }

  #name() {
    const number = (v) => say(v, Number.isInteger(v) ? 0 : 2);
    const part = this.factor === 1 ? "x" : this.factor === -1 ? "−x" : this.factor === 0 ? "" : `${number(this.factor)}x`;
    const plus = `${this.shift < 0 ? "−" : "+"} ${number(Math.abs(this.shift))}`;
    return this.shift === 0 ? part || "0" : part ? `${part} ${plus}` : number(this.shift);
  }

  update() {
    const tokens = [TOKEN, TOKEN.map((v) => this.factor * v + this.shift), TOKEN.map((v) => -v)];
    const names = ["x", this.#name(), "−x"];
    const height = 366;
    const width = fit(this.picture, height);
    const each = width / 3;
    const marks = [];
    const far = (a, b) => Math.max(...a.map((v, i) => Math.abs(v - b[i])));
    const verdicts = {};
    ROWS.forEach((norm, row) => {
      const middle = [70, 196, 316][row];
      const zoom = row ? 18 : 7.5;
      const outputs = tokens.map((x) => (norm ? through(norm, x) : x));
      marks.push(make("text", { class: "bold", x: 0, y: middle - [56, 58, 52][row] },
        norm ? `after ${norm}` : "before"));
      outputs.forEach((values, k) => {
        const w = Math.min(30, (each - 24) / 5);
        const left = k * each + 8;
        marks.push(make("line", { class: "zero", x1: left, x2: left + 5 * w, y1: middle, y2: middle }));
        values.forEach((v, i) => {
          const size = zoom * Math.abs(v);
          marks.push(make("rect", {
            class: `bar ${norm === "LayerNorm" ? "layer" : norm ? "rms" : ""}`,
            x: left + i * w + 1.5, y: v > 0 ? middle - size : middle, width: w - 3, height: size,
          }));
        });
        let text = names[k];
        if (norm && k) {
          text = far(values, outputs[0]) < 1e-6 ? "= as from x"
            : far(values, outputs[0].map((v) => -v)) < 1e-6 ? "mirrored" : "different";
          verdicts[norm + k] = text;
        }
        if (!norm || k) {
          marks.push(make("text", { class: norm ? "small" : "bold", x: left, y: middle + (norm ? 48 : 34) }, text));
        }
      });
    });
    this.picture.replaceChildren(...marks);
    const say_ = (norm) => ({
      "= as from x": `${norm} gives the same output for ${names[1]} and for x`,
      mirrored: `${norm} turns ${names[1]} into the mirror image`,
      different: `${norm} makes something else of ${names[1]} than of x`,
    })[verdicts[`${norm}1`]];
    const text = this.factor === 0
      ? `${names[1]} is constant: LayerNorm has nothing left to scale.`
      : `${say_("LayerNorm")}; ${say_("RMSNorm")}. Both mirror −x: the sign is not forgotten.`;
    set(this.picture, { "aria-label": `Bars of x, ${names[1]} and −x before and after LayerNorm and RMSNorm. ${text}` });
    this.announce(text);
  }
}

customElements.define("nt-forgets", Forgets);
