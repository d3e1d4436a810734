"""Plausible wrong answers to all tasks, written from the exercises' text alone.

Each is (task, name, answer). When they were written, 117 of 209 got words that name the slip.
"""

import numpy as np
import torch

F = []


def w(task, name):
    def reg(a):
        F.append((task, name, a))
        return a

    return reg


# predictions
for task, vals in {
    "01.1": [1.5, -1.5, 2.0, 0.75, -1],
    "04.1": [1, 3, -3, -0.333],
    "04.2": [1, 10, 0.01, 100],
    "05.1": [1.0, 0.5, 0.999, 31.6],
    "06.1": [20, 18, 10, 2],
    "08.1": [64, 1, 512, 0.125],
    "02.1": [10.05, 1.0, 100],
    "03.1": [1.0, 2.5, 0.5],
    "07.1": [13, 24, 5],
    "07.2": [0.125, 1 / 4096, 0.5],
}.items():
    for v in vals:
        F.append((task, f"{v}", v))


# 01.2
def ev(gy, x, w_, rm, rv, eps):
    inv = 1 / np.sqrt(rv + eps)
    xh = (x - rm) * inv
    return gy * w_ * inv, (gy * xh).sum(0), gy.sum(0)


@w("01.2", "training-mode gradient")
def _(gy, x, w_, rm, rv, eps):
    inv = 1 / np.sqrt(rv + eps)
    xh = (x - rm) * inv
    g = gy * w_
    return inv * (g - g.mean(0) - xh * (g * xh).mean(0)), (gy * xh).sum(0), gy.sum(0)


@w("01.2", "weight grads are means")
def _(*a):
    dx, dw, db = ev(*a)
    n = a[1].shape[0]
    return dx, dw / n, db / n


@w("01.2", "gamma forgotten")
def _(gy, x, w_, rm, rv, eps):
    _dx, dw, db = ev(gy, x, w_, rm, rv, eps)
    return gy / np.sqrt(rv + eps), dw, db


@w("01.2", "grad weight with x not xhat")
def _(gy, x, w_, rm, rv, eps):
    dx, _dw, db = ev(gy, x, w_, rm, rv, eps)
    return dx, (gy * x).sum(0), db


@w("01.2", "grad weight with centred x")
def _(gy, x, w_, rm, rv, eps):
    dx, _dw, db = ev(gy, x, w_, rm, rv, eps)
    return dx, (gy * (x - rm)).sum(0), db


@w("01.2", "divides by variance")
def _(gy, x, w_, rm, rv, eps):
    return gy * w_ / (rv + eps), (gy * (x - rm) / (rv + eps)).sum(0), gy.sum(0)


@w("01.2", "batch stats in dw")
def _(gy, x, w_, rm, rv, eps):
    dx, _dw, db = ev(gy, x, w_, rm, rv, eps)
    return dx, (gy * (x - x.mean(0)) / np.sqrt(x.var(0) + eps)).sum(0), db


@w("01.2", "eps outside")
def _(gy, x, w_, rm, rv, eps):
    i = 1 / (np.sqrt(rv) + eps)
    return gy * w_ * i, (gy * (x - rm) * i).sum(0), gy.sum(0)


@w("01.2", "not summed")
def _(gy, x, w_, rm, rv, eps):
    dx, _dw, _db = ev(gy, x, w_, rm, rv, eps)
    return dx, gy * (x - rm) / np.sqrt(rv + eps), gy


@w("01.2", "order")
def _(*a):
    dx, dw, db = ev(*a)
    return dx, db, dw


@w("01.2", "grad bias times gamma")
def _(*a):
    dx, dw, db = ev(*a)
    return dx, dw, db * a[2]


@w("01.2", "sum over features")
def _(gy, x, w_, rm, rv, eps):
    dx, _dw, _db = ev(gy, x, w_, rm, rv, eps)
    return dx, (gy * (x - rm) / np.sqrt(rv + eps)).sum(1), gy.sum(1)


