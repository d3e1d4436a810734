// Trains the two networks of the playground beside the page, and tells it now and then what came out.

import { build, dataset, unpackDigits } from "./network.js";

const GRID = 28; // points of the decision surface along each side
const RECORD = 25; // steps between two points of the curve of the loss
const PATIENCE = 60; // milliseconds of work between two messages, at a steady speed
const HURRY = 200; // the same where nothing counts but speed

let digits = null;
let task = null; // what the page asked for last

async function load(kind) {
  if (kind !== "digits" || digits) return;
  const answer = await fetch(new URL("./digits.bin", import.meta.url));
  digits = unpackDigits(new Uint8Array(await answer.arrayBuffer()));
}

const PLANE = new Float64Array(2 * GRID * GRID);
for (let i = 0; i < GRID * GRID; i += 1) {
  PLANE[2 * i] = (2 * ((i % GRID) + 0.5)) / GRID - 1;
  PLANE[2 * i + 1] = 1 - (2 * (Math.floor(i / GRID) + 0.5)) / GRID;
}

/** One of the two networks with its batches, and what is kept of its past. */
class Side {
  constructor(settings, data) {
    Object.assign(this, { settings, data, history: [], sum: 0, count: 0, profile: null });
    Object.assign(this, build(settings, data));
    this.classes = data.train.classes;
    // Before the first step: the profile of a twin on the first batch.
    const twin = build(settings, data);
    const batch = twin.batches.next();
    this.first = twin.network.gradients(batch.x, batch.labels, batch.size).loss;
    this.profile = twin.network.profile();
    this.record();
  }

  get steps() {
    return this.network.steps;
  }

  step() {
    const { loss } = this.network.step(this.batches.next());
    this.sum += loss;
    this.count += 1;
    if (this.steps % RECORD === 0) this.record();
  }

  record() {
    if (this.steps) this.profile = this.network.profile();
    const { loss, accuracy } = this.network.evaluate(this.data.test);
    const train = this.count ? this.sum / this.count : this.first;
    this.history.push([this.steps, train, loss, accuracy]);
    [this.sum, this.count] = [0, 0];
  }

  /** What the page draws: probabilities of the second class on a grid, or the first digits. */
  picture() {
    if (this.settings.data === "digits") {
      const logits = this.network.forward(this.data.test.x, this.data.test.n, false);
      return Array.from({ length: 40 }, (_, i) => {
        const own = Array.from(logits.subarray(10 * i, 10 * i + 10));
        return own.indexOf(Math.max(...own));
      });
    }
    const logits = this.network.forward(PLANE, GRID * GRID, false);
    return Float32Array.from({ length: GRID * GRID }, (_, i) =>
      1 / (1 + Math.exp(logits[2 * i] - logits[2 * i + 1])));
  }
}

function show(rate = null) {
  const { sides, id, running } = task;
  postMessage({
    id, running, rate, steps: sides[0].steps,
    sides: sides.map((side) => ({
      picture: side.picture(), profile: side.profile, history: side.history,
    })),
  });
}

/** Let the page and this worker breathe, then go on. */
const pause = () => new Promise((done) => { setTimeout(done); });

async function train(mine) {
  const begun = performance.now();
  const from = mine.sides[0].steps;
  const patience = mine.speed ? PATIENCE : HURRY;
  while (task === mine && mine.running && mine.sides[0].steps < mine.until) {
    const started = performance.now();
    while (mine.sides[0].steps < mine.until && performance.now() - started < patience) {
      if (mine.speed && mine.sides[0].steps - from >= ((started - begun) * mine.speed) / 1000) break;
      for (const side of mine.sides) side.step();
    }
    if (mine.waiting) {
      await pause();
      continue;
    }
    mine.waiting = true;
    const done = mine.sides[0].steps - from;
    show(done / ((performance.now() - begun) / 1000));
    await pause();
  }
  if (task === mine && mine.running) {
    mine.running = false;
    for (const side of mine.sides) if (side.steps % RECORD) side.record();
    show();
  }
}

/** The same two settings from other seeds, as far as the first pair has come. */
async function repeat(mine, seeds) {
  const { steps } = mine.sides[0];
  for (const seed of seeds) {
    const data = dataset(mine.sides[0].settings.data, seed, digits);
    const pair = mine.sides.map(({ settings }) => new Side({ ...settings, seed }, data));
    while (pair[0].steps < steps) {
      const started = performance.now();
      while (pair[0].steps < steps && performance.now() - started < PATIENCE) {
        for (const side of pair) side.step();
      }
      await pause();
      if (task !== mine || mine.running) return;
    }
    postMessage({ id: mine.id, seed, again: pair.map(({ history }) => history) });
  }
}

const ORDERS = {
  /** Begin anew with two settings. */
  async set({ id, settings }) {
    const mine = { id, running: false };
    task = mine;
    await load(settings[0].data);
    if (task !== mine) return; // asked for something else in the meantime
    const { data: kind, seed } = settings[0];
    const data = dataset(kind, seed, digits);
    mine.sides = settings.map((one) => new Side(one, data));
    postMessage({ id, data: kind === "digits" ? firstDigits(data) : data.train });
    show();
  },
  run({ until, speed }) {
    if (!task?.sides) return;
    Object.assign(task, { running: true, until, speed, waiting: false });
    train(task);
  },
  pause() {
    if (!task?.running) return;
    task.running = false;
    show();
  },
  step({ count }) {
    if (!task?.sides || task.running) return;
    for (let i = 0; i < count; i += 1) for (const side of task.sides) side.step();
    for (const side of task.sides) if (side.steps % RECORD) side.record();
    show();
  },
  shown() {
    if (task) task.waiting = false;
  },
  repeat({ seeds }) {
    if (task?.sides && !task.running) repeat(task, seeds);
  },
};

const firstDigits = ({ test }) => ({ x: test.x.slice(0, 64 * 40), labels: test.labels.slice(0, 40) });

addEventListener("message", ({ data: { kind, ...rest } }) => ORDERS[kind](rest));
