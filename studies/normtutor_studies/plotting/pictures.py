"""What stands in the place of an interactive figure where scripts do not run: its point, drawn."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor_studies.plotting.style import INK, NO_NORM, PALETTE, norm_colour


def depth_figure(spreads: Mapping[str, tuple[str, ArrayLike]]) -> Figure:
    """Draw the spread of a signal layer by layer, on a logarithmic scale.

    Parameters
    ----------
    spreads : mapping of label -> (norm or "none", spread of each layer)
    """
    fig, ax = plt.subplots(figsize=(5.0, 3.0))
    for label, (norm, values) in spreads.items():
        height = np.asarray(values)
        layers = np.arange(1, len(height) + 1)
        ax.plot(layers, height, "--" if norm == "none" else "-", color=norm_colour(norm))
        ax.annotate(
            label, (layers[-1], height[-1]), (4, 0), textcoords="offset points", va="center"
        )
    ax.set_yscale("log")
    ax.set_xlabel("layer")
    ax.set_ylabel("spread of the values")
    ax.margins(x=0.02)
    return fig


def padding_figure(before: ArrayLike, padding: int, outputs: Mapping[str, ArrayLike]) -> Figure:
    """Draw real tokens and padding on a number line, and where a norm then puts the real tokens."""
    real = np.asarray(before)
    fig, axes = plt.subplots(1 + len(outputs), 1, figsize=(5.0, 3.2))
    axes[0].plot(real, np.zeros_like(real), "o", color=norm_colour("BatchNorm"))
    axes[0].plot(np.zeros(padding), 0.12 * np.arange(padding), "o", mfc="none", color=NO_NORM)
    axes[0].set_title("real tokens, and padding (hollow)")
    for ax, (label, values) in zip(axes[1:], outputs.items(), strict=True):
        ax.plot(np.asarray(values), np.zeros(len(real)), "o", color=norm_colour("BatchNorm"))
        ax.set_title(label)
        ax.set_xlim(-2.2, 3)
    for ax in axes:
        ax.set_ylim(-0.15, 0.8)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    return fig


def triangle_figure(steps: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Draw weight vectors with a step perpendicular to each, every panel on its own scale."""
    fig, axes = plt.subplots(1, len(steps), figsize=(5.0, 2.2), squeeze=False)
    for ax, (label, (weights, step)) in zip(axes[0], steps.items(), strict=True):
        w = np.asarray(weights)
        after = w + np.asarray(step)
        ax.plot([0, w[0]], [0, w[1]], color=INK)
        ax.plot([w[0], after[0]], [w[1], after[1]], color=PALETTE["crimson"], linewidth=3)
        ax.plot([0, after[0]], [0, after[1]], "--", color=INK)
        ax.set_title(label)
        ax.set_aspect("equal")
        ax.axis("off")
    return fig


def future_figure(moves: Mapping[str, float]) -> Figure:
    """Draw how far the first token moves when the last one is edited, norm by norm."""
    fig, ax = plt.subplots(figsize=(5.0, 2.4))
    names = list(moves)[::-1]
    ax.barh(names, [moves[name] for name in names], color=[norm_colour(name) for name in names])
    for name in names:
        text = f" {moves[name]:.2f}" if moves[name] > 1e-9 else " does not move"
        ax.annotate(text, (moves[name], name), va="center")
    ax.set_xlabel("movement of the first token's output")
    ax.margins(x=0.2)
    return fig


def running_mean_figure(means: ArrayLike, running: ArrayLike) -> Figure:
    """Draw the mean of each batch, and the running mean that trails behind them."""
    fig, ax = plt.subplots(figsize=(5.0, 2.8))
    count = np.arange(1, len(np.asarray(means)) + 1)
    ax.plot(count, np.asarray(means), "_", color=INK, markersize=10, markeredgewidth=2.5)
    ax.plot(count, np.asarray(running), color=norm_colour("BatchNorm"))
    ax.set_xlabel("batch")
    ax.set_ylabel("batch mean, running mean")
    return fig


def memory_figure(courses: Mapping[str, ArrayLike]) -> Figure:
    """Draw PowerNorm's ν batch by batch, every panel on its own scale."""
    fig, axes = plt.subplots(len(courses), 1, figsize=(5.0, 3.6), sharex=True)
    for ax, (label, values) in zip(axes, courses.items(), strict=True):
        ax.plot(np.arange(1, len(np.asarray(values)) + 1), np.asarray(values), color=INK)
        ax.set_title(label)
        ax.set_ylabel("ν")
    axes[-1].set_xlabel("batch")
    return fig


def forgets_figure(rows: Mapping[str, Mapping[str, ArrayLike]]) -> Figure:
    """Draw tokens as bars, row by row: before, and after each norm."""
    columns = list(next(iter(rows.values())))
    fig, axes = plt.subplots(len(rows), len(columns), figsize=(5.0, 4.0), sharey="row")
    for line, (row, tokens) in zip(axes, rows.items(), strict=True):
        colour = NO_NORM if row == "before" else norm_colour(row)
        for ax, name in zip(line, columns, strict=True):
            values = np.asarray(tokens[name])
            ax.bar(np.arange(len(values)), values, color=colour)
            ax.axhline(0, color=INK, linewidth=0.8)
            ax.axis("off")
            ax.set_title(name if row == "before" else row)
    return fig
