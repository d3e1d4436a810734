"""Figures of the studies: what is on record, drawn; nothing is run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normtutor_studies import plotting
from normtutor_studies.engine import Study, without_rate
from normtutor_studies.plotting.general import colours_for
from normtutor_studies.plotting.style import NO_NORM, PALETTE
from normtutor_studies.store import Cell, World
from normtutor_studies.tables import study
from normtutor_studies.worlds.transformers import LATER, POINTS


def curves(name: str) -> Figure:
    """Draw the test loss along the run, a panel per world: means over seeds in 95% intervals.

    Parameters
    ----------
    name : str
        Of a study on record.
    """
    one = study(name)
    figure, panels = _panels(one)
    for world, ax in zip(one.worlds, panels, strict=True):
        first = next(iter(one.arms.values()))
        full = world.full(without_rate(first))
        x, xlabel = _along(full)
        plotting.curves(
            x,
            {arm: one.values(world.name, arm, "loss") for arm in one.arms},
            xlabel=xlabel,
            ylabel=f"test loss ({world.unit})",
            colours=_colours(list(one.arms)),
            ax=ax,
        )
    _say_once(panels)
    _legend(figure, panels)  # where lines coincide there is no place for names
    return figure


def ends(
    name: str, *, worlds: Sequence[str] | None = None, size: tuple[float, float] | None = None
) -> Figure:
    """Draw the test loss at the end, a dot per seed and a bar at their mean, a panel per world."""
    one = study(name)
    if worlds is not None:
        one = replace(one, worlds=[world for world in one.worlds if world.name in worlds])
    chosen = list(one.arms)
    figure, panels = _panels(one, size)
    own = _colours(chosen)
    for world, ax in zip(one.worlds, panels, strict=True):
        for at, arm in enumerate(chosen):
            values = one.final(world.name, arm)
            sideways = at + np.linspace(-0.12, 0.12, len(values))
            ax.plot(sideways, values, "o", color=own[arm], markersize=5, alpha=0.7)
            ax.hlines(values.mean(), at - 0.28, at + 0.28, color=own[arm])
        ax.set_xticks(range(len(chosen)), [arm.replace(", ", ",\n") for arm in chosen])
        ax.set(xlim=(-0.6, len(chosen) - 0.4), ylabel=f"test loss ({world.unit})")
    _say_once(panels)
    return figure


def over(
    name: str, setting: str, series: Mapping[str, Cell], *, xlabel: str, chance: float
) -> Figure:
    """Draw the test loss at the end over a setting, a line per series, a panel per world.

    The first line is solid, the second dashed, the third dotted.

    Parameters
    ----------
    name, setting : str
        A study, and the setting in which its arms differ; "rate" is one.
    series : mapping
        From a label to settings: of the arms that have them the line consists.
    xlabel : str
    chance : float
        A loss above it, or of a run that diverged, is drawn there.
    """
    one = study(name)
    figure, panels = _panels(one)
    own = _colours(list(series))
    for world, ax in zip(one.worlds, panels, strict=True):
        for at, (label, wanted) in enumerate(series.items()):
            points = sorted(
                (float(_setting(world, cell, setting)), arm)
                for arm, cell in one.arms.items()
                if all(_setting(world, cell, k) == v for k, v in wanted.items())
            )
            losses = np.array([one.final(world.name, arm) for _, arm in points]).T
            losses = np.minimum(losses, chance)
            x = [value for value, _ in points]
            dash = ("-", (0, (5, 2)), (0, (1.5, 1.5)))[at % 3]
            ax.plot(x, losses.mean(0), color=own[label], linestyle=dash, label=label)
            ax.plot(x, losses.T, "o", color=own[label], markersize=3, alpha=0.5, label="_seeds")
        ax.set_xscale("log", base=2)
        ticks = x[:: 1 + len(x) // 4]  # labels of all would run into one another
        ax.set_xticks(ticks, [f"{value:g}" for value in ticks])
        ax.minorticks_off()
        ax.set(xlabel=xlabel, ylabel=f"test loss ({world.unit})")
    _say_once(panels)
    _legend(figure, panels)
    return figure


def stream(name: str, arm: str) -> Figure:
    """Draw the mean square of the residual stream over layers, before training and after it."""
    one = study(name)
    figure, panels = _panels(one)
    colours = {"before training": PALETTE["olive"], "after training": PALETTE["indigo"]}
    for world, ax in zip(one.worlds, panels, strict=True):
        runs = one.runs(world.name, arm)
        sizes = {
            when: np.square([run[key]["stream"] for run in runs])
            for when, key in zip(colours, ("before", "after"), strict=True)
        }
        plotting.curves(
            range(sizes["before training"].shape[1]),
            sizes,
            xlabel="layer",
            ylabel="mean square of the stream",
            colours=colours,
            ax=ax,
        )
        ax.set_yscale("log")
        ax.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        ax.minorticks_off()
    _say_once(panels)
    plotting.label_lines(panels)
    return figure


def _panels(one: Study, size: tuple[float, float] | None = None) -> tuple[Figure, list[Axes]]:
    count = len(one.worlds)
    size = size or (1 + 3.6 * count, 3.3)
    figure, axes = plt.subplots(1, count, figsize=size, squeeze=False)
    panels = list(axes[0])
    for world, ax in zip(one.worlds, panels, strict=True):
        ax.set_title(world.title)
    return figure, panels


def _say_once(panels: Sequence[Axes]) -> None:
    """No legend in a panel; and to the first alone what all vertical axes show."""
    for ax in panels:
        if legend := ax.get_legend():
            legend.remove()
    if len({ax.get_ylabel() for ax in panels}) == 1:
        for ax in panels[1:]:
            ax.set_ylabel("")


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, handlelength=2.6)


def _along(full: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    shares = np.arange(1, POINTS + 1) / POINTS
    if "steps" not in full:
        return shares * full["examples"] / 1000, "examples (thousands)"
    return shares * full["steps"] / (LATER if full["then"] else 1), "step"


def _setting(world: World, cell: Cell, name: str) -> Any:
    return {**world.settings, **cell}[name]


def _colours(arms: Sequence[str]) -> dict[str, str]:
    return colours_for(arms, {"no norm": NO_NORM})
