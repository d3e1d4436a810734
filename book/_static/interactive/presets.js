// The settings of the playground, and the experiments that it proposes.
// A test runs each of them from three seeds and holds `promise` against what comes out.

export const CHOICES = {
  data: ["circle", "squares", "spiral", "digits"],
  depth: Array.from({ length: 20 }, (_, i) => i + 1),
  width: [4, 8, 16, 32, 64],
  activation: ["ReLU", "tanh", "sigmoid", "identity"],
  scale: [0.1, 0.25, 0.5, 1, 2, 3, 6, 10],
  rate: [0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
  batch: [2, 4, 8, 16, 32, 64, 128],
  composition: ["shuffled", "one class"],
  optimizer: ["SGD", "momentum", "Adam"],
  norm: ["none", "BatchNorm", "LayerNorm", "RMSNorm", "PowerNorm"],
  placement: ["before", "after"],
};

export const LABELS = {
  data: "data", depth: "hidden layers", width: "units per layer", activation: "activation",
  scale: "initial weights", rate: "learning rate", batch: "batch size", composition: "batches are",
  optimizer: "optimizer", norm: "norm", placement: "norm stands",
};

/** How an option is shown. */
export function shown(key, value) {
  if (key === "scale") return value === 1 ? "usual scale" : `× ${value}`;
  if (key === "placement") return `${value} activation`;
  if (key === "composition" && value === "one class") return "one class each";
  if (key === "norm" && value === "none") return "no norm";
  return String(value);
}

export const BASE = {
  data: "circle", depth: 2, width: 16, activation: "ReLU", scale: 1, rate: 0.1, batch: 32,
  composition: "shuffled", optimizer: "SGD", norm: "LayerNorm", placement: "before", seed: 0,
};

// `with` and the choice in which network B differs; the question with its guesses, of which `right`
// counts; what is seen after so many steps. Accuracies are those of the evaluation.
export const PRESETS = {
  "small-weights": {
    title: "Small weights",
    with: { depth: 15, scale: 0.5, norm: "none" }, differ: "norm", other: "BatchNorm", steps: 400,
    question: "Fifteen layers begin with weights half as large as usual. Which network learns?",
    guesses: ["only A, without a norm", "only B, with BatchNorm", "both"], right: 1,
    answer: "Only B. Without a norm every layer halves the signal, so the last layer sees almost the "
      + "same input for every point, and the gradient that comes back is tiny. BatchNorm brings every "
      + "layer back to scale 1, whatever the weights before it.",
    promise: { a: { below: 0.6 }, b: { above: 0.95 } },
  },
  "high-rate": {
    title: "A high rate",
    with: { depth: 4, rate: 2, norm: "none" }, differ: "norm", other: "BatchNorm", steps: 400,
    question: "Twenty times the usual learning rate. Who survives?",
    guesses: ["neither", "only B, with BatchNorm", "both"], right: 1,
    answer: "Only B. The first large steps kill the units of A: its last hidden layer puts out 0, or "
      + "almost 0, for every point, and that stays. Under BatchNorm a layer whose weights have grown "
      + "puts out the same values as before and gets a smaller gradient, so the steps slow down by "
      + "themselves.",
    promise: { a: { below: 0.6 }, b: { above: 0.95 } },
  },
  spiral: {
    title: "Nothing unusual",
    with: { data: "spiral", depth: 3, norm: "LayerNorm" }, differ: "norm", other: "BatchNorm",
    steps: 600,
    question: "Shuffled batches of 32, SGD, one rate for both. LayerNorm or BatchNorm?",
    guesses: ["LayerNorm is ahead", "BatchNorm is ahead", "no difference"], right: 1,
    answer: "After 600 steps BatchNorm is ahead on this set, with this network, SGD and this rate. By "
      + "3,000 LayerNorm has caught up on most seeds. Choose Adam and the rate 0.02: most of its lead "
      + "is gone.",
    promise: { a: { below: 0.9 }, b: { above: 0.95 } },
  },
  "one-class": {
    title: "One class per batch",
    with: { composition: "one class", norm: "LayerNorm" }, differ: "norm", other: "BatchNorm",
    steps: 400,
    question: "Every batch now holds points of one class only. Does it matter to BatchNorm?",
    guesses: ["no, both learn", "yes, B fails", "yes, A fails"], right: 1,
    answer: "B fails. BatchNorm subtracts what the points of a batch have in common, and here that "
      + "includes the class. LayerNorm never looks at the other points.",
    promise: { a: { above: 0.97 }, b: { below: 0.8 } },
  },
  "two-per-batch": {
    title: "Two per batch",
    with: { batch: 2, rate: 0.05, norm: "LayerNorm" }, differ: "norm", other: "BatchNorm",
    steps: 600,
    question: "Batches of two points. What is left of BatchNorm?",
    guesses: ["it learns more slowly", "it does not learn", "nothing changes"], right: 1,
    answer: "It does not learn. With two points, each feature becomes +1 for one of them and −1 for the "
      + "other: almost everything that the layer knew is gone.",
    promise: { a: { above: 0.95 }, b: { below: 0.85 } },
  },
  "large-weights": {
    title: "Weights times ten",
    with: { depth: 3, norm: "LayerNorm" }, differ: "scale", other: 10, steps: 100,
    question: "Both use LayerNorm, so B's ten times larger weights leave every output as it was. Do the "
      + "two learn equally fast?",
    guesses: ["yes, the outputs are equal", "no, B is slower", "no, B is faster"], right: 1,
    answer: "B is slower. The outputs are equal at first, but the gradient is a tenth and the weights "
      + "are ten times longer, so a step turns them by a hundredth of the angle.",
    promise: { a: { above: 0.95 }, b: { below: 0.75 } },
  },
  "half-the-work": {
    title: "Without the mean",
    with: { data: "digits", depth: 3, width: 32, norm: "LayerNorm" }, differ: "norm",
    other: "RMSNorm", steps: 300,
    question: "RMSNorm does not subtract the mean. How much accuracy does that cost on digits?",
    guesses: ["none that one can see", "about 5 points", "about 20 points"], right: 0,
    answer: "None that one can see: both end between 90 and 97 percent, and which of them is ahead "
      + "depends on the seed.",
    promise: { a: { above: 0.9 }, b: { above: 0.9 }, apart: 0.04 },
  },
  power: {
    title: "A late statistic",
    with: { depth: 15, norm: "PowerNorm" }, differ: "norm", other: "BatchNorm", steps: 200,
    question: "PowerNorm divides by the scale of past batches and begins without a warm-up. Can it "
      + "steady fifteen layers?",
    guesses: ["yes, like BatchNorm", "no, it breaks down"], right: 1,
    answer: "It breaks down. While its running statistic still describes the past, nothing holds the "
      + "scale of the present: activations and gradients leave their range within a few steps.",
    promise: { a: { below: 0.6 }, b: { above: 0.9 } },
  },
};

export const FIRST = "small-weights";

/** The settings of networks A and B. */
export function pair({ settings, differ, other }) {
  return [settings, { ...settings, [differ]: other }];
}

/** The state that a preset stands for. */
export function stateOf(name) {
  const { with: some, differ, other } = PRESETS[name];
  return { preset: name, settings: { ...BASE, ...some }, differ, other };
}

/** Write a state as the part of an address after "#": the preset and what differs from it. */
export function toAddress({ preset, settings, differ, other }) {
  const start = stateOf(preset);
  const parts = [["preset", preset]];
  for (const key of Object.keys(BASE)) {
    if (settings[key] !== start.settings[key]) parts.push([key, settings[key]]);
  }
  if (differ !== start.differ) parts.push(["differ", differ]);
  if (other !== start.other) parts.push(["other", other]);
  return parts.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
}

/** Read it again. What is not among the choices is left as the preset has it. */
export function fromAddress(text) {
  const asked = new URLSearchParams(text.replace(/^#/, ""));
  const state = stateOf(asked.get("preset") in PRESETS ? asked.get("preset") : FIRST);
  const read = (key, value) => CHOICES[key].find((one) => String(one) === value);
  for (const key of Object.keys(CHOICES)) {
    const value = asked.has(key) ? read(key, asked.get(key)) : undefined;
    if (value !== undefined) state.settings[key] = value;
  }
  if (/^\d{1,4}$/.test(asked.get("seed") ?? "")) state.settings.seed = Number(asked.get("seed"));
  const differ = asked.get("differ");
  if (differ in CHOICES && differ !== "data") {
    state.differ = differ;
    state.other = state.settings[differ];
  }
  const other = asked.has("other") ? read(state.differ, asked.get("other")) : undefined;
  if (other !== undefined) state.other = other;
  return state;
}