# 01.3
def bn(kind):
    class BatchNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5, momentum=0.1):
            super().__init__()
            self.eps, self.momentum = eps, momentum
            self.register_buffer("running_mean", torch.zeros(features))
            self.register_buffer("running_var", torch.ones(features))

        def forward(self, x):
            if self.training if kind != "not" else not self.training:
                mean, var = x.mean(0), x.var(0, unbiased=(kind == "unbiased"))
                with torch.no_grad():
                    m = self.momentum if kind != "mom" else 1 - self.momentum
                    if kind != "noup":
                        self.running_mean.lerp_(mean.to(self.running_mean), m)
                        self.running_var.lerp_(
                            x.var(0, unbiased=kind != "biased").to(self.running_var), m
                        )
                if kind == "userunning":
                    mean, var = self.running_mean, self.running_var
                if kind == "detach":
                    mean, var = mean.detach(), var.detach()
            else:
                mean, var = self.running_mean, self.running_var
            if kind == "std":
                return (x - mean) / (var.sqrt() + self.eps)
            return (x - mean) / torch.sqrt(var + self.eps)

    return BatchNorm


for k in ("not", "unbiased", "mom", "noup", "biased", "userunning", "detach"):
    F.append(("01.3", k, bn(k)))


# 04.3
def fold(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], (b - m) * s + be


@w("04.3", "bias not scaled")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], b - m * s + be


@w("04.3", "mean not scaled")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], b * s - m + be


@w("04.3", "plus mean")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], (b + m) * s + be


@w("04.3", "mean forgotten")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], b * s + be


@w("04.3", "old bias forgotten")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], be - m * s


@w("04.3", "beta forgotten")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], (b - m) * s


@w("04.3", "beta scaled")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W * s[:, None], (b - m + be) * s


@w("04.3", "gamma forgotten")
def _(W, b, g, be, m, v, e):
    s = 1 / np.sqrt(v + e)
    return W * s[:, None], (b - m) * s + be


@w("04.3", "gamma forgotten in W only")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W / np.sqrt(v + e)[:, None], (b - m) * s + be


@w("04.3", "no root")
def _(W, b, g, be, m, v, e):
    s = g / (v + e)
    return W * s[:, None], (b - m) * s + be


@w("04.3", "eps outside")
def _(W, b, g, be, m, v, e):
    s = g / (np.sqrt(v) + e)
    return W * s[:, None], (b - m) * s + be


@w("04.3", "eps forgotten")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v)
    return W * s[:, None], (b - m) * s + be


@w("04.3", "columns")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    k = W.shape[1]
    return W * np.resize(s, k)[None, :], (b - m) * s + be


@w("04.3", "transposed W")
def _(*a):
    x, y = fold(*a)
    return x.T, y


@w("04.3", "W unchanged")
def _(W, b, g, be, m, v, e):
    s = g / np.sqrt(v + e)
    return W.copy(), (b - m) * s + be


@w("04.3", "multiplies by std")
def _(W, b, g, be, m, v, e):
    s = g * np.sqrt(v + e)
    return W * s[:, None], (b - m) * s + be


# 04.4 / others, norms
@w("04.4", "dropped centring too")
def _(x, w_, b, e):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + e) * w_ + b


@w("04.4", "variance batch axis")
def _(x, w_, b, e):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(0, keepdims=True) + e) * w_ + b


@w("04.4", "minus mean not squared")
def _(x, w_, b, e):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(np.abs((x**2).mean(-1, keepdims=True) - m) + e) * w_ + b


@w("04.4", "ddof")
def _(x, w_, b, e):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=1) + e) * w_ + b


@w("04.4", "mean of abs dev")
def _(x, w_, b, e):
    c = x - x.mean(-1, keepdims=True)
    return c / (np.abs(c).mean(-1, keepdims=True) + e) * w_ + b


