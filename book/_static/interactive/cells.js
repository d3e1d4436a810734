// Which cells share a statistic: choose a norm, point at a cell of a (B, L, H) block.

import { InteractiveFigure, action, choice, colourOf, make, oneOf, say, set, tick } from "./figure.js";
import { NORMS, at, cellOf, normalize } from "./norms.js";

export const SHAPE = [2, 3, 4];
export const START = [
  1.2, -0.4, 0.7, 2.1, 0.3, 1.8, -1.1, 0.5, -0.9, 0.6, 1.4, -0.2,
  0.8, -1.6, 2.4, 0.1, 1.9, 0.2, -0.7, 1.3, -0.5, 1.1, 0.9, -1.2,
];
const PADDING = [[1, 1], [1, 2]]; // the tokens that padding takes: [sequence, position]

const FIXED = "It is padding, always 0: take the padding out to change it.";

const WHERE = {
  BatchNorm: "feature over the whole batch",
  LayerNorm: "token",
  InstanceNorm: "feature in this sequence",
  GroupNorm: "group of two features in this sequence",
  RMSNorm: "token",
  "PowerNorm-V": "feature over the whole batch",
};

class Cells extends InteractiveFigure {
  static title = "Which cells share a statistic, and whose output changes";

  static hint = ["the button + 1 below the grids, or another cell.",
    "every output that moves with it is marked. Then mask the padding, take it out, or choose LayerNorm."];

  static style = `
    .pair { display: flex; flex-wrap: nowrap; gap: 0.5rem 1.5rem; margin: 0.5rem 0; align-items: end; }
    table { border-collapse: collapse; }
    caption { text-align: left; padding-bottom: 0.15rem; caption-side: top; white-space: nowrap; }
    th { font-weight: 400; color: var(--nt-muted); padding: 0.1rem 0.4rem; white-space: nowrap; }
    td {
      border: 1px solid var(--nt-muted); text-align: right; min-width: 3.1rem; height: 2.3rem;
      padding: 0 0.35rem; font-variant-numeric: tabular-nums; background: var(--nt-ground);
    }
    td.corner { border: 0; background: none; min-width: 0; height: auto; padding: 0; }
    td[role="gridcell"] { cursor: pointer; }
    td.shared { background: color-mix(in srgb, var(--norm) 24%, var(--nt-ground)); }
    td.chosen { box-shadow: inset 0 0 0 3px currentColor; font-weight: 700; }
    td.padding {
      font-style: italic;
      background-image: repeating-linear-gradient(135deg, var(--nt-line) 0 1px, transparent 1px 6px);
    }
    td.moved { font-weight: 700; box-shadow: inset 0 0 0 3px var(--norm); }
    td.moved::before { content: "\\25B8"; float: left; }
    @media (prefers-reduced-motion: no-preference) {
      td.moved { animation: flash 0.8s ease-out; }
      @keyframes flash { from { background: var(--norm); color: var(--nt-ground); } }
    }
    .value { width: 5rem; }
    .presets { margin-bottom: 0.6rem; }
    .status { min-height: 4.2em; font-weight: 500; }
    @media (max-width: 34rem) {
      .pair { gap: 0.25rem; justify-content: space-between; }
      section { padding: 0.75rem 0.4rem; }
      td { min-width: 0; padding: 0; font-size: 0.72rem; letter-spacing: -0.05em; height: 2.5rem; text-align: center; }
      td.chosen, td.moved { letter-spacing: -0.1em; }
      table { table-layout: fixed; width: 100%; flex: 1 1 0; }
      table.in { flex-basis: 1rem; }
      td.corner { width: 1rem; }
      th span { display: none; }
      td.moved::before { content: none; }
      th { padding: 0.1rem; font-size: 0.75rem; }
      table.out th[scope="row"], table.out td.corner { display: none; }
      .status { min-height: 8.4em; }
    }
  `;

