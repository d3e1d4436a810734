// The playground: two small networks train side by side, on the same data, and differ in one choice.

import { InteractiveFigure, action, choice, colourOf, make, say, set } from "./figure.js";
import { CHOICES, LABELS, PRESETS, fromAddress, pair, shown, stateOf, toAddress }
  from "./presets.js";

const SPEEDS = { slow: 20, normal: 120, "as fast as possible": 0 };
const SEEDS = 4; // more seeds that "run 5 seeds" adds
const SIDES = ["A", "B"];
const ENDLESS = 100_000;

const percent = (value) => `${Math.round(100 * value)}%`;

class Playground extends InteractiveFigure {
  static title = "Two networks, one difference";

  static heading = "h2";

  static hint = ["answering the question, then pressing Play.",
    "which network learns, and in which layers the other one loses the signal or the gradient."];

  static style = `
    .chips, .bar, .guesses { display: flex; flex-wrap: wrap; gap: 0.4rem; align-items: center; }
    .chips { margin-bottom: 0.75rem; }
    .question { border-left: 0.3rem solid var(--nt-accent); padding: 0.1rem 0 0.1rem 0.8rem; }
    .question p { margin: 0 0 0.5rem; }
    .answer { font-weight: 400; }
    .bar { position: sticky; top: 0; z-index: 2; padding: 0.5rem 0; margin-top: 0.5rem;
      background: var(--pst-color-surface, #f5f5f5); }
    .play { min-width: 6.5rem; font-weight: 600; background: var(--nt-accent); color: var(--nt-ground); }
    .count { min-width: 9rem; }
    input.seed { width: 4.5rem; }
    details { margin: 0.25rem 0 0.75rem; }
    summary { cursor: pointer; padding: 0.4rem 0; font-weight: 600; }
    .settings { display: grid; gap: 0.5rem 1rem; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); }
    .settings label { display: flex; justify-content: space-between; align-items: center; gap: 0.5rem; }
    .settings select { max-width: 10.5rem; }
    .differ { margin-top: 0.6rem; padding-top: 0.6rem; border-top: 1px solid var(--nt-line);
      display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; }
    .two { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
    .side h3 { margin: 0 0 0.3rem; font-size: 1rem; }
    .side h3 i { display: inline-block; width: 0.85rem; height: 0.85rem; margin-right: 0.4rem;
      background: var(--norm); border: 2px solid var(--norm); }
    .side.a h3 i { border-radius: 50%; }
    .side.b h3 i { background: none; }
    .side p { margin: 0.3rem 0 0; font-size: 0.92rem; }
    canvas { width: 100%; max-width: 19rem; aspect-ratio: 1; display: block;
      border: 1px solid var(--nt-muted); }
    .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(15.5rem, 1fr)); gap: 0.5rem 1rem;
      margin-top: 0.75rem; }
    .a { --norm: var(--colour-a); }
    .b { --norm: var(--colour-b); }
    polyline { fill: none; stroke: var(--norm); stroke-width: 2.5; }
    polyline.none { stroke-dasharray: 7 4; }
    polyline.training { stroke-width: 1.5; stroke-dasharray: 2 4; }
    polyline.again { stroke-width: 1; opacity: 0.45; }
    circle.a, rect.b { stroke: var(--norm); stroke-width: 2; }
    circle.a { fill: var(--norm); }
    rect.b { fill: var(--pst-color-surface, #f5f5f5); }
    .grid { stroke: currentColor; opacity: 0.18; }
    .frame { stroke: currentColor; opacity: 0.7; }
    svg text.a, svg text.b { fill: color-mix(in srgb, var(--norm) 80%, currentColor); font-weight: 700; }
    svg text.head { font-weight: 600; }
    .key { font-size: 0.88rem; color: var(--nt-muted); }
    @media (max-width: 34rem) {
      section { padding: 0.75rem 0.6rem; }
      .two { gap: 0.6rem; }
      .settings { grid-template-columns: 1fr; }
      .settings select { max-width: 60%; }
      .chips {
        flex-wrap: nowrap; overflow-x: auto; padding-bottom: 0.3rem;
        scrollbar-color: var(--nt-muted) transparent; scrollbar-width: thin;
      }
      .chips button { flex: none; }
    }
    @media print { .chips, .bar, .guesses, details { display: none; } }
  `;

