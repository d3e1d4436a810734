// A small network that trains in the page: layers, loss, optimizers, data and batches.
// It needs no document: a worker runs it, and tests run it beside torch.

import { TRAINABLE, parameter, room } from "./norms.js";

// --- chance -----------------------------------------------------------------------------------------

/** Random numbers that a seed decides: uniform, normal, and a shuffle. */
export class Chance {
  constructor(seed) {
    this.state = (seed * 0x9e3779b1 + 0x7f4a7c15) >>> 0;
    this.spare = null;
    for (let i = 0; i < 8; i += 1) this.uniform();
  }

  /** In [0, 1). */
  uniform() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Standard normal, by Box and Muller. */
  normal() {
    if (this.spare !== null) {
      const value = this.spare;
      this.spare = null;
      return value;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  /** The numbers 0 to n − 1 in random order. */
  order(n) {
    const order = Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i -= 1) {
      const j = Math.floor(this.uniform() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

// --- data -------------------------------------------------------------------------------------------

const POINTS = 400; // of each two-dimensional set, for training
const OTHERS = 200; // to evaluate

const PLANE = {
  circle(chance, label) {
    const radius = label ? 0.65 + 0.3 * chance.uniform() : 0.45 * Math.sqrt(chance.uniform());
    const angle = 2 * Math.PI * chance.uniform();
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  },
  squares(chance, label) {
    const x = 0.06 + 0.86 * chance.uniform();
    const y = 0.06 + 0.86 * chance.uniform();
    const flip = chance.uniform() < 0.5 ? -1 : 1;
    return [flip * x, flip * y * (label ? 1 : -1)];
  },
  spiral(chance, label) {
    const t = 0.05 + 0.95 * Math.sqrt(chance.uniform());
    const angle = 3.5 * Math.PI * t + (label ? Math.PI : 0);
    const noise = () => 0.03 * chance.normal();
    return [0.95 * t * Math.cos(angle) + noise(), 0.95 * t * Math.sin(angle) + noise()];
  },
};

/** Points of a set in the plane: {x: flat array of shape [n][2], labels, n, inputs, classes}. */
function planeSet(kind, chance, n) {
  const x = new Float64Array(2 * n);
  const labels = new Uint8Array(n);
  for (let i = 0; i < n; i += 1) {
    labels[i] = i % 2;
    x.set(PLANE[kind](chance, labels[i]), 2 * i);
  }
  return { x, labels, n, inputs: 2, classes: 2 };
}

/**
 * Handwritten digits as the page keeps them: 32 bytes an image, a pixel in four bits, and then a
 * byte with the label. The last fifth is for evaluation.
 */
export function unpackDigits(bytes) {
  const all = bytes.length / 33;
  const part = (from, to) => {
    const x = new Float64Array(64 * (to - from));
    const labels = new Uint8Array(to - from);
    for (let i = from; i < to; i += 1) {
      for (let k = 0; k < 64; k += 1) {
        const pixel = (bytes[33 * i + (k >> 1)] >> (k % 2 ? 0 : 4)) & 15;
        x[64 * (i - from) + k] = pixel / 7.5 - 1;
      }
      labels[i - from] = bytes[33 * i + 32];
    }
    return { x, labels, n: to - from, inputs: 64, classes: 10 };
  };
  const cut = Math.round(all * 0.8);
  return { train: part(0, cut), test: part(cut, all) };
}

/** Training and evaluation data; `digits` are the unpacked digits, where they are asked for. */
export function dataset(kind, seed, digits = null) {
  if (kind === "digits") return digits;
  const chance = new Chance(1000 + seed);
  return { train: planeSet(kind, chance, POINTS), test: planeSet(kind, chance, OTHERS) };
}

/** Batches without end. "one class": the cases of a batch all have the same label. */
export class Batches {
  constructor(data, size, composition, seed) {
    Object.assign(this, { data, size, chance: new Chance(2000 + seed) });
    const everything = Array.from(data.labels, (_, i) => i);
    const classes = Array.from({ length: data.classes }, (_, c) =>
      everything.filter((i) => data.labels[i] === c));
    this.pools = (composition === "one class" ? classes : [everything])
      .map((members) => ({ members, order: [], next: 0 }));
    this.x = new Float64Array(size * data.inputs);
    this.labels = new Uint8Array(size);
  }

  /** The next batch, in arrays that the one after it overwrites. */
  next() {
    const { data, size } = this;
    const pool = this.pools[Math.floor(this.chance.uniform() * this.pools.length)];
    for (let i = 0; i < size; i += 1) {
      if (pool.next === pool.order.length) {
        pool.order = this.chance.order(pool.members.length);
        pool.next = 0;
      }
      const one = pool.members[pool.order[pool.next]];
      pool.next += 1;
      this.x.set(data.x.subarray(one * data.inputs, (one + 1) * data.inputs), i * data.inputs);
      this.labels[i] = data.labels[one];
    }
    return this;
  }
}

// --- layers -----------------------------------------------------------------------------------------

/** y = x W^T + b, for W of shape [out][in] as in torch. */
class Linear {
  constructor(inputs, outputs, deviation, chance) {
    Object.assign(this, { inputs, outputs });
    this.weight = parameter(inputs * outputs);
    this.bias = parameter(outputs);
    for (let i = 0; i < inputs * outputs; i += 1) {
      this.weight.value[i] = deviation * chance.normal();
    }
  }

  forward(x, n) {
    const { inputs, outputs } = this;
    const w = this.weight.value;
    const b = this.bias.value;
    this.x = x;
    this.y = room(this, "y", n * outputs);
    const { y } = this;
    // Four units at a time: the input is read once for the four.
    const fours = outputs - (outputs % 4);
    for (let i = 0; i < n; i += 1) {
      const from = i * inputs;
      for (let o = 0; o < fours; o += 4) {
        let [p0, p1, p2, p3] = [o * inputs, (o + 1) * inputs, (o + 2) * inputs, (o + 3) * inputs];
        let [s0, s1, s2, s3] = [b[o], b[o + 1], b[o + 2], b[o + 3]];
        for (let k = from; k < from + inputs; k += 1) {
          const v = x[k];
          s0 += v * w[p0]; s1 += v * w[p1]; s2 += v * w[p2]; s3 += v * w[p3];
          p0 += 1; p1 += 1; p2 += 1; p3 += 1;
        }
        const to = i * outputs + o;
        y[to] = s0; y[to + 1] = s1; y[to + 2] = s2; y[to + 3] = s3;
      }
      for (let o = fours; o < outputs; o += 1) {
        let sum = b[o];
        for (let k = 0; k < inputs; k += 1) sum += x[from + k] * w[o * inputs + k];
        y[i * outputs + o] = sum;
      }
    }
    return y;
  }

  /** Store the gradients of W and b; return that of x, which the first layer does not need. */
  backward(g, n, needed) {
    const { inputs, outputs, x } = this;
    const w = this.weight.value;
    const toWeight = this.weight.grad.fill(0);
    const toBias = this.bias.grad.fill(0);
    const gx = room(this, "gx", n * inputs).fill(0);
    for (let i = 0; i < n; i += 1) {
      const from = i * inputs;
      for (let o = 0; o < outputs; o += 1) {
        const slope = g[i * outputs + o];
        if (slope === 0) continue; // behind a ReLU this is every second one
        toBias[o] += slope;
        const row = o * inputs;
        if (needed) {
          for (let k = 0; k < inputs; k += 1) {
            toWeight[row + k] += slope * x[from + k];
            gx[from + k] += slope * w[row + k];
          }
        } else {
          for (let k = 0; k < inputs; k += 1) toWeight[row + k] += slope * x[from + k];
        }
      }
    }
    return gx;
  }
}

// Each with its slope as a function of its output, and the variance of the initial weights, times the
// number of inputs, that keeps the scale of its inputs steady.
const ACTIVATIONS = {
  // What is no number stays so, as in torch: a network that has left its range must not look calm.
  ReLU: { of: (v) => (v <= 0 ? 0 : v), slope: (y) => (y <= 0 ? 0 : 1), gain: 2 },
  tanh: { of: Math.tanh, slope: (y) => 1 - y * y, gain: 1 },
  sigmoid: { of: (v) => 1 / (1 + Math.exp(-v)), slope: (y) => y * (1 - y), gain: 1 },
  identity: { of: (v) => v, slope: () => 1, gain: 1 },
};

class Activation {
  constructor(name) {
    Object.assign(this, ACTIVATIONS[name]);
  }

  forward(x) {
    this.y = room(this, "y", x.length);
    const { y, of } = this;
    for (let i = 0; i < x.length; i += 1) y[i] = of(x[i]);
    return y;
  }

  backward(g) {
    const { y, slope } = this;
    for (let i = 0; i < g.length; i += 1) g[i] *= slope(y[i]);
    return g;
  }
}

// --- optimizers, as in torch ------------------------------------------------------------------------

const OPTIMIZERS = {
  SGD: (rate) => ({ value, grad }) => {
    for (let i = 0; i < value.length; i += 1) value[i] -= rate * grad[i];
  },
  momentum: (rate) => (one) => {
    const { value, grad } = one;
    const v = (one.velocity ??= new Float64Array(value.length));
    for (let i = 0; i < value.length; i += 1) {
      v[i] = 0.9 * v[i] + grad[i];
      value[i] -= rate * v[i];
    }
  },
  Adam: (rate) => (one, step) => {
    const { value, grad } = one;
    const m = (one.first ??= new Float64Array(value.length));
    const v = (one.second ??= new Float64Array(value.length));
    const [c1, c2] = [1 - 0.9 ** step, 1 - 0.999 ** step];
    for (let i = 0; i < value.length; i += 1) {
      m[i] += 0.1 * (grad[i] - m[i]);
      v[i] += 0.001 * (grad[i] * grad[i] - v[i]);
      value[i] -= (rate * (m[i] / c1)) / (Math.sqrt(v[i] / c2) + 1e-8);
    }
  },
};

// --- the network ------------------------------------------------------------------------------------

/** Mean cross-entropy over n cases, in nats. The gradient goes into g, which holds the logits. */
function crossEntropy(g, labels, n, classes) {
  let loss = 0;
  let right = 0;
  for (let i = 0; i < n; i += 1) {
    const start = i * classes;
    let best = 0;
    for (let c = 1; c < classes; c += 1) if (g[start + c] > g[start + best]) best = c;
    if (best === labels[i]) right += 1;
    const highest = g[start + best];
    let sum = 0;
    for (let c = 0; c < classes; c += 1) sum += Math.exp(g[start + c] - highest);
    loss += Math.log(sum) + highest - g[start + labels[i]];
    for (let c = 0; c < classes; c += 1) {
      g[start + c] = (Math.exp(g[start + c] - highest) / sum - (c === labels[i] ? 1 : 0)) / n;
    }
  }
  return { loss: loss / n, accuracy: right / n };
}

const rms = (values) => {
  let sum = 0;
  for (let i = 0; i < values.length; i += 1) sum += values[i] * values[i];
  return Math.sqrt(sum / values.length);
};

/** Standard deviation of all values of a layer. */
export function spread(values) {
  let mean = 0;
  for (let i = 0; i < values.length; i += 1) mean += values[i];
  mean /= values.length;
  let square = 0;
  for (let i = 0; i < values.length; i += 1) square += (values[i] - mean) ** 2;
  return Math.sqrt(square / values.length);
}

/**
 * A network of `depth` hidden layers: linear, norm and activation, or linear, activation and norm
 * (placement "after"); then a linear layer onto the classes.
 */
export class Network {
  constructor({
    inputs, classes, depth, width, activation = "ReLU", norm = "none", placement = "before",
    scale = 1, optimizer = "SGD", rate = 0.1, seed = 0, warmup = 0,
  }) {
    Object.assign(this, { inputs, classes, depth, width, steps: 0 });
    const chance = new Chance(seed);
    const { gain } = ACTIVATIONS[activation];
    this.hidden = [];
    for (let i = 0; i < depth; i += 1) {
      const from = i ? width : inputs;
      const linear = new Linear(from, width, scale * Math.sqrt(gain / from), chance);
      const act = new Activation(activation);
      const normal = norm === "none" ? null : new TRAINABLE[norm](width, { warmup });
      const order = placement === "before" ? [normal, act] : [act, normal];
      this.hidden.push({ linear, norm: normal, parts: [linear, ...order].filter(Boolean) });
    }
    // The same last layer for every depth and scale, so that the first loss is comparable.
    this.last = new Linear(width, classes, 1 / Math.sqrt(width), chance);
    this.parameters = [...this.hidden.flatMap(({ parts }) => parts), this.last]
      .flatMap((part) => (part.weight ? [part.weight, part.bias] : []));
    this.update = OPTIMIZERS[optimizer](rate);
  }

  /** The logits of n cases, in an array that the next call overwrites. */
  forward(x, n, training) {
    let h = x;
    for (const { parts } of this.hidden) {
      for (const part of parts) h = part.forward(h, n, training);
    }
    return this.last.forward(h, n);
  }

  /** Compute the loss of a batch and all gradients. */
  gradients(x, labels, n) {
    const logits = this.forward(x, n, true);
    const result = crossEntropy(logits, labels, n, this.classes);
    let g = this.last.backward(logits, n, true);
    for (let i = this.depth - 1; i >= 0; i -= 1) {
      const { parts } = this.hidden[i];
      for (let k = parts.length - 1; k >= 0; k -= 1) g = parts[k].backward(g, n, i > 0);
    }
    return result;
  }

  /** One step of training on a batch; its loss before the step, and its accuracy. */
  step({ x, labels, size }) {
    const result = this.gradients(x, labels, size);
    this.steps += 1;
    for (const one of this.parameters) this.update(one, this.steps);
    return result;
  }

  /** Loss and accuracy on data, in evaluation or with the statistics of this data as one batch. */
  evaluate({ x, labels, n }) {
    const logits = this.forward(x, n, false).slice();
    return { ...crossEntropy(logits, labels, n, this.classes) };
  }

  /**
   * Layer by layer, of the last batch: the spread of the activations and the size of the gradient,
   * which is the root mean square of its entries with respect to the weights.
   */
  profile() {
    return {
      spread: this.hidden.map(({ parts }) => spread(parts[parts.length - 1].y)),
      gradient: this.hidden.map(({ linear }) => rms(linear.weight.grad)),
    };
  }
}

/** The network and the batches of a setting of the playground. */
export function build(settings, data) {
  const { inputs, classes } = data.train;
  return {
    network: new Network({ ...settings, inputs, classes }),
    batches: new Batches(data.train, settings.batch, settings.composition, settings.seed),
  };
}