  build() {
    this.values = [...START];
    this.chosen = at(SHAPE, 0, 1, 2);
    this.preview = null;
    this.moved = new Set();
    const settle = () => { this.moved.clear(); this.update(); };
    this.norm = choice("norm", Object.keys(NORMS), settle);
    this.padded = tick("padding", settle);
    this.masked = tick("mask it", settle);
    this.entry = make("input", { type: "number", step: "0.1", class: "value" });
    this.entry.addEventListener("input", () => {
      if (Number.isFinite(this.entry.valueAsNumber)) this.#edit(this.entry.valueAsNumber);
    });
    this.norm.select.value = "BatchNorm";
    this.padded.input.checked = true;
    const preset = (name, norm, padded, masked) => action(name, () => {
      this.norm.select.value = norm;
      this.padded.input.checked = padded;
      this.masked.input.checked = masked;
      settle();
    });
    const nudge = (by) => {
      const button = action(by > 0 ? "+ 1" : "− 1", () =>
        this.#edit(Math.round(10 * (this.values[this.chosen] + by)) / 10));
      this.nudges.push(button);
      return button;
    };
    this.nudges = [];
    this.cells = [];
    this.outputs = [];
    this.heads = [];
    const pairs = Array.from({ length: SHAPE[0] }, (_, b) =>
      make("div", { class: "pair" }, this.#table(b, false), this.#table(b, true)));
    return [
      make("div", { class: "controls presets" },
        preset("BatchNorm with padding", "BatchNorm", true, false),
        preset("masked", "BatchNorm", true, true), preset("LayerNorm", "LayerNorm", true, false)),
      make("div", { class: "controls" }, this.norm.element, this.padded.element, this.masked.element),
      this.status,
      ...pairs,
      make("div", { class: "controls" },
        make("label", {}, "value of the framed cell ", this.entry), nudge(-1), nudge(1),
        action("start again", () => this.#again())),
    ];
  }

  parameters() {
    return {
      norm: this.norm.select.value, padding: Number(this.padded.input.checked),
      mask: Number(this.masked.input.checked), cell: this.chosen,
      ...(this.values.every((v, i) => v === START[i]) ? {} : { values: this.values.join(" ") }),
    };
  }

  restore({ norm, padding, mask, cell, values = "" }) {
    this.norm.select.value = oneOf(Object.keys(NORMS), norm, this.norm.select.value);
    this.padded.input.checked = padding === "1";
    this.masked.input.checked = mask === "1";
    if (/^\d+$/.test(cell) && Number(cell) < START.length) this.chosen = Number(cell);
    const numbers = values.split(" ").map(Number);
    if (numbers.length === START.length && numbers.every(Number.isFinite)) this.values = numbers;
    this.moved.clear();
  }

  #again() {
    this.values = [...START];
    this.chosen = at(SHAPE, 0, 1, 2);
    this.norm.select.value = "BatchNorm";
    this.padded.input.checked = true;
    this.masked.input.checked = false;
    this.moved.clear();
    this.update();
  }

  /** Change the framed cell, and find the outputs that move with it. */
  #edit(value) {
    const before = this.state().result;
    this.values[this.chosen] = value;
    const after = this.state().result;
    this.moved = new Set(after.flatMap((cell, q) => (Math.abs(cell.y - before[q].y) > 1e-9 ? [q] : [])));
    for (const one of this.outputs) one.classList.remove("moved"); // so that it flashes again
    void this.offsetWidth;
    this.update();
  }

  #table(b, out) {
    const head = make("tr", {}, make("td", { class: "corner" }),
      ...Array.from({ length: SHAPE[2] }, (_, h) =>
        make("th", { scope: "col", title: `feature ${h + 1}`, "aria-label": `feature ${h + 1}` }, `f${h + 1}`)));
    const rows = Array.from({ length: SHAPE[1] }, (_, l) =>
      make("tr", {}, make("th", { scope: "row" }, make("span", {}, "token "), l + 1),
        ...Array.from({ length: SHAPE[2] }, (_, h) => this.#cell(b, l, h, out))));
    const caption = make("caption", {}, out ? "" : `sequence ${b + 1}`);
    if (out) this.heads.push(caption);
    return make("table", {
      class: out ? "out" : "in", role: out ? null : "grid",
      "aria-label": `sequence ${b + 1} of the batch, ${out ? "normalized" : "before"}`,
    }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
  }

  #cell(b, l, h, out) {
    const position = at(SHAPE, b, l, h);
    const cell = make("td", out ? {} : { role: "gridcell", tabindex: -1 });
    cell.addEventListener("click", () => this.choose(position));
    // The mouse shows what a cell would do; only a click chooses it.
    cell.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") this.#look(position);
    });
    cell.addEventListener("pointerleave", () => this.#look(null));
    (out ? this.outputs : this.cells)[position] = cell;
    if (!out) cell.addEventListener("keydown", (event) => this.#key(event, b, l, h));
    return cell;
  }

  #look(position) {
    this.preview = position;
    this.update();
  }

  #key(event, b, l, h) {
    // A digit begins a new value.
    if (/^[-.\d]$/.test(event.key) && !this.entry.disabled) {
      this.entry.focus();
      this.entry.select();
      return;
    }
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

  choose(position) {
    this.chosen = position;
    this.preview = null;
    this.moved.clear();
    this.update();
    this.cells[position].focus();
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
    this.style.setProperty("--norm", colourOf(name));
    const members = result[this.preview ?? this.chosen].members;
    for (const head of this.heads) head.textContent = `after ${name}`;
    this.cells.forEach((cell, position) => {
      const [b, l, h] = cellOf(SHAPE, position);
      const padding = !mask[b * SHAPE[1] + l];
      const shared = members.includes(position);
      const chosen = position === this.chosen;
      cell.textContent = say(values[position]);
      cell.className = [shared && "shared", chosen && "chosen", padding && "padding"].filter(Boolean).join(" ");
      set(cell, {
        tabindex: chosen ? 0 : -1,
        "aria-selected": String(shared),
        "aria-label": `sequence ${b + 1}, token ${l + 1}, feature ${h + 1}: ${cell.textContent}${padding ? ", padding, cannot be changed" : ""}`,
      });
      const out = this.outputs[position];
      out.textContent = say(result[position].y);
      out.className = [chosen && "chosen", padding && "padding", this.moved.has(position) && "moved"]
        .filter(Boolean).join(" ");
    });
    const [b, l] = cellOf(SHAPE, this.chosen);
    const still = !mask[b * SHAPE[1] + l];
    for (const one of [this.entry, ...this.nudges]) one.disabled = still;
    if (this.entry !== this.shadowRoot?.activeElement) this.entry.value = values[this.chosen];
    if (this.preview === null) this.announce(this.#sentence(name, values[this.chosen], result[this.chosen]));
  }

  #sentence(name, value, here) {
    const [b, l] = cellOf(SHAPE, this.chosen);
    const padding = this.padded.input.checked && PADDING.some(([b2, l2]) => b2 === b && l2 === l);
    const fixed = padding ? ` ${FIXED}` : "";
    if (here.members.length === 0) return `${name}, masked: this token counts nowhere and gets 0.${fixed}`;
    const statistic = NORMS[name].centred
      ? `mean ${say(here.mean)}, variance ${say(here.square)}`
      : `mean square ${say(here.square)}`;
    const others = [...this.moved].filter((q) => {
      const [b2, l2] = cellOf(SHAPE, q);
      return b2 !== b || l2 !== l;
    });
    const tokens = new Set(others.map((q) => Math.floor(q / SHAPE[2]))).size;
    const effect = this.moved.size
      ? ` ${this.moved.size} outputs moved${tokens ? `, in ${tokens} other token${tokens > 1 ? "s" : ""} too` : ", all in this token"}.`
      : "";
    return `${name} pools ${here.members.length} cells: one ${WHERE[name]}. Their ${statistic}. `
      + `The value ${say(value)} becomes ${say(here.y)}.${effect}${fixed}`;
  }
}

customElements.define("nt-cells", Cells);
