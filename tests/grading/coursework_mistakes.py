"""Wrong answers to the graded tasks. Every one must be caught, most with words of their own.

``seen`` says where such a mistake comes from: "public code" for one that we have found in published
implementations, "typical" for one of their kind, "rewrite" for what is left when code is carried
from one norm, library or layout to another, "derivation" for a term lost on paper, "stub" for what
is handed in unfinished.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

MISTAKES = []


class Wrong(NamedTuple):
    """A wrong answer, and a part of what must be said about it; None where words may be general."""

    task: str
    name: str
    seen: str
    answer: object
    words: str | None
    all_lost: bool  # whether it may earn nothing at all


def wrong(task, name, seen, words=None, all_lost=True):
    """Register a wrong answer."""

    def register(answer):
        MISTAKES.append(Wrong(task, name, seen, answer, words, all_lost))
        return answer

    return register


def var(x, axis=-1, ddof=0):
    return x.var(axis, ddof=ddof, keepdims=True)


def mean(x, axis=-1):
    return x.mean(axis, keepdims=True)


# --- 01.1, 01.2 -----------------------------------------------------------------------------------

wrong("01.1", "statistics as constants", "derivation", "as constants")(2.0)
wrong("01.1", "no path through the variance", "derivation", "through the variance")(1.5)
wrong("01.1", "nothing entered", "stub")(None)


@wrong("01.2", "training mode", "public code", "in training mode")
def _(grad_y, x, weight, running_mean, running_var, eps):
    inverse = 1 / np.sqrt(x.var(0) + eps)
    hat = (x - x.mean(0)) * inverse
    g = grad_y * weight
    hat_running = (x - running_mean) / np.sqrt(running_var + eps)
    grad_x = inverse * (g - g.mean(0) - hat * (g * hat).mean(0))
    return grad_x, (grad_y * hat_running).sum(0), grad_y.sum(0)


@wrong("01.2", "no weight", "public code", "γ is missing")
def _(grad_y, x, weight, running_mean, running_var, eps):
    inverse = 1 / np.sqrt(running_var + eps)
    return grad_y * inverse, (grad_y * (x - running_mean) * inverse).sum(0), grad_y.sum(0)


@wrong("01.2", "variance for its root", "derivation", "a root is missing")
def _(grad_y, x, weight, running_mean, running_var, eps):
    hat = (x - running_mean) / np.sqrt(running_var + eps)
    return grad_y * weight / (running_var + eps), (grad_y * hat).sum(0), grad_y.sum(0)


@wrong("01.2", "batch statistics in x_hat", "public code", "with the running ones")
def _(grad_y, x, weight, running_mean, running_var, eps):
    hat = (x - x.mean(0)) / np.sqrt(x.var(0) + eps)
    return grad_y * weight / np.sqrt(running_var + eps), (grad_y * hat).sum(0), grad_y.sum(0)


@wrong("01.2", "means over the batch", "rewrite", "means over the batch")
def _(grad_y, x, weight, running_mean, running_var, eps):
    inverse = 1 / np.sqrt(running_var + eps)
    hat = (x - running_mean) * inverse
    return grad_y * weight * inverse, (grad_y * hat).mean(0), grad_y.mean(0)


@wrong("01.2", "not summed over the batch", "derivation", None)
def _(grad_y, x, weight, running_mean, running_var, eps):
    inverse = 1 / np.sqrt(running_var + eps)
    return grad_y * weight * inverse, grad_y * (x - running_mean) * inverse, grad_y.sum(0)


@wrong("01.2", "works in place", "public code", "changes its input")
def _(grad_y, x, weight, running_mean, running_var, eps):
    x -= running_mean
    inverse = 1 / np.sqrt(running_var + eps)
    return grad_y * weight * inverse, (grad_y * x * inverse).sum(0), grad_y.sum(0)


# --- 01.3 -----------------------------------------------------------------------------------------


class GradSwitch(nn.Module):
    """The code that the exercise hands out, and the base of other wrong repairs."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def by_batch(self):
        return torch.is_grad_enabled()

    def forward(self, x):
        if self.by_batch():
            mean, var = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
                self.running_var.lerp_(x.var(0).to(self.running_var), self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) / torch.sqrt(var + self.eps)