@w("04.4", "median")
def _(x, w_, b, e):
    return (x - np.median(x, -1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e) * w_ + b


@w("04.4", "max scaling")
def _(x, w_, b, e):
    c = x - x.mean(-1, keepdims=True)
    return c / (np.abs(c).max(-1, keepdims=True) + e) * w_ + b


# 05.2
@w("05.2", "eps inside")
def _(x, w_, e):
    v = x.astype(np.float64)
    return (v / np.sqrt((v * v).mean(-1, keepdims=True) + e) * w_).astype(x.dtype)


@w("05.2", "float16 overflow")
def _(x, w_, e):
    return (x / (np.sqrt((x * x).mean(-1, keepdims=True)) + x.dtype.type(e)) * w_).astype(x.dtype)


@w("05.2", "returns float32")
def _(x, w_, e):
    v = x.astype(np.float32)
    return v / (np.sqrt((v * v).mean(-1, keepdims=True)) + e) * w_


@w("05.2", "eps forgotten")
def _(x, w_, e):
    v = x.astype(np.float64)
    return (v / np.sqrt((v * v).mean(-1, keepdims=True)) * w_).astype(x.dtype)


@w("05.2", "L2 norm")
def _(x, w_, e):
    v = x.astype(np.float64)
    return (v / (np.linalg.norm(v, axis=-1, keepdims=True) + e) * w_).astype(x.dtype)


@w("05.2", "all axes")
def _(x, w_, e):
    v = x.astype(np.float64)
    return (v / (np.sqrt((v * v).mean()) + e) * w_).astype(x.dtype)


@w("05.2", "gamma forgotten")
def _(x, w_, e):
    v = x.astype(np.float64)
    return (v / (np.sqrt((v * v).mean(-1, keepdims=True)) + e)).astype(x.dtype)


@w("05.2", "centred")
def _(x, w_, e):
    v = x.astype(np.float64)
    v = v - v.mean(-1, keepdims=True)
    return (v / (np.sqrt((v * v).mean(-1, keepdims=True)) + e) * w_).astype(x.dtype)


# 05.3
w("05.3", "eps/share")(lambda e, s: e / s)
w("05.3", "eps*share")(lambda e, s: e * s)
w("05.3", "eps*(1-share)")(lambda e, s: e * (1 - s))
w("05.3", "eps/(1-share)")(lambda e, s: e / (1 - s))
w("05.3", "share/(1-share)")(lambda e, s: e * s / (1 - s))
w("05.3", "inside")(lambda e, s: np.sqrt(e * (1 - s) ** 2 / (1 - (1 - s) ** 2)))
w("05.3", "sqrt eps/share")(lambda e, s: np.sqrt(e / s))
w("05.3", "minus")(lambda e, s: -e * (1 - s) / s)
w("05.3", "percent")(lambda e, s: e * (100 - s) / s)
w("05.3", "sqrt")(lambda e, s: np.sqrt(e * (1 - s) / s))


# 05.4, 05.5
@w("05.4", "eps after root")
def _(x, w_, e):
    return x / (np.sqrt(np.mean(x**2, -1, keepdims=True)) + e) * w_


@w("05.4", "eps on output")
def _(x, w_, e):
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + e) * w_ + e


@w("05.4", "nan to num")
def _(x, w_, e):
    return np.nan_to_num(x / np.sqrt(np.mean(x**2, -1, keepdims=True))) * w_


@w("05.4", "maximum")
def _(x, w_, e):
    return x / np.sqrt(np.maximum(np.mean(x**2, -1, keepdims=True), e)) * w_


@w("05.4", "eps twice")
def _(x, w_, e):
    return x / (np.sqrt(np.mean(x**2, -1, keepdims=True) + e) + e) * w_


@w("05.4", "sqrt eps")
def _(x, w_, e):
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + np.sqrt(e)) * w_


@w("05.4", "per batch")
def _(x, w_, e):
    return x / np.sqrt(np.mean(x**2) + e) * w_


