// The norms of the book, forward and backward. The interactive figures and the playground share them,
// and tests hold them equal to the Python package.

export const EPS = 1e-5;

// --- one statistic ----------------------------------------------------------------------------------

/**
 * Mean and mean square deviation (or mean square, if not centred) of `count` values of x, which
 * begin at `start` and stand `stride` apart.
 */
export function moments(x, start, stride, count, centred) {
  const end = start + stride * count;
  let mean = 0;
  if (centred) {
    for (let i = start; i < end; i += stride) mean += x[i];
    mean /= count;
  }
  let square = 0;
  for (let i = start; i < end; i += stride) square += (x[i] - mean) * (x[i] - mean);
  return { mean, square: square / count };
}

/** (x − mean) / sqrt(square + ε) of the same values, into y. Returns 1 / sqrt(square + ε). */
function standardize(x, y, start, stride, count, mean, square, eps) {
  const end = start + stride * count;
  const inverse = 1 / Math.sqrt(square + eps);
  for (let i = start; i < end; i += stride) y[i] = (x[i] - mean) * inverse;
  return inverse;
}

/**
 * The gradient through `standardize` with the statistic of the values themselves, in the place of g:
 * inverse * (g − mean(g) − x̂ mean(g x̂)), without mean(g) if the norm does not centre.
 */
function standardizeBackward(g, hat, start, stride, count, inverse, centred) {
  const end = start + stride * count;
  let mean = 0;
  let product = 0;
  for (let i = start; i < end; i += stride) {
    mean += g[i];
    product += g[i] * hat[i];
  }
  mean = centred ? mean / count : 0;
  product /= count;
  for (let i = start; i < end; i += stride) g[i] = inverse * (g[i] - mean - hat[i] * product);
}

// --- a norm that trains -----------------------------------------------------------------------------

/** An array that a layer may use again for as many values: a batch and an evaluation differ in size. */
export function room(owner, name, length) {
  owner.rooms ??= new Map();
  const key = `${name} ${length}`;
  if (!owner.rooms.has(key)) owner.rooms.set(key, new Float64Array(length));
  return owner.rooms.get(key);
}

/** A parameter with its gradient. */
export function parameter(size, value = 0) {
  return { value: new Float64Array(size).fill(value), grad: new Float64Array(size) };
}

/**
 * A normalization layer on x of shape [n][d], held as one flat array, with γ and β. Its names,
 * defaults and running statistics are those of `normtutor.layers`.
 */
class TrainableNorm {
  constructor(d, { eps = EPS } = {}) {
    this.d = d;
    this.eps = eps;
    this.weight = parameter(d, 1);
    this.bias = parameter(d, 0);
  }

  /** Running statistics, by the names of their buffers. */
  get buffers() {
    return {};
  }

  forward(x, n, training) {
    const { d } = this;
    this.hat = room(this, "hat", n * d);
    this.y = room(this, "y", n * d);
    this.normalize(x, n, training);
    const [gamma, beta] = [this.weight.value, this.bias.value];
    for (let i = 0, k = 0; i < n; i += 1) {
      for (let j = 0; j < d; j += 1, k += 1) this.y[k] = this.hat[k] * gamma[j] + beta[j];
    }
    return this.y;
  }

  /** Gradient with respect to x, in the place of g; those of γ and β are stored. */
  backward(g, n) {
    const { d, hat } = this;
    const gamma = this.weight.value;
    const [toWeight, toBias] = [this.weight.grad.fill(0), this.bias.grad.fill(0)];
    for (let i = 0, k = 0; i < n; i += 1) {
      for (let j = 0; j < d; j += 1, k += 1) {
        toWeight[j] += g[k] * hat[k];
        toBias[j] += g[k];
        g[k] *= gamma[j];
      }
    }
    this.normalizeBackward(g, n);
    return g;
  }
}