wrong("01.3", "train mode from the grad switch", "public code", "gradient switch")(GradSwitch)


@wrong("01.3", "both conditions", "rewrite", "gradient switch", all_lost=False)
class _(GradSwitch):
    def by_batch(self):
        return self.training and torch.is_grad_enabled()


@wrong("01.3", "always the batch", "rewrite", None)
class _(GradSwitch):
    def by_batch(self):
        return True


@wrong("01.3", "biased running variance", "public code", "take the unbiased")
class _(GradSwitch):
    def forward(self, x):
        if not self.training:
            return (x - self.running_mean) / torch.sqrt(self.running_var + self.eps)
        mean, var = x.mean(0), x.var(0, unbiased=False)
        self.running_mean.lerp_(mean.detach().to(self.running_mean), self.momentum)
        self.running_var.lerp_(var.detach().to(self.running_var), self.momentum)
        return (x - mean) / torch.sqrt(var + self.eps)


@wrong("01.3", "running statistics in training", "public code", "running statistics as well")
class _(GradSwitch):
    def forward(self, x):
        if self.training:
            mean, var = x.detach().mean(0), x.detach().var(0)
            self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
            self.running_var.lerp_(var.to(self.running_var), self.momentum)
        return (x - self.running_mean) / torch.sqrt(self.running_var + self.eps)


# --- 02 -------------------------------------------------------------------------------------------

wrong("02.1", "the whole length", "derivation", "the length of the whole output")(101**0.5)
wrong("02.1", "negative", "derivation", "the sign is not")(-10)
wrong("02.1", "text", "stub")("ten")


@wrong("02.2", "no path through the mean", "derivation", "through the mean is missing")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - x_hat * mean(g * x_hat))


@wrong("02.2", "no path through the variance", "typical", "through the variance is missing")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - mean(g))


@wrong("02.2", "sums for means", "typical", "sums stand where means")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - g.sum(-1, keepdims=True) - x_hat * (g * x_hat).sum(-1, keepdims=True))


@wrong("02.2", "BatchNorm's axes", "rewrite", "run over the batch")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - g.mean((0, 1)) - x_hat * (g * x_hat).mean((0, 1)))


@wrong("02.2", "the mean taken away twice", "public code", "twice")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - 2 * mean(g) - x_hat * mean(g * x_hat))


@wrong("02.2", "a 1 for the mean", "public code", "a 1 stands")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - 1 - x_hat * mean(g * x_hat))


@wrong("02.2", "means of a whole sequence", "public code", "over a whole sequence")
def _(g, x_hat, inverse_std):
    return inverse_std * (g - mean(g, (1, 2)) - x_hat * mean(g * x_hat, (1, 2)))


@wrong("02.2", "no inverse deviation", "derivation", "the factor 1/√(σ² + ε)")
def _(g, x_hat, inverse_std):
    return g - mean(g) - x_hat * mean(g * x_hat)


@wrong("02.2", "signs", "derivation", "wrong sign")
def _(g, x_hat, inverse_std):
    return inverse_std * (g + mean(g) + x_hat * mean(g * x_hat))


@wrong("02.2", "no return", "stub", "no return statement")
def _(g, x_hat, inverse_std):
    inverse_std * (g - mean(g) - x_hat * mean(g * x_hat))


@wrong("02.3", "variances inside the chunks alone", "typical", "inside the chunks")
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    return n, (n_a * mean_a + n_b * mean_b) / n, (n_a * var_a + n_b * var_b) / n


