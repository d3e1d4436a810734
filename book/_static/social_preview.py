"""Draw social.png, the picture that a link to the book shows.

Run it with python book/_static/social_preview.py. The result stands in the tree because a build
should not depend on the fonts of a machine.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

NAVY, CREAM, AMBER, BLUE = "#10324f", "#f5f1e8", "#f4b860", "#6f93b3"
BATCH, LENGTH, FEATURES = 3, 4, 4
CASES = {
    "BatchNorm": lambda b, i, h: h == FEATURES - 1,
    "LayerNorm": lambda b, i, h: b == 0 and i == LENGTH - 1,
    "GroupNorm": lambda b, i, h: b == 0 and h >= FEATURES // 2,
}


def corner(b: float, i: float, h: float) -> tuple[float, float]:
    """Project a point of the box: features to the right, positions up, the batch into depth."""
    return h + 0.45 * b, i + 0.35 * b


def draw_box(axes: Axes, shares: object) -> None:
    """Draw the three visible faces of a box of cells; the cells that share a statistic in amber."""
    assert callable(shares)

    def cell(points: list[tuple[float, float]], marked: bool) -> None:
        axes.add_patch(Polygon(points, facecolor=AMBER if marked else BLUE, edgecolor=NAVY, lw=2))

    for i in range(LENGTH):
        for h in range(FEATURES):  # front: the first sequence
            front = [corner(0, i + y, h + x) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
            cell(front, shares(0, i, h))
    for b in range(BATCH):
        for h in range(FEATURES):  # top: the last position
            top = [corner(b + y, LENGTH, h + x) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
            cell(top, shares(b, LENGTH - 1, h))
        for i in range(LENGTH):  # right: the last feature
            side = [corner(b + x, i + y, FEATURES) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]
            cell(side, shares(b, i, FEATURES - 1))
    axes.set_xlim(-0.2, FEATURES + 0.45 * BATCH + 0.2)
    axes.set_ylim(-0.2, LENGTH + 0.35 * BATCH + 0.2)
    axes.set_aspect("equal")
    axes.axis("off")


def main() -> None:
    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor=NAVY)
    figure.text(0.06, 0.83, "Normalization in deep networks", color=CREAM, size=40, weight="bold")
    figure.text(
        0.06,
        0.74,
        "Which values share a statistic, which statistic, and where it comes from",
        color=CREAM,
        size=20,
    )
    for position, (name, shares) in enumerate(CASES.items()):
        axes = figure.add_axes((0.06 + 0.305 * position, 0.16, 0.27, 0.5))
        draw_box(axes, shares)
        figure.text(0.195 + 0.305 * position, 0.07, name, color=CREAM, size=24, ha="center")
    path = Path(__file__).with_name("social.png")
    figure.savefig(path, metadata={"Software": None})
    print(path.name)


if __name__ == "__main__":
    main()