@w("05.5", "scales by 1000")
def _(x, w_, e):
    s = np.float16(1000)
    v = x / s
    return x / (np.sqrt(np.mean(v * v, -1, keepdims=True) + np.float16(e)) * s) * w_


@w("05.5", "float32 out")
def _(x, w_, e):
    v = x.astype(np.float32)
    return v / np.sqrt(np.mean(v * v, -1, keepdims=True) + e) * w_.astype(np.float32)


@w("05.5", "cast after square")
def _(x, w_, e):
    m = np.mean((x * x).astype(np.float32), -1, keepdims=True)
    return (x / np.sqrt(m + e) * w_).astype(np.float16)


@w("05.5", "mean dtype cast back")
def _(x, w_, e):
    m = np.mean(x.astype(np.float32) ** 2, -1, keepdims=True).astype(np.float16)
    return (x / np.sqrt(m + np.float16(e)) * w_).astype(np.float16)


@w("05.5", "clip")
def _(x, w_, e):
    v = np.clip(x, -200, 200)
    return (v / np.sqrt(np.mean(v * v, -1, keepdims=True) + np.float16(e)) * w_).astype(np.float16)


@w("05.5", "no gamma")
def _(x, w_, e):
    v = x.astype(np.float32)
    return (v / np.sqrt(np.mean(v * v, -1, keepdims=True) + e)).astype(np.float16)


@w("05.5", "max norm")
def _(x, w_, e):
    v = x.astype(np.float32)
    return (v / (np.abs(v).max(-1, keepdims=True) + e) * w_).astype(np.float16)


# 06.2
def pv(gy, x, w_, e, ax=(0, 1)):
    i = 1 / np.sqrt((x * x).mean(ax, keepdims=True) + e)
    xh = x * i
    g = gy * w_
    return i * (g - xh * (g * xh).mean(ax, keepdims=True)), (gy * xh).sum((0, 1))


@w("06.2", "constant psi")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    return gy * w_ * i, (gy * x * i).sum((0, 1))