@wrong("02.3", "means count alike", "public code", "count alike")
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    gap = (mean_a - mean_b) ** 2 * n_a * n_b / n**2
    return n, (mean_a + mean_b) / 2, (n_a * var_a + n_b * var_b) / n + gap


@wrong("02.3", "one pass", "public code", "E[x²] − E[x]²", all_lost=False)
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    square = (n_a * (var_a + mean_a**2) + n_b * (var_b + mean_b**2)) / n
    both = (n_a * mean_a + n_b * mean_b) / n
    return n, both, square - both**2


@wrong("02.3", "unbiased", "rewrite", "it divides by n − 1")
def _(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    gap = (mean_a - mean_b) ** 2 * n_a * n_b / n
    return n, (n_a * mean_a + n_b * mean_b) / n, (n_a * var_a + n_b * var_b + gap) / (n - 1)


@wrong("02.4", "a constant", "derivation", "constant input is no failure")
def _():
    return np.full(1000, 1e4, dtype=np.float32)


@wrong("02.4", "ordinary numbers", "stub", None)
def _():
    return np.random.default_rng(0).normal(size=1000).astype(np.float32)


@wrong("02.5", "LayerNorm over the channels", "public code", "LayerNorm over the channels")
def _(x, weight, bias, eps):
    return (x - mean(x, 1)) / np.sqrt(var(x, 1) + eps) * weight[:, None] + bias[:, None]


@wrong("02.5", "InstanceNorm", "rewrite", "InstanceNorm")
def _(x, weight, bias, eps):
    return (x - mean(x)) / np.sqrt(var(x) + eps) * weight[:, None] + bias[:, None]


@wrong("02.5", "statistics of the whole batch", "rewrite", "examples share statistics")
def _(x, weight, bias, eps):
    return (x - x.mean()) / np.sqrt(x.var() + eps) * weight[:, None] + bias[:, None]


@wrong("02.5", "a weight for each position", "rewrite", None)
def _(x, weight, bias, eps):
    return (x - mean(x, (1, 2))) / np.sqrt(var(x, (1, 2)) + eps) * weight + bias


@wrong("02.6", "unbiased variance", "public code", "divides by n − 1")
def _(x, weight, bias, eps):
    return (x - mean(x)) / np.sqrt(var(x, ddof=1) + eps) * weight + bias


@wrong("02.6", "unbiased, and ε outside", "public code", "and ε stands outside")
def _(x, weight, bias, eps):
    return weight * (x - mean(x)) / (x.std(-1, ddof=1, keepdims=True) + eps) + bias


@wrong("02.6", "ε outside", "public code", "ε stands outside the root")
def _(x, weight, bias, eps):
    return (x - mean(x)) / (np.sqrt(var(x)) + eps) * weight + bias


@wrong("02.6", "a square for the root", "public code", "the square stands")
def _(x, weight, bias, eps):
    return (x - mean(x)) / (var(x) + eps) ** 2 * weight + bias


@wrong("02.6", "divides by the inverse root", "public code", "multiplies by the deviation")
def _(x, weight, bias, eps):
    return (x - mean(x)) / (1 / np.sqrt(var(x) + eps)) * weight + bias


@wrong("02.6", "along the positions", "public code", "run over the positions")
def _(x, weight, bias, eps):
    return (x - mean(x, 1)) / np.sqrt(var(x, 1) + eps) * weight + bias


@wrong("02.6", "one pass", "public code", None, all_lost=False)
def _(x, weight, bias, eps):
    variance = mean(x * x) - mean(x) ** 2
    return (x - mean(x)) / np.sqrt(variance + eps) * weight + bias


# --- 03 -------------------------------------------------------------------------------------------

wrong("03.1", "the halves alone", "derivation", "their means differ")(0.5)


def blend(old, new, momentum):
    return (1 - momentum) * old + momentum * new


@wrong("03.2", "padding counts", "public code", "padding counts")
def _(x, mask, running_mean, running_var, momentum):
    flat = x.reshape(-1, x.shape[-1])
    return (
        blend(running_mean, flat.mean(0), momentum),
        blend(running_var, flat.var(0, ddof=1), momentum),
    )


@wrong("03.2", "biased", "public code", "yours divides by n")
def _(x, mask, running_mean, running_var, momentum):
    return (
        blend(running_mean, x[mask].mean(0), momentum),
        blend(running_var, x[mask].var(0), momentum),
    )


@wrong("03.2", "momentum the other way round", "public code", "that of the old")
def _(x, mask, running_mean, running_var, momentum):
    return (
        blend(running_mean, x[mask].mean(0), 1 - momentum),
        blend(running_var, x[mask].var(0, ddof=1), 1 - momentum),
    )


@wrong("03.2", "divided by all positions", "typical", "number of all positions")
def _(x, mask, running_mean, running_var, momentum):
    mean = (x * mask[..., None]).mean((0, 1))
    variance = ((x - mean) ** 2 * mask[..., None]).mean((0, 1))
    return blend(running_mean, mean, momentum), blend(running_var, variance, momentum)


@wrong("03.2", "a mean of sentences", "typical", "average the sentences")
def _(x, mask, running_mean, running_var, momentum):
    means = [sentence[m].mean(0) for sentence, m in zip(x, mask, strict=True)]
    variances = [sentence[m].var(0) for sentence, m in zip(x, mask, strict=True)]
    return (
        blend(running_mean, np.mean(means, 0), momentum),
        blend(running_var, np.mean(variances, 0), momentum),
    )


@wrong("03.2", "multiplies by the mask", "public code", "choose with np.where", all_lost=False)
def _(x, mask, running_mean, running_var, momentum):
    n = mask.sum()
    if not n:
        return running_mean, running_var
    m = mask[..., None]
    mean = (x * m).sum((0, 1)) / n
    variance = ((x - mean) ** 2 * m).sum((0, 1)) / (n - 1)
    return blend(running_mean, mean, momentum), blend(running_var, variance, momentum)


@wrong("03.2", "NaN from an empty batch", "public code", None, all_lost=False)
def _(x, mask, running_mean, running_var, momentum):
    return (
        blend(running_mean, x[mask].mean(0), momentum),
        blend(running_var, x[mask].var(0, ddof=1), momentum),
    )


class KeepsGraph(nn.Module):
    """The code that the exercise hands out."""

    def __init__(self, features, alpha=0.9, eps=1e-5):
        super().__init__()
        self.alpha, self.eps = alpha, eps
        self.register_buffer("running_mean_square", torch.ones(features))

    def forward(self, x):
        y = x / torch.sqrt(self.running_mean_square + self.eps)
        if self.training:
            batch = (x**2).mean((0, 1))
            old = self.running_mean_square
            self.running_mean_square = self.alpha * old + (1 - self.alpha) * batch
        return y


wrong("03.3", "the buffer keeps the graph", "public code", "not the graph")(KeepsGraph)


@wrong("03.3", "no_grad around everything", "rewrite", "covers too much")
class _(KeepsGraph):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


@wrong("03.3", "no update", "rewrite", "no longer moves")
class _(KeepsGraph):
    def forward(self, x):
        return x / torch.sqrt(self.running_mean_square + self.eps)


@wrong("03.3", "detached when used, not when stored", "rewrite", "hangs on a graph", all_lost=False)
class _(KeepsGraph):
    def forward(self, x):
        y = x / torch.sqrt(self.running_mean_square.detach() + self.eps)
        if self.training:
            batch = (x**2).mean((0, 1))
            old = self.running_mean_square
            self.running_mean_square = self.alpha * old + (1 - self.alpha) * batch
        return y


@wrong("03.4", "a statistic for each position", "typical", "only the batch axis")
def _(x, weight, bias, eps):
    return (x - mean(x, 0)) / np.sqrt(var(x, 0) + eps) * weight + bias


@wrong("03.4", "variance for its root", "public code", "divide by the variance")
def _(x, weight, bias, eps):
    return (x - mean(x, (0, 1))) / (var(x, (0, 1)) + eps) * weight + bias


@wrong("03.4", "LayerNorm", "rewrite", "that is LayerNorm")
def _(x, weight, bias, eps):
    return (x - mean(x)) / np.sqrt(var(x) + eps) * weight + bias


@wrong("03.4", "one statistic for all", "rewrite", "the features share")
def _(x, weight, bias, eps):
    return (x - x.mean()) / np.sqrt(x.var() + eps) * weight + bias


# --- 04 -------------------------------------------------------------------------------------------

wrong("04.1", "any factor is forgotten", "typical", "what becomes of the sign")(1)
wrong("04.2", "the gradient does not change", "derivation", "its slope is not")(1)


@wrong("04.3", "the old bias is not scaled", "public code", "old bias is not scaled")
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / np.sqrt(running_var + eps)
    return w * factor[:, None], b - running_mean * factor + bias


@wrong("04.3", "no running mean", "typical", "running mean is not")
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / np.sqrt(running_var + eps)
    return w * factor[:, None], b * factor + bias


@wrong("04.3", "no epsilon", "public code", "ε is missing")
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / np.sqrt(running_var)
    return w * factor[:, None], (b - running_mean) * factor + bias


@wrong("04.3", "epsilon outside the root", "public code", "outside the root of the running")
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / (np.sqrt(running_var) + eps)
    return w * factor[:, None], (b - running_mean) * factor + bias


@wrong("04.3", "columns", "rewrite", None)
def _(w, b, weight, bias, running_mean, running_var, eps):
    factor = weight / np.sqrt(running_var + eps)
    return w.T * factor, (b - running_mean) * factor + bias


@wrong("04.4", "mean of squares", "typical", "mean of the squares")
def _(x, weight, bias, eps):
    return (x - mean(x)) / np.sqrt(mean(x**2) + eps) * weight + bias


@wrong("04.4", "RMSNorm", "rewrite", "that is RMSNorm")
def _(x, weight, bias, eps):
    return x / np.sqrt(mean(x**2) + eps) * weight + bias


# --- 05 -------------------------------------------------------------------------------------------

wrong("05.1", "outside", "derivation", "ε outside the root")(0.999)
wrong("05.1", "no root", "derivation", "a root is still")(0.5)


@wrong("05.2", "inside", "rewrite", "inside the root")
def _(x, weight, eps):
    return x / np.sqrt(mean(x**2) + eps) * weight


@wrong("05.2", "the length", "public code", "the length of the token")
def _(x, weight, eps):
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) + eps) * weight


