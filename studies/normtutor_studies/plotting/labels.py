"""Names beside the lines of a figure, where nothing else is drawn, in place of a legend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from normtutor_studies.plotting.drawings import on_narrow
from normtutor_studies.plotting.style import FloatArray

NEAR = 4.0  # points between a name and its line
CLEAR = 2.0  # points between a name and whatever else is drawn


class _Place(NamedTuple):
    """Where a name can stand: its middle in the pixels of the figure, and its slope."""

    cost: float
    x: float
    y: float
    degrees: float


def label_lines(
    axes: Axes | Sequence[Axes],
    names: Mapping[str, str] | Sequence[str] | None = None,
    *,
    sloped: bool = False,
) -> list[Text]:
    """Write the name of each line beside it, in its colour, clear of lines and of other names.

    Each name stands once, in the first of the axes where it finds room. In the narrow drawing of a
    figure the names find their places again. Call it last: what is drawn afterwards may run through
    a name.

    Parameters
    ----------
    axes : Axes, or a sequence of them
    names : mapping of a line's label -> text, or a sequence of labels, optional
        By default every line of the first axes that has a label of its own.
    sloped : bool
        Whether a name may also run along its line, for lines that are steep and close together.

    Returns
    -------
    list of Text
        In the order of `names`.
    """
    panels = [axes] if isinstance(axes, Axes) else list(axes)
    if names is None:
        own = [str(line.get_label()) for line in panels[0].get_lines()]
        names = [label for label in own if not label.startswith("_")]
    words = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    figure = panels[0].get_figure(root=True)
    assert isinstance(figure, Figure)
    texts: dict[str, Text] = {}
    for name, said in words.items():
        line = _line_called(panels, name)
        texts[name] = figure.text(  # above all axes
            0, 0, said, color=line.get_color(), fontsize=10, ha="center", va="center",
            rotation_mode="anchor", linespacing=1.0,
        )  # fmt: skip

    def place(_: Figure) -> Callable[[], None]:
        before = [
            (text, text.get_transform(), text.get_position(), text.get_rotation())
            for text in texts.values()
        ]
        _place_all(panels, texts, sloped)

        def undo() -> None:
            for text, transform, position, rotation in before:
                text.set_transform(transform)
                text.set_position(position)
                text.set_rotation(rotation)

        return undo

    place(figure)
    on_narrow(figure, place)
    return list(texts.values())


def _line_called(panels: Sequence[Axes], name: str) -> Line2D:
    for ax in panels:
        for line in ax.get_lines():
            if line.get_label() == name:
                return line
    known = [str(line.get_label()) for ax in panels for line in ax.get_lines()]
    raise ValueError(f"no line is labelled {name!r}; the labels of the lines are {known}")


def _place_all(panels: Sequence[Axes], texts: Mapping[str, Text], sloped: bool) -> None:
    figure = panels[0].get_figure(root=True)
    assert isinstance(figure, Figure)
    for text in texts.values():
        text.set_visible(False)
    figure.draw_without_rendering()
    for text in texts.values():
        text.set_visible(True)
    scale = figure.dpi / 72
    taken: list[FloatArray] = []  # points along the edges of the names that stand already
    for name, text in texts.items():
        text.set_rotation(0)
        box = text.get_window_extent()
        size = np.array([box.width, box.height])
        best: tuple[_Place, Axes] | None = None
        for ax in panels:
            lines = {line: _drawn(ax, line, scale) for line in ax.get_lines() if line.get_visible()}
            own = next((points for line, points in lines.items() if line.get_label() == name), None)
            if own is None or not len(own):
                continue
            others = [points for line, points in lines.items() if line.get_label() != name]
            others += [*_other_marks(ax, scale), *taken]
            rest = np.concatenate([np.zeros((0, 2)), *others])
            found = min(_places(ax, own, rest, size, scale, sloped), default=None)
            if found is not None and (best is None or found.cost + 100 < best[0].cost):
                best = found, ax
                if found.cost < 100:
                    break
        text.set_visible(best is not None)  # a line beyond the axes has no name
        if best is None:
            continue
        (_, x, y, degrees), ax = best
        text.set_transform(ax.transAxes)
        text.set_position(tuple(ax.transAxes.inverted().transform((x, y))))
        text.set_rotation(degrees)
        across, up = np.meshgrid(np.linspace(-0.5, 0.5, 15), np.linspace(-0.5, 0.5, 5))
        inside = np.stack([across.ravel(), up.ravel()], axis=1) * size
        taken.append(_turned(inside, -degrees) + np.array([x, y]))


def _drawn(ax: Axes, line: Line2D, scale: float) -> FloatArray:
    """Points along a line as it is drawn, two points apart, in the pixels of the figure."""
    corners = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=np.float64))
    corners = np.where(np.isfinite(corners), corners, np.nan)
    if line.get_linestyle() in ("None", "none", "", " "):
        points = corners
    else:
        parts = [corners[:1]]
        for start, end in pairwise(corners):
            if np.isfinite([start, end]).all():
                count = int(min(2000, np.hypot(*(end - start)) / (2 * scale))) + 2
                parts.append(start + np.linspace(0, 1, count)[1:, None] * (end - start))
        points = np.concatenate(parts)
    return _within(ax, points)


def _within(ax: Axes, points: FloatArray) -> FloatArray:
    frame = ax.get_window_extent()
    x, y = points.T
    inside = (x >= frame.x0 - 1) & (x <= frame.x1 + 1) & (y >= frame.y0 - 1) & (y <= frame.y1 + 1)
    return points[inside]


def _other_marks(ax: Axes, scale: float) -> Iterator[FloatArray]:
    """Points along intervals, dots and texts."""
    for collection in ax.collections:
        if isinstance(collection, LineCollection):
            for segment in collection.get_segments():
                ends = collection.get_transform().transform(segment)
                yield _within(ax, ends[0] + np.linspace(0, 1, 60)[:, None] * (ends[-1] - ends[0]))
        elif isinstance(collection, PathCollection):
            dots = np.asarray(collection.get_offsets(), dtype=np.float64)
            yield _within(ax, collection.get_offset_transform().transform(dots))
    for text in ax.texts:
        if text.get_visible() and text.get_text():
            box = text.get_window_extent()
            across, up = np.meshgrid(
                np.linspace(box.x0, box.x1, 15), np.linspace(box.y0, box.y1, 5)
            )
            yield np.stack([across.ravel(), up.ravel()], axis=1)


def _turned(points: FloatArray, degrees: float) -> FloatArray:
    """Turn points about the origin, clockwise."""
    angle = np.deg2rad(degrees)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.asarray(points @ matrix.T, dtype=np.float64)


def _places(
    ax: Axes,
    own: FloatArray,
    rest: FloatArray,
    size: FloatArray,
    scale: float,
    sloped: bool,
) -> Iterator[_Place]:
    """All places tried for a name, each with what it costs: over 100 if it touches something."""
    frame = ax.get_window_extent()
    half = size / 2
    near, clear = NEAR * scale, CLEAR * scale
    # Around a point of the line: above, below, and at the sides.
    around = [
        (s * half[0] * a, t * (half[1] + near)) for s in (-1, 1) for t in (1, -1) for a in (0, 1)
    ]
    around += [(s * (half[0] + near), t * half[1]) for s in (1, -1) for t in (-0.9, 0, 0.9)]
    around += [(s * (half[0] + 2.5 * near), t * half[1]) for s in (1, -1) for t in (-0.9, 0, 0.9)]
    around += [(0.0, t * (half[1] + 2.5 * near)) for t in (1, -1)]
    anchors = own[np.unique(np.linspace(0, len(own) - 1, 30).astype(int))]
    for place, (x, y) in enumerate(anchors):
        tried = [(x + dx, y + dy, 0.0) for dx, dy in around]
        if sloped:
            tried += list(_along(own, (x, y), half, near))
        for cx, cy, degrees in tried:
            middle = np.array([cx, cy])
            corners = middle + _turned(half * [(-1, -1), (-1, 1), (1, 1), (1, -1)], -degrees)
            beyond = max(
                0.0, frame.x0 + 2 - corners[:, 0].min(), corners[:, 0].max() - frame.x1,
                frame.y0 + 2 - corners[:, 1].min(), corners[:, 1].max() - frame.y1 - 2,
            )  # fmt: skip
            to_own = _distance(own, middle, half, degrees)
            to_rest = _distance(rest, middle, half, degrees) if len(rest) else np.inf
            touched = (to_own < clear) + 2 * (to_rest < clear)
            # The nearest line is its own, by far if possible.
            astray = max(0.0, 2.5 * to_own - to_rest) / scale
            aside = abs(place / max(1, len(anchors) - 1) - 0.6)
            cost = 1000 * touched + 200 * (beyond > 0) + 10 * beyond / scale + 20 * astray
            yield _Place(cost + to_own / scale + 6 * aside + 5 * (degrees != 0), cx, cy, degrees)


def _along(
    own: FloatArray, anchor: tuple[float, float], half: FloatArray, near: float
) -> Iterator[tuple[float, float, float]]:
    """Places along a line, above and below it, for a name as steep as the line is there."""
    beside = own[np.hypot(*(own - anchor).T) <= half[0]]
    start, end = beside[0], beside[-1]
    if start[0] > end[0]:
        start, end = end, start
    angle = float(np.arctan2(*(end - start)[::-1]))
    normal = np.array([-np.sin(angle), np.cos(angle)])
    offsets = (beside - anchor) @ normal
    for side, reach in ((1, offsets.max()), (-1, -offsets.min())):
        middle = np.asarray(anchor) + side * normal * (max(0.0, reach) + half[1] + near)
        yield float(middle[0]), float(middle[1]), float(np.rad2deg(angle))


def _distance(points: FloatArray, middle: FloatArray, half: FloatArray, degrees: float) -> float:
    """How far the nearest of the points lies from a rectangle; 0 if one lies inside."""
    outside = np.maximum(np.abs(_turned(points - middle, degrees)) - half, 0)
    return float(np.hypot(*outside.T).min())