  static observedAttributes = ["data-dark"];

  /** The canvases know no style sheet: in another theme they are drawn anew. */
  attributeChangedCallback() {
    if (this.frame) this.#draw();
  }

  build() {
    this.state = fromAddress(location.hash);
    this.frame = null;
    this.again = [];
    this.id = 0;
    this.guess = null;
    this.chips = Object.entries(PRESETS).map(([name, { title }], i) => {
      const chip = make("button", { type: "button" }, `${i + 1} ${title}`);
      chip.addEventListener("click", () => this.#preset(name));
      return [name, chip];
    });
    this.question = make("div", { class: "question" });
    this.play = make("button", { type: "button", class: "play", onclick: () => this.#toggle() }, "Play");
    this.count = make("span", { class: "count number" });
    this.seed = make("input", { type: "number", class: "seed", min: 0, max: 9999, step: 1 });
    this.seed.addEventListener("change", () => {
      if (/^\d{1,4}$/.test(this.seed.value)) this.#change("seed", Number(this.seed.value));
      else this.seed.value = this.state.settings.seed;
    });
    this.speed = choice("speed", Object.keys(SPEEDS), () => {
      if (this.running) this.#run();
    });
    this.speed.select.value = "normal";
    this.five = action("Run 5 seeds", () => this.#repeat());
    this.link = action("Copy link", () => this.#copy());
    const bar = make("div", { class: "bar" }, this.play,
      action("Step", () => this.#tell("step", { count: 1 })),
      action("Restart", () => this.#restart()),
      this.count);
    this.controls = Object.fromEntries(Object.keys(CHOICES).map((key) => [key, this.#select(key)]));
    this.differ = make("select", { "aria-label": "network B differs in" },
      ...Object.keys(CHOICES).filter((key) => key !== "data")
        .map((key) => make("option", { value: key }, LABELS[key])));
    this.differ.addEventListener("change", () => {
      this.state.differ = this.differ.value;
      const options = CHOICES[this.differ.value];
      const own = this.state.settings[this.differ.value];
      this.state.other = options.find((one) => one !== own);
      this.#restart();
    });
    this.other = make("select", { "aria-label": "value in network B" });
    this.other.addEventListener("change", () => {
      this.state.other = CHOICES[this.state.differ][this.other.selectedIndex];
      this.#restart();
    });
    this.drawer = make("details", {},
      make("summary", {}, "Settings: data, network, optimizer, norm, and in what B differs"),
      make("div", { class: "settings" }, ...Object.values(this.controls).map(({ element }) => element)),
      make("div", { class: "differ" },
        make("label", {}, "Network B differs in ", this.differ), make("label", {}, "and has ", this.other),
        make("label", {}, "seed ", this.seed), this.speed.element, this.five, this.link));
    this.sides = SIDES.map((side) => this.#side(side));
    this.panels = Object.fromEntries(["spread", "gradient", "loss"].map((key) =>
      [key, make("svg", { role: "img" })]));
    this.resized = new ResizeObserver(() => this.#draw());
    this.resized.observe(this);
    this.hidden_ = () => { if (document.hidden && this.running) this.#pause(); };
    document.addEventListener("visibilitychange", this.hidden_);
    this.address = () => {
      if (location.hash.slice(1) === toAddress(this.state)) return;
      this.state = fromAddress(location.hash);
      this.#restart({ keep: true });
    };
    window.addEventListener("popstate", this.address);
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.worker.addEventListener("message", ({ data }) => this.#hear(data));
    this.#restart({ keep: true });
    return [
      make("div", { class: "chips", role: "group", "aria-label": "experiments" },
        ...this.chips.map(([, chip]) => chip)),
      this.question, bar, this.drawer,
      make("div", { class: "two" }, ...this.sides.map(({ element }) => element)),
      make("div", { class: "charts" }, ...Object.values(this.panels)),
      make("p", { class: "key" }, "A: filled circles. B: hollow squares. In the chart of the loss, solid is "
        + "evaluation on points that were not trained on, dotted is training, on the batches themselves; under "
        + "BatchNorm the two use different statistics. What you see holds for this small network and this "
        + "rate; try other seeds before you conclude anything."),
    ];
  }

  #select(key) {
    const select = make("select", {}, ...CHOICES[key].map((value, i) =>
      make("option", { value: i }, shown(key, value))));
    select.addEventListener("change", () => this.#change(key, CHOICES[key][select.selectedIndex]));
    return { select, element: make("label", {}, LABELS[key], select) };
  }

  #side(name) {
    const canvas = make("canvas", { role: "img", width: 288, height: 288 });
    const title = make("span", {});
    const text = make("p", { class: "number" });
    const element = make("div", { class: `side ${name.toLowerCase()}` },
      make("h3", {}, make("i", { "aria-hidden": "true" }), title), canvas, text);
    return { element, canvas, title, text };
  }

  // --- what the reader asks for ---

  #tell(kind, rest = {}) {
    this.worker.postMessage({ kind, ...rest });
  }

  #preset(name) {
    this.state = { ...stateOf(name), guessed: false };
    history.pushState(null, "", `#${toAddress(this.state)}`);
    this.#restart({ keep: true });
  }

  #change(key, value) {
    this.state.settings[key] = value;
    if (key === this.state.differ && value === this.state.other) {
      this.state.other = CHOICES[key].find((one) => one !== value);
    }
    this.#restart();
  }

  /** Both networks anew. `keep` leaves the address alone. */
  #restart({ keep = false } = {}) {
    if (!keep) history.replaceState(history.state, "", `#${toAddress(this.state)}`);
    this.id += 1;
    this.running = false;
    this.again = [];
    this.frame = null;
    this.finished = false;
    this.guess = null;
    this.#tell("set", { id: this.id, settings: pair(this.state) });
    if (this.shadowRoot) this.update();
  }

  #toggle() {
    if (this.running) this.#pause();
    else this.#run();
  }

  #run() {
    const { steps } = PRESETS[this.state.preset];
    const at = this.frame?.steps ?? 0;
    this.running = true;
    this.again = [];
    this.announce("Training.");
    this.#tell("run", {
      until: at < steps ? steps : ENDLESS, speed: SPEEDS[this.speed.select.value],
    });
    this.#buttons();
  }

  #pause() {
    this.running = false;
    this.#tell("pause");
    this.#buttons();
  }

  #repeat() {
    if (this.running || !this.frame?.steps) return;
    this.again = [];
    const { seed } = this.state.settings;
    this.#tell("repeat", { seeds: Array.from({ length: SEEDS }, (_, i) => seed + 1 + i) });
    this.five.textContent = "Running …";
  }

  async #copy() {
    const address = `${location.href.split("#")[0]}#${toAddress(this.state)}`;
    history.replaceState(history.state, "", `#${toAddress(this.state)}`);
    let copied = true;
    try {
      await navigator.clipboard.writeText(address);
    } catch {
      copied = false; // the address bar has it
    }
    this.announce(copied ? "The link to this setting is copied." : "The link to this setting is in the address bar.");
  }

  // --- what the worker says ---

  #hear(message) {
    if (message.id !== this.id) return;
    if (message.data) {
      this.data = message.data;
      return;
    }
    if (message.again) {
      this.again.push({ seed: message.seed, histories: message.again });
      if (this.again.length === SEEDS) this.five.textContent = "Run 5 seeds";
      this.#draw();
      this.#say();
      return;
    }
    this.frame = message;
    if (!message.running) this.running = false;
    if (message.steps >= PRESETS[this.state.preset].steps) this.finished = true;
    this.update();
    this.#tell("shown");
  }

  // --- what is seen ---

  update() {
    const { state } = this;
    for (const [name, chip] of this.chips) {
      set(chip, { "aria-pressed": String(name === state.preset) });
    }
    for (const [key, { select }] of Object.entries(this.controls)) {
      select.selectedIndex = CHOICES[key].indexOf(state.settings[key]);
    }
    this.seed.value = state.settings.seed;
    this.differ.value = state.differ;
    const options = CHOICES[state.differ];
    if (this.offered !== state.differ) {
      this.other.replaceChildren(...options.map((value) => make("option", {}, shown(state.differ, value))));
      this.offered = state.differ;
    }
    this.other.selectedIndex = options.indexOf(state.other);
    const [a, b] = pair(state);
    this.shadowRoot.host.style.setProperty("--colour-a", colourOf(a.norm));
    this.shadowRoot.host.style.setProperty("--colour-b",
      a.norm === b.norm ? "var(--pst-color-text-base, #222)" : colourOf(b.norm));
    this.#buttons();
    this.#ask();
    this.#draw();
    if (!this.running) this.#say();
  }

  #buttons() {
    this.play.textContent = this.running ? "Pause" : "Play";
    this.count.textContent = `step ${this.frame?.steps ?? 0}`
      + (this.running && this.frame?.rate ? `, ${Math.round(this.frame.rate)} per second` : "");
    if (!this.again.length) this.five.textContent = "Run 5 seeds";
  }