/** LayerNorm and RMSNorm: the statistic of each case itself. */
class OverFeatures extends TrainableNorm {
  normalize(x, n) {
    const { d } = this;
    this.inverse = room(this, "inverse", n);
    for (let i = 0; i < n; i += 1) {
      const { mean, square } = moments(x, i * d, 1, d, this.constructor.centred);
      this.inverse[i] = standardize(x, this.hat, i * d, 1, d, mean, square, this.eps);
    }
  }

  normalizeBackward(g, n) {
    const { d } = this;
    for (let i = 0; i < n; i += 1) {
      standardizeBackward(g, this.hat, i * d, 1, d, this.inverse[i], this.constructor.centred);
    }
  }
}

class LayerNorm extends OverFeatures {
  static centred = true;
}

class RMSNorm extends OverFeatures {
  static centred = false;
}

/** The statistic of each feature over the batch; in evaluation, a running average. */
class BatchNorm extends TrainableNorm {
  constructor(d, options = {}) {
    super(d, options);
    this.momentum = options.momentum ?? 0.1;
    this.running_mean = new Float64Array(d);
    this.running_var = new Float64Array(d).fill(1);
    this.inverse = new Float64Array(d);
  }

  get buffers() {
    return { running_mean: this.running_mean, running_var: this.running_var };
  }

  normalize(x, n, training) {
    const { d, momentum, running_mean: mean, running_var: variance } = this;
    for (let j = 0; j < d; j += 1) {
      let now = { mean: mean[j], square: variance[j] };
      if (training) {
        now = moments(x, j, d, n, true);
        mean[j] += momentum * (now.mean - mean[j]);
        // The batch's variance enters the average unbiased, with n − 1.
        variance[j] += momentum * ((now.square * n) / (n - 1) - variance[j]);
      }
      this.inverse[j] = standardize(x, this.hat, j, d, n, now.mean, now.square, this.eps);
    }
  }

  normalizeBackward(g, n) {
    for (let j = 0; j < this.d; j += 1) {
      standardizeBackward(g, this.hat, j, this.d, n, this.inverse[j], true);
    }
  }
}

/**
 * PowerNorm: each feature is divided by a running quadratic mean ψ, in training too, and the gradient
 * through ψ is replaced by the running average ν. In a warm-up the batch's own ψ divides.
 */
class PowerNorm extends TrainableNorm {
  constructor(d, options = {}) {
    super(d, options);
    this.alpha = options.alpha ?? 0.9;
    this.warmup = options.warmup ?? 0;
    this.running_mean_square = new Float64Array(d).fill(1);
    this.nu = new Float64Array(d);
    this.steps = 0;
    this.inverse = new Float64Array(d);
  }

  get buffers() {
    return { running_mean_square: this.running_mean_square, nu: this.nu };
  }

  normalize(x, n, training) {
    const { d, alpha, running_mean_square: psi } = this;
    this.steps += training ? 1 : 0;
    const warming = training && this.steps <= this.warmup;
    for (let j = 0; j < d; j += 1) {
      const old = psi[j];
      let divisor = old;
      if (training) {
        const batch = moments(x, j, d, n, false).square;
        divisor = warming ? batch : old;
        const updated = warming
          ? old + (batch - old) / this.steps
          : alpha * old + (1 - alpha) * batch;
        if (Number.isFinite(updated)) psi[j] = updated;
      }
      this.inverse[j] = standardize(x, this.hat, j, d, n, 0, divisor, this.eps);
    }
    this.exact = warming;
  }

  normalizeBackward(g, n) {
    const { d, alpha, nu, hat } = this;
    for (let j = 0; j < d; j += 1) {
      let square = 0;
      let product = 0;
      for (let i = j; i < n * d; i += d) {
        square += hat[i] * hat[i];
        product += g[i] * hat[i];
      }
      square /= n;
      product /= n;
      const pull = this.exact ? product : nu[j];
      for (let i = j; i < n * d; i += d) g[i] = this.inverse[j] * (g[i] - hat[i] * pull);
      const updated = nu[j] * (1 - (1 - alpha) * square) + (1 - alpha) * product;
      if (Number.isFinite(updated)) nu[j] = updated;
    }
  }
}

