// LayerNorm's geometry for three features: drag a vector, turn the picture.

import { InteractiveFigure, action, colourOf, make, numberOf, say, slider } from "./figure.js";

const RADIUS = Math.sqrt(3);

/** LayerNorm and RMSNorm of a vector of three features, without ε and affine map. */
export function project(x) {
  const mean = (x[0] + x[1] + x[2]) / 3;
  const centred = x.map((v) => v - mean);
  const rms = (v) => Math.sqrt((v[0] ** 2 + v[1] ** 2 + v[2] ** 2) / 3);
  const onto = (v) => (rms(v) < 1e-12 ? null : v.map((e) => e / rms(v)));
  return { centred, layer: onto(centred), rms: onto(x) };
}

// An orthonormal basis of the plane in which the entries sum to zero.
const E1 = [1, -1, 0].map((v) => v / Math.SQRT2);
const E2 = [1, 1, -2].map((v) => v / Math.sqrt(6));

/** Point number i of n on the circle on which LayerNorm's outputs lie. */
export function onCircle(i, n) {
  const angle = (2 * Math.PI * i) / n;
  return E1.map((v, k) => RADIUS * (Math.cos(angle) * v + Math.sin(angle) * E2[k]));
}

const BOUND = 3.5; // of the entries
const START = { x: [2, 0.5, 1.7], turn: -25 };
const ZOOM = 56; // pixels a unit
const REACH = 26; // pixels around the point within which it is taken hold of

class Geometry extends InteractiveFigure {
  static title = "Where LayerNorm and RMSNorm put a vector";

  static hint = ["dragging the large point, or adding a constant to all three entries.",
    "LayerNorm's output stays on the circle and ignores the constant, which it subtracts along the dashed line; RMSNorm's moves on the sphere."];

  static style = `
    .both { display: grid; grid-template-columns: minmax(0, 3fr) minmax(15rem, 2fr); gap: 1rem; }
    .controls { flex-direction: column; align-items: stretch; }
    .controls label { display: grid; grid-template-columns: 6.5rem 1fr 3.5rem; }
    .controls input[type="range"] { min-width: 0; width: 100%; }
    svg { touch-action: pan-y; cursor: grab; max-height: 32rem; }
    svg text { paint-order: stroke; stroke: var(--pst-color-surface, #f5f5f5); stroke-width: 4px; user-select: none; }
    svg text.label { font-weight: 600; }
    svg text.layer-label { fill: color-mix(in srgb, var(--layer) 80%, currentColor); font-weight: 700; }
    svg text.rms-label { fill: color-mix(in srgb, var(--rms) 80%, currentColor); font-weight: 700; }
    :host { --layer: ${colourOf("LayerNorm")}; --rms: ${colourOf("RMSNorm")}; }
    details { margin-top: 0.5rem; }
    summary { cursor: pointer; padding: 0.3rem 0; }
    .presets { flex-direction: row; margin-bottom: 0.5rem; }
    .plane { fill: currentColor; opacity: 0.1; }
    .sphere { fill: none; stroke: currentColor; opacity: 0.45; }
    .circle { fill: none; stroke: var(--layer); stroke-width: 2.5; }
    .ellipse { fill: none; stroke: var(--layer); stroke-width: 1.5; stroke-dasharray: 6 4; }
    .axis { stroke: currentColor; opacity: 0.55; }
    .vector { stroke: currentColor; stroke-width: 2.5; }
    .drop { stroke: currentColor; stroke-dasharray: 3 3; opacity: 0.7; }
    .layer { stroke: var(--layer); stroke-width: 3; }
    .rms { stroke: var(--rms); stroke-width: 3; }
    .tip { fill: currentColor; cursor: move; }
    .reach { fill: transparent; }
    .layer-tip { fill: var(--layer); }
    .rms-tip { fill: var(--rms); }
    @media (max-width: 34rem) { svg text { font-size: 14px; } }
    @media (max-width: 40rem) { .both { grid-template-columns: minmax(0, 1fr); } }
  `;

