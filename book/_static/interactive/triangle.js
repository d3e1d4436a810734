// The right triangle: a gradient perpendicular to the weights makes them longer, and longer weights turn
// more slowly.

import { InteractiveFigure, action, fit, make, numberOf, say, set, slider } from "./figure.js";

export const TARGET = Math.PI / 2; // the direction with the least loss, as an angle

/** The loss 1 − cos of the angle to the target sees the direction of w only. Its gradient: */
export function gradient(w) {
  const length = Math.hypot(...w);
  const [u, v] = w.map((e) => e / length);
  const [s, t] = [Math.cos(TARGET), Math.sin(TARGET)];
  const along = s * u + t * v;
  return [(-s + along * u) / length, (-t + along * v) / length];
}

/** One step of gradient descent: the step, the new weights, their length, the angle between. */
export function descend(w, rate) {
  const step = gradient(w).map((g) => -rate * g);
  const next = w.map((e, k) => e + step[k]);
  const angle = Math.atan2(w[0] * next[1] - w[1] * next[0], w[0] * next[0] + w[1] * next[1]);
  return { step, next, length: Math.hypot(...next), angle };
}

export const RATE = 0.25;
const START = 0.25; // the direction of the weights at first, as an angle

class Triangle extends InteractiveFigure {
  static title = "Longer weights turn more slowly";

  static hint = ["a weight vector ten times longer, at the same learning rate.",
    "the gradient shrinks to a tenth, and the angle of the step to a hundredth."];

  static redraws = true;

  static style = `
    .weights { stroke: currentColor; stroke-width: 3; }
    .step { stroke: var(--other-crimson); stroke-width: 4; }
    .next { stroke: currentColor; stroke-width: 3; stroke-dasharray: 8 4; }
    .arc { fill: none; stroke: var(--nt-accent); stroke-width: 2; }
    .right { fill: none; stroke: currentColor; }
    .ghost { stroke: currentColor; opacity: 0.3; stroke-width: 1.5; fill: none; }
    svg text { paint-order: stroke; stroke: var(--pst-color-surface, #f5f5f5); stroke-width: 4px; }
    svg text.bold { font-weight: 700; }
    table { border-collapse: collapse; margin-top: 0.5rem; font-variant-numeric: tabular-nums; }
    th, td { padding: 0.2rem 0.9rem 0.2rem 0; text-align: right; font-weight: 400; }
    th:first-child { text-align: left; }
    thead th { color: var(--nt-muted); }
    tbody tr:last-child { font-weight: 700; }
    tbody tr:last-child th { font-weight: 700; }
  `;

