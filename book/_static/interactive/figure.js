// What the interactive figures share: a frame that follows the theme, and a few small helpers.

const STYLE = `
:host { display: block; margin: 1.5rem 0; color: var(--pst-color-text-base, #222); }
:host([hidden]) { display: none; }
section {
  border: 1px solid var(--pst-color-border, #c9c9c9); border-radius: 0.5rem; padding: 1rem;
  background: var(--pst-color-surface, #f5f5f5); font-size: 0.95rem;
}
h2, h3 { font-size: 1.05rem; margin: 0 0 0.5rem; font-weight: 700; }
p { margin: 0.5rem 0 0; }
.controls { display: flex; flex-wrap: wrap; gap: 0.6rem 1.25rem; align-items: center; }
.controls > * { display: flex; flex-wrap: wrap; gap: 0.4rem; align-items: center; }
select, input[type="number"], button {
  font: inherit; color: inherit; min-height: 2.25rem; padding: 0.2rem 0.5rem;
  background: var(--pst-color-background, #fff);
  border: 1px solid var(--pst-color-text-muted, #555); border-radius: 0.25rem;
}
input[type="range"] { min-width: 9rem; min-height: 2rem; accent-color: var(--nt-accent); }
input[type="checkbox"] { width: 1.1rem; height: 1.1rem; accent-color: var(--nt-accent); }
:focus-visible { outline: 3px solid var(--nt-accent); outline-offset: 2px; }
output, .number { font-variant-numeric: tabular-nums; }
.status { min-height: 3em; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: currentColor; font-size: 13px; }
:host { --nt-accent: #44546a; --nt-muted: var(--pst-color-text-muted, #5a5a5a);
  --nt-ground: var(--pst-color-background, #fff); --nt-line: var(--pst-color-border, #c9c9c9); }
:host([data-dark]) { --nt-accent: #b4c3d6; }
.try { color: var(--nt-muted); margin: 0 0 0.75rem; }
.try b { color: var(--pst-color-text-base, #222); }
button { cursor: pointer; }
button[aria-pressed="true"] { background: var(--nt-accent); color: var(--nt-ground); font-weight: 600; }
button:disabled { cursor: default; opacity: 0.55; }
:host { --norm: var(--norm-none); }
@media (pointer: coarse) { select, input[type="number"], button { min-height: 2.75rem; } }
@media print {
  :host, :host([data-dark]) { color: #222; --nt-accent: #44546a; --nt-muted: #5a5a5a; --nt-ground: #fff;
    --nt-line: #c9c9c9; --pst-color-text-base: #222; --pst-color-surface: #fff; }
  .controls, .try { display: none; }
  section { break-inside: avoid; }
}
`;

/** The colour of a norm, which colours.css has from the table of the norms. */
export const colourOf = (name) => `var(--norm-${name === "no norm" ? "none" : name.toLowerCase()}, currentColor)`;

/** An element with attributes, listeners (names that begin with "on") and children. */
export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "path", "text", "tspan", "rect", "polygon", "polyline"]
    .includes(name);
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  set(element, attributes);
  element.append(...children);
  return element;
}

/** Set attributes and listeners; null and false take an attribute away. */
export function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === null || value === false) element.removeAttribute(key);
    else element.setAttribute(key, value === true ? "" : value);
  }
  return element;
}

/** A number for a sentence: short, with a true minus sign. */
export function say(value, digits = 2) {
  const size = Math.abs(value);
  const text = size !== 0 && size < 10 ** -digits ? value.toExponential(1) : value.toFixed(digits);
  return text.replaceAll("-", "\u2212");
}

/** A labelled slider that shows its value. */
export function slider(label, { min, max, step, value, show = say, change }) {
  const shown = make("span", { class: "number", "aria-hidden": "true" });
  const input = make("input", { type: "range", min, max, step });
  const display = (now) => {
    input.value = now;
    shown.textContent = show(now);
    input.setAttribute("aria-valuetext", show(now));
  };
  input.addEventListener("input", () => {
    display(input.valueAsNumber);
    change(input.valueAsNumber);
  });
  display(value);
  const reset = () => display(value);
  return { element: make("label", {}, make("span", {}, label), input, shown), show: display, reset };
}

/** A labelled drop-down list. */
export function choice(label, options, change) {
  const select = make("select", {}, ...options.map((name) => make("option", { value: name }, name)));
  select.addEventListener("change", () => change(select.value));
  return { element: make("label", {}, `${label} `, select), select };
}

/** A labelled tick. */
export function tick(label, change) {
  const input = make("input", { type: "checkbox" });
  input.addEventListener("change", () => change(input.checked));
  return { element: make("label", {}, input, ` ${label}`), input };
}

/** Make a drawing as wide as it is shown; returns the width. */
export function fit(svg, height, most = 760) {
  const width = Math.max(280, Math.min(most, svg.clientWidth || 620));
  set(svg, { viewBox: `0 0 ${width} ${height}` });
  return width;
}

