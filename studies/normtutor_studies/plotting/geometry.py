"""What a norm does to one token: spheres, planes, half planes and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor_studies.plotting.style import INK, NORM_COLOURS, PALETTE, FloatArray, norm_colour


def sphere_figure(x: ArrayLike, y: ArrayLike, *, weight: ArrayLike, bias: ArrayLike) -> Figure:
    """Draw three-dimensional tokens before and after LayerNorm, without and with its affine.

    Left, the sphere of radius √3, the plane 1ᵀy = 0 and the circle in which they meet. Right,
    what γ and β make of the three.

    Parameters
    ----------
    x : array of shape (n, 3)
        Inputs, drawn grey with a thin line to their output.
    y : array of shape (n, 3)
        Outputs without affine; on the right they are drawn as ``weight * y + bias``.
    weight, bias : arrays of shape (3,)

    Returns
    -------
    Figure
        Two axes. The scatters are labelled "input", "output" and "output with γ, β".
    """
    inputs = np.asarray(x, dtype=np.float64)
    outputs = np.asarray(y, dtype=np.float64)
    scale, shift = np.asarray(weight, dtype=float), np.asarray(bias, dtype=float)
    circle = _circle_in_plane()
    fig = plt.figure(figsize=(5.2, 3.2), layout="constrained")
    colour = norm_colour("LayerNorm")

    ax = _space(fig, 1)
    _wire_sphere(ax, np.ones(3), np.zeros(3))
    _plane_patch(ax, circle * 1.3)
    ax.plot(*circle.T, color=INK, linewidth=1.2)
    for start, end in zip(inputs, outputs, strict=True):
        ax.plot(*np.stack([start, end]).T, color="#9aa0a8", linewidth=0.7)
    ax.scatter(*inputs.T, color="#70767e", s=10, depthshade=False, label="input")
    ax.scatter(*outputs.T, color=colour, s=18, depthshade=False, label="output")
    ax.set_title("without γ, β", y=1.02)

    ax = _space(fig, 2)
    _wire_sphere(ax, scale, shift)
    _plane_patch(ax, circle * 1.3 * scale + shift)
    ax.plot(*(circle * scale + shift).T, color=INK, linewidth=1.2)
    ax.scatter(
        *(outputs * scale + shift).T,
        color=colour,
        marker="D",
        s=14,
        depthshade=False,
        label="output with γ, β",
    )
    ax.set_title("with γ, β", y=1.02)
    fig.legend(loc="outside lower center", ncols=3, columnspacing=1.0)
    return fig


def _circle_in_plane() -> FloatArray:
    """Points of the circle of radius √3 in the plane 1ᵀy = 0."""
    first = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    second = np.array([1.0, 1.0, -2.0]) / np.sqrt(6)
    angle = np.linspace(0, 2 * np.pi, 200)[:, None]
    return np.sqrt(3) * (np.cos(angle) * first + np.sin(angle) * second)


def _space(fig: Figure, number: int) -> Any:
    """An empty three-dimensional panel with its three axes drawn through the origin."""
    ax: Any = fig.add_subplot(1, 2, number, projection="3d")
    limit = 2.2
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
    for index, tip in enumerate(limit * np.eye(3)):
        ax.plot(*np.stack([-tip, tip]).T, color="#70767e", linewidth=0.8)
        if index > 0:  # the first points at the reader, and ends before the sphere
            ax.text(*(1.13 * tip), f"$y_{index + 1}$", ha="center", va="center")
    ax.set_box_aspect((1, 1, 1), zoom=1.2)
    ax.view_init(elev=16, azim=10)
    ax.set_axis_off()
    return ax


def _wire_sphere(ax: Any, scale: FloatArray, shift: FloatArray) -> None:
    radius = np.sqrt(3)
    polar, around = np.linspace(0, np.pi, 40), np.linspace(0, 2 * np.pi, 60)
    lines = []
    for angle in np.linspace(0, np.pi, 7)[1:-1]:
        ring = [np.cos(around) * np.sin(angle), np.sin(around) * np.sin(angle)]
        lines.append(np.stack([*ring, np.full_like(around, np.cos(angle))], axis=1))
    for angle in np.linspace(0, 2 * np.pi, 13)[:-1]:
        arc = [np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.cos(polar)]
        lines.append(np.stack(arc, axis=1))
    for line in lines:
        ax.plot(*(radius * line * scale + shift).T, color="#c9ced6", linewidth=0.6)


def _plane_patch(ax: Any, outline: FloatArray) -> None:
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    ax.add_collection3d(
        Poly3DCollection([outline], facecolor=PALETTE["teal"], alpha=0.10, edgecolor="none")
    )


def keys_figure(panels: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Draw attention keys in the plane: which of them a query can select, and their hull.

    Parameters
    ----------
    panels : mapping of title -> (keys of shape (n, 2), selectable: boolean of shape (n,))

    Returns
    -------
    Figure
        One axes a panel. Line "hull" joins the selectable keys in the order of their angle about
        their mean; the scatters "selectable" and "not selectable" hold the keys.
    """
    fig, axes = plt.subplots(
        1, len(panels), figsize=(5.2, 3.2), squeeze=False, layout="constrained"
    )
    for ax, (title, (points, mask)) in zip(axes[0], panels.items(), strict=True):
        keys = np.asarray(points, dtype=np.float64)
        selectable = np.asarray(mask, dtype=bool)
        outer = keys[selectable]
        around = outer - outer.mean(axis=0)
        outer = outer[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]
        ax.plot(*np.concatenate([outer, outer[:1]]).T, color=INK, linewidth=1, label="hull")
        ax.scatter(*keys[selectable].T, color=PALETTE["teal"], s=38, zorder=3, label="selectable")
        ax.scatter(
            *keys[~selectable].T,
            color=PALETTE["crimson"],
            marker="x",
            s=38,
            zorder=3,
            label="not selectable",
        )
        ax.set_title(title)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xlabel("coordinate 1")
    axes[0, 0].set_ylabel("coordinate 2")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def half_plane_figure(mean: ArrayLike, deviation: ArrayLike) -> Figure:
    """Draw what LayerNorm and RMSNorm do, in the half-plane of mean μ and standard deviation σ.

    A token's direction within the hyperplane of zero mean is not touched by either norm, so this
    plane shows all that they change. RMSNorm moves a point along its ray to the unit circle;
    LayerNorm moves it to (0, 1), whatever its mean.

    Parameters
    ----------
    mean, deviation : arrays of shape (n,)
        μ and σ > 0 of n tokens.

    Returns
    -------
    Figure
        One axes. The scatters are labelled "token", "after RMSNorm" and "after LayerNorm".
    """
    mu = np.asarray(mean, dtype=np.float64)
    sigma = np.asarray(deviation, dtype=np.float64)
    radius = np.hypot(mu, sigma)
    layer, rms = NORM_COLOURS["LayerNorm"], NORM_COLOURS["RMSNorm"]
    fig, ax = plt.subplots(figsize=(5.0, 3.2))
    angle = np.linspace(0, np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color=INK, linewidth=1)
    limit = 1.1 * max(1.0, float(np.abs(mu).max()))
    for m, s, r in zip(mu, sigma, radius, strict=True):
        ax.plot([m, m / r], [s, s / r], color=rms, linewidth=1)
        # LayerNorm in two steps: centre, then along the axis.
        ax.plot([m, 0, 0], [s, s, 1], color=layer, linewidth=1.3, linestyle=":")
    ax.scatter(mu, sigma, color="#70767e", s=26, zorder=3, label="token")
    ax.scatter(mu / radius, sigma / radius, color=rms, s=36, zorder=3, label="after RMSNorm")
    ax.scatter([0], [1], color=layer, marker="D", s=56, zorder=4, label="after LayerNorm")
    ax.axvline(0, color=INK, linewidth=0.8, alpha=0.3, zorder=0)
    ax.set(xlim=(-limit, limit), ylim=(0, 1.1 * max(1.0, float(sigma.max()))))
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlabel="mean μ of the token", ylabel="standard deviation σ")
    # The names stand below the points, where no line runs.
    ax.text(0.04, 0.08, "after\nLayerNorm", color=layer, fontsize=9.5)
    ax.text(-1.07, 0.08, "after\nRMSNorm", color=rms, fontsize=9.5, ha="right")
    return fig
