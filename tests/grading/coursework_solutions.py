"""Right answers to the graded tasks, in three styles where the task allows: loops, NumPy, torch."""

import functools
import math

import numpy as np
import torch
from torch import nn

SOLUTIONS = {}


def solves(task, style):
    return lambda answer: SOLUTIONS.setdefault(task, {}).setdefault(style, answer)


def _normed(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def _normed_by_torch(x, weight, bias, eps):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) * torch.rsqrt(var + eps) * weight + bias


def _over_rms_by_torch(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _standard(values, eps):
    mean = sum(map(float, values)) / len(values)
    std = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values) + eps)
    return [(v - mean) / std for v in values]


def _over_rms(values, eps):
    rms = math.sqrt(sum(float(v) ** 2 for v in values) / len(values) + eps)
    return [float(v) / rms for v in values]


def _by_token(row, x, weight, bias, eps):
    y = np.empty_like(x)
    for index in np.ndindex(*x.shape[:-1]):
        y[index] = np.array(row(x[index], eps)) * weight + bias
    return y


@solves("01.2", "numpy")
def _(grad_y, x, weight, running_mean, running_var, eps):
    inverse = 1 / np.sqrt(running_var + eps)
    x_hat = (x - running_mean) * inverse
    return grad_y * weight * inverse, (grad_y * x_hat).sum(0), grad_y.sum(0)


@solves("01.2", "torch")
def _(*given):
    grad_y, x, weight, mean, var = map(torch.as_tensor, given[:-1])
    inverse = torch.rsqrt(var + given[-1])
    return grad_y * weight * inverse, (grad_y * (x - mean) * inverse).sum(0), grad_y.sum(0)


@solves("01.2", "loops")
def _(grad_y, x, weight, running_mean, running_var, eps):
    grad_x, grads = np.zeros_like(x), np.zeros((2, len(weight)), x.dtype)
    for (b, c), g in np.ndenumerate(grad_y):
        std = math.sqrt(running_var[c] + eps)
        grad_x[b, c] = g * weight[c] / std
        grads[:, c] += g * (x[b, c] - running_mean[c]) / std, g
    return grad_x, *grads


