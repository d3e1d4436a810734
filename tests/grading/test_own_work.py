"""Whose lines do the work: a library's norm or derivative is refused, a student's own counts."""

import numpy as np
import pytest
from normtutor_grader.sandbox import Limits, Sandbox

from normtutor import norms
from normtutor.grading import TASKS, Local, answers, judge

LIMITS = Limits(seconds=100, total_seconds=600)


def judged_here(id, answer):
    """What a student's own check finds, however long a library takes to be imported."""
    return judge(TASKS[id], Local(answer, 1000.0), np.random.default_rng(0))


# --- a tripwire for honest students ---------------------------------------------------------------

LAYER = """
import torch, numpy as np, torch.nn.functional as F
from normtutor import norms
def answer(x, weight, bias, eps):
    x, weight, bias = (torch.tensor(a) for a in (x, weight, bias))
    return {}
"""
SLOPE = """
import torch, numpy as np, scipy.optimize
def answer(g, x_hat, inverse_std):
    g, v, s = (torch.tensor(a) for a in (g, x_hat / inverse_std, inverse_std))
    def forward(v):
        centred = v - v.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    v.requires_grad_()
    {}
"""
BORROWED = {
    "functional": LAYER.format("F.layer_norm(x, x.shape[-1:], weight, bias, eps)"),
    "torch's own name": LAYER.format("torch.layer_norm(x, x.shape[-1:], weight, bias, eps)"),
    "a module": LAYER.format(
        "torch.nn.LayerNorm(x.shape[-1], eps, elementwise_affine=False)(x) * weight + bias"
    ),
    "another norm": LAYER.format(
        "F.group_norm(x.flatten(0, -2), 1, eps=eps).view_as(x) * weight + bias"
    ),
    "backward": SLOPE.format("forward(v).backward(g); return v.grad"),
    "autograd": SLOPE.format("return torch.autograd.grad(forward(v), v, g)[0]"),
    "a function's derivative": SLOPE.format(
        "return torch.func.vjp(forward, v.detach())[1](g)[0].detach()"
    ),
    "a Jacobian": SLOPE.format(
        "return torch.autograd.functional.jacobian(lambda v: (forward(v) * g).sum(), v)"
    ),
}


@pytest.mark.filterwarnings("ignore")
def test_who_forgets_what_is_asked_for_is_told_so_here_and_there(monkeypatch):
    found, cells = {}, [c.replace("from normtutor import norms", "") for c in BORROWED.values()]
    for name, cell in zip(BORROWED, cells, strict=True):
        namespace = {"__name__": "student"}
        exec(cell, namespace)
        found[name] = "02.6" if "weight" in cell else "02.2", namespace["answer"]
    named = [f"{cell}\nanswer_{number} = answer" for number, cell in enumerate(cells)]
    with Sandbox(named, LIMITS, walled=False) as sandbox:
        for number, (id, answer) in enumerate(found.values()):
            here = judged_here(id, answer)
            assert here.score == 0 and "write the formula yourself" in here.findings[0].words
            there = judge(TASKS[id], sandbox.answer(f"answer_{number}"), np.random.default_rng(0))
            assert there.findings[0].words == here.findings[0].words
        assert sandbox.errors == []
    # Only if the answer is right does a refusal say something.
    monkeypatch.setattr(answers, "own_work", lambda run, *given: run(*given))
    for name, (id, answer) in found.items():
        assert judged_here(id, answer).findings[0].passed, name


def test_the_packages_own_formulas_are_not_an_answer_in_a_notebook():
    def answer(g, x_hat, inverse_std):
        return norms.layer_norm(x_hat)[0]

    (first, *_) = judged_here("02.2", answer).findings
    assert "it calls normtutor, which" in first.words


# --- what is the student's own --------------------------------------------------------------------

COMPLEX_STEP = """
def answer(g, x_hat, inverse_std):
    v = x_hat / inverse_std
    eps = inverse_std**-2.0 - v.var(-1, keepdims=True)

    def forward(v):
        centred = v - v.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)

    dx = np.empty_like(g)
    for i in range(g.shape[-1]):
        step = np.zeros(g.shape[-1])
        step[i] = 1e-30
        dx[..., i] = (g * forward(v + 1j * step).imag / 1e-30).sum(-1)
    return dx
"""
LATE_IMPORT = """
def answer(g, x_hat, inverse_std):
    import scipy.differentiate, scipy.optimize, scipy.stats
    mean = lambda a: a.mean(-1, keepdims=True)
    return inverse_std * (g - mean(g) - x_hat * mean(g * x_hat))
"""


def test_what_a_students_own_lines_compute_counts_here_and_there():
    """A derivative by a complex step is no library's; nor is an import a derivative."""
    task, start = TASKS["02.2"], "import numpy as np, torch\n"
    cells = [f"{start}{c}answer_{i} = answer" for i, c in enumerate((COMPLEX_STEP, LATE_IMPORT))]
    namespace = {"__name__": "student"}
    with Sandbox(cells, LIMITS, walled=False) as sandbox:
        result = judge(task, sandbox.answer("layer_norm_dx"), np.random.default_rng(0))
        assert "not defined" in result.findings[0].words
        for i, cell in enumerate(cells):
            exec(cell, namespace)
            there = judge(task, sandbox.answer(f"answer_{i}"), np.random.default_rng(0))
            assert there.score == task.points, there.findings
            assert judged_here("02.2", namespace["answer"]).score == task.points
        assert sandbox.errors == []