  /** What the setting is called, for a heading: the norm, and B's difference. */
  #name(side) {
    const [a, b] = pair(this.state);
    const own = side ? b : a;
    const norm = shown("norm", own.norm);
    return this.state.differ === "norm"
      ? norm : `${norm}, ${LABELS[this.state.differ]} ${shown(this.state.differ, own[this.state.differ])}`;
  }

  #asPreset() {
    const start = stateOf(this.state.preset);
    start.settings.seed = this.state.settings.seed;
    return toAddress(start) === toAddress(this.state);
  }

  #ask() {
    const { question, guesses, right, answer, steps } = PRESETS[this.state.preset];
    const key = [this.state.preset, this.#asPreset(), this.guess, this.finished].join();
    if (this.asked === key) return;
    this.asked = key;
    if (!this.#asPreset()) {
      this.question.replaceChildren(make("p", {}, "Your own setting. What do you expect? Press Play."));
      return;
    }
    const parts = [make("p", {}, make("b", {}, question))];
    if (this.finished) {
      const said = this.guess === null ? "" : `You said: ${guesses[this.guess]}. `
        + (this.guess === right ? "That is what happens. " : "Not this time. ");
      parts.push(make("p", { class: "answer" }, said + answer));
    } else {
      const group = make("div", { class: "guesses", role: "group", "aria-label": "your guess" },
        ...guesses.map((guess, i) => make("button", {
          type: "button", "aria-pressed": String(this.guess === i),
          onclick: () => {
            this.guess = i;
            this.#ask();
            this.shadowRoot.querySelectorAll(".question button")[i]?.focus();
          },
        }, guess)));
      parts.push(group, make("p", { class: "key" }, this.guess === null
        ? "Guess first. " : `Now press Play and watch to step ${steps}.`));
    }
    this.question.replaceChildren(...parts);
  }

  #last(side) {
    const { history } = this.frame.sides[side];
    return history[history.length - 1];
  }

  #say() {
    if (!this.frame) {
      this.announce("Getting ready.");
      return;
    }
    const one = (side) => {
      const [, train, loss, accuracy] = this.#last(side);
      return Number.isFinite(train) && Number.isFinite(loss)
        ? `${SIDES[side]} (${this.#name(side)}): accuracy ${percent(accuracy)}, loss ${say(loss)}`
        : `${SIDES[side]} (${this.#name(side)}): its numbers have left the range of the computer`;
    };
    let text = `Step ${this.frame.steps}. ${one(0)}. ${one(1)}.`;
    if (this.again.length === SEEDS) {
      const all = (side) => [this.#last(side), ...this.again.map(({ histories }) =>
        histories[side][histories[side].length - 1])].map((last) => last[3]);
      const range = (values) => `${percent(Math.min(...values))} to ${percent(Math.max(...values))}`;
      text += ` Over 5 seeds: A ${range(all(0))}, B ${range(all(1))}.`;
    }
    this.announce(text);
  }

  #draw() {
    if (!this.shadowRoot) return;
    this.sides.forEach((side, i) => {
      side.title.textContent = `${SIDES[i]}: ${this.#name(i)}`;
      if (!this.frame) return;
      const [, train, loss, accuracy] = this.#last(i);
      const fine = Number.isFinite(train) && Number.isFinite(loss);
      side.text.textContent = fine
        ? `accuracy ${percent(accuracy)} · loss ${say(loss)} (training ${say(train)})`
        : "overflow: the numbers are too large";
      const what = this.state.settings.data === "digits"
        ? "forty digits that were not trained on, wrong ones crossed out"
        : "the points, and what the network says about each place";
      set(side.canvas, { "aria-label": `${SIDES[i]}, ${this.#name(i)}: ${what}. Accuracy ${percent(accuracy)}.` });
      this.#picture(side.canvas, this.frame.sides[i].picture);
    });
    if (!this.frame) return;
    const norms = pair(this.state).map(({ norm }) => norm);
    this.#layers("spread", "spread of the activations", norms);
    this.#layers("gradient", "size of the gradient", norms);
    this.#losses(norms);
  }

  #picture(canvas, values) {
    const context = canvas.getContext("2d");
    const size = canvas.width;
    context.clearRect(0, 0, size, size);
    if (this.state.settings.data === "digits") this.#digits(context, size, values);
    else this.#surface(context, size, values);
  }

  /** Ochre and slate, which no norm wears; the classes differ in shape, too. */
  #surface(context, size, values) {
    const dark = this.hasAttribute("data-dark");
    const ends = dark ? [[38, 52, 74], [122, 96, 22]] : [[176, 194, 216], [240, 212, 130]];
    const side = Math.sqrt(values.length);
    const image = new ImageData(side, side);
    values.forEach((p, i) => {
      const known = Number.isFinite(p);
      ends[0].forEach((v, c) => { image.data[4 * i + c] = known ? v + p * (ends[1][c] - v) : 128; });
      image.data[4 * i + 3] = 255;
    });
    this.small ??= document.createElement("canvas");
    set(this.small, { width: side, height: side });
    this.small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(this.small, 0, 0, size, size);
    if (this.data?.x.length !== 2 * this.data?.n) return;
    const { x, labels } = this.data;
    for (let i = 0; i < 200; i += 1) {
      const [px, py] = [((x[2 * i] + 1) * size) / 2, ((1 - x[2 * i + 1]) * size) / 2];
      context.beginPath();
      if (labels[i]) context.rect(px - 2.6, py - 2.6, 5.2, 5.2);
      else context.arc(px, py, 2.9, 0, 7);
      context.fillStyle = labels[i] ? (dark ? "#f2cf5b" : "#7a5600") : (dark ? "#9db9dc" : "#2c425f");
      context.fill();
    }
  }

  #digits(context, size, answers) {
    if (this.data?.labels.length !== 40) return;
    const dark = this.hasAttribute("data-dark");
    const [across, down] = [8, 5];
    const [w, h] = [size / across, size / down];
    const pixel = Math.floor(w / 9);
    const ink = dark ? 235 : 25;
    for (let k = 0; k < across * down; k += 1) {
      const [left, top] = [(k % across) * w + 2, Math.floor(k / across) * h + 2];
      for (let i = 0; i < 64; i += 1) {
        const level = (this.data.x[64 * k + i] + 1) / 2;
        context.fillStyle = `rgb(${ink} ${ink} ${ink} / ${level})`;
        context.fillRect(left + (i % 8) * pixel, top + (i >> 3) * pixel, pixel, pixel);
      }
      const wrong = answers[k] !== this.data.labels[k];
      context.fillStyle = dark ? "#e8e8e8" : "#222";
      context.font = `${wrong ? "bold " : ""}13px sans-serif`;
      context.fillText(`${wrong ? "✗ " : ""}${answers[k]}`, left + 2, top + 8 * pixel + 16);
      if (wrong) {
        context.strokeStyle = context.fillStyle;
        context.lineWidth = 2;
        context.strokeRect(left - 1, top - 1, 8 * pixel + 2, 8 * pixel + 22);
      }
    }
  }

  /** An empty chart as wide as it is shown, so that letters keep their size. */
  #axes(key, head, { bottom, top, ticks, from, to, xlabel, xticks }) {
    const svg = this.panels[key];
    const width = Math.max(250, Math.min(620, svg.clientWidth || 300));
    const [height, left, low, high] = [190, 46, 36, 26];
    set(svg, { viewBox: `0 0 ${width} ${height}` });
    const x = (v) => left + 8 + ((width - left - 30) * (v - from)) / Math.max(1e-9, to - from);
    const y = (v) => high + ((height - high - low) * (top - v)) / (top - bottom);
    return {
      svg, x, y,
      marks: [
        make("text", { class: "head", x: 2, y: 14 }, head),
        ...ticks.flatMap(([v, text]) => [
          make("line", { class: "grid", x1: left, x2: width - 14, y1: y(v), y2: y(v) }),
          make("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, text)]),
        ...xticks.map((v) => make("text", { x: x(v), y: height - low + 17, "text-anchor": "middle" }, v)),
        make("line", { class: "frame", x1: left, x2: width - 14, y1: height - low, y2: height - low }),
        make("text", { x: width - 14, y: height - 3, "text-anchor": "end" }, xlabel),
      ],
    };
  }

  /** Layer by layer, on a logarithmic scale of whole powers of ten. */
  #layers(key, head, norms) {
    const lists = this.frame.sides.map(({ profile }) => profile[key]);
    const logs = lists.flat().filter((v) => v > 1e-30 && v < 1e30).map(Math.log10);
    let [bottom, top] = [Math.floor(Math.min(0, ...logs)), Math.ceil(Math.max(0, ...logs))];
    if (key === "gradient") {
      [bottom, top] = [Math.floor(Math.min(...logs, -1)), Math.ceil(Math.max(...logs, -2))];
    }
    if (top === bottom) bottom -= 1;
    const every = Math.ceil((top - bottom) / 5);
    const ticks = [];
    for (let p = top; p >= bottom; p -= every) {
      ticks.push([p, p >= -3 && p <= 3 ? String(+(10 ** p).toFixed(3)) : `1e${say(p, 0)}`]);
    }
    const depth = Math.max(...lists.map((list) => list.length));
    const jump = depth > 10 ? 5 : depth > 5 ? 2 : 1;
    const xticks = Array.from({ length: depth }, (_, i) => i + 1)
      .filter((l) => l === 1 || l === depth || (l % jump === 0 && l < depth - jump / 2));
    const { svg, x, y, marks } = this.#axes(key, head, {
      bottom, top, ticks, from: 1, to: Math.max(2, depth), xlabel: "layer", xticks,
    });
    // What has left the range of the computer is drawn at the upper edge.
    const hold = (v) => (Number.isNaN(v) ? y(top) : y(Math.max(bottom, Math.min(top, Math.log10(Math.max(v, 1e-300))))));
    lists.forEach((list, side) => {
      const name = SIDES[side].toLowerCase();
      marks.push(make("polyline", {
        class: `${name} ${norms[side] === "none" ? "none" : ""}`,
        points: list.map((v, i) => `${x(i + 1)},${hold(v)}`).join(" "),
      }));
      list.forEach((v, i) => marks.push(name === "a"
        ? make("circle", { class: "a", cx: x(i + 1), cy: hold(v), r: 3 })
        : make("rect", { class: "b", x: x(i + 1) - 3, y: hold(v) - 3, width: 6, height: 6 })));
    });
    marks.push(...this.#ends(lists.map((list) => [x(list.length), hold(list[list.length - 1])])));
    const told = (v) => (Number.isFinite(v) ? say(v, 4) : "out of range");
    const ends = (list) => `${told(list[0])} in the first layer, ${told(list[list.length - 1])} in the last`;
    set(svg, { "aria-label": `${head}, by layer, logarithmic. A: ${ends(lists[0])}. B: ${ends(lists[1])}.` });
    svg.replaceChildren(...marks);
  }

  /** The letters A and B at the ends of two lines, kept apart. */
  #ends(places) {
    const [a, b] = places.map(([, y]) => y);
    const close = Math.abs(a - b) < 13 && Math.abs(places[0][0] - places[1][0]) < 14;
    const shift = close ? (a <= b ? [-6, 8] : [8, -6]) : [0, 0];
    return places.map(([x, y], i) => make("text", {
      class: SIDES[i].toLowerCase(), x: x + 8, y: y + 4 + shift[i],
    }, SIDES[i]));
  }

  #losses(norms) {
    const histories = this.frame.sides.map(({ history }) => history);
    const steps = Math.max(this.frame.steps, PRESETS[this.state.preset].steps);
    const chance = Math.log(this.state.settings.data === "digits" ? 10 : 2);
    const top = chance * 1.6;
    const ticks = [0, 0.5, 1].map((part) => [part * chance, say(part * chance, 1)]);
    const { svg, x, y, marks } = this.#axes("loss", "loss (nats)", {
      bottom: 0, top, ticks, from: 0, to: steps, xlabel: "step", xticks: [0, steps / 2, steps],
    });
    const hold = (v) => y(Number.isFinite(v) ? Math.min(top, v) : top);
    const line = (history, column, kind) => make("polyline", {
      class: kind, points: history.map((row) => `${x(row[0])},${hold(row[column])}`).join(" "),
    });
    marks.push(make("text", { x: x(steps), y: y(chance) - 4, "text-anchor": "end" }, "chance"));
    for (const { histories: others } of this.again) {
      others.forEach((history, i) => marks.push(line(history, 2, `again ${SIDES[i].toLowerCase()}`)));
    }
    histories.forEach((history, i) => {
      const name = SIDES[i].toLowerCase();
      marks.push(line(history, 1, `training ${name}`),
        line(history, 2, `${name} ${norms[i] === "none" ? "none" : ""}`));
    });
    marks.push(...this.#ends(histories.map((history) => {
      const last = history[history.length - 1];
      return [Math.min(x(last[0]), x(steps) - 2), hold(last[2])];
    })));
    const text = histories.map((_, i) => `${SIDES[i]}: evaluation ${say(this.#last(i)[2])}, training ${say(this.#last(i)[1])}`);
    set(svg, { "aria-label": `loss over ${this.frame.steps} steps. ${text.join(". ")}.` });
    svg.replaceChildren(...marks);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.resized?.disconnect();
    this.worker?.terminate();
    document.removeEventListener("visibilitychange", this.hidden_);
    window.removeEventListener("popstate", this.address);
  }
}

customElements.define("nt-playground", Playground);