@wrong("05.2", "centred", "public code", "the mean is taken away")
def _(x, weight, eps):
    x = x - mean(x)
    return x / (np.sqrt(mean(x**2)) + eps) * weight


@wrong("05.2", "the variance for the mean square", "public code", "the variance stands")
def _(x, weight, eps):
    return x / (np.sqrt(var(x)) + eps) * weight


@wrong("05.2", "works in place where nothing is to cast", "public code", "changes its input")
def _(x, weight, eps):
    dtype = x.dtype
    x = x.astype(np.promote_types(dtype, np.float32), copy=False)
    x /= np.sqrt(mean(x**2)) + eps
    return (x * weight).astype(dtype)


@wrong("05.2", "one statistic for a sequence", "public code", "of a sequence share")
def _(x, weight, eps):
    return x / (np.sqrt(mean(x**2, (-2, -1))) + eps) * weight


@wrong("05.2", "half precision", "public code", "Take the statistic in float32", all_lost=False)
def _(x, weight, eps):
    return x / (np.sqrt(mean(x**2)) + x.dtype.type(eps)) * weight


@wrong("05.2", "float32 comes back", "public code", "must come back as float16", all_lost=False)
def _(x, weight, eps):
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    return wide / (np.sqrt(mean(wide**2)) + eps) * weight


