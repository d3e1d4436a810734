"""Plausible wrong answers that stand in no catalogue: most get words that name the slip."""

import numpy as np
import pytest
from slips_over_all_chapters import F as OVER_ALL_CHAPTERS

from normtutor.grading import TASKS
from normtutor.grading.notebook import examined

SLIPS = {}


def slip(task, *words):
    """Register a wrong answer and what must be said about it; no words where any will do."""

    def register(answer):
        SLIPS[f"{task} {len(SLIPS)} {words[0] if words else ''}"] = (task, answer, words)
        return answer

    return register


def stats(x, axes=-1, ddof=0):
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True, ddof=ddof)


def norm(name, words, formula, task="02.6", axes=-1, column=False):
    """A forward norm with a formula of its own for what comes out."""

    def answer(x, weight, bias, eps):
        w, b = (weight[:, None], bias[:, None]) if column else (weight, bias)
        m, v = stats(x, axes)
        n = x.size // m.size
        return formula(x, m, v, w, b, eps, n)

    SLIPS[f"{task} {name}"] = (task, answer, words)


for task, axes, column in (("02.6", -1, False), ("02.5", (1, 2), True), ("03.4", (0, 1), False)):
    how = {"task": task, "axes": axes, "column": column}
    norm(
        "eps outside",
        ("outside the root",),
        lambda x, m, v, w, b, e, n: (x - m) / (np.sqrt(v) + e) * w + b,
        **how,
    )
    norm(
        "n - 1",
        ("n − 1",),
        lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(v * n / (n - 1) + e) * w + b,
        **how,
    )
    norm("no root", ("root",), lambda x, m, v, w, b, e, n: (x - m) / (v + e) * w + b, **how)
    norm(
        "RMSNorm",
        ("RMSNorm",),
        lambda x, m, v, w, b, e, n: x / np.sqrt(v + m**2 + e) * w + b,
        **how,
    )
    norm("not centred", ("",), lambda x, m, v, w, b, e, n: x / np.sqrt(v + e) * w + b, **how)
    norm("L2", ("L2",), lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(n * v + e) * w + b, **how)
    norm(
        "scaled beta", ("β",), lambda x, m, v, w, b, e, n: ((x - m) / np.sqrt(v + e) + b) * w, **how
    )
    norm(
        "beta twice",
        ("β",),
        lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(v + e) * w + 2 * b,
        **how,
    )
    norm("minus beta", ("β",), lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(v + e) * w - b, **how)
    norm("sign", ("sign",), lambda x, m, v, w, b, e, n: (m - x) / np.sqrt(v + e) * w + b, **how)
    norm(
        "one plus gamma",
        ("1 + γ",),
        lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(v + e) * (1 + w) + b,
        **how,
    )
    norm("no eps", ("ε",), lambda x, m, v, w, b, e, n: (x - m) / np.sqrt(v) * w + b, **how)
    norm(
        "two slips",
        ("outside the root", "β"),
        lambda x, m, v, w, b, e, n: ((x - m) / (np.sqrt(v) + e) + b) * w,
        **how,
    )


@slip("02.2", "sign of the whole")
def _(g, x_hat, inverse_std):
    mean = g.mean(-1, keepdims=True)
    return -inverse_std * (g - mean - x_hat * (g * x_hat).mean(-1, keepdims=True))


@slip("02.2", "twice")
def _(g, x_hat, inverse_std):
    mean = g.mean(-1, keepdims=True)
    return inverse_std**2 * (g - mean - x_hat * (g * x_hat).mean(-1, keepdims=True))


@slip("02.2", "deviation")
def _(g, x_hat, inverse_std):
    mean = g.mean(-1, keepdims=True)
    return (g - mean - x_hat * (g * x_hat).mean(-1, keepdims=True)) / inverse_std


def whole(n_a, mean_a, var_a, n_b, mean_b, var_b):
    n = n_a + n_b
    share, gap = n_b / n, mean_b - mean_a
    return n, mean_a + share * gap, var_a + share * (var_b - var_a) + share * (1 - share) * gap**2


@slip("02.3", "another order")
def _(*given):
    n, mean, variance = whole(*given)
    return mean, variance, n


@slip("02.3", "root")
def _(*given):
    n, mean, variance = whole(*given)
    return n, mean, np.sqrt(variance)