@solves("01.3", "torch")
class BatchNorm(nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                self.running_mean += self.momentum * (mean - self.running_mean)
                self.running_var += self.momentum * (x.var(0) - self.running_var)
        return (x - mean) / torch.sqrt(var + self.eps)


@solves("01.5", "numpy")
def _(grad_y, x, weight, eps):
    inverse = 1 / np.sqrt(x.var(0) + x.dtype.type(eps))
    x_hat, g = (x - x.mean(0)) * inverse, grad_y * weight
    grad_x = inverse * (g - g.mean(0) - x_hat * (g * x_hat).mean(0))
    return grad_x, (grad_y * x_hat).sum(0), grad_y.sum(0)


@solves("01.5", "torch")
def _(*given):
    grad_y, x, weight = map(torch.as_tensor, given[:3])
    inverse = torch.rsqrt(x.var(0, unbiased=False) + given[3])
    x_hat, g = (x - x.mean(0)) * inverse, grad_y * weight
    grad_x = inverse * (g - g.mean(0) - x_hat * (g * x_hat).mean(0))
    return grad_x, (grad_y * x_hat).sum(0), grad_y.sum(0)


@solves("01.5", "loops")
def _(grad_y, x, weight, eps):
    grad_x, grads, n = np.zeros_like(x), np.zeros((2, len(weight)), x.dtype), len(x)
    for c in range(len(weight)):
        x_hat = _standard(x[:, c], eps)
        std = math.sqrt(float(np.var(np.float64(x[:, c]))) + eps)
        g = [float(v) * float(weight[c]) for v in grad_y[:, c]]
        along = sum(a * b for a, b in zip(g, x_hat, strict=True)) / n
        grad_x[:, c] = [(a - sum(g) / n - b * along) / std for a, b in zip(g, x_hat, strict=True)]
        grads[:, c] = np.dot(grad_y[:, c], x_hat), grad_y[:, c].sum()
    return grad_x, *grads


@solves("01.6", "numpy")
def _(images, labels, w1, w2, rate, steps):
    losses, wanted = [], np.eye(w2.shape[1])[labels]
    for _ in range(steps):
        z = images @ w1
        inverse = 1 / np.sqrt(z.var(0) + 1e-5)
        x_hat = (z - z.mean(0)) * inverse
        hidden = np.maximum(x_hat, 0)
        logits = hidden @ w2
        logits = logits - logits.max(1, keepdims=True)
        log_shares = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        losses.append(-(wanted * log_shares).sum(1).mean())
        d = (np.exp(log_shares) - wanted) / len(labels)
        g = d @ w2.T * (x_hat > 0)
        dz = inverse * (g - g.mean(0) - x_hat * (g * x_hat).mean(0))
        w1, w2 = w1 - rate * images.T @ dz, w2 - rate * hidden.T @ d
    return np.array(losses)


@solves("01.7", "numpy")
def _(grad_y, x):
    c = x - x.mean(0)
    size = np.abs(c).mean(0)
    h = (grad_y - np.sign(c) * (grad_y * c / size).mean(0)) / size
    return h - h.mean(0)


@solves("01.7", "torch")
def _(grad_y, x):
    grad_y, x = torch.as_tensor(grad_y), torch.as_tensor(x)
    c = x - x.mean(0)
    size = c.abs().mean(0)
    h = (grad_y - c.sign() * (grad_y * c / size).mean(0)) / size
    return h - h.mean(0)


@solves("02.2", "numpy")
def _(g, x_hat, inverse_std):
    mean = g.mean(-1, keepdims=True)
    return inverse_std * (g - mean - x_hat * (g * x_hat).mean(-1, keepdims=True))


@solves("02.2", "torch")
def _(g, x_hat, inverse_std):
    g, x_hat, inverse_std = map(torch.as_tensor, (g, x_hat, inverse_std))
    pull = g.mean(-1, keepdim=True) + x_hat * (g * x_hat).mean(-1, keepdim=True)
    return inverse_std * (g - pull)


@solves("02.2", "loops")
def _(g, x_hat, inverse_std):
    result = np.empty_like(g)
    for index in np.ndindex(*g.shape[:-1]):
        pairs = list(zip(g[index], x_hat[index], strict=True))
        mean = sum(a for a, _ in pairs) / len(pairs)
        pull = sum(a * b for a, b in pairs) / len(pairs)
        result[index] = [inverse_std[index][0] * (a - mean - b * pull) for a, b in pairs]
    return result


@solves("02.2", "lists")
def _(g, x_hat, inverse_std):
    pull = g.mean(-1, keepdims=True) + x_hat * (g * x_hat).mean(-1, keepdims=True)
    return (inverse_std * (g - pull)).tolist()


@solves("02.3", "loops")
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    share = n_b / n
    gap = mean_b - mean_a
    return n, mean_a + share * gap, var_a + share * (var_b - var_a) + share * (1 - share) * gap**2


@solves("02.3", "numpy")
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    counts, means, variances = np.array([[n_a, n_b], [mean_a, mean_b], [var_a, var_b]])
    mean = np.average(means, weights=counts)
    within = np.average(variances, weights=counts)
    return counts.sum(), mean, within + np.average((means - mean) ** 2, weights=counts)


# Several numbers may come in any row.
for kind in (list, np.array, torch.DoubleTensor):
    solves("02.3", kind.__name__)(
        lambda *given, kind=kind: kind([*map(float, SOLUTIONS["02.3"]["loops"](*given))])
    )


@solves("02.4", "numpy")
def _():
    return (10_000 + np.random.default_rng(0).normal(size=1000)).astype(np.float32)


@solves("02.4", "torch")
def _():
    return 1e5 + torch.arange(200, dtype=torch.float32) % 2


@solves("02.5", "numpy")
def _(x, y):
    for choice in range(2, 16):
        over, centred = [choice >> 3 & 1, choice >> 2 & 1, choice >> 1 & 1], choice & 1
        axes = tuple(axis for axis in range(3) if over[axis])
        c = x - x.mean(axes, keepdims=True) if centred else x
        guess = c / np.sqrt((c**2).mean(axes, keepdims=True) + 1e-5)
        if np.allclose(guess, y, atol=1e-3):
            return (*over, centred)
    return 0, 0, 0, 0


@solves("02.6", "numpy")
@solves("04.4", "numpy")
def _(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


@solves("02.6", "torch")
@solves("04.4", "torch")
def _(x, weight, bias, eps):
    return _normed_by_torch(*map(torch.as_tensor, (x, weight, bias)), eps)


@solves("03.2", "numpy")
def _(x, mask, running_mean, running_var, momentum):
    real = x[mask]
    if len(real) == 0:
        return running_mean, running_var
    mean, var = real.mean(0), real.var(0, ddof=1)
    keep = 1 - momentum
    return keep * running_mean + momentum * mean, keep * running_var + momentum * var


@solves("03.2", "torch")
def _(x, mask, running_mean, running_var, momentum):
    real, *old = torch.as_tensor(x)[torch.as_tensor(mask)], running_mean, running_var
    new = (real.mean(0), real.var(0)) if len(real) else map(torch.as_tensor, old)
    return tuple(torch.as_tensor(a).lerp(b, momentum) for a, b in zip(old, new, strict=True))


@solves("03.2", "loops")
def _(x, mask, running_mean, running_var, momentum):
    new, old = np.array([running_mean, running_var]), (running_mean, running_var)
    for h in range(x.shape[2]):
        values = [v for v, real in zip(x[..., h].ravel(), mask.ravel(), strict=True) if real]
        if values:
            mean = sum(values) / len(values)
            var = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
            for row, batch in enumerate((mean, var)):
                new[row, h] = (1 - momentum) * old[row][h] + momentum * batch
    return tuple(new)


@solves("03.3", "torch")
class RunningScale(nn.Module):
    def __init__(self, features, alpha=0.9, eps=1e-5):
        super().__init__()
        self.alpha, self.eps = alpha, eps
        self.register_buffer("running_mean_square", torch.ones(features))

    def forward(self, x):
        y = x / torch.sqrt(self.running_mean_square + self.eps)
        if self.training:
            batch = (x.detach() ** 2).mean((0, 1))
            self.running_mean_square = (
                self.alpha * self.running_mean_square + (1 - self.alpha) * batch
            )
        return y


@solves("03.3", "in place")
class Moved(RunningScale):
    def forward(self, x):
        y = x / torch.sqrt(self.running_mean_square + self.eps)
        if self.training:
            batch = (x.detach() ** 2).mean((0, 1))
            self.running_mean_square.lerp_(batch, 1 - self.alpha)
        return y


@solves("03.4", "numpy")
def _(x, weight, bias, eps):
    mean, var = x.mean((0, 1)), x.var((0, 1))
    return (x - mean) / np.sqrt(var + x.dtype.type(eps)) * weight + bias


@solves("03.4", "torch")
def _(x, weight, bias, eps):
    x, weight, bias = map(torch.as_tensor, (x, weight, bias))
    y = _normed_by_torch(x.flatten(0, 1).T, 1.0, 0.0, eps).T.reshape(x.shape)
    return y * weight + bias


@solves("03.4", "loops")
def _(x, weight, bias, eps):
    y = np.empty_like(x)
    for h in range(x.shape[2]):
        values = np.reshape(_standard(x[..., h].ravel(), eps), x.shape[:2])
        y[..., h] = values * weight[h] + bias[h]
    return y


@solves("03.6", "numpy")
def _(x, batch_size):
    batches = x.reshape(-1, batch_size, x.shape[-1])
    between, within = batches.mean(1).var(0), batches.var(1).mean(0)
    return between / (between + within)


@solves("03.7", "numpy")
def _(g_1, x_hat_1, g_2, x_hat_2, inverse):
    n = len(g_1) + len(g_2)
    mean_g = (g_1.sum(0) + g_2.sum(0)) / n
    mean_gx = ((g_1 * x_hat_1).sum(0) + (g_2 * x_hat_2).sum(0)) / n
    return tuple(
        inverse * (g - mean_g - x_hat * mean_gx) for g, x_hat in ((g_1, x_hat_1), (g_2, x_hat_2))
    )


@solves("03.7", "joined")
def _(g_1, x_hat_1, g_2, x_hat_2, inverse):
    g, x_hat = np.concatenate([g_1, g_2]), np.concatenate([x_hat_1, x_hat_2])
    dx = inverse * (g - g.mean(0) - x_hat * (g * x_hat).mean(0))
    return dx[: len(g_1)], dx[len(g_1) :]


@solves("04.2", "numpy")
def _(weights, gradients, rate):
    unit = weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    apart = np.linalg.norm(unit[1:] - unit[:-1], axis=-1)
    beside = np.linalg.norm(unit[1:] + unit[:-1], axis=-1)
    lengths = np.linalg.norm(weights[:-1], axis=-1)
    return 2 * np.arctan2(apart, beside), rate * np.linalg.norm(gradients, axis=-1) / lengths


@solves("04.2", "arcsine")
def _(weights, gradients, rate):
    lengths = np.linalg.norm(weights, axis=-1)
    unit = weights / lengths[..., None]
    angles = 2 * np.arcsin(np.linalg.norm(np.diff(unit, axis=0), axis=-1) / 2)
    return angles, rate * np.linalg.norm(gradients, axis=-1) / lengths[:-1]


@solves("04.3", "numpy")
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / np.sqrt(running_var + eps)
    return w * factor[:, None], (b - running_mean) * factor + bias


@solves("04.3", "torch")
def _(*arguments):
    w, b, weight, bias, mean, var = map(torch.as_tensor, arguments[:-1])
    factor = weight * torch.rsqrt(var + arguments[-1])
    return torch.diag(factor) @ w, (b - mean) * factor + bias


@solves("04.3", "loops")
def _(w, b, weight, bias, running_mean, running_var, eps):
    new_w, new_b = w.copy(), b.copy()
    for unit, row in enumerate(w):
        factor = weight[unit] / math.sqrt(running_var[unit] + eps)
        new_w[unit] = [factor * v for v in row]
        new_b[unit] = factor * (b[unit] - running_mean[unit]) + bias[unit]
    return new_w, new_b


@solves("05.2", "numpy")
def _(grad_y, x):
    place = np.abs(x).argmax(-1, keepdims=True)
    value = np.take_along_axis(x, place, -1)
    size = np.abs(value)
    grad_x = grad_y / size
    pull = (grad_y * x / size).sum(-1, keepdims=True) * np.sign(value) / size
    np.put_along_axis(grad_x, place, np.take_along_axis(grad_x, place, -1) - pull, -1)
    return grad_x


@solves("05.2", "torch")
def _(grad_y, x):
    grad_y, x = torch.as_tensor(grad_y), torch.as_tensor(x)
    size = x.abs().amax(-1, keepdim=True)
    spike = (x.abs() == size) * x.sign()
    return (grad_y - spike * (grad_y * x / size).sum(-1, keepdim=True)) / size


@solves("05.3", "numpy")
def _(eps, share):
    return np.float64(eps) * (1 / share - 1)


@solves("05.3", "torch")
def _(eps, share):
    return torch.tensor(eps * (1 - share) / share, dtype=torch.float64)


@solves("05.4", "numpy")
def _(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


@solves("05.4", "torch")
def _(x, weight, eps):
    return _over_rms_by_torch(*map(torch.as_tensor, (x, weight)), eps)


@solves("05.5", "numpy")
def _(x, weight, eps):
    wide = x.astype(np.float32)
    y = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps) * weight
    return y.astype(x.dtype)


@solves("05.5", "torch")
def _(x, weight, eps):
    return _over_rms_by_torch(torch.as_tensor(x).float(), torch.as_tensor(weight), eps).half()


@solves("05.7", "numpy")
def _(x):
    share = x.mean(1) ** 2 / (x**2).mean(1)
    return share, np.sqrt(1 - share)


@solves("05.7", "cosine")
def _(x):
    centred = x - x.mean(1, keepdims=True)
    inner = (centred * x).sum(1)
    lengths = np.linalg.norm(centred, axis=1) * np.linalg.norm(x, axis=1)
    return x.mean(1) ** 2 / (x**2).mean(1), inner / lengths


@solves("06.2", "numpy")
def _(grad_y, x, weight, eps):
    inverse = 1 / np.sqrt((x**2).mean((0, 1)) + x.dtype.type(eps))
    x_hat, g = x * inverse, grad_y * weight
    return inverse * (g - x_hat * (g * x_hat).mean((0, 1))), (grad_y * x_hat).sum((0, 1))


@solves("06.2", "torch")
def _(grad_y, x, weight, eps):
    grad_y, x, weight = map(torch.as_tensor, (grad_y, x, weight))
    inverse = torch.rsqrt(x.square().mean((0, 1)) + eps)
    x_hat, g = x * inverse, grad_y * weight
    return inverse * (g - x_hat * (g * x_hat).mean((0, 1))), (grad_y * x_hat).sum((0, 1))


@solves("06.2", "loops")
def _(grad_y, x, weight, eps):
    grad_x, grad_weight = np.empty_like(x), np.empty_like(weight)
    for h in range(x.shape[2]):
        pairs, n = list(zip(grad_y[..., h].flat, x[..., h].flat, strict=True)), x[..., h].size
        psi = math.sqrt(sum(v * v for _, v in pairs) / n + eps)
        inner = grad_weight[h] = sum(g * v / psi for g, v in pairs)
        grads = [weight[h] * (g - v / psi * inner / n) / psi for g, v in pairs]
        grad_x[..., h] = np.reshape(grads, x.shape[:2])
    return grad_x, grad_weight


@solves("06.3", "numpy")
def _(x, psi_squared, alpha, eps):
    y = x / np.sqrt(psi_squared + eps)
    return y, alpha * psi_squared + (1 - alpha) * (x**2).mean((0, 1))


@solves("06.3", "torch")
def _(x, psi_squared, alpha, eps):
    x, psi_squared = torch.as_tensor(x), torch.as_tensor(psi_squared)
    moved = torch.lerp(x.square().mean((0, 1)), psi_squared, alpha)
    return x * torch.rsqrt(psi_squared + eps), moved


@solves("06.3", "loops")
def _(x, psi_squared, alpha, eps):
    y, after = np.empty_like(x), np.empty_like(psi_squared)
    for h in range(x.shape[2]):
        y[..., h] = x[..., h] / math.sqrt(psi_squared[h] + eps)
        values = x[..., h].ravel()
        after[h] = alpha * psi_squared[h] + (1 - alpha) * sum(v * v for v in values) / len(values)
    return y, after


@solves("06.5", "numpy")
def _(grad_y, x, weight, variance, eps):
    inverse, g = 1 / np.sqrt(variance + eps), grad_y * weight
    x_hat = (x - x.mean((0, 1))) * inverse
    return inverse * (g - g.mean((0, 1))), (grad_y * x_hat).sum((0, 1))


@solves("06.5", "torch")
def _(*given):
    grad_y, x, weight, variance = map(torch.as_tensor, given[:4])
    inverse, g = torch.rsqrt(variance + given[4]), grad_y * weight
    x_hat = (x - x.mean((0, 1))) * inverse
    return inverse * (g - g.mean((0, 1))), (grad_y * x_hat).sum((0, 1))


@solves("06.6", "numpy")
def _(x, batch_size):
    count = len(x) // batch_size
    squares = (x[: count * batch_size].reshape(count, batch_size, -1) ** 2).mean(1)
    return squares.std(0) / squares.mean(0)


@solves("07.2", "numpy")
def _(x, matrices):
    def norm(h):
        return (h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True)

    pre, post, left, sizes, factors = x, x, 1.0, [], []
    for matrix in matrices:
        pre = pre + np.tanh(norm(pre) @ matrix)
        total = post + np.tanh(post @ matrix)
        left = left / total.std(-1)
        post = norm(total)
        sizes.append(np.sqrt((pre**2).mean()))
        factors.append(left.mean())
    return np.array(sizes), np.array(factors)


@solves("07.3", "numpy")
def _(grad_h, grad_y, h, weight, eps):
    mean, var = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
    inverse = 1 / np.sqrt(var + h.dtype.type(eps))
    h_hat, g = (h - mean) * inverse, grad_y * weight
    pull = g.mean(-1, keepdims=True) + h_hat * (g * h_hat).mean(-1, keepdims=True)
    grad = grad_h + inverse * (g - pull)
    return grad, grad, (grad_y * h_hat).reshape(-1, len(weight)).sum(0)


@solves("07.3", "torch")
def _(grad_h, grad_y, h, weight, eps):
    grad_h, grad_y, h, weight = map(torch.as_tensor, (grad_h, grad_y, h, weight))
    inverse = torch.rsqrt(h.var(-1, unbiased=False, keepdim=True) + eps)
    h_hat, g = (h - h.mean(-1, keepdim=True)) * inverse, grad_y * weight
    pull = g.mean(-1, keepdim=True) + h_hat * (g * h_hat).mean(-1, keepdim=True)
    grad = grad_h + inverse * (g - pull)
    return grad, grad.clone(), (grad_y * h_hat).flatten(0, -2).sum(0)


@solves("07.3", "loops")
def _(grad_h, grad_y, h, weight, eps):
    grad, grad_weight, d = np.empty_like(h), np.zeros_like(weight), len(weight)
    for index in np.ndindex(*h.shape[:-1]):
        hat, g = _standard(h[index], eps), [float(a) for a in grad_y[index] * weight]
        std = 1 / math.sqrt(np.var(h[index], dtype=float) + eps)
        g_mean, inner = sum(g) / d, sum(a * b for a, b in zip(g, hat, strict=True)) / d
        for i in range(d):
            grad[index][i] = grad_h[index][i] + std * (g[i] - g_mean - hat[i] * inner)
            grad_weight[i] += grad_y[index][i] * hat[i]
    return grad, grad.copy(), grad_weight


@solves("07.4", "numpy")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = x + attention(_normed(x, weight_1, bias_1, eps))
    return x + feed_forward(_normed(x, weight_2, bias_2, eps))


@solves("07.4", "torch")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x, *affine = map(torch.as_tensor, (x, weight_1, bias_1, weight_2, bias_2))
    x = x + attention(_normed_by_torch(x, *affine[:2], eps))
    return x + feed_forward(_normed_by_torch(x, *affine[2:], eps))


@solves("07.4", "loops")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    for f, weight, bias in ((attention, weight_1, bias_1), (feed_forward, weight_2, bias_2)):
        x = x + f(_by_token(_standard, x, weight, bias, eps))
    return x


@solves("07.5", "numpy")
def _(x, sublayer, alpha, weight, bias, eps):
    return _normed(alpha * x + sublayer(x), weight, bias, eps)


@solves("07.5", "torch")
def _(x, sublayer, alpha, weight, bias, eps):
    x, weight, bias = map(torch.as_tensor, (x, weight, bias))
    return _normed_by_torch(alpha * x + sublayer(x), weight, bias, eps)


@solves("07.5", "loops")
def _(x, sublayer, alpha, weight, bias, eps):
    h = np.reshape([alpha * a + b for a, b in zip(x.flat, sublayer(x).flat, strict=True)], x.shape)
    return _by_token(_standard, h, weight, bias, eps)


@solves("08.2", "numpy")
def _(q, k, v, weight_q, weight_k, eps):
    eps = q.dtype.type(eps)
    q = q / np.sqrt((q**2).mean(-1, keepdims=True) + eps) * weight_q
    k = k / np.sqrt((k**2).mean(-1, keepdims=True) + eps) * weight_k
    scores = q @ np.swapaxes(k, -1, -2) / q.dtype.type(math.sqrt(q.shape[-1]))
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ v


@solves("08.2", "torch")
def _(q, k, v, weight_q, weight_k, eps):
    q, k, v, weight_q, weight_k = map(torch.as_tensor, (q, k, v, weight_q, weight_k))
    q, k = _over_rms_by_torch(q, weight_q, eps), _over_rms_by_torch(k, weight_k, eps)
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@solves("08.2", "loops")
def _(q, k, v, weight_q, weight_k, eps):
    q = _by_token(_over_rms, q, weight_q, 0.0, eps)
    k = _by_token(_over_rms, k, weight_k, 0.0, eps)
    y = np.zeros_like(v)
    for *head, i in np.ndindex(*q.shape[:-1]):
        scores = [float(sum(q[*head, i] * k[*head, j])) for j in range(i + 1)]
        powers = [math.exp((s - max(scores)) / math.sqrt(q.shape[-1])) for s in scores]
        for j, power in enumerate(powers):
            y[*head, i] += power / sum(powers) * v[*head, j]
    return y


@solves("08.3", "numpy")
def _(q, weight, heads, eps):
    split = q.reshape(*q.shape[:-1], heads, -1)
    split = split / np.sqrt((split**2).mean(-1, keepdims=True) + eps) * weight
    return split.reshape(q.shape)


@solves("08.3", "torch")
def _(q, weight, heads, eps):
    split = torch.as_tensor(q).unflatten(-1, (heads, -1))
    return _over_rms_by_torch(split, torch.as_tensor(weight), eps).flatten(-2)


@solves("08.3", "loops")
def _(q, weight, heads, eps):
    y, size = np.empty_like(q), len(weight)
    for part in (slice(head * size, (head + 1) * size) for head in range(heads)):
        y[..., part] = _by_token(_over_rms, q[..., part], weight, 0.0, eps)
    return y


@solves("08.5", "numpy")
def _(weight_q, weight_k):
    return np.sqrt(len(weight_q)) * np.abs(weight_q * weight_k).max()


@solves("08.5", "loops")
def _(weight_q, weight_k):
    return math.sqrt(len(weight_q)) * max(
        abs(a * b) for a, b in zip(weight_q, weight_k, strict=True)
    )


@solves("08.6", "numpy")
def _(x, eps):
    y = x / np.sqrt((x**2).mean(1, keepdims=True) + eps)
    y[np.arange(len(y)), np.abs(x).argmax(1)] = 0
    return np.sqrt((y**2).sum(1) / (x.shape[1] - 1))


SOLUTIONS["02.6"]["loops"] = SOLUTIONS["04.4"]["loops"] = functools.partial(_by_token, _standard)
SOLUTIONS["05.4"]["loops"] = SOLUTIONS["05.5"]["loops"] = lambda x, weight, eps: _by_token(
    _over_rms, x, weight, 0.0, eps
)
PREDICTIONS = {
    "01.1": 0.0, "02.1": 10.0, "03.1": 1.5, "04.1": 0.1,
    "05.1": 0.7071, "06.1": 20, "07.1": 25, "08.1": 8,
}  # fmt: skip