@w("06.2", "BatchNorm backward")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return i * (g - g.mean((0, 1)) - xh * (g * xh).mean((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "sum for mean")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return i * (g - xh * (g * xh).sum((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "plus")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return i * (g + xh * (g * xh).mean((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "gamma forgotten")
def _(gy, x, w_, e):
    return pv(gy, x, np.ones_like(w_), e)


@w("06.2", "factor 2")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return i * (g - 2 * xh * (g * xh).mean((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "x for xhat in pull")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return i * (g - x * (g * x).mean((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "per token")
def _(gy, x, w_, e):
    return pv(gy, x, w_, e, (2,))


@w("06.2", "per position")
def _(gy, x, w_, e):
    return pv(gy, x, w_, e, (0,))


@w("06.2", "grad weight uses x")
def _(gy, x, w_, e):
    a, _b = pv(gy, x, w_, e)
    return a, (gy * x).sum((0, 1))


@w("06.2", "grad weight mean")
def _(gy, x, w_, e):
    a, b = pv(gy, x, w_, e)
    return a, b / (x.shape[0] * x.shape[1])


@w("06.2", "grad weight batch only")
def _(gy, x, w_, e):
    a, _b = pv(gy, x, w_, e)
    return a, (gy * x / np.sqrt((x * x).mean((0, 1)) + e)).sum(0)


@w("06.2", "inverse std missing")
def _(gy, x, w_, e):
    i = 1 / np.sqrt((x * x).mean((0, 1)) + e)
    xh = x * i
    g = gy * w_
    return (g - xh * (g * xh).mean((0, 1))), (gy * xh).sum((0, 1))


@w("06.2", "gamma on the whole twice")
def _(gy, x, w_, e):
    a, b = pv(gy, x, w_, e)
    return a * w_, b


# 06.3
def ps(x, p, a, e):
    return x / np.sqrt(p + e), a * p + (1 - a) * (x * x).mean((0, 1))


@w("06.3", "alpha swapped")
def _(x, p, a, e):
    return x / np.sqrt(p + e), (1 - a) * p + a * (x * x).mean((0, 1))


@w("06.3", "psi not squared")
def _(x, p, a, e):
    return x / (p + e), a * p + (1 - a) * (x * x).mean((0, 1))


@w("06.3", "variance")
def _(x, p, a, e):
    return x / np.sqrt(p + e), a * p + (1 - a) * x.var((0, 1))


@w("06.3", "sum")
def _(x, p, a, e):
    return x / np.sqrt(p + e), a * p + (1 - a) * (x * x).sum((0, 1))


@w("06.3", "mean over everything")
def _(x, p, a, e):
    return x / np.sqrt(p + e), a * p + (1 - a) * (x * x).mean()


@w("06.3", "mean over batch only, averaged root")
def _(x, p, a, e):
    return x / np.sqrt(p + e), a * p + (1 - a) * (np.sqrt((x * x).mean((0, 1))))


@w("06.3", "eps outside")
def _(x, p, a, e):
    return x / (np.sqrt(p) + e), a * p + (1 - a) * (x * x).mean((0, 1))


@w("06.3", "normalized x in statistic")
def _(x, p, a, e):
    y = x / np.sqrt(p + e)
    return y, a * p + (1 - a) * (y * y).mean((0, 1))


@w("06.3", "only y")
def _(x, p, a, e):
    return x / np.sqrt(p + e)


@w("06.3", "replaces")
def _(x, p, a, e):
    return x / np.sqrt(p + e), (x * x).mean((0, 1))


@w("06.3", "order")
def _(*a):
    return ps(*a)[::-1]


# 08.2
def att(
    q,
    k,
    v,
    wq,
    wk,
    e,
    *,
    n=True,
    scale=None,
    causal=True,
    strict=False,
    nv=False,
    gam=True,
    sm=-1,
    eps_in=True,
    ax=-1,
    after=False,
    stable=True,
):
    def f(t, w_):
        return (
            t / np.sqrt((t * t).mean(ax, keepdims=True) + e)
            if eps_in
            else t / (np.sqrt((t * t).mean(ax, keepdims=True)) + e)
        ) * (w_ if gam else 1)

    if n:
        q, k = f(q, wq), f(k, wk)
    if nv:
        v = f(v, 1)
    d = q.shape[-1]
    s = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(d) if scale is None else scale)
    L = s.shape[-1]
    m = np.tril(np.ones((L, L), bool), -1 if strict else 0)
    if causal == "upper":
        m = m.T
    if causal and not after:
        s = np.where(m, s, -1e30)
    p = np.exp(s - (s.max(sm, keepdims=True) if stable else 0))
    p = p / p.sum(sm, keepdims=True)
    if after:
        p = p * m
    return p @ v


for nm, kw in {
    "no norm": {"n": False},
    "no scale": {"scale": 1.0},
    "scale d": {"scale": "d"},
    "no mask": {"causal": False},
    "inverted mask": {"causal": "upper"},
    "strict mask": {"strict": True},
    "values normed": {"nv": True},
    "gamma missing": {"gam": False},
    "softmax over queries": {"sm": -2},
    "eps outside": {"eps_in": False},
    "norm over positions": {"ax": -2},
    "norm over heads": {"ax": 1},
    "mask after softmax": {"after": True},
    "heads and features": {"ax": (1, 3)},
}.items():

    def a(q, k, v, wq, wk, e, kw=kw):
        kw = dict(kw)
        if kw.get("scale") == "d":
            kw["scale"] = 1 / q.shape[-1]
        return att(q, k, v, wq, wk, e, **kw)

    F.append(("08.2", nm, a))
w("08.2", "weights swapped")(lambda q, k, v, a, b, e: att(q, k, v, b, a, e))
w("08.2", "only q normed")(
    lambda q, k, v, a, b, e: (
        att(q, k * np.sqrt((k * k).mean(-1, keepdims=True) + e) / 1, v, a, b, e)
        if False
        else att_q(q, k, v, a, b, e)
    )
)


def att_q(q, k, v, a, b, e):
    q = q / np.sqrt((q * q).mean(-1, keepdims=True) + e) * a
    return att(q, k, v, 1, 1, e, n=False)


w("08.2", "q and k exchanged")(lambda q, k, v, a, b, e: att(k, q, v, b, a, e))
w("08.2", "L2 norm")(
    lambda q, k, v, a, b, e: att(
        q / np.sqrt((q * q).sum(-1, keepdims=True) + e) * a,
        k / np.sqrt((k * k).sum(-1, keepdims=True) + e) * b,
        v,
        1,
        1,
        e,
        n=False,
    )
)
w("08.2", "LayerNorm")(
    lambda q, k, v, a, b, e: att(
        q - q.mean(-1, keepdims=True), k - k.mean(-1, keepdims=True), v, a, b, e
    )
)
w("08.2", "norm of scores")(lambda q, k, v, a, b, e: att(q * a, k * b, v, 1, 1, e, n=False))


# 08.3
def spl(q, h):
    return q.reshape(*q.shape[:-1], h, -1)


@w("08.3", "shared across heads by mean")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).mean((-1, -2), keepdims=True) + e) * w_).reshape(q.shape)


@w("08.3", "heads interleaved")
def _(q, w_, h, e):
    s = q.reshape(*q.shape[:-1], -1, h)
    return (s / np.sqrt((s * s).mean(-2, keepdims=True) + e) * w_[:, None]).reshape(q.shape)


@w("08.3", "over heads axis")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).mean(-2, keepdims=True) + e) * w_).reshape(q.shape)


@w("08.3", "repeat weight")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).mean(-1, keepdims=True) + e)).reshape(q.shape) * np.repeat(w_, h)


