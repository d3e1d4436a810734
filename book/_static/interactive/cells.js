// Which cells share a statistic: choose a norm, point at a cell of a (B, L, H) block.

import { InteractiveFigure, choice, make, say, set, tick } from "./figure.js";
import { NORMS, at, cellOf, normalize } from "./norms.js";

export const SHAPE = [2, 3, 4];
export const START = [
  1.2, -0.4, 0.7, 2.1, 0.3, 1.8, -1.1, 0.5, -0.9, 0.6, 1.4, -0.2,
  0.8, -1.6, 2.4, 0.1, 1.9, 0.2, -0.7, 1.3, -0.5, 1.1, 0.9, -1.2,
];
const PADDING = [[1, 1], [1, 2]]; // the tokens that padding takes: [sequence, position]

const WHERE = {
  BatchNorm: "feature over the whole batch",
  LayerNorm: "token",
  InstanceNorm: "feature in this sequence",
  GroupNorm: "group of two features in this sequence",
  RMSNorm: "token",
  "PowerNorm-V": "feature over the whole batch",
};

class Cells extends InteractiveFigure {
  static title = "Which cells share a statistic";

  static style = `
    .block { display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; margin: 1rem 0 0.5rem; }
    table { border-collapse: collapse; }
    caption { text-align: left; padding-bottom: 0.25rem; }
    th { font-weight: 400; color: var(--pst-color-text-muted, #555); padding: 0.1rem 0.4rem; }
    td {
      border: 1px solid var(--pst-color-text-muted, #666); text-align: right; min-width: 2.8rem;
      height: 2.6rem; padding: 0 0.35rem; cursor: pointer; font-variant-numeric: tabular-nums;
      background: var(--pst-color-background, #fff);
    }
    td.shared { background: var(--nt-shared); box-shadow: inset 0 0 0 2px var(--nt-accent); }
    td.chosen { box-shadow: inset 0 0 0 4px var(--nt-second); font-weight: 700; }
    td.padding { font-style: italic; text-decoration: line-through; }
    dl { display: flex; gap: 1.2rem; flex-wrap: wrap; margin: 0.6rem 0 0; }
    dl div { display: flex; gap: 0.4rem; align-items: center; }
    dt { width: 1.3rem; height: 1.3rem; border: 1px solid currentColor; }
    dt.shared { background: var(--nt-shared); box-shadow: inset 0 0 0 2px var(--nt-accent); }
    dt.chosen { box-shadow: inset 0 0 0 4px var(--nt-second); }
    dd { margin: 0; }
    .value { width: 6rem; }
    @media (max-width: 30rem) {
      td { min-width: 2.7rem; padding: 0 0.2rem; }
      th { padding: 0.1rem 0.25rem; }
    }
  `;

