// A memory in place of a statistic: one feature of PowerNorm that is active only now and then.

import { InteractiveFigure, buttons, fit, make, numberOf, oneOf, say, set, slider } from "./figure.js";

const ALPHAS = [0.8, 0.9, 0.95];
export const SHOWN = 240; // batches
export const MOST = 24; // the rarest feature

/**
 * PowerNorm's memory ψ² and its ν after each batch. A batch in which the feature is active has mean square 1,
 * and the gradient from above is the input itself; in the others all values are 0. ε is 0.
 */
export function remember(period, alpha, batches = SHOWN) {
  let [square, nu] = [1, 0];
  return Array.from({ length: batches }, (_, t) => {
    const active = t % period === 0;
    if (active) {
      const r = 1 / Math.sqrt(square);
      const left = r - nu * r * r; // the mean of e · x̂, with e = g − ν x̂
      nu += (1 - alpha) * left;
    }
    const gamma = active ? 1 / square : 0; // the mean of x̂²
    square = alpha * square + (active ? 1 - alpha : 0);
    return { active, gamma, square, nu };
  });
}

/** What an active batch multiplies the error of ν by, once ψ has settled into its cycle. */
export const factor = (period, alpha) => 1 - (1 - alpha ** period) / alpha ** (period - 1);

class Memory extends InteractiveFigure {
  static title = "A rare feature makes ν run away";

  static hint = ["a feature that is active more and more rarely, and a longer memory.",
    "ψ shrinks between two active batches. When the next one comes it is far larger than the memory, and ν overshoots."];

  static redraws = true;

  static style = `
    svg { margin-top: 0.75rem; }
    .psi { fill: none; stroke: var(--nt-muted); stroke-width: 2; }
    .nu { fill: none; stroke: var(--norm-powernorm); stroke-width: 2.5; }
    .dot { fill: var(--norm-powernorm); }
    .grid { stroke: currentColor; opacity: 0.2; }
    svg text.bold { font-weight: 700; }
  `;

  build() {
    const draw = () => this.update();
    this.period = 4;
    this.slider = slider("active in every … batch", {
      min: 1, max: MOST, step: 1, value: this.period, show: (v) => `${v}`,
      change: (v) => { this.period = v; this.update(); },
    });
    this.alpha = buttons("α", ALPHAS, draw);
    this.alpha.show(0.9);
    this.picture = make("svg", { role: "img" });
    return [
      make("div", { class: "controls" }, this.slider.element, make("span", {}, "α", this.alpha.element)),
      this.picture,
    ];
  }

  parameters() {
    return { period: `${this.period}`, alpha: `${this.alpha.value}` };
  }

  restore({ period, alpha }) {
    this.period = Math.round(numberOf(period, 1, MOST, this.period));
    this.slider.show(this.period);
    this.alpha.show(oneOf(ALPHAS, alpha, this.alpha.value));
  }

  update() {
    const all = remember(this.period, this.alpha.value);
    const height = 300;
    const width = fit(this.picture, height);
    const [left, right] = [58, 10];
    const x = (t) => left + ((width - left - right) * (t + 0.5)) / SHOWN;
    const line = (kind, values, y) => make("polyline", { class: kind, points: values.map((v, t) => `${x(t)},${y(v)}`).join(" ") });
    const rule = (at, text) => [
      make("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      make("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, text),
    ];
    // The memory above, from 0 to 1; ν below, as high as it goes.
    const psi = (v) => 24 + 84 * (1 - Math.sqrt(v));
    const top = Math.max(1, ...all.map(({ nu }) => nu));
    const low = Math.min(0, ...all.map(({ nu }) => nu));
    const nu = (v) => 150 + (118 * (top - v)) / (top - low);
    const short = (v) => say(v, Math.abs(v) < 100 ? 1 : -9);
    const last = all[all.length - 1].nu;
    const times = factor(this.period, this.alpha.value);
    const settles = Math.abs(times) < 1;
    this.picture.replaceChildren(
      make("text", { class: "bold", x: 0, y: 13 }, "the memory ψ after each batch"),
      ...rule(psi(1), "1"), ...rule(psi(0), "0"), line("psi", all.map(({ square }) => square), psi),
      make("text", { class: "bold", x: 0, y: 139 }, "ν"),
      ...rule(nu(top), short(top)), ...(low < -1 ? rule(nu(low), short(low)) : []), ...rule(nu(0), "0"),
      line("nu", all.map((one) => one.nu), nu),
      ...all.flatMap((one, t) => (one.active ? [make("circle", { class: "dot", cx: x(t), cy: nu(one.nu), r: 2.5 })] : [])),
      make("text", { x: left, y: height - 8 }, "batch 1"),
      make("text", { x: width - right, y: height - 8, "text-anchor": "end" }, `batch ${SHOWN}`),
    );
    const often = this.period === 1 ? "Active in every batch" : `Active in one of ${this.period} batches`;
    const text = `${often}, α = ${this.alpha.value}: each active batch multiplies the error of ν by ${say(times)}. `
      + (settles ? `So ν settles; after ${SHOWN} batches it is ${say(last)}.` : `So ν runs away; after ${SHOWN} batches it is ${short(last)}.`);
    set(this.picture, { "aria-label": `The memory ψ and the number ν over ${SHOWN} batches. ${text}` });
    this.announce(text);
  }
}

customElements.define("nt-memory", Memory);
