"""The table "One formula, nine norms": what its cells say is evaluated, against autograd."""

import numpy as np
import pytest
import torch
from normtutor_studies.formula_table import ABSENT, EVALUATION, formula_table, row_of

from normtutor import norms

B, L, H, GROUPS, K = 3, 4, 6, 2, 3
AXES = {"BL": (0, 1), "H": (2,), "L": (1,)}
SPOKEN = {"−": "-", "·": "*", "√": "sqrt", "x̂": "x_hat", "²": "**2", "ε": "eps", "[i ≤ k]": "first"}
NAMES = [*norms.TABLE, "ScaleNorm", EVALUATION]
FORWARD = {
    "BatchNorm": lambda x, eps: norms.batch_norm(x, eps=eps, feature_axis=-1)[0],
    "LayerNorm": lambda x, eps: norms.layer_norm(x, eps=eps)[0],
    "InstanceNorm": lambda x, eps: norms.instance_norm(x, eps=eps, feature_axis=-1)[0],
    "GroupNorm": lambda x, eps: norms.group_norm(x, num_groups=GROUPS, eps=eps, feature_axis=-1)[0],
    "RMSNorm": lambda x, eps: norms.rms_norm(x, eps=eps)[0],
    "pRMSNorm": lambda x, eps: norms.partial_rms_norm(x, p=K / H, eps=eps)[0],
    "PowerNorm-V": lambda x, eps: norms.power_norm_v(x, eps=eps)[0],
    "ScaleNorm": lambda x, eps: norms.scale_norm(x, torch.ones(1, dtype=x.dtype), eps=eps)[0],
    "WeightNorm": lambda w, eps: norms.weight_norm(w)[0],
}


def python(text):
    for sign, name in SPOKEN.items():
        text = text.replace(sign, name)
    return text


def evaluated(name, x, g, eps, **memory):
    """x̂ and dx as the row's text has them."""
    row = row_of(name)
    axes = norms.TABLE["BatchNorm"].axes if name == EVALUATION else ""
    axes = axes or (norms.TABLE | norms.RELATIVES)[name].axes

    def over(a, how):
        if axes == "Lh":
            groups = a.reshape(*a.shape[:-1], GROUPS, -1)
            return how(groups, (1, 3)).expand(groups.shape).reshape(a.shape)
        if axes == "h":
            return how(a[..., :K], (2,))
        return how(a, AXES[axes] if axes else (1,))

    words = {
        "x": x,
        "w": x,
        "g": g,
        "eps": eps,
        "sqrt": torch.sqrt,
        "mean": lambda a: over(a, lambda part, dims: part.mean(dims, keepdim=True)),
        "sum": lambda a: a.sum(-1, keepdim=True),
        "first": (torch.arange(x.shape[-1]) < K).double(),
        "k": K,
        **memory,
    }
    for left, text in (("c", row.c), ("r", row.r), ("x_hat", "c · r")):
        words[left] = eval(python(text), words)
    terms = [text for text in (row.shift, row.stretch) if text != ABSENT]
    return words["x_hat"], words["r"] * eval(python(" ".join(["g", *terms])), words)


def drawn(*shape):
    return torch.from_numpy(np.random.default_rng(sum(shape)).normal(1.0, 2.0, shape))


@pytest.mark.parametrize("name", FORWARD)
def test_a_row_is_what_autograd_says(name):
    shape = (5, 7) if name == "WeightNorm" else (B, L, H)
    x, g = drawn(*shape).requires_grad_(), drawn(*shape)
    y = FORWARD[name](x, 0.3)
    x_hat, _ = evaluated(name, x.detach(), g, 0.3)
    torch.testing.assert_close(x_hat, y.detach())
    eps = 0.0 if name == "pRMSNorm" else 0.3  # its ε stands outside the root
    (gradient,) = torch.autograd.grad(FORWARD[name](x, eps), x, g)
    torch.testing.assert_close(evaluated(name, x.detach(), g, eps)[1], gradient)


def test_batch_norm_in_evaluation_has_neither_term():
    x, g, mean, variance = drawn(B, L, H).requires_grad_(), drawn(B, L, H), drawn(H), drawn(H) ** 2
    averages = {"running_mean": mean, "running_var": variance}
    y = norms.batch_norm(x, **averages, training=False, eps=0.3, feature_axis=-1)[0]
    (gradient,) = torch.autograd.grad(y, x, g)
    x_hat, dx = evaluated(EVALUATION, x.detach(), g, 0.3, μ=mean, σ=variance.sqrt())
    torch.testing.assert_close(x_hat, y.detach())
    torch.testing.assert_close(dx, gradient)


def test_power_norm_has_a_remembered_term():
    x, g, nu = drawn(B, L, H), drawn(B, L, H), drawn(H)
    psi_squared = drawn(H) ** 2
    y, cache, _ = norms.power_norm(x, None, None, psi_squared, eps=0.3)
    grads, _ = norms.power_norm_backward(g, cache, nu)
    x_hat, dx = evaluated("PowerNorm", x, g, 0.3, ψ=psi_squared.sqrt(), ν=nu)
    torch.testing.assert_close(x_hat, y)
    torch.testing.assert_close(dx, grads.x)


def test_the_table_has_the_nine_norms_of_the_package_and_says_what_it_cannot_show():
    assert len(norms.TABLE) == 9
    text = formula_table().text
    assert all(f"\n{name} " in text for name in norms.TABLE)
    assert "evaluation" in formula_table("BatchNorm", EVALUATION, mark=EVALUATION).text
    for name, what in (("DyT", "no statistic"), ("Batchnorm", "Choose from: BatchNorm")):
        with pytest.raises(ValueError, match=what):
            formula_table(name)