  build() {
    this.x = [...START.x];
    this.turn = START.turn;
    this.tilt = 15;
    this.gamma = [1, 1, 1];
    const number = (label, array, k, from, to) => slider(label, {
      min: from, max: to, step: 0.1, value: array[k], show: (v) => say(v, 1),
      change: (v) => { array[k] = v; this.update(); },
    });
    this.coordinates = [0, 1, 2].map((k) => number(`x${"₁₂₃"[k]}`, this.x, k, -BOUND, BOUND));
    this.gammas = [0, 1, 2].map((k) => number(`γ${"₁₂₃"[k]}`, this.gamma, k, 0.2, 1.6));
    const view = slider("turn", {
      min: -180, max: 180, step: 5, value: this.turn, show: (v) => `${say(v, 0)}°`,
      change: (v) => { this.turn = v; this.update(); },
    });
    this.view = view;
    this.folded = make("details", {}, make("summary", {}, "the learned scale γ"),
      make("div", { class: "controls" }, ...this.gammas.map((one) => one.element)));
    this.picture = make("svg", {
      viewBox: "-190 -175 380 350", role: "img",
      "aria-label": "Three axes, the plane in which the entries sum to zero, the circle of radius "
        + "square root of 3 in it, and the vector with its images. The text below says where they lie.",
    });
    this.picture.addEventListener("pointerdown", (event) => this.#grab(event));
    // Under a finger the point moves; beside it the page scrolls, as it does elsewhere.
    this.picture.addEventListener("touchstart", (event) => {
      if (this.#near(event.touches[0])) event.preventDefault();
    }, { passive: false });
    const put = (name, change) => action(name, () => { this.#put(change(this.x)); });
    const reset = action("start again", () => {
      this.gamma.fill(1);
      this.gammas.forEach((one) => one.show(1));
      this.turn = START.turn;
      view.show(this.turn);
      this.#put(START.x);
    });
    return [
      make("div", { class: "both" }, this.picture,
        make("div", { class: "controls" },
          make("div", { class: "presets" }, put("add 1", (x) => x.map((v) => v + Math.min(1, BOUND - Math.max(...x)))),
            put("halve x", (x) => x.map((v) => v / 2)), put("all equal", () => [1.2, 1.2, 1.2]), reset),
          ...this.coordinates.map((one) => one.element), view.element,
          this.folded)),
    ];
  }

  #put(x) {
    x.forEach((v, k) => {
      this.x[k] = Math.max(-BOUND, Math.min(BOUND, v));
      this.coordinates[k].show(this.x[k]);
    });
    this.update();
  }

  parameters() {
    const list = (values) => values.map((v) => say(v).replaceAll("\u2212", "-")).join(" ");
    return { x: list(this.x), gamma: list(this.gamma), turn: Math.round(this.turn) };
  }

  restore({ x = "", gamma = "", turn }) {
    const read = (text, from, to, otherwise) => otherwise.map((v, k) => numberOf(text.split(" ")[k], from, to, v));
    read(gamma, 0.2, 1.6, this.gamma).forEach((v, k) => { this.gamma[k] = v; this.gammas[k].show(v); });
    this.folded.open = this.gamma.some((v) => v !== 1);
    this.turn = numberOf(turn, -180, 180, this.turn);
    this.view.show(this.turn);
    this.#put(read(x, -BOUND, BOUND, this.x));
  }

  /** Whether a touch or a click lies on the point that can be moved. */
  #near({ clientX, clientY }) {
    const box = this.picture.getBoundingClientRect();
    const unit = Math.max(380 / box.width, 350 / box.height);
    const [x, y] = this.screen(this.x);
    return Math.hypot(clientX - box.x - box.width / 2 - x / unit, clientY - box.y - box.height / 2 - y / unit) < REACH;
  }

  /** Screen coordinates of a point: turned about the third axis, tilted towards the reader. */
  screen(p) {
    const [s, c] = [Math.sin((this.turn * Math.PI) / 180), Math.cos((this.turn * Math.PI) / 180)];
    const [st, ct] = [Math.sin((this.tilt * Math.PI) / 180), Math.cos((this.tilt * Math.PI) / 180)];
    const across = -s * p[0] + c * p[1];
    const depth = c * p[0] + s * p[1];
    return [ZOOM * across, -ZOOM * (ct * p[2] - st * depth)];
  }

  /** The step in space, in the plane of the screen, of a step on the screen. */
  #unscreen(dx, dy) {
    const [s, c] = [Math.sin((this.turn * Math.PI) / 180), Math.cos((this.turn * Math.PI) / 180)];
    const [st, ct] = [Math.sin((this.tilt * Math.PI) / 180), Math.cos((this.tilt * Math.PI) / 180)];
    const [a, b] = [dx / ZOOM, -dy / ZOOM];
    return [-s * a - st * c * b, c * a - st * s * b, ct * b];
  }

  #grab(event) {
    const tip = this.#near(event);
    const box = this.picture.getBoundingClientRect();
    const unit = Math.max(380 / box.width, 350 / box.height);
    let last = [event.clientX, event.clientY];
    const move = (e) => {
      const [dx, dy] = [(e.clientX - last[0]) * unit, (e.clientY - last[1]) * unit];
      last = [e.clientX, e.clientY];
      if (tip) {
        this.#unscreen(dx, dy).forEach((d, k) => {
          this.x[k] = Math.max(-BOUND, Math.min(BOUND, this.x[k] + d));
          this.coordinates[k].show(this.x[k]);
        });
      } else {
        this.turn = ((this.turn + dx / 2 + 540) % 360) - 180;
        this.view.show(this.turn);
      }
      this.update();
    };
    const end = () => {
      this.picture.removeEventListener("pointermove", move);
      this.picture.removeEventListener("pointerup", end);
      this.picture.removeEventListener("pointercancel", end);
    };
    if (tip) event.preventDefault();
    this.picture.setPointerCapture(event.pointerId);
    this.picture.addEventListener("pointermove", move);
    this.picture.addEventListener("pointerup", end);
    this.picture.addEventListener("pointercancel", end);
  }

  #line(from, to, kind) {
    const [[x1, y1], [x2, y2]] = [this.screen(from), this.screen(to)];
    return make("line", { class: kind, x1, y1, x2, y2 });
  }

  #closed(points, kind, name = "polygon") {
    return make(name, { class: kind, points: points.map((p) => this.screen(p).join(",")).join(" ") });
  }

  #dot(p, kind, r) {
    const [cx, cy] = this.screen(p);
    return make("circle", { class: kind, cx, cy, r });
  }

  #label(p, text, kind, dx = 9, dy = 4) {
    const [x, y] = this.screen(p);
    return make("text", {
      x: Math.max(-186, Math.min(186 - 8.2 * text.length, x + dx)), y: Math.max(-160, Math.min(168, y + dy)), class: kind, "aria-hidden": "true",
    }, text);
  }

  /** Names in their places; those of the outputs keep apart. */
  #labels(layer, rms) {
    const [lx, ly] = layer ? this.screen(layer) : [0, 0];
    const [rx, ry] = rms ? this.screen(rms) : [0, 0];
    const close = layer && rms && ly > ry && ly - ry < 30 && Math.abs(lx - rx) < 90;
    return [
      make("text", { x: -52, y: ZOOM * RADIUS + 18, "aria-hidden": "true" }, "sphere: length √3"),
      this.#label(onCircle(50, 72), "circle: entries sum to 0", "", -70, 18),
      ...(layer ? [this.#label(layer, "LayerNorm", "layer-label", lx < 0 ? -88 : 9, close ? 32 : 2)] : []),
      ...(rms ? [this.#label(rms, "RMSNorm", "rms-label", 9, 17)] : []),
      this.#label(this.x, "x", "label", 12, -8),
    ];
  }

  update() {
    const { centred, layer, rms } = project(this.x);
    const origin = [0, 0, 0];
    const ring = Array.from({ length: 72 }, (_, i) => onCircle(i, 72));
    const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) =>
      E1.map((v, k) => 2.3 * (a * v + b * E2[k])));
    const axes = [0, 1, 2].flatMap((k) => {
      const far = origin.map((_, i) => (i === k ? 3 : 0));
      const [x, y] = this.screen(far.map((v) => v * 1.08));
      return [this.#line(origin, far, "axis"),
        make("text", { x, y: Math.max(y, -161), "text-anchor": "middle", "aria-hidden": "true" }, `x${"₁₂₃"[k]}`)];
    });
    const affine = (p) => p.map((v, k) => v * this.gamma[k]);
    const stretched = this.gamma.some((g) => g !== 1);
    this.picture.replaceChildren(
      this.#closed(corners, "plane"),
      make("circle", { class: "sphere", cx: 0, cy: 0, r: ZOOM * RADIUS }),
      ...axes,
      this.#closed(ring, "circle"),
      ...(stretched ? [this.#closed(ring.map(affine), "ellipse")] : []),
      this.#line(this.x, centred, "drop"),
      ...(layer ? [this.#line(origin, layer, "layer"), this.#dot(layer, "layer-tip", 5)] : []),
      ...(layer && stretched ? [this.#dot(affine(layer), "layer-tip", 4)] : []),
      ...(rms ? [this.#line(origin, rms, "rms"), this.#dot(rms, "rms-tip", 5)] : []),
      this.#line(origin, this.x, "vector"),
      this.#dot(this.x, "tip", 8),
      this.#dot(this.x, "tip reach", 18),
      ...this.#labels(layer, rms),
    );
    const list = (v) => `(${v.map((e) => say(e)).join(", ")})`;
    const out = layer
      ? `LayerNorm puts x = ${list(this.x)} at ${list(layer)}: the entries sum to 0, the length is `
        + `${say(RADIUS)}, the root of 3.`
      : `All entries of x = ${list(this.x)} are equal: LayerNorm has nothing left to scale.`;
    this.announce(`${out} ${rms ? `RMSNorm puts it at ${list(rms)}: the same length, x's own direction.` : ""}`
      + (stretched && layer ? ` With γ LayerNorm's output is ${list(affine(layer))}, on an ellipse.` : ""));
  }
}

customElements.define("nt-geometry", Geometry);
