// Signal and gradient through depth: choose a wiring, before or after training.
// The numbers are those of a saved run; the page puts them into the element as JSON.

import { InteractiveFigure, buttons, make, oneOf, say } from "./figure.js";

export const WIRINGS = {
  post: { title: "Post-LN", formula: "x\u2032 = N(x + F(x))" },
  pre: { title: "Pre-LN", formula: "x\u2032 = x + F(N(x))" },
  peri: { title: "Peri-LN", formula: "x\u2032 = x + N(F(N(x)))" },
  deepnorm: { title: "DeepNorm", formula: "x\u2032 = N(αx + F(x)), α = (2L)^¼" },
};

const PANELS = {
  signal: "size of the stream (root mean square)",
  gradient: "size of the gradient with respect to it",
};
const HEIGHT = 200;
const LEFT = 56;
const BOTTOM = 44;
const TOP = 26;

/** Round powers of ten around all values, for an axis that does not jump. */
export function reach(values) {
  const logs = values.filter((v) => v > 0).map(Math.log10);
  return [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs))];
}

const TIMES = ["before training", "after training"];

class WiringFigure extends InteractiveFigure {
  static title = "Signal and gradient through depth";

  static hint = ["the other wirings, and the network after training.",
    "in which of them the stream grows with depth, and in which the gradient is uneven."];

  static redraws = true;

  static style = `
    .formula { font-weight: 600; margin: 0.75rem 0; }
    .panel { margin-top: 0.5rem; }
    .other { fill: none; stroke: currentColor; opacity: 0.35; stroke-width: 1.5; }
    .chosen { fill: none; stroke: currentColor; stroke-width: 3; }
    .ghost { fill: none; stroke: currentColor; stroke-width: 2; stroke-dasharray: 3 4; opacity: 0.7; }
    .band { fill: currentColor; opacity: 0.18; }
    .point { fill: currentColor; }
    svg text.name { font-size: 12px; }
    svg text.bold { font-weight: 700; font-size: 12px; }
    .grid { stroke: currentColor; opacity: 0.2; }
    .frame { stroke: currentColor; opacity: 0.7; }
  `;

  build() {
    const holder = this.querySelector('script[type="application/json"]');
    this.data = JSON.parse(holder.textContent);
    const titles = Object.values(WIRINGS).map((one) => one.title);
    this.wiring = buttons("wiring", titles, () => this.update());
    this.wiring.show("Pre-LN");
    this.when = buttons("when", TIMES, () => this.update());
    this.when.show("before training");
    this.formula = make("p", { class: "formula" });
    this.panels = Object.fromEntries(Object.entries(PANELS).map(([key, label]) => [
      key, make("svg", { class: "panel", role: "img",
        "aria-label": `${label}, by layer, on a logarithmic scale. The text below gives its ends.` }),
    ]));
    return [
      make("div", { class: "controls" }, this.wiring.element, this.when.element),
      this.formula, ...Object.values(this.panels),
      make("p", {}, "F: attention or the feed-forward layers. N: the norm. Thick: the chosen wiring, geometric mean over the "
        + "seeds with its 95% interval. Thin: the other three. After training, dotted lines show the same wiring before training."),
    ];
  }

  parameters() {
    return { wiring: this.wiring.value, when: this.when.value };
  }

  restore({ wiring, when }) {
    this.wiring.show(oneOf(Object.values(WIRINGS).map((one) => one.title), wiring, this.wiring.value));
    this.when.show(oneOf(TIMES, when, this.when.value));
  }

