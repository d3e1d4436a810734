// The norms of the book on a block x of shape [B, L, H], held as one flat array.
// A test runs these beside the Python package and holds them equal.

/** Position of cell (b, l, h) in the flat array. */
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
export function normalize(name, x, shape, { mask = null, eps = 1e-5, groups = 2 } = {}) {
  const norm = NORMS[name];
  const cells = x.map((_, position) => cellOf(shape, position));
  const real = (cell) => !norm.pools || mask === null || mask[cell[0] * shape[1] + cell[1]];
  return x.map((value, position) => {
    const cell = cells[position];
    const members = [];
    cells.forEach((other, q) => {
      if (real(other) && norm.shares(cell, other, shape[2], groups)) members.push(q);
    });
    if (!real(cell)) return { members: [], mean: null, scale: null, y: 0 };
    const mean = norm.centred ? average(members.map((q) => x[q])) : 0;
    const square = average(members.map((q) => (x[q] - mean) ** 2));
    return { members, mean, square, y: (value - mean) / Math.sqrt(square + eps) };
  });
}

function average(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
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