def running(x, mask, mean, var, momentum):
    real = x[mask]
    return (
        (1 - momentum) * mean + momentum * real.mean(0),
        (1 - momentum) * var + momentum * real.var(0, ddof=1),
    )


@slip("03.2", "inverted")
def _(x, mask, mean, var, momentum):
    return running(x, ~mask, mean, var, momentum)


@slip("03.2", "off by one")
def _(x, mask, mean, var, momentum):
    return running(x, mask & np.roll(mask, -1, 1), mean, var, momentum)


@slip("03.2", "shifted by one")
def _(x, mask, mean, var, momentum):
    return running(x, np.roll(mask, 1, 1), mean, var, momentum)


@slip("03.2", "another order")
def _(*given):
    return running(*given)[::-1]


@slip("03.2", "deviation")
def _(x, mask, mean, var, momentum):
    real = x[mask]
    spread = real.std(0, ddof=1)
    return (
        (1 - momentum) * mean + momentum * real.mean(0),
        (1 - momentum) * var + momentum * spread,
    )


@slip("03.2", "alone")
def _(x, mask, mean, var, momentum):
    return x[mask].mean(0), x[mask].var(0, ddof=1)


@slip("02.5", "axes exchanged")
def _(x, weight, bias, eps):
    m, v = stats(x, (1, 2))
    return np.swapaxes((x - m) / np.sqrt(v + eps) * weight[:, None] + bias[:, None], 1, 2)


@slip("05.4", "L2")
def _(x, weight, eps):
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + eps) * weight


@slip("05.4", "a mean is taken away")
def _(x, weight, eps):
    m, v = stats(x)
    return (x - m) / np.sqrt(v + eps) * weight


@slip("05.4", "root is missing")
def _(x, weight, eps):
    return x / ((x**2).mean(-1, keepdims=True) + eps) * weight


@slip("08.3", "outside the root")
def _(q, weight, heads, eps):
    split = q.reshape(*q.shape[:-1], heads, -1)
    rms = np.sqrt((split**2).mean(-1, keepdims=True))
    return (split / (rms + eps) * weight).reshape(q.shape)


@slip("02.6", "six digits")
def _(x, weight, bias, eps):
    y = x.astype(np.float32)
    m, v = stats(y)
    return ((y - m) / np.sqrt(v + np.float32(eps)) * weight + bias).astype(x.dtype)


def test_most_plausible_mistakes_are_named():
    assert len(SLIPS) >= 42
    named = {}
    for name, (task, answer, words) in SLIPS.items():
        result = examined(TASKS[task], answer, 0)
        failed = [found for found in result.findings if not found.passed]
        assert failed, name
        said = " ".join(found.words for found in failed)
        named[name] = failed[0].known and all(word in said for word in words)
    missed = [name for name, right in named.items() if not right]
    assert len(missed) <= 0.1 * len(SLIPS), missed


def test_most_slips_over_all_chapters_are_named():
    wrong, named = [], 0
    for task, name, answer in OVER_ALL_CHAPTERS:
        failed = [f for f in examined(TASKS[task], answer, 0).findings if not f.passed]
        if failed:  # two of them turned out to be right
            wrong.append(f"{task} {name}")
            named += failed[0].known
    assert len(wrong) >= 200
    assert len({name[:2] for name in wrong}) == 8
    assert named >= 0.9 * len(wrong)


def test_a_layer_that_takes_its_statistics_as_constants_is_found_out():
    """Its outputs are right; only its gradient is not."""
    (detached,) = [a for id, name, a in OVER_ALL_CHAPTERS if (id, name) == ("01.3", "detach")]
    findings = examined(TASKS["01.3"], detached, 0).findings
    assert [f.passed for f in findings] == [True, False, True]
    assert "no gradient goes through" in findings[1].words


@pytest.mark.parametrize("seed", range(3))
def test_what_has_no_name_gets_no_wrong_one(seed):
    """Noise, or a number that nobody writes, is described and not diagnosed."""
    rng = np.random.default_rng(seed)

    def noise(x, weight, bias, eps):
        return rng.normal(size=x.shape)

    def strange(x, weight, bias, eps):
        m, v = stats(x)
        return np.tanh((x - m) / np.sqrt(v + eps)) * weight + bias

    for answer in (noise, strange):
        for task in ("02.5", "02.6", "03.4"):
            if answer is strange and task == "02.5":
                continue
            assert not examined(TASKS[task], answer, seed).findings[0].known
