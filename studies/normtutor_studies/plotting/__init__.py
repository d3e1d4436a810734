"""Figures: functions that draw arrays or records; none of them runs a model."""

from importlib import import_module
from typing import Any

# A subject is imported when one of its figures is asked for: a chapter is executed again when what
# it imports has changed, and it should not import the figures of the others.
_NAMES = {
    "covariate_shift": "dots drift_figure spreads_figure training_curves_figure "
    "training_map_figure",
    "drawings": "on_narrow",
    "family": "books_figure cubes_figure shared_axes sharing_cells_figure",
    "general": "curves grid_map histograms",
    "geometry": "half_plane_figure keys_figure sphere_figure",
    "graph": "graph_figure",
    "invariance": "patterns_figure verdicts_figure",
    "labels": "label_lines",
    "style": "INK NORM_COLOURS NO_NORM OTHER_COLOURS PALE PALETTE SHADES STYLE norm_colour "
    "use_book_style",
    "wiring": "first_steps_figure layer_gradients_figure layers_figure wiring_labels "
    "wirings_figure",
}
_MODULE_OF = {
    name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()
} | {"t_interval": "normtutor.intervals"}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