  build() {
    this.length = 1;
    this.direction = START;
    this.slider = slider("length of w", {
      min: 0, max: 1, step: 0.05, value: 0, show: (v) => say(10 ** v, 1),
      change: (v) => this.#put(10 ** v),
    });
    this.picture = make("svg", { role: "img" });
    this.body = make("tbody", {});
    return [
      make("div", { class: "controls" }, this.slider.element,
        action("ten times longer", () => this.#put(10)),
        action("take the step", () => this.#take()),
        action("start again", () => this.#put(1))),
      this.picture,
      make("table", {},
        make("thead", {}, make("tr", {}, ...["w", "length", "step", "angle"].map((name) =>
          make("th", { scope: "col" }, name)))),
        this.body),
    ];
  }

  parameters() {
    return { length: say(this.length, 2) };
  }

  restore({ length }) {
    this.#set(numberOf(length, 1, 10, this.length));
  }

  /** A weight vector of another length, in the direction of the start. */
  #set(length) {
    this.length = length;
    this.direction = START;
    this.slider.show(Math.log10(length));
  }

  #put(length) {
    this.#set(length);
    this.update();
  }

  get weights() {
    return [this.length * Math.cos(this.direction), this.length * Math.sin(this.direction)];
  }

  #take() {
    const { next, length } = descend(this.weights, RATE);
    this.direction = Math.atan2(next[1], next[0]);
    this.length = Math.min(length, 99);
    this.slider.show(Math.log10(this.length));
    this.update();
  }

  update() {
    const w = this.weights;
    const { step, next, length, angle } = descend(w, RATE);
    const unit = descend([Math.cos(this.direction), Math.sin(this.direction)], RATE);
    const size = Math.hypot(...step);
    const height = 240;
    const width = fit(this.picture, height);
    // The whole triangle fits whatever its length; the ghost shows a vector of length 1 beside it.
    const most = Math.max(1.05, length * Math.max(1, Math.cos(this.direction)));
    const zoom = Math.min((width - 80) / most, (height - 46) / Math.max(0.62, next[1], 0.3 * most));
    const at = ([a, b]) => [24 + zoom * a, height - 22 - zoom * b];
    const line = (from, to, kind) => {
      const [[x1, y1], [x2, y2]] = [at(from), at(to)];
      return make("line", { class: kind, x1, y1, x2, y2 });
    };
    const head = (from, to, kind) => {
      const [[x1, y1], [x2, y2]] = [at(from), at(to)];
      const turn = Math.atan2(y2 - y1, x2 - x1);
      const far = Math.hypot(x2 - x1, y2 - y1);
      const r = Math.min(11, far);
      const corner = (side) => `${x2 - r * Math.cos(turn + side * 0.4)},${y2 - r * Math.sin(turn + side * 0.4)}`;
      return make("polygon", { class: kind, points: `${x2},${y2} ${corner(1)} ${corner(-1)}`,
        style: "fill: currentColor; stroke: none" });
    };
    const label = (p, text, dx, dy, kind = "") => {
      const [x, y] = at(p);
      return make("text", { x: x + dx, y: y + dy, class: kind }, text);
    };
    // The right angle at the tip of w.
    const side = Math.min(12, zoom * size * 0.6);
    const [ux, uy] = [Math.cos(this.direction), Math.sin(this.direction)];
    const [tx, ty] = at(w);
    const corner = [[-ux, uy], [-ux - uy, uy - ux], [-uy, -ux]]
      .map(([a, b]) => `${tx + side * a},${ty + side * b}`).join(" ");
    const radius = Math.min(0.75, 0.45 * this.length) * zoom;
    const [ox, oy] = at([0, 0]);
    const bend = (phi) => `${ox + radius * Math.cos(phi)},${oy - radius * Math.sin(phi)}`;
    const ghost = this.length > 1.3
      ? [line([0, 0], unit.next, "ghost"), make("circle", { class: "ghost", cx: ox, cy: oy, r: zoom }),
        label([0.5, 0], "length 1", 0, 16)]
      : [];
    this.picture.replaceChildren(
      ...ghost,
      line([0, 0], next, "next"), line([0, 0], w, "weights"), line(w, next, "step"),
      head([0, 0], w, "weights"), head([0, 0], next, "next"),
      make("polyline", { class: "right", points: corner }),
      make("path", { class: "arc", d: `M${bend(this.direction)}A${radius},${radius} 0 0 0 ${bend(this.direction + angle)}` }),
      label(w.map((e) => 0.72 * e), "w", 0, 18, "bold"),
      label(next, "w after the step", -Math.min(118, at(next)[0]), -8, "bold"),
      label(w.map((e, k) => e + 0.5 * step[k]), "step", 8, 4, "bold"),
    );
    const degrees = (v) => `${say((v * 180) / Math.PI, Math.abs(v) < 0.017 ? 3 : 1)}°`;
    const row = (name, a, b, c) => make("tr", {}, make("th", { scope: "row" }, name),
      ...[a, b, c].map((text) => make("td", {}, text)));
    this.body.replaceChildren(
      row("length 1", "1.00", say(Math.hypot(...unit.step), 3), degrees(unit.angle)),
      row("yours", say(this.length), say(size, 3), degrees(angle)),
    );
    const text = `The gradient is perpendicular to w, so the step makes w longer: ${say(this.length)} becomes ${say(length, 3)}. `
      + (this.length > 1.02
        ? `The step is ${say(Math.hypot(...unit.step) / size, 1)} times shorter than at length 1, and turns w by `
          + `${degrees(angle)}: ${say(unit.angle / angle, 0)} times less.`
        : `It turns w by ${degrees(angle)}.`);
    set(this.picture, { "aria-label": `The weight vector w, a step perpendicular to it, and the longer vector after the step. ${text}` });
    this.announce(text);
  }
}

customElements.define("nt-triangle", Triangle);