/** Buttons of which one is pressed. */
export function buttons(label, options, change) {
  const all = options.map((name) => make("button", { type: "button" }, name));
  const group = { value: options[0] };
  group.show = (value) => {
    group.value = value;
    all.forEach((one, i) => one.setAttribute("aria-pressed", String(options[i] === value)));
  };
  all.forEach((one, i) => one.addEventListener("click", () => {
    group.show(options[i]);
    change(options[i]);
  }));
  group.show(options[0]);
  group.element = make("div", { role: "group", "aria-label": label }, ...all);
  return group;
}

/** A button that does something. */
export function action(label, act) {
  return make("button", { type: "button", onclick: act }, label);
}

/**
 * A figure: subclasses give `title`, `hint` (what to try, what one then sees), `style` and `build()`,
 * which returns what stands in the frame. What the page has inside the element is shown where scripts
 * do not run.
 *
 * `heading` is the level of its title, for a page of its own.
 * With `redraws`, `update()` runs again when the width changes: a drawing is as wide as it is shown, so
 * that letters keep their size on a phone.
 *
 * A subclass whose state belongs into the address gives `parameters()`, a record of short texts, and
 * `restore(record)`.
 */
export class InteractiveFigure extends HTMLElement {
  level(heading) {
    const own = Number(heading.slice(1));
    const above = [...document.querySelectorAll("article h2")];
    const follows = (title) => title.compareDocumentPosition(this) & Node.DOCUMENT_POSITION_FOLLOWING;
    return above.length && !above.some(follows) ? Math.min(own, 2) : own;
  }

  connectedCallback() {
    if (this.shadowRoot) return;
    const root = this.attachShadow({ mode: "open" });
    // Changes are announced when they pause, or a slider would talk without end.
    this.status = make("p", { class: "status", role: "status", "aria-live": "polite" });
    const id = "title";
    const { title, hint, style = "", heading = "h3" } = this.constructor;
    const parts = this.build(); // which may put the status in a place of its own
    root.append(
      make("style", {}, STYLE + style),
      make(
        "section",
        { "aria-labelledby": id },
        // Before the first heading of the text it stands right under the title of the page.
        make(heading, { id, "aria-level": String(this.level(heading)) }, title),
        ...(hint ? [make("p", { class: "try" }, make("b", {}, "Try "), hint[0], " ",
          make("b", {}, "See: "), hint[1])] : []),
        ...parts,
        ...(parts.includes(this.status) ? [] : [this.status]),
      ),
    );
    this.#follow();
    this.update();
    if (this.constructor.redraws) {
      let last = this.clientWidth;
      this.resized = new ResizeObserver(() => {
        if (this.clientWidth === last) return;
        last = this.clientWidth;
        this.update();
      });
      this.resized.observe(this);
    }
    if (this.parameters) this.#keepAddress(root);
  }

  /** Say what is to be seen now. */
  announce(text) {
    clearTimeout(this.pending);
    if (!this.status.textContent) this.status.textContent = text;
    this.pending = setTimeout(() => {
      this.status.textContent = text;
    }, 150);
  }

  /** Follow the theme of the page, which its switch may change. */
  #follow() {
    const page = document.documentElement;
    const read = () => this.toggleAttribute("data-dark", page.dataset.theme === "dark");
    this.watcher = new MutationObserver(read);
    this.watcher.observe(page, { attributes: true, attributeFilter: ["data-theme"] });
    read();
  }

  /** Hold the state in the address, as #nt-name?key=value, from the first change on. */
  #keepAddress(root) {
    const mark = `#${this.localName}?`;
    const write = () => new URLSearchParams(this.parameters()).toString();
    const start = write();
    this.read = () => {
      if (!location.hash.startsWith(mark)) return;
      this.restore(Object.fromEntries(new URLSearchParams(location.hash.slice(mark.length))));
      this.update();
    };
    const keep = () => {
      clearTimeout(this.keeping);
      this.keeping = setTimeout(() => {
        const now = write();
        const ours = location.hash.startsWith(mark);
        if (now === start ? ours : location.hash !== mark + now) {
          const address = location.pathname + location.search;
          history.replaceState(history.state, "", now === start ? address : address + mark + now);
        }
      }, 300);
    };
    for (const kind of ["input", "change", "click", "pointerup", "keyup"]) {
      root.addEventListener(kind, keep);
    }
    window.addEventListener("hashchange", this.read);
    if (location.hash.startsWith(mark)) {
      this.read();
      this.scrollIntoView();
    }
  }

  disconnectedCallback() {
    this.watcher?.disconnect();
    this.resized?.disconnect();
    window.removeEventListener("hashchange", this.read);
  }
}

/** One of the options that a text from the address may name, or what is there already. */
export const oneOf = (options, text, otherwise) =>
  options.find((one) => String(one) === text) ?? otherwise;

/** A number within bounds from the address, or what is there already. */
export function numberOf(text, from, to, otherwise) {
  const value = text === undefined || text === "" ? NaN : Number(text);
  return value >= from && value <= to ? value : otherwise;
}