@w("08.3", "sum")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).sum(-1, keepdims=True) + e) * w_).reshape(q.shape)


@w("08.3", "centred")
def _(q, w_, h, e):
    s = spl(q, h)
    s = s - s.mean(-1, keepdims=True)
    return (s / np.sqrt((s * s).mean(-1, keepdims=True) + e) * w_).reshape(q.shape)


@w("08.3", "not merged")
def _(q, w_, h, e):
    s = spl(q, h)
    return s / np.sqrt((s * s).mean(-1, keepdims=True) + e) * w_


@w("08.3", "over positions too")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).mean((1, 3), keepdims=True) + e) * w_).reshape(q.shape)


@w("08.3", "gamma missing")
def _(q, w_, h, e):
    s = spl(q, h)
    return (s / np.sqrt((s * s).mean(-1, keepdims=True) + e)).reshape(q.shape)


# 07.3
def an(gh, gy, h, w_, e, lost=None):
    m = h.mean(-1, keepdims=True)
    i = 1 / np.sqrt(h.var(-1, keepdims=True) + e)
    xh = (h - m) * i
    g = gy * w_
    d = i * (g - g.mean(-1, keepdims=True) - xh * (g * xh).mean(-1, keepdims=True))
    return d, xh


@w("07.3", "rms backward")
def _(gh, gy, h, w_, e):
    i = 1 / np.sqrt((h * h).mean(-1, keepdims=True) + e)
    xh = h * i
    g = gy * w_
    d = gh + i * (g - xh * (g * xh).mean(-1, keepdims=True))
    return d, d, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "branch gets only norm")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + gh, d, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "grad weight from total")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + gh, d + gh, ((gy + gh) * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "minus stream")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d - gh, d - gh, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "grad weight mean")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + gh, d + gh, (gy * xh).reshape(-1, h.shape[-1]).mean(0)


@w("07.3", "stream scaled by gamma")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + gh * w_, d + gh * w_, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "grad weight only batch axis")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + gh, d + gh, (gy * xh).sum(0)


@w("07.3", "x gets it twice")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, e)
    return d + 2 * gh, d + gh, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


