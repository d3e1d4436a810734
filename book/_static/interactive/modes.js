// Training and evaluation of BatchNorm: batches stream past, a running mean trails behind them.

import { InteractiveFigure, action, buttons, fit, make, oneOf, say, set } from "./figure.js";
import { Chance } from "./network.js";
import { TRAINABLE, moments } from "./norms.js";

const MODES = ["training", "evaluation"];
const KINDS = ["mixed", "short or long"];
const TOKENS = 16;
const SHOWN = 26; // batches at first, and at most on a wide screen
const MOST = 400; // then the stream ends
const PERIOD = 500; // milliseconds from batch to batch

/** Batch number i: one feature of sixteen tokens, small in short sentences, large in long ones. */
export function batch(i, kind) {
  const chance = new Chance(500 + i);
  const long = chance.uniform() < 0.5;
  return Float64Array.from({ length: TOKENS }, (_, k) => {
    const centre = (kind === "mixed" ? k % 2 === 0 : long) ? 1.2 : -0.8;
    return centre + 0.5 * chance.normal();
  });
}

/** The first `count` batches: the mean of each, and the running mean after it. */
export function stream(schedule) {
  const norm = new TRAINABLE.BatchNorm(1);
  return schedule.map(({ kind, mode }, i) => {
    const values = batch(i, kind);
    const own = moments(values, 0, 1, TOKENS, true);
    const trained = norm.forward(values, TOKENS, false).slice(); // with the running statistic before it
    if (mode === "training") norm.forward(values, TOKENS, true);
    return {
      values, kind, mode, mean: own.mean, deviation: Math.sqrt(own.square),
      running: norm.running_mean[0], variance: norm.running_var[0], evaluated: trained,
    };
  });
}

class Modes extends InteractiveFigure {
  static title = "The running mean trails behind the batches";

  static hint = ["the next batch a few times, then evaluation, then mixed batches.",
    "the running mean lies between short and long sentences and fits neither; in evaluation it stands still. Dotted: how far the last batch is from it."];

  static redraws = true;

  static style = `
    svg { margin-top: 0.75rem; }
    .value { fill: var(--nt-muted); opacity: 0.55; }
    .mean { stroke: currentColor; stroke-width: 3; }
    .running { fill: none; stroke: var(--norm-batchnorm); stroke-width: 3; }
    .frozen { stroke-dasharray: 6 4; }
    .grid { stroke: currentColor; opacity: 0.15; }
    .gap { stroke: var(--norm-batchnorm); stroke-width: 1.5; stroke-dasharray: 2 2; }
    svg text.bold { font-weight: 700; }
    svg text.blue { fill: var(--norm-batchnorm); font-weight: 700; }
    @media (prefers-reduced-motion: reduce) { .play { display: none; } }
  `;