  build() {
    this.values = [...START];
    this.chosen = at(SHAPE, 0, 1, 2);
    this.norm = choice("norm", Object.keys(NORMS), () => this.update());
    this.norm.select.value = "LayerNorm";
    this.show = choice("show", ["values", "normalized"], () => this.update());
    this.padded = tick("padding", () => this.update());
    this.masked = tick("mask it", () => this.update());
    this.entry = make("input", { type: "number", step: "0.1", class: "value" });
    this.entry.addEventListener("input", () => {
      if (!Number.isFinite(this.entry.valueAsNumber)) return;
      this.values[this.chosen] = this.entry.valueAsNumber;
      this.update();
    });
    const restore = make("button", { type: "button" }, "start again");
    restore.addEventListener("click", () => {
      this.values = [...START];
      this.update();
    });
    this.cells = [];
    const tables = Array.from({ length: SHAPE[0] }, (_, b) => this.#table(b));
    return [
      make("div", { class: "controls" }, this.norm.element, this.show.element,
        this.padded.element, this.masked.element),
      make("div", { class: "scroll" }, make("div", { class: "block" }, ...tables)),
      make("div", { class: "controls" },
        make("label", {}, "value of the chosen cell ", this.entry), restore),
      make("dl", {},
        make("div", {}, make("dt", { class: "chosen" }), make("dd", {}, "the chosen cell")),
        make("div", {}, make("dt", { class: "shared" }), make("dd", {}, "cells in its statistic"))),
    ];
  }

  #table(b) {
    const head = make("tr", {}, make("th", { scope: "col" }, "token"),
      ...Array.from({ length: SHAPE[2] }, (_, h) => make("th", { scope: "col" }, `h ${h + 1}`)));
    const rows = Array.from({ length: SHAPE[1] }, (_, l) =>
      make("tr", {}, make("th", { scope: "row" }, `l ${l + 1}`),
        ...Array.from({ length: SHAPE[2] }, (_, h) => this.#cell(b, l, h))));
    return make("table", { role: "grid", "aria-label": `sequence ${b + 1} of the batch` },
      make("caption", {}, `sequence b ${b + 1}`), make("thead", {}, head), make("tbody", {}, ...rows));
  }

  #cell(b, l, h) {
    const position = at(SHAPE, b, l, h);
    const cell = make("td", { role: "gridcell", tabindex: -1 });
    cell.addEventListener("click", () => this.choose(position));
    cell.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") this.choose(position, false);
    });
    cell.addEventListener("keydown", (event) => this.#key(event, b, l, h));
    this.cells[position] = cell;
    return cell;
  }

  #key(event, b, l, h) {
    const [B, L, H] = SHAPE;
    const row = b * L + l; // the sequences stand one below the other for the arrow keys
    const steps = {
      ArrowLeft: [row, h - 1], ArrowRight: [row, h + 1], ArrowUp: [row - 1, h],
      ArrowDown: [row + 1, h], Home: [row, 0], End: [row, H - 1],
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [r, c] = steps[event.key];
    if (r >= 0 && r < B * L && c >= 0 && c < H) this.choose(r * H + c);
  }

  choose(position, focus = true) {
    this.chosen = position;
    this.update();
    if (focus) this.cells[position].focus();
  }

  /** What the figure shows now: the values with padding put in, the mask, and the result. */
  state() {
    const values = [...this.values];
    const mask = new Array(SHAPE[0] * SHAPE[1]).fill(true);
    if (this.padded.input.checked) {
      for (const [b, l] of PADDING) {
        mask[b * SHAPE[1] + l] = false;
        for (let h = 0; h < SHAPE[2]; h += 1) values[at(SHAPE, b, l, h)] = 0;
      }
    }
    const name = this.norm.select.value;
    const used = this.padded.input.checked && this.masked.input.checked ? mask : null;
    return { name, values, mask, result: normalize(name, values, SHAPE, { mask: used }) };
  }

  update() {
    this.masked.input.disabled = !this.padded.input.checked;
    const { name, values, mask, result } = this.state();
    const here = result[this.chosen];
    const normalized = this.show.select.value === "normalized";
    this.cells.forEach((cell, position) => {
      const [b, l, h] = cellOf(SHAPE, position);
      const padding = !mask[b * SHAPE[1] + l];
      const shared = here.members.includes(position);
      cell.textContent = say(normalized ? result[position].y : values[position]);
      cell.className = [
        shared ? "shared" : "", position === this.chosen ? "chosen" : "", padding ? "padding" : "",
      ].join(" ");
      set(cell, {
        tabindex: position === this.chosen ? 0 : -1,
        "aria-selected": String(shared),
        "aria-label": `b ${b + 1}, l ${l + 1}, h ${h + 1}: ${cell.textContent}${padding ? ", padding" : ""}`,
      });
    });
    const [b, l] = cellOf(SHAPE, this.chosen);
    this.entry.disabled = !mask[b * SHAPE[1] + l];
    if (this.entry !== this.shadowRoot?.activeElement) this.entry.value = values[this.chosen];
    this.announce(this.#sentence(name, values[this.chosen], here));
  }

  #sentence(name, value, here) {
    if (here.members.length === 0) return `${name}, masked: this token is padding; it counts nowhere and gets 0.`;
    const statistic = NORMS[name].centred
      ? `mean ${say(here.mean)}, variance ${say(here.square)}`
      : `mean square ${say(here.square)}`;
    return `${name} pools ${here.members.length} cells: one ${WHERE[name]}. Their ${statistic}. `
      + `The value ${say(value)} becomes ${say(here.y)}.`;
  }
}

customElements.define("nt-cells", Cells);