@wrong("05.3", "ε/ψ", "derivation", "not ε/ψ")
def _(eps, share):
    return eps / share


@wrong("05.3", "share exchanged", "derivation", "exchanged")
def _(eps, share):
    return eps * share / (1 - share)


@wrong("05.4", "added after the division", "typical", "after the division")
def _(x, weight, eps):
    return (x / np.sqrt(mean(x**2)) + eps) * weight


@wrong("05.4", "added to the inverse root", "public code", "added to 1/ψ")
def _(x, weight, eps):
    return x * (1 / np.sqrt(mean(x**2)) + eps) * weight


@wrong("05.4", "multiplies", "public code", "a norm divides by it")
def _(x, weight, eps):
    return x * np.sqrt(mean(x**2) + eps) * weight


@wrong("05.4", "outside", "public code", "outside the root")
def _(x, weight, eps):
    return x / (np.sqrt(mean(x**2)) + eps) * weight


@wrong("05.4", "no epsilon", "rewrite", "gone altogether")
def _(x, weight, eps):
    return x / np.sqrt(mean(x**2)) * weight


@wrong("05.5", "squares in half precision", "public code", "taken in float16")
def _(x, weight, eps):
    return x / np.sqrt(mean(x * x) + np.float16(eps)) * weight


@wrong("05.5", "float32 comes back", "public code", "must come back as float16")
def _(x, weight, eps):
    wide = x.astype(np.float32)
    return wide / np.sqrt(mean(wide**2) + eps) * weight


