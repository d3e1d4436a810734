// What the interactive figures share: a frame that follows the theme, and a few small helpers.

const STYLE = `
:host { display: block; margin: 1.5rem 0; color: var(--pst-color-text-base, #222); }
:host([hidden]) { display: none; }
section {
  border: 1px solid var(--pst-color-border, #c9c9c9); border-radius: 0.5rem; padding: 1rem;
  background: var(--pst-color-surface, #f5f5f5); font-size: 0.95rem;
}
h3 { font-size: 1.05rem; margin: 0 0 0.5rem; }
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
:host { --nt-accent: #0072b2; --nt-second: #b04a00; --nt-shared: #cfe6f5; }
:host([data-dark]) { --nt-accent: #6cb8ee; --nt-second: #f0a35e; --nt-shared: #17435f; }
@media print { .controls { display: none; } }
`;

/** An element with attributes, listeners (names that begin with "on") and children. */
export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "path", "text", "rect", "polygon"].includes(name);
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

/**
 * A figure: subclasses give `title`, `style` and `build()`, which returns what stands in the frame.
 * What the page has inside the element is shown where scripts do not run.
 */
export class InteractiveFigure extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    const root = this.attachShadow({ mode: "open" });
    // Changes are announced when they pause, or a slider would talk without end.
    this.status = make("p", { class: "status", role: "status", "aria-live": "polite" });
    const id = "title";
    root.append(
      make("style", {}, STYLE + (this.constructor.style ?? "")),
      make(
        "section",
        { "aria-labelledby": id },
        make("h3", { id }, this.constructor.title),
        ...this.build(),
        this.status,
      ),
    );
    this.#follow();
    this.update();
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

  disconnectedCallback() {
    this.watcher?.disconnect();
  }
}