  build() {
    // A change shows on the batch that comes next.
    const next = () => { this.#more(1); this.update(); };
    this.mode = buttons("mode", MODES, next);
    this.kind = buttons("batches", KINDS, next);
    this.kind.show("short or long");
    this.play = action("Play", () => this.#toggle());
    this.play.className = "play";
    this.schedule = [];
    this.#more(SHOWN);
    this.picture = make("svg", { role: "img" });
    this.hides = () => { if (document.hidden) this.#stop(); };
    document.addEventListener("visibilitychange", this.hides);
    return [
      make("div", { class: "controls" }, this.play, action("next batch", () => { this.#stop(); this.#more(1); this.update(); }),
        make("span", {}, "mode", this.mode.element), make("span", {}, "batches", this.kind.element),
        action("start again", () => this.#again())),
      this.picture,
    ];
  }

  /** Stretches of batches, such as 26st.4se: how many, short or long or mixed, training or evaluation. */
  parameters() {
    const stretches = [];
    for (const { kind, mode } of this.schedule) {
      const name = kind[0] + mode[0];
      if (stretches.at(-1)?.name === name) stretches.at(-1).count += 1;
      else stretches.push({ name, count: 1 });
    }
    return {
      mode: this.mode.value, batches: this.kind.value,
      stream: stretches.map(({ name, count }) => count + name).join("."),
    };
  }

  restore({ mode, batches, stream: stretches = "" }) {
    this.mode.show(oneOf(MODES, mode, this.mode.value));
    this.kind.show(oneOf(KINDS, batches, this.kind.value));
    const read = stretches.split(".").map((text) => text.match(/^(\d{1,3})([ms])([te])$/));
    if (!read.every(Boolean)) return;
    this.schedule = read.flatMap(([, count, kind, way]) =>
      Array.from({ length: Number(count) }, () => ({
        kind: KINDS.find((one) => one[0] === kind), mode: MODES.find((one) => one[0] === way),
      }))).slice(0, MOST);
  }

  #more(count) {
    for (let i = 0; i < count; i += 1) this.schedule.push({ kind: this.kind.value, mode: this.mode.value });
  }

  #again() {
    this.#stop();
    this.mode.show("training");
    this.schedule = [];
    this.#more(SHOWN);
    this.update();
  }

  #toggle() {
    if (this.timer) {
      this.#stop();
      return;
    }
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.play.textContent = "Pause";
    this.timer = setInterval(() => {
      this.#more(1);
      this.update();
      if (this.schedule.length >= MOST) this.#stop();
    }, PERIOD);
  }

  #stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
  }

  update() {
    const all = stream(this.schedule);
    const height = 290;
    const width = fit(this.picture, height);
    const fits = Math.min(SHOWN, Math.floor(width / 22));
    const here = all.slice(-fits);
    const first = all.length - here.length;
    const [left, right, top, bottom] = [34, 12, 40, 30];
    const x = (i) => left + ((width - left - right) * (i + 0.5)) / fits;
    const y = (v) => top + ((height - top - bottom) * (3 - Math.max(-2.6, Math.min(3, v)))) / 5.6;
    const half = ((width - left - right) / fits) * 0.36;
    const marks = [
      make("text", { x: 0, y: 13 }, "Dots: tokens. Bars: the mean of their batch."),
      make("text", { class: "blue", x: 0, y: 30 }, "Line: the running mean."),
    ];
    for (const v of [-2, -1, 0, 1, 2, 3]) {
      marks.push(make("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
        make("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, say(v, 0)));
    }
    here.forEach(({ values, mean }, i) => {
      values.forEach((v, k) => marks.push(make("circle", {
        class: "value", cx: x(i) + half * 0.7 * ((k % 4) / 1.5 - 1), cy: y(v), r: 2.4,
      })));
      marks.push(make("line", { class: "mean", x1: x(i) - half, x2: x(i) + half, y1: y(mean), y2: y(mean) }));
    });
    const points = (from, to) => here.slice(from, to).map(({ running }, i) => `${x(from + i)},${y(running)}`).join(" ");
    // Training solid, evaluation dashed, in stretches.
    let from = 0;
    for (let i = 1; i <= here.length; i += 1) {
      if (i === here.length || here[i].mode !== here[from].mode) {
        marks.push(make("polyline", {
          class: `running ${here[from].mode === "evaluation" ? "frozen" : ""}`, points: points(Math.max(0, from - 1), i),
        }));
        from = i;
      }
    }
    const now = here[here.length - 1];
    const before = all.length > 1 ? all[all.length - 2] : { running: 0, variance: 1 };
    marks.push(make("line", { class: "gap", x1: x(here.length - 1) + half + 2, x2: x(here.length - 1) + half + 2,
      y1: y(now.mean), y2: y(now.running) }),
      make("text", { x: left, y: height - 8 }, `batch ${first + 1}`),
      make("text", { x: width - right, y: height - 8, "text-anchor": "end" }, `batch ${all.length}: ${now.mode}`));
    this.picture.replaceChildren(...marks);
    const frozen = now.mode === "evaluation"
      ? `The running mean is frozen at ${say(now.running)}.`
      : `The running mean is ${say(now.running)}; each batch moves it by a tenth of the distance.`;
    // The first token of the batch, as both modes see it.
    const asTrained = (now.values[0] - now.mean) / Math.sqrt(now.deviation ** 2 + 1e-5);
    const asEvaluated = (now.values[0] - before.running) / Math.sqrt(before.variance + 1e-5);
    const text = `Batch ${all.length} has mean ${say(now.mean)}. ${frozen} The first token of this batch, ${say(now.values[0])}, becomes `
      + `${say(asTrained)} in training and ${say(asEvaluated)} in evaluation.`;
    set(this.picture, { "aria-label": `Batches from left to right, their values upwards. ${text}` });
    this.announce(text);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
    document.removeEventListener("visibilitychange", this.hides);
  }
}

customElements.define("nt-modes", Modes);