# --- 06 -------------------------------------------------------------------------------------------

wrong("06.1", "1/(1 − α)", "derivation", "how far the average looks back")(10)
wrong("06.1", "from zero", "derivation", "from a start at 0")(22)


def power_parts(x, eps):
    inverse = 1 / np.sqrt(mean(x**2, (0, 1)) + eps)
    return x * inverse, inverse


@wrong("06.2", "BatchNorm's", "rewrite", "that is BatchNorm's gradient")
def _(grad_y, x, weight, eps):
    inverse = 1 / np.sqrt(var(x, (0, 1)) + eps)
    hat = (x - mean(x, (0, 1))) * inverse
    g = grad_y * weight
    grad_x = inverse * (g - mean(g, (0, 1)) - hat * mean(g * hat, (0, 1)))
    return grad_x, (grad_y * power_parts(x, eps)[0]).sum((0, 1))


@wrong("06.2", "ψ constant", "typical", "taken as a constant")
def _(grad_y, x, weight, eps):
    hat, inverse = power_parts(x, eps)
    return grad_y * weight * inverse, (grad_y * hat).sum((0, 1))


@wrong("06.2", "a sum", "derivation", "a sum stands where")
def _(grad_y, x, weight, eps):
    hat, inverse = power_parts(x, eps)
    g = grad_y * weight
    return inverse * (g - hat * (g * hat).sum((0, 1))), (grad_y * hat).sum((0, 1))


@wrong("06.2", "γ in the first term alone", "derivation", "twice, or not at all")
def _(grad_y, x, weight, eps):
    hat, inverse = power_parts(x, eps)
    grad_x = inverse * (grad_y * weight - hat * mean(grad_y * hat, (0, 1)))
    return grad_x, (grad_y * hat).sum((0, 1))


@wrong("06.3", "update, then use", "rewrite", "updated first")
def _(x, psi_squared, alpha, eps):
    psi_squared = alpha * psi_squared + (1 - alpha) * (x**2).mean((0, 1))
    return x / np.sqrt(psi_squared + eps), psi_squared


@wrong("06.3", "torch's momentum", "public code", "α is the weight of the past")
def _(x, psi_squared, alpha, eps):
    new = (1 - alpha) * psi_squared + alpha * (x**2).mean((0, 1))
    return x / np.sqrt(psi_squared + eps), new


