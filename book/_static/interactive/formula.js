// One formula, three choices: which of its terms are there, and who is in whose gradient.

import { InteractiveFigure, buttons, make, oneOf, set } from "./figure.js";

const CHOICES = { axes: "axes", statistic: "statistic", source: "source" };
const FIELDS = ["c", "r", "shift", "stretch"];
const START = "LayerNorm";

class Formula extends InteractiveFigure {
  static title = "One formula, three choices";

  static hint = ["another statistic or source, then other axes and another entry.",
    "the formula loses a term, and the entries that the framed one depends on change."];

  static style = `
    .choices > div { display: flex; flex-wrap: wrap; gap: 0.3rem 0.4rem; align-items: center; margin-bottom: 0.5rem; }
    .choices span { min-width: 4.6rem; color: var(--nt-muted); }
    .name { font-weight: 600; margin: 0.75rem 0 0.25rem; }
    .sheets { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; margin: 0.75rem 0 0.5rem; }
    table { border-collapse: collapse; }
    caption { text-align: left; padding-bottom: 0.15rem; caption-side: top; }
    th { font-weight: 400; color: var(--nt-muted); padding: 0.1rem 0.4rem; font-size: 0.85rem; }
    td { border: 1px solid var(--nt-muted); width: 2.75rem; height: 2.75rem; padding: 0; text-align: center;
      background: var(--nt-ground); cursor: pointer; }
    td.corner { border: 0; background: none; width: auto; height: auto; cursor: auto; }
    td.reached { background: color-mix(in srgb, var(--nt-accent) 35%, var(--nt-ground)); }
    td.reached::before { content: "\\25CF"; }
    td.chosen { box-shadow: inset 0 0 0 3px currentColor; }
    .status { min-height: 4.5em; }
    @media (max-width: 34rem) {
      .choices span { min-width: 0; }
      .sheets { gap: 0.75rem; flex-wrap: nowrap; }
      th { padding: 0.1rem; }
      th span { display: none; }
      td { width: 2rem; height: 2.25rem; }
      .status { min-height: 6em; }
    }
  `;

  build() {
    const { shape, choices } = JSON.parse(this.querySelector("script").textContent);
    [this.shape, this.all] = [shape, choices];
    this.now = choices.find(({ name }) => name === START);
    this.chosen = 6;
    this.groups = Object.fromEntries(Object.entries(CHOICES).map(([key, label]) => {
      const options = [...new Set(choices.map((one) => one[key]))];
      return [key, buttons(label, options, (value) => this.#choose(key, value))];
    }));
    this.name = make("p", { class: "name" });
    this.cells = [];
    return [
      make("div", { class: "choices" }, ...Object.values(this.groups).map(({ element }) => {
        element.prepend(make("span", { "aria-hidden": "true" }, element.getAttribute("aria-label")));
        return element;
      })),
      this.name,
      make("slot", { name: "formula" }),
      make("div", { class: "sheets" }, ...Array.from({ length: shape[0] }, (_, b) => this.#sheet(b))),
      this.status,
    ];
  }

  parameters() {
    return { ...Object.fromEntries(Object.keys(CHOICES).map((key) => [key, this.now[key]])), entry: this.chosen };
  }

  restore({ entry, ...asked }) {
    this.now = this.all.find((one) => Object.keys(CHOICES).every((key) => one[key] === asked[key])) ?? this.now;
    this.chosen = oneOf(this.cells.map((_, i) => i), entry, this.chosen);
  }

  /** What is asked for holds; of the other choices as many stay as there is a norm for. */
  #choose(key, value) {
    const alike = (one) => Object.keys(CHOICES).filter((other) => one[other] === this.now[other]).length;
    this.now = this.all.filter((one) => one[key] === value).reduce((a, b) => (alike(b) > alike(a) ? b : a));
    this.update();
  }

  #sheet(b) {
    const [, L, H] = this.shape;
    const head = make("tr", {}, make("td", { class: "corner" }),
      ...Array.from({ length: H }, (_, h) => make("th", { scope: "col", "aria-label": `feature ${h + 1}` }, `f${h + 1}`)));
    const rows = Array.from({ length: L }, (_, l) => make("tr", {}, make("th", { scope: "row" }, make("span", {}, "token "), l + 1),
      ...Array.from({ length: H }, (_, h) => this.#cell((b * L + l) * H + h))));
    return make("table", { role: "grid", "aria-label": `sequence ${b + 1}` },
      make("caption", {}, `sequence ${b + 1}`), make("thead", {}, head), make("tbody", {}, ...rows));
  }

  #cell(at) {
    const cell = make("td", { role: "gridcell" });
    const choose = (to) => {
      this.chosen = to;
      this.update();
      this.cells[to].focus();
    };
    cell.addEventListener("click", () => choose(at));
    cell.addEventListener("keydown", (event) => {
      const [B, L, H] = this.shape;
      const [row, column] = [Math.floor(at / H), at % H]; // the sequences follow one another
      const steps = {
        ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column], Home: [row, 0], End: [row, H - 1],
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [r, c] = steps[event.key];
      if (r >= 0 && r < B * L && c >= 0 && c < H) choose(r * H + c);
    });
    this.cells[at] = cell;
    return cell;
  }

  /** Where an entry lies, in words. */
  #where(at) {
    const [, L, H] = this.shape;
    return `sequence ${Math.floor(at / H / L) + 1}, token ${(Math.floor(at / H) % L) + 1}, feature ${(at % H) + 1}`;
  }

  update() {
    const { now } = this;
    for (const [key, group] of Object.entries(this.groups)) group.show(now[key]);
    const pieces = [...this.querySelectorAll("[data-field]")];
    for (const field of FIELDS) {
      const own = pieces.filter((one) => one.dataset.field === field);
      const present = own.find((one) => one.dataset.text === now.row[field]);
      own.forEach((one, i) => {
        // A term that is lost stays to be seen, struck out; a memory then stands behind it.
        const lost = ["shift", "stretch"].includes(field) && i === 0 && one !== present;
        set(one, { hidden: one !== present && !lost, class: lost && "lost", "aria-hidden": lost && "true" });
      });
    }
    const name = now.name || "A norm without a name of its own";
    this.name.textContent = name;
    const reach = now.reach[this.chosen];
    this.cells.forEach((cell, at) => {
      const [chosen, reached] = [at === this.chosen, reach.includes(at)];
      cell.className = [chosen && "chosen", reached && "reached"].filter(Boolean).join(" ");
      set(cell, {
        tabindex: chosen ? 0 : -1, "aria-selected": String(reached),
        "aria-label": `${this.#where(at)}${chosen ? ", chosen" : ""}`,
      });
    });
    const others = reach.length - 1;
    const sentence = others
      ? `The framed output depends on the ${reach.length} marked entries, and their loss is in the framed entry's gradient.`
      : "The framed output depends on the framed entry alone, and no other entry's loss is in its gradient."
        + (now.row.stretch === "–" ? " The statistic is a constant here." : " In place of a lost term stands one from memory.");
    this.announce(`${name}: ${sentence}`);
  }
}

customElements.define("nt-formula", Formula);
