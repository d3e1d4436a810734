"""Figures: each function draws arrays or records that it is given, and never runs a model.

- :mod:`~normtutor.plotting.style`: colours, sizes and fonts, in one place.
- :mod:`~normtutor.plotting.general`: curves, intervals, histograms, maps of a grid.
- :mod:`~normtutor.plotting.batches`: what shares a batch.
- :mod:`~normtutor.plotting.covariate_shift`: with and without a norm; the tests of covariate shift.
- :mod:`~normtutor.plotting.family`: which cells share a statistic.
- :mod:`~normtutor.plotting.geometry`: what a norm does to one token.
- :mod:`~normtutor.plotting.graph`: the computational graph of a norm.
- :mod:`~normtutor.plotting.invariance`: which changes a norm does not see.
- :mod:`~normtutor.plotting.text`: which learning rates train a language model.
- :mod:`~normtutor.plotting.pictures`: what stands in the place of an interactive figure.
- :mod:`~normtutor.plotting.wiring`: where the norm stands in a residual block.
"""

from normtutor.intervals import t_interval
from normtutor.plotting.batches import dose_figure, modes_figure
from normtutor.plotting.covariate_shift import (
    dots,
    drift_figure,
    rate_panels_figure,
    spreads_figure,
    training_curves_figure,
    training_map_figure,
)
from normtutor.plotting.family import (
    books_figure,
    differences_figure,
    shared_axes,
    sharing_cells_figure,
    undo_figure,
)
from normtutor.plotting.general import curves, grid_map, histograms, intervals, repeats
from normtutor.plotting.geometry import half_plane_figure, keys_figure, sphere_figure
from normtutor.plotting.graph import graph_figure
from normtutor.plotting.invariance import patterns_figure, verdicts_figure
from normtutor.plotting.style import (
    INK,
    NO_NORM,
    NORM_COLOURS,
    PALE,
    PALETTE,
    STYLE,
    norm_colour,
    use_book_style,
)
from normtutor.plotting.text import Trained, final_norm_figure, working_rates_figure
from normtutor.plotting.wiring import (
    first_steps_figure,
    layer_gradients_figure,
    wiring_labels,
    wirings_figure,
)

__all__ = [
    "INK",
    "NORM_COLOURS",
    "NO_NORM",
    "PALE",
    "PALETTE",
    "STYLE",
    "Trained",
    "books_figure",
    "curves",
    "differences_figure",
    "dose_figure",
    "dots",
    "drift_figure",
    "final_norm_figure",
    "first_steps_figure",
    "graph_figure",
    "grid_map",
    "half_plane_figure",
    "histograms",
    "intervals",
    "keys_figure",
    "layer_gradients_figure",
    "modes_figure",
    "norm_colour",
    "patterns_figure",
    "rate_panels_figure",
    "repeats",
    "shared_axes",
    "sharing_cells_figure",
    "sphere_figure",
    "spreads_figure",
    "t_interval",
    "training_curves_figure",
    "training_map_figure",
    "undo_figure",
    "use_book_style",
    "verdicts_figure",
    "wiring_labels",
    "wirings_figure",
    "working_rates_figure",
]