@wrong("06.3", "PN-V", "rewrite", "that is PN-V")
def _(x, psi_squared, alpha, eps):
    batch = (x**2).mean((0, 1))
    return x / np.sqrt(batch + eps), alpha * psi_squared + (1 - alpha) * batch


# --- 07 -------------------------------------------------------------------------------------------

wrong("07.1", "one branch a layer", "derivation", "two branches")(13)
wrong("07.2", "one step a layer", "derivation", "twelve residual steps")(0.125)


def add_norm_parts(h, eps):
    inverse = 1 / np.sqrt(var(h) + eps)
    return (h - mean(h)) * inverse, inverse


def through_norm(grad_y, h, weight, eps):
    hat, inverse = add_norm_parts(h, eps)
    g = grad_y * weight
    return inverse * (g - mean(g) - hat * mean(g * hat))


def weight_gradient(grad_y, h, eps):
    return (grad_y * add_norm_parts(h, eps)[0]).reshape(-1, h.shape[-1]).sum(0)


@wrong("07.3", "the stream's gradient lost", "public code", "along the stream is lost")
def _(grad_h, grad_y, h, weight, eps):
    grad = through_norm(grad_y, h, weight, eps)
    return grad, grad, weight_gradient(grad_y, h, eps)


@wrong("07.3", "the stream's gradient through the norm", "public code", "goes past the norm")
def _(grad_h, grad_y, h, weight, eps):
    grad = through_norm(grad_h + grad_y, h, weight, eps)
    return grad, grad, weight_gradient(grad_y, h, eps)


@wrong("07.3", "one path each", "rewrite", "hands its whole gradient to both")
def _(grad_h, grad_y, h, weight, eps):
    return grad_h, through_norm(grad_y, h, weight, eps), weight_gradient(grad_y, h, eps)


@wrong("07.3", "no path through the mean", "derivation", "through the mean")
def _(grad_h, grad_y, h, weight, eps):
    hat, inverse = add_norm_parts(h, eps)
    g = grad_y * weight
    grad = grad_h + inverse * (g - hat * mean(g * hat))
    return grad, grad, weight_gradient(grad_y, h, eps)


def layer_norm(x, weight, bias, eps):
    return (x - mean(x)) / np.sqrt(var(x) + eps) * weight + bias


@wrong("07.4", "Post-LN", "rewrite", "that is Post-LN")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = layer_norm(x + attention(x), weight_1, bias_1, eps)
    return layer_norm(x + feed_forward(x), weight_2, bias_2, eps)


@wrong("07.4", "the skip is normalized", "public code", "the skip carries the normalized x")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = layer_norm(x, weight_1, bias_1, eps)
    x = x + attention(x)
    x = layer_norm(x, weight_2, bias_2, eps)
    return x + feed_forward(x)


@wrong("07.4", "parallel", "typical", "both branches read the same x")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    a = attention(layer_norm(x, weight_1, bias_1, eps))
    return x + a + feed_forward(layer_norm(x, weight_2, bias_2, eps))


@wrong(
    "07.4", "the second skip begins at the layer's input", "public code", "begins at the layer's"
)
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    h = x + attention(layer_norm(x, weight_1, bias_1, eps))
    return x + feed_forward(layer_norm(h, weight_2, bias_2, eps))


@wrong("07.4", "the branch is added to itself", "public code", "added to itself")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = attention(layer_norm(x, weight_1, bias_1, eps))
    x = x + x
    x = feed_forward(layer_norm(x, weight_2, bias_2, eps))
    return x + x


@wrong("07.4", "a product for the sum", "public code", "are multiplied")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = x + attention(layer_norm(x, weight_1, bias_1, eps))
    return x * feed_forward(layer_norm(x, weight_2, bias_2, eps))


@wrong("07.4", "no skip", "stub", "skip connection is missing")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = attention(layer_norm(x, weight_1, bias_1, eps))
    return feed_forward(layer_norm(x, weight_2, bias_2, eps))