@w("07.3", "ddof")
def _(gh, gy, h, w_, e):
    n = h.shape[-1]
    m = h.mean(-1, keepdims=True)
    i = 1 / np.sqrt(h.var(-1, keepdims=True, ddof=1) + e)
    xh = (h - m) * i
    g = gy * w_
    d = i * (g - g.mean(-1, keepdims=True) - xh * (g * xh).mean(-1, keepdims=True))
    return d + gh, d + gh, (gy * xh).reshape(-1, n).sum(0)


@w("07.3", "no eps")
def _(gh, gy, h, w_, e):
    d, xh = an(gh, gy, h, w_, 0)
    return d + gh, d + gh, (gy * xh).reshape(-1, h.shape[-1]).sum(0)


# 07.4
def ln(x, w_, b, e):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e) * w_ + b


@w("07.4", "final norm added")
def _(x, f, g, w1, b1, w2, b2, e):
    x = x + f(ln(x, w1, b1, e))
    x = x + g(ln(x, w2, b2, e))
    return ln(x, w2, b2, e)


@w("07.4", "rms")
def _(x, f, g, w1, b1, w2, b2, e):
    def r(x, w_, b):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + e) * w_ + b

    x = x + f(r(x, w1, b1))
    return x + g(r(x, w2, b2))


@w("07.4", "second norm reads input")
def _(x, f, g, w1, b1, w2, b2, e):
    h = x + f(ln(x, w1, b1, e))
    return h + g(ln(x, w2, b2, e))


@w("07.4", "norm only first")
def _(x, f, g, w1, b1, w2, b2, e):
    x = x + f(ln(x, w1, b1, e))
    return x + g(x)


@w("07.4", "norm only second")
def _(x, f, g, w1, b1, w2, b2, e):
    x = x + f(x)
    return x + g(ln(x, w2, b2, e))


@w("07.4", "eps outside")
def _(x, f, g, w1, b1, w2, b2, e):
    def l(x, w_, b):  # noqa: E743
        return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + e) * w_ + b

    x = x + f(l(x, w1, b1))
    return x + g(l(x, w2, b2))


@w("07.4", "only the second branch")
def _(x, f, g, w1, b1, w2, b2, e):
    return x + g(ln(x, w2, b2, e))


@w("07.4", "f inside g")
def _(x, f, g, w1, b1, w2, b2, e):
    return x + g(ln(f(ln(x, w1, b1, e)), w2, b2, e))


@w("07.4", "sandwich")
def _(x, f, g, w1, b1, w2, b2, e):
    x = x + ln(f(ln(x, w1, b1, e)), w1, b1, e)
    return x + ln(g(ln(x, w2, b2, e)), w2, b2, e)


@w("07.4", "ddof")
def _(x, f, g, w1, b1, w2, b2, e):
    def l(x, w_, b):  # noqa: E743
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(
            x.var(-1, keepdims=True, ddof=1) + e
        ) * w_ + b

    x = x + f(l(x, w1, b1))
    return x + g(l(x, w2, b2))


@w("07.4", "gamma missing")
def _(x, f, g, w1, b1, w2, b2, e):
    x = x + f(ln(x, 1, 0, e))
    return x + g(ln(x, 1, 0, e))


# 07.5
@w("07.5", "1/alpha")
def _(x, f, a, w_, b, e):
    return ln(x / a + f(x), w_, b, e)


@w("07.5", "alpha squared")
def _(x, f, a, w_, b, e):
    return ln(a * a * x + f(x), w_, b, e)


@w("07.5", "pre-ln")
def _(x, f, a, w_, b, e):
    return a * x + f(ln(x, w_, b, e))


@w("07.5", "sqrt alpha")
def _(x, f, a, w_, b, e):
    return ln(np.sqrt(a) * x + f(x), w_, b, e)


@w("07.5", "alpha plus")
def _(x, f, a, w_, b, e):
    return ln(a + x + f(x), w_, b, e)


@w("07.5", "no skip")
def _(x, f, a, w_, b, e):
    return ln(f(x), w_, b, e)


