"""What stands in the place of an interactive figure where scripts do not run: its point, drawn."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from normtutor import norms
from normtutor_studies.plotting.style import INK, NO_NORM, PALETTE, norm_colour


def depth() -> Figure:
    """The spread of a signal layer by layer, on a logarithmic scale."""
    rng, width = np.random.default_rng(7), 48
    layers = np.arange(1, 21)
    fig, ax = plt.subplots(figsize=(5.0, 3.0))
    for label, name, scale in (("× 2", "none", 2.0), ("× ½", "none", 0.5), ("", "LayerNorm", 0.5)):
        h, height = rng.normal(size=(64, width)), []
        for _ in layers:
            a = h @ rng.normal(size=(width, width)) * scale * np.sqrt(2 / width)
            y = norms.layer_norm(a)[0] if name == "LayerNorm" else a
            height.append(float(np.std(y)))
            h = np.maximum(y, 0)
        ax.plot(layers, height, "--" if name == "none" else "-", color=norm_colour(name))
        ax.annotate(
            label or name, (20, height[-1]), (4, 0), textcoords="offset points", va="center"
        )
    ax.set(yscale="log", xlabel="layer", ylabel="spread of the values")
    ax.margins(x=0.02)
    return fig


def padding() -> Figure:
    """Real tokens and padding on a number line, and where BatchNorm then puts the real tokens."""
    real, more = np.array([2.1, 1.2, 3.0, 1.7, 2.6, 0.9]), 6
    x = np.concatenate([real, np.zeros(more)])[None, :, None]
    mask = (np.arange(len(real) + more) < len(real))[None]
    fig, axes = plt.subplots(3, 1, figsize=(5.0, 3.2))
    axes[0].plot(real, np.zeros_like(real), "o", color=norm_colour("BatchNorm"))
    axes[0].plot(np.zeros(more), 0.12 * np.arange(more), "o", mfc="none", color=NO_NORM)
    axes[0].set_title("real tokens, and padding (hollow)")
    for ax, title, counted in (
        (axes[1], "after BatchNorm", None),
        (axes[2], "after BatchNorm with a mask", mask),
    ):
        y = norms.batch_norm(x, feature_axis=-1, mask=counted)[0][0, : len(real), 0]
        ax.plot(y, np.zeros(len(real)), "o", color=norm_colour("BatchNorm"))
        ax.set(title=title, xlim=(-2.2, 3))
    for ax in axes:
        ax.set(ylim=(-0.15, 0.8), yticks=[])
        ax.spines["left"].set_visible(False)
    return fig


def triangle() -> Figure:
    """Weight vectors with a step perpendicular to each, every panel on its own scale."""
    fig, axes = plt.subplots(1, 2, figsize=(5.0, 2.2))
    for ax, length in zip(axes, (1, 2), strict=True):
        w = length * np.array([np.cos(0.25), np.sin(0.25)])
        _, cache = norms.weight_norm(w[None])
        after = w - 0.25 * norms.weight_norm_backward(np.array([[0.0, -1.0]]), cache)[0][0]
        ax.plot([0, w[0]], [0, w[1]], color=INK)
        ax.plot([w[0], after[0]], [w[1], after[1]], color=PALETTE["crimson"], linewidth=3)
        ax.plot([0, after[0]], [0, after[1]], "--", color=INK)
        ax.set(title=f"length {length}", aspect="equal")
        ax.axis("off")
    return fig


def future() -> Figure:
    """How far the first token moves when the last one is edited, norm by norm."""
    x = np.random.default_rng(5).normal(size=(2, 6, 4))
    edited = x.copy()
    edited[0, -1] += [2.0, -1.2, 1.6, -2.0]
    through = {
        "RMSNorm": lambda v: norms.rms_norm(v)[0],
        "LayerNorm": lambda v: norms.layer_norm(v)[0],
        "GroupNorm": lambda v: norms.group_norm(v, num_groups=2, feature_axis=-1)[0],
        "InstanceNorm": lambda v: norms.instance_norm(v, feature_axis=-1)[0],
        "BatchNorm": lambda v: norms.batch_norm(v, feature_axis=-1)[0],
    }
    moves = {name: float(np.abs(f(edited) - f(x))[0, 0].max()) for name, f in through.items()}
    fig, ax = plt.subplots(figsize=(5.0, 2.4))
    ax.barh([*moves], [*moves.values()], color=[norm_colour(name) for name in moves])
    for name, move in moves.items():
        text = f" {move:.2f}" if move > 1e-9 else " does not move"
        ax.annotate(text, (move, name), va="center")
    ax.set_xlabel("movement of the first token's output")
    ax.margins(x=0.2)
    return fig


def modes() -> Figure:
    """The mean of each batch, and the running mean that trails behind them."""
    rng = np.random.default_rng(3)
    mean: Any = np.zeros(1)
    variance: Any = np.ones(1)
    means, running = [], []
    for _ in range(26):
        x = rng.choice([-0.8, 1.2]) + 0.5 * rng.normal(size=(16, 1))
        _, _, (mean, variance) = norms.batch_norm(x, running_mean=mean, running_var=variance)
        means.append(x.mean())
        running.append(mean[0])
    fig, ax = plt.subplots(figsize=(5.0, 2.8))
    ax.plot(np.arange(1, 27), means, "_", color=INK, markersize=10, markeredgewidth=2.5)
    ax.plot(np.arange(1, 27), running, color=norm_colour("BatchNorm"))
    ax.set(xlabel="batch", ylabel="batch mean, running mean")
    return fig


def memory() -> Figure:
    """PowerNorm's ν batch by batch, every panel on its own scale."""
    x = np.array([[1.0], [-1.0]])
    fig, axes = plt.subplots(2, 1, figsize=(5.0, 3.6), sharex=True)
    for ax, period in zip(axes, (4, 12), strict=True):
        square, nu, course = np.ones(1), np.zeros(1), []
        for batch in range(240):
            active = x * (batch % period == 0)
            _, cache, square = norms.power_norm(active, running_mean_square=square, eps=1e-12)
            _, nu = norms.power_norm_backward(active, cache, nu)
            course.append(float(nu[0]))
        ax.plot(np.arange(1, 241), course, color=INK)
        ax.set(title=f"active in every {period}th batch", ylabel="ν")
    axes[-1].set_xlabel("batch")
    return fig


def forgets() -> Figure:
    """Tokens as bars, row by row: before, and after each norm."""
    x = np.array([0.4, 2.2, -0.9, 1.3, 0.2])
    tokens = {"x": x, "3x + 2": 3 * x + 2, "−x": -x}
    through: dict[str, Any] = {
        "before": lambda token: (token,),
        "LayerNorm": norms.layer_norm,
        "RMSNorm": norms.rms_norm,
    }
    fig, axes = plt.subplots(3, 3, figsize=(5.0, 4.0), sharey="row")
    for line, (row, norm) in zip(axes, through.items(), strict=True):
        colour = NO_NORM if row == "before" else norm_colour(row)
        for ax, (name, token) in zip(line, tokens.items(), strict=True):
            ax.bar(np.arange(len(x)), norm(token)[0], color=colour)
            ax.axhline(0, color=INK, linewidth=0.8)
            ax.axis("off")
            ax.set_title(name if row == "before" else row)
    return fig