@wrong("07.4", "one norm for both", "public code", "first one's γ and β")
def _(x, attention, feed_forward, weight_1, bias_1, weight_2, bias_2, eps):
    x = x + attention(layer_norm(x, weight_1, bias_1, eps))
    return x + feed_forward(layer_norm(x, weight_1, bias_1, eps))


@wrong("07.5", "α on the branch", "public code", "α multiplies the branch")
def _(x, sublayer, alpha, weight, bias, eps):
    return layer_norm(x + alpha * sublayer(x), weight, bias, eps)


@wrong("07.5", "α on the sum", "rewrite", "α multiplies the sum")
def _(x, sublayer, alpha, weight, bias, eps):
    return layer_norm(alpha * (x + sublayer(x)), weight, bias, eps)


@wrong("07.5", "α before everything", "rewrite", "must read x itself")
def _(x, sublayer, alpha, weight, bias, eps):
    x = alpha * x
    return layer_norm(x + sublayer(x), weight, bias, eps)


# --- 08 -------------------------------------------------------------------------------------------

wrong("08.1", "unit vectors", "derivation", "unit vectors")(1)
wrong("08.1", "not divided", "derivation", "divides it by √d")(64)


def rms_norm(x, weight, eps, axis=-1):
    return x / np.sqrt(mean(x**2, axis) + eps) * weight


def attention(q, k, v, *, causal=True, scaled=True, axis=-1):
    scores = q @ np.swapaxes(k, -1, -2)
    if scaled:
        scores = scores / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True) @ v


@wrong("08.2", "no norm", "public code", "not normalized")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(q, k, v)


@wrong("08.2", "no mask", "public code", "causal mask is missing")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, weight_q, eps), rms_norm(k, weight_k, eps), v, causal=False)


@wrong("08.2", "no scale", "public code", "1/√d on the scores")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, weight_q, eps), rms_norm(k, weight_k, eps), v, scaled=False)


@wrong("08.2", "statistics over positions", "typical", "run over the positions")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, weight_q, eps, -2), rms_norm(k, weight_k, eps, -2), v)


@wrong("08.2", "softmax over queries", "public code", "softmax runs over the queries")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, weight_q, eps), rms_norm(k, weight_k, eps), v, axis=-2)


@wrong("08.2", "keys and values", "public code", "keys and the values")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(q, rms_norm(k, weight_k, eps), rms_norm(v, weight_q, eps))


@wrong("08.2", "γ is made and never used", "public code", "γ is missing on queries and keys")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, 1, eps), rms_norm(k, 1, eps), v)


@wrong("08.2", "values as well", "rewrite", "the values are normalized")
def _(q, k, v, weight_q, weight_k, eps):
    return attention(rms_norm(q, weight_q, eps), rms_norm(k, weight_k, eps), rms_norm(v, 1, eps))


@wrong("08.2", "a softmax that overflows", "public code", None, all_lost=False)
def _(q, k, v, weight_q, weight_k, eps):
    q, k = rms_norm(q, weight_q, eps), rms_norm(k, weight_k, eps)
    scores = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, 0.0)
    return scores / scores.sum(-1, keepdims=True) @ v


@wrong("08.3", "one statistic for all heads", "public code", "one statistic for all heads")
def _(q, weight, heads, eps):
    return rms_norm(q, np.tile(weight, heads), eps)


@wrong("08.3", "heads split the wrong way", "typical", "in the wrong order")
def _(q, weight, heads, eps):
    split = q.reshape(*q.shape[:-1], -1, heads)
    split = split / np.sqrt(mean(split**2, -2) + eps)
    return split.reshape(q.shape) * np.tile(weight, heads)


@wrong("08.3", "LayerNorm", "rewrite", "a mean is taken away")
def _(q, weight, heads, eps):
    split = q.reshape(*q.shape[:-1], heads, -1)
    return layer_norm(split, weight, 0, eps).reshape(q.shape)