@w("07.5", "convex")
def _(x, f, a, w_, b, e):
    return ln(a * x + (1 - a) * f(x), w_, b, e)


@w("07.5", "no norm")
def _(x, f, a, w_, b, e):
    return a * x + f(x)


@w("07.5", "eps outside")
def _(x, f, a, w_, b, e):
    h = a * x + f(x)
    return (h - h.mean(-1, keepdims=True)) / (h.std(-1, keepdims=True) + e) * w_ + b


@w("07.5", "rms")
def _(x, f, a, w_, b, e):
    h = a * x + f(x)
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + e) * w_ + b


# 02.3, 02.4
def mm(na, ma, va, nb, mb, vb):
    n = na + nb
    d = mb - ma
    return n, (na * ma + nb * mb) / n, (na * va + nb * vb) / n + na * nb * d * d / n**2


@w("02.3", "gap plus")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (na * va + nb * vb) / n + na * nb * (ma + mb) ** 2 / n**2


@w("02.3", "gap not squared")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (na * va + nb * vb) / n + na * nb * abs(ma - mb) / n**2


@w("02.3", "weights swapped")
def _(na, ma, va, nb, mb, vb):
    n, _m, v = mm(na, ma, va, nb, mb, vb)
    return n, (nb * ma + na * mb) / n, v


@w("02.3", "mean of variances")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (va + vb) / 2 + na * nb * (ma - mb) ** 2 / n**2


@w("02.3", "quarter gap")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (na * va + nb * vb) / n + (ma - mb) ** 2 / 4


@w("02.3", "n minus 1")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, ((na - 1) * va + (nb - 1) * vb) / (n - 2) + na * nb * (ma - mb) ** 2 / n**2


@w("02.3", "sum of squares only")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (na * (va + ma**2) + nb * (vb + mb**2)) / n


@w("02.3", "minus gap")
def _(na, ma, va, nb, mb, vb):
    n, m, _v = mm(na, ma, va, nb, mb, vb)
    return n, m, (na * va + nb * vb) / n - na * nb * (ma - mb) ** 2 / n**2


# 03.2
def rn(x, m, a, b, mo):
    r = x[m]
    return (1 - mo) * a + mo * r.mean(0), (1 - mo) * b + mo * r.var(0, ddof=1)


@w("03.2", "biased")
def _(x, m, a, b, mo):
    r = x[m]
    return (1 - mo) * a + mo * r.mean(0), (1 - mo) * b + mo * r.var(0)


@w("03.2", "mean of sentence vars")
def _(x, m, a, b, mo):
    r = x[m]
    return (1 - mo) * a + mo * r.mean(0), (1 - mo) * b + mo * np.mean(
        [s[k].var(0) for s, k in zip(x, m, strict=False)], 0
    )


@w("03.2", "variance around running mean")
def _(x, m, a, b, mo):
    r = x[m]
    return (1 - mo) * a + mo * r.mean(0), (1 - mo) * b + mo * ((r - a) ** 2).sum(0) / (len(r) - 1)


@w("03.2", "variance around new running mean")
def _(x, m, a, b, mo):
    r = x[m]
    nm = (1 - mo) * a + mo * r.mean(0)
    return nm, (1 - mo) * b + mo * ((r - nm) ** 2).sum(0) / (len(r) - 1)


@w("03.2", "sum over features")
def _(x, m, a, b, mo):
    r = x[m]
    return (1 - mo) * a + mo * r.mean(), (1 - mo) * b + mo * r.var(ddof=1)


@w("03.2", "plain average half")
def _(x, m, a, b, mo):
    r = x[m]
    return (a + r.mean(0)) / 2, (b + r.var(0, ddof=1)) / 2


@w("03.2", "only full sentences")
def _(x, m, a, b, mo):
    r = x[m.all(1)].reshape(-1, x.shape[-1])
    return (1 - mo) * a + mo * r.mean(0), (1 - mo) * b + mo * r.var(0, ddof=1)