  /** The values of a panel at both times, so that the axis stays where it is. */
  #all(key) {
    return Object.values(this.data.wirings).flatMap((one) =>
      Object.values(one).flatMap((at) => [...at[key].low, ...at[key].high, ...at[key].mean]));
  }

  #draw(key, name, when) {
    const svg = this.panels[key];
    const layers = this.data.layers;
    // As wide as it is shown, so that letters keep their size on a phone.
    const WIDTH = Math.max(280, Math.min(720, svg.clientWidth || 620));
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    const [low, high] = reach(this.#all(key));
    const RIGHT = 78; // room for the names at the ends
    const x = (i) => LEFT + ((WIDTH - LEFT - RIGHT) * layers[i]) / layers[layers.length - 1];
    const y = (v) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - Math.log10(Math.max(v, 10 ** low))))
      / (high - low);
    const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(i)},${y(v)}`).join("");
    const marks = [];
    for (let power = low; power <= high; power += 1) {
      marks.push(
        make("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** power), y2: y(10 ** power) }),
        make("text", { x: LEFT - 8, y: y(10 ** power) + 4, "text-anchor": "end" },
          power >= -2 && power <= 3 ? String(10 ** power) : `1e${say(power, 0)}`),
      );
    }
    layers.forEach((layer, i) => {
      if (layer % 2 === 0) {
        marks.push(make("text", { x: x(i), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, layer));
      }
    });
    const here = this.data.wirings[name][when][key];
    const band = [...here.high.map((v, i) => [x(i), y(v)]),
      ...here.low.map((v, i) => [x(i), y(v)]).reverse()];
    svg.replaceChildren(
      ...marks,
      make("text", { x: LEFT, y: 15 }, PANELS[key]),
      make("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, "layer"),
      make("line", { class: "frame", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      ...Object.keys(WIRINGS).filter((other) => other !== name).map((other) =>
        make("path", { class: `other ${other}`, d: path(this.data.wirings[other][when][key].mean) })),
      make("polygon", { class: "band", points: band.map((p) => p.join(",")).join(" ") }),
      ...(when === "trained"
        ? [make("path", { class: "ghost", d: path(this.data.wirings[name].untrained[key].mean) })] : []),
      make("path", { class: "chosen", d: path(here.mean) }),
      ...here.mean.map((v, i) => make("circle", { class: "point", cx: x(i), cy: y(v), r: 3.5 })),
      ...this.#names(key, name, when, y).map(([other, at]) => make("text", {
        class: other === name ? "bold" : "name", x: WIDTH - RIGHT + 6, y: at + 4,
      }, WIRINGS[other].title)),
    );
    return [here.mean[0], here.mean[here.mean.length - 1]];
  }

  /** Where the names of the wirings stand: at the ends of their lines, kept apart. */
  #names(key, name, when, y) {
    const last = Object.keys(WIRINGS)
      .map((other) => [other, y(this.data.wirings[other][when][key].mean.at(-1))])
      .sort((one, two) => one[1] - two[1]);
    for (let round = 0; round < 40; round += 1) {
      for (let i = 1; i < last.length; i += 1) {
        const lack = 14 - (last[i][1] - last[i - 1][1]);
        if (lack > 0) {
          last[i][1] += lack / 2;
          last[i - 1][1] -= lack / 2;
        }
      }
    }
    // None stands beside the numbers of the layers.
    let lowest = HEIGHT - BOTTOM - 3;
    for (const one of last.reverse()) {
      one[1] = Math.min(one[1], lowest);
      lowest = one[1] - 14;
    }
    return last;
  }

  update() {
    const name = Object.keys(WIRINGS).find((key) => WIRINGS[key].title === this.wiring.value);
    const when = this.when.value === "before training" ? "untrained" : "trained";
    this.formula.textContent = WIRINGS[name].formula;
    const [signal, gradient] = Object.keys(PANELS).map((key) => this.#draw(key, name, when));
    const last = this.data.layers[this.data.layers.length - 1];
    const ends = ([a, b]) => `${say(a, 3)} at the embedding, ${say(b, 3)} after layer ${last}`;
    this.announce(`${WIRINGS[name].title} ${this.when.value}. Stream: ${ends(signal)}. `
      + `Gradient: ${ends(gradient)}.`);
  }
}

customElements.define("nt-wiring", WiringFigure);
