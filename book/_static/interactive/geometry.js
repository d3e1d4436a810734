// LayerNorm's geometry for three features: drag a vector, turn the picture.

import { InteractiveFigure, make, say, slider } from "./figure.js";

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

class Geometry extends InteractiveFigure {
  static title = "Where LayerNorm and RMSNorm put a vector";

  static style = `
    .both { display: grid; grid-template-columns: minmax(0, 3fr) minmax(15rem, 2fr); gap: 1rem; }
    .controls { flex-direction: column; align-items: stretch; }
    .controls label { display: grid; grid-template-columns: 6.5rem 1fr 3.5rem; }
    .controls input[type="range"] { min-width: 0; width: 100%; }
    svg { touch-action: pan-y; cursor: grab; max-height: 32rem; }
    .plane { fill: var(--nt-accent); opacity: 0.13; }
    .sphere { fill: none; stroke: currentColor; opacity: 0.45; }
    .circle { fill: none; stroke: var(--nt-accent); stroke-width: 2.5; }
    .ellipse { fill: none; stroke: var(--nt-accent); stroke-width: 1.5; stroke-dasharray: 6 4; }
    .axis { stroke: currentColor; opacity: 0.55; }
    .vector { stroke: currentColor; stroke-width: 2.5; }
    .drop { stroke: currentColor; stroke-dasharray: 3 3; opacity: 0.7; }
    .layer { stroke: var(--nt-accent); stroke-width: 3; }
    .rms { stroke: var(--nt-second); stroke-width: 3; }
    .tip { fill: currentColor; cursor: move; touch-action: none; }
    .reach { fill: transparent; }
    .layer-tip { fill: var(--nt-accent); }
    .rms-tip { fill: var(--nt-second); }
    @media (max-width: 40rem) { .both { grid-template-columns: minmax(0, 1fr); } }
  `;

  build() {
    this.x = [2.3, 0.4, 1.5];
    this.turn = -25;
    this.tilt = 15;
    this.gamma = [1, 1, 1];
    const number = (label, array, k, from, to) => slider(label, {
      min: from, max: to, step: 0.1, value: array[k], show: (v) => say(v, 1),
      change: (v) => { array[k] = v; this.update(); },
    });
    this.coordinates = [0, 1, 2].map((k) => number(`x${"₁₂₃"[k]}`, this.x, k, -2.5, 2.5));
    const gammas = [0, 1, 2].map((k) => number(`γ${"₁₂₃"[k]}`, this.gamma, k, 0.2, 1.6));
    const view = slider("turn", {
      min: -180, max: 180, step: 5, value: this.turn, show: (v) => `${say(v, 0)}°`,
      change: (v) => { this.turn = v; this.update(); },
    });
    this.view = view;
    this.picture = make("svg", {
      viewBox: "-190 -175 380 350", role: "img",
      "aria-label": "Three axes, the plane in which the entries sum to zero, the circle of radius "
        + "square root of 3 in it, and the vector with its images. The text below says where they lie.",
    });
    this.picture.addEventListener("pointerdown", (event) => this.#grab(event));
    return [
      make("div", { class: "both" }, this.picture,
        make("div", { class: "controls" }, ...this.coordinates.map((one) => one.element),
          view.element, ...gammas.map((one) => one.element))),
      make("p", {}, "Drag the large point, or the background to turn. Blue: LayerNorm, on the circle; "
        + "dashed after γ. Orange: RMSNorm, on the sphere."),
    ];
  }

  /** Screen coordinates of a point: turned about the third axis, tilted towards the reader. */
  screen(p) {
    const [s, c] = [Math.sin((this.turn * Math.PI) / 180), Math.cos((this.turn * Math.PI) / 180)];
    const [st, ct] = [Math.sin((this.tilt * Math.PI) / 180), Math.cos((this.tilt * Math.PI) / 180)];
    const across = -s * p[0] + c * p[1];
    const depth = c * p[0] + s * p[1];
    return [66 * across, -66 * (ct * p[2] - st * depth)];
  }

  /** The step in space, in the plane of the screen, of a step on the screen. */
  #unscreen(dx, dy) {
    const [s, c] = [Math.sin((this.turn * Math.PI) / 180), Math.cos((this.turn * Math.PI) / 180)];
    const [st, ct] = [Math.sin((this.tilt * Math.PI) / 180), Math.cos((this.tilt * Math.PI) / 180)];
    const [a, b] = [dx / 66, -dy / 66];
    return [-s * a - st * c * b, c * a - st * s * b, ct * b];
  }

  #grab(event) {
    const tip = event.target.classList.contains("tip");
    const box = this.picture.getBoundingClientRect();
    const unit = Math.max(380 / box.width, 350 / box.height);
    let last = [event.clientX, event.clientY];
    const move = (e) => {
      const [dx, dy] = [(e.clientX - last[0]) * unit, (e.clientY - last[1]) * unit];
      last = [e.clientX, e.clientY];
      if (tip) {
        this.#unscreen(dx, dy).forEach((d, k) => {
          this.x[k] = Math.max(-2.5, Math.min(2.5, this.x[k] + d));
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

  update() {
    const { centred, layer, rms } = project(this.x);
    const origin = [0, 0, 0];
    const ring = Array.from({ length: 72 }, (_, i) => onCircle(i, 72));
    const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) =>
      E1.map((v, k) => 2.3 * (a * v + b * E2[k])));
    const axes = [0, 1, 2].flatMap((k) => {
      const far = origin.map((_, i) => (i === k ? 2.4 : 0));
      const [x, y] = this.screen(far.map((v) => v * 1.08));
      return [this.#line(origin, far, "axis"),
        make("text", { x, y, "text-anchor": "middle", "aria-hidden": "true" }, `x${"₁₂₃"[k]}`)];
    });
    const affine = (p) => p.map((v, k) => v * this.gamma[k]);
    const stretched = this.gamma.some((g) => g !== 1);
    this.picture.replaceChildren(
      this.#closed(corners, "plane"),
      make("circle", { class: "sphere", cx: 0, cy: 0, r: 66 * RADIUS }),
      ...axes,
      this.#closed(ring, "circle"),
      ...(stretched ? [this.#closed(ring.map(affine), "ellipse")] : []),
      this.#line(this.x, centred, "drop"),
      ...(layer ? [this.#line(origin, layer, "layer"), this.#dot(layer, "layer-tip", 5)] : []),
      ...(layer && stretched ? [this.#dot(affine(layer), "layer-tip", 4)] : []),
      ...(rms ? [this.#line(origin, rms, "rms"), this.#dot(rms, "rms-tip", 5)] : []),
      this.#line(origin, this.x, "vector"),
      this.#dot(this.x, "tip", 6),
      this.#dot(this.x, "tip reach", 18),
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