/** The norms that train in the page. */
export const TRAINABLE = { BatchNorm, LayerNorm, RMSNorm, PowerNorm };

// --- a block of sequences ---------------------------------------------------------------------------

/** Position of cell (b, l, h) in the flat array of a block of shape [B, L, H]. */
export function at(shape, b, l, h) {
  return (b * shape[1] + l) * shape[2] + h;
}

/** The opposite: [b, l, h] of a position. */
export function cellOf(shape, position) {
  const [, L, H] = shape;
  return [Math.floor(position / (L * H)), Math.floor(position / H) % L, position % H];
}

const group = (H, groups, h) => Math.floor(h / (H / groups));

// Which cells share a statistic with a cell, and which statistic it is.
export const NORMS = {
  BatchNorm: { shares: (p, q) => p[2] === q[2], pools: true, centred: true },
  LayerNorm: { shares: (p, q) => p[0] === q[0] && p[1] === q[1], pools: false, centred: true },
  InstanceNorm: { shares: (p, q) => p[0] === q[0] && p[2] === q[2], pools: true, centred: true },
  GroupNorm: {
    shares: (p, q, H, groups) =>
      p[0] === q[0] && group(H, groups, p[2]) === group(H, groups, q[2]),
    pools: true,
    centred: true,
  },
  RMSNorm: { shares: (p, q) => p[0] === q[0] && p[1] === q[1], pools: false, centred: false },
  "PowerNorm-V": { shares: (p, q) => p[2] === q[2], pools: true, centred: false },
};

/**
 * Normalize a block, in training, without an affine map.
 *
 * mask[b * L + l] is true on real tokens; null counts every token. Norms that pool over tokens
 * leave masked tokens out and give them 0, as the Python package does.
 * Returns for every cell the members of its statistic, the statistic, and the output.
 */
export function normalize(name, x, shape, { mask = null, eps = EPS, groups = 2 } = {}) {
  const norm = NORMS[name];
  const cells = Array.from(x, (_, position) => cellOf(shape, position));
  const real = (cell) => !norm.pools || mask === null || mask[cell[0] * shape[1] + cell[1]];
  const out = [];
  cells.forEach((cell, position) => {
    if (out[position]) return;
    if (!real(cell)) {
      out[position] = { members: [], mean: null, square: null, y: 0 };
      return;
    }
    const members = [];
    cells.forEach((other, q) => {
      if (real(other) && norm.shares(cell, other, shape[2], groups)) members.push(q);
    });
    const values = members.map((q) => x[q]);
    const y = new Float64Array(members.length);
    const { mean, square } = moments(values, 0, 1, values.length, norm.centred);
    standardize(values, y, 0, 1, values.length, mean, square, eps);
    members.forEach((q, i) => { out[q] = { members, mean, square, y: y[i] }; });
  });
  return out;
}

/** x W^T for X of shape [n][k] and W of shape [m][k]. */
export function linear(X, W) {
  return X.map((x) => W.map((w) => w.reduce((sum, weight, i) => sum + weight * x[i], 0)));
}

/** The layer norm(x W^T) on cases X, for the norms whose invariances the book proves. */
export function layer(name, X, W, eps) {
  if (name === "WeightNorm") {
    return linear(X, W.map((w) => w.map((v) => v / Math.hypot(...w))));
  }
  const a = linear(X, W);
  const n = a.length;
  const m = W.length;
  if (name === "none") return a;
  const result = normalize(name, a.flat(), [n, 1, m], { eps });
  return a.map((_, i) => result.slice(i * m, (i + 1) * m).map((cell) => cell.y));
}
