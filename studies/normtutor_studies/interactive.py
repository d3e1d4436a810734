"""Interactive figures of the website, as a notebook puts them out.

The scripts stand in ``book/_static/interactive``; a figure's numbers come from a notebook's cell.
"""

import base64
import html
import io
import json
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from normtutor.colours import COLOURS, NO_NORM
from normtutor.intervals import t_interval
from normtutor_studies.plotting import STYLE, pictures
from normtutor_studies.plotting.style import OTHERS


class InteractiveFigure:
    """An interactive figure of the website, with its data; without scripts, words instead.

    Parameters
    ----------
    name : str
        The page's element is ``nt-`` and this name.
    data : JSON-serialisable
        What the script draws; None for a figure that computes its numbers in the page.
    instead : str
        What readers without the script read.
    figure : callable, optional
        Draws the picture that such readers see; ``instead`` is then its alternative text.
    """

    def __init__(
        self, name: str, data: Any, instead: str, figure: Callable[[], Figure] | None = None
    ) -> None:
        self.name, self.data, self.instead, self.figure = name, data, instead, figure

    def _repr_html_(self) -> str:
        data = ""
        if self.data is not None:
            # "</" inside a string would end the script element.
            content = json.dumps(self.data, allow_nan=False).replace("</", "<\\/")
            data = f'<script type="application/json">{content}</script>'
        words = html.escape(self.instead)
        if self.figure is None:
            return f"<nt-{self.name}>{data}<p>{words}</p></nt-{self.name}>"
        drawn = as_svg(self.figure)
        source = base64.b64encode(drawn).decode()
        size = re.search(rb'<svg [^>]*?width="([0-9.]+)pt" height="([0-9.]+)pt"', drawn)
        assert size is not None  # matplotlib writes it
        width, height = (round(float(points) / 0.75) for points in size.groups())
        picture = (
            f'<img alt="{words}" width="{width}" height="{height}" loading="lazy" '
            f'src="data:image/svg+xml;base64,{source}">'
        )
        caption = f"<figcaption>{words}</figcaption>"
        return f"<nt-{self.name}>{data}<figure>{picture}{caption}</figure></nt-{self.name}>"


# The pictures that need no data from a cell, and what stands in their place without scripts.
PICTURES = {
    "depth": (
        "A signal passes through twenty layers with ReLU. With initial weights half as large as "
        "usual its spread halves in every layer, to a millionth; with weights twice as large it "
        "grows to a million. With BatchNorm, LayerNorm or RMSNorm it stays at 1 for any scale."
    ),
    "padding": (
        "Six real tokens and six padding tokens on a number line. Padding pulls the mean of all "
        "tokens towards 0, so BatchNorm puts the same real tokens elsewhere. With a mask, the "
        "statistics are those of the real tokens."
    ),
    "triangle": (
        "A weight vector w, a gradient step perpendicular to it, and the vector after the step: "
        "the longest side of a right triangle. If w is ten times longer, the step is ten times "
        "shorter, and the angle by which w turns is a hundredth."
    ),
    "future": (
        "The last of six tokens is edited. Under BatchNorm, InstanceNorm and GroupNorm the outputs "
        "of all tokens before it change, the first one too. Under LayerNorm and RMSNorm only the "
        "edited token changes."
    ),
    "modes": (
        "Batches of either short or long sentences follow one another. The mean of each batch "
        "jumps between two values. The running mean that BatchNorm uses in evaluation lies between "
        "the two and fits neither, so the same token is normalized differently in the two modes."
    ),
    "memory": (
        "A feature of PowerNorm that is active in every fourth or in every twelfth batch. Between "
        "two active batches its memory shrinks. In every fourth, the number ν settles; in every "
        "twelfth, each active batch throws it further off."
    ),
    "forgets": (
        "Bars of a token x, of 3x + 2 and of −x. LayerNorm gives the same output for x and "
        "3x + 2, and the mirror image for −x. RMSNorm forgets the factor 3 but not the shift by 2."
    ),
}


def as_svg(draw: Callable[[], Figure]) -> bytes:
    """Draw a figure in the book's style as SVG; its letters stay letters, so that it is small."""
    with plt.rc_context({**STYLE, "svg.fonttype": "none"}):
        figure = draw()
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
        plt.close(figure)
    return written.getvalue()


def show(name: str) -> InteractiveFigure:
    """Put a picture of ``PICTURES`` on the page, as the last line of a cell."""
    if name not in PICTURES:
        known = ", ".join(PICTURES)
        raise ValueError(f"there is no picture {name!r}. Choose one of: {known}.")
    return InteractiveFigure(name, None, PICTURES[name], getattr(pictures, name))


def profiles_by_layer(
    profiles: Mapping[str, Mapping[str, Mapping[str, ArrayLike]]],
) -> dict[str, Any]:
    """Summarise positive profiles over seeds for the interactive figure of wirings.

    Parameters
    ----------
    profiles : mapping of wiring -> when -> quantity -> array of shape (n_seeds, n_layers)

    Returns
    -------
    dict
        "layers", and under "wirings" in the place of each array its geometric mean over the seeds
        and the ends of the 95% interval, as lists.
    """
    lengths = set()

    def summary(values: ArrayLike) -> dict[str, list[float]]:
        mean, half = t_interval(np.log(np.asarray(values, dtype=np.float64)))
        lengths.add(len(mean))
        ends = {"mean": mean, "low": mean - half, "high": mean + half}
        return {key: [float(f"{v:.4g}") for v in np.exp(entry)] for key, entry in ends.items()}

    wirings = {
        name: {
            when: {key: summary(values) for key, values in quantities.items()}
            for when, quantities in at.items()
        }
        for name, at in profiles.items()
    }
    if len(lengths) != 1:
        raise ValueError(f"all profiles need the same number of layers; got {sorted(lengths)}.")
    return {"layers": list(range(lengths.pop())), "wirings": wirings}


def colours_css() -> str:
    """Write all colours as custom properties, for style sheets and scripts.

    ``book/_static/colours.css`` holds this text; a test compares the two.
    """
    rows = {f"norm-{name.lower()}": both for name, both in COLOURS.items()}
    rows["norm-none"] = NO_NORM
    rows |= {f"other-{name}": both for name, both in OTHERS.items()}

    def block(selector: str, shade: int) -> str:
        lines = [f"  --{name}: {both[shade]};" for name, both in rows.items()]
        return "\n".join([f"{selector} {{", *lines, "}", ""])

    head = "/* All colours, from normtutor/colours.py. Written by interactive.colours_css(). */\n"
    dark = block('html[data-theme="dark"]', 1)
    return f"{head}{block(':root', 0)}@media screen {{\n{textwrap.indent(dark, '  ')}}}\n"


def packed_digits(train: int = 800, test: int = 200) -> bytes:
    """Pack handwritten digits for the playground: 33 bytes for each, those to train on first.

    A pixel takes four bits (0 to 16 becomes 0 to 15), and the last byte is the label.
    ``book/_static/interactive/digits.bin`` holds these bytes; a test compares the two.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        images, labels, train_size=train, test_size=test, stratify=labels, random_state=0
    )
    pixels = np.minimum(np.concatenate(parts[:2]), 15).astype(np.uint8)
    pairs = (pixels[:, 0::2] << 4) | pixels[:, 1::2]
    last = np.concatenate(parts[2:]).astype(np.uint8)[:, None]
    return np.concatenate([pairs, last], axis=1).tobytes()
