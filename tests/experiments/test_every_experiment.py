"""Every experiment, whatever it is about: it runs, it repeats itself, and its record is honest."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    modes_disagree,
    norm_speed,
    records,
    warmup_map,
)

from normtutor import data

# Fields of configurations that say how long a run takes, and what they are cut to. An experiment
# with others of its own names them in REDUCED, a dict from the field to a small value.
SMALL = {
    "depth": 2,
    "depths": (2, 4),
    "every": 2,
    "evaluate_every": 2,
    "fixed_batch": 60,
    "images_seen": 64,
    "iterations": 3,
    "linear_layers": 6,
    "rates": (1e-3, 4e-3),
    "steps": 5,
    "test_batches": 2,
    "test_sequences": 32,
    "trace_depth": 2,
    "trace_steps": 4,
    "warmup": 2,
    "width": 16,
}
OWN = {
    "power_statistics": {"many_images": 32, "chunks": 8, "sentences": 16, "block": 2},
    "norm_speed": {"shapes": ((16, 16),), "rounds": 2, "slice_seconds": 1e-4},
    "warmup_map": {
        "conditions": tuple(
            dataclasses.replace(condition, depth=condition.depth // 3)
            for condition in warmup_map.CONFIG.conditions
        )
    },
}
RATES = ("rate", "learning_rate")


def cell_of(condition):
    """What a condition is, apart from its learning rate."""
    entries = dataclasses.asdict(condition).items()
    return tuple(value for key, value in entries if key not in RATES)


def few(conditions):
    """One rate for each condition; where that leaves many, one condition for each norm."""
    cells, norms = {}, {}
    for condition in conditions:
        cells.setdefault(cell_of(condition), condition)
    for cell, condition in cells.items():
        norms.setdefault(getattr(condition, "norm", cell[:2]), condition)
    return tuple((norms if len(cells) > 9 else cells).values())


def reduced(name):
    """The configuration cut to what a test can afford."""
    module = experiments.module_of(name)
    config = module.CONFIG
    small = {key: value for key, value in SMALL.items() if hasattr(config, key)}
    if dataclasses.is_dataclass(next(iter(getattr(config, "conditions", ())), None)):
        small["conditions"] = few(config.conditions)
    if hasattr(config, "task"):
        small["task"] = dataclasses.replace(config.task, test_sequences=32)
    return dataclasses.replace(config, **small | OWN.get(name, {}) | getattr(module, "REDUCED", {}))


def few_digits():
    """Digits for an epoch of eleven batches and one image, which mistakes in loaders need."""
    parts = zip(data.load_digits(), (11 * 32 + 1, 100, 100), strict=True)
    return data.Digits(*(data.Split(*(each[:count] for each in part)) for part, count in parts))


# --- it runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", experiments.names())
def test_one_seed_at_reduced_length(name, tmp_path, monkeypatch):
    # Compiling would take most of the time, and not every machine has a compiler.
    monkeypatch.setattr(norm_speed, "compiler_found", lambda: False)
    monkeypatch.setattr(modes_disagree, "load_digits", few_digits)
    module, config = experiments.module_of(name), reduced(name)

    def run(config):
        saved = experiments.run_experiment(
            name, seeds=[97], config=config, directory=tmp_path, progress=False, restart=True
        )
        assert records.read(name, tmp_path) == saved
        return saved.runs[0]["records"]

    found = run(config)
    conditions = [c for c in getattr(config, "conditions", ()) if dataclasses.is_dataclass(c)]
    assert len(found) >= max(1, len(conditions))
    for record in found:
        assert not record.get("diverged"), record
        for key in ("loss", "all"):
            assert record.get(key, 0.0) is not None, record
    if len(found) == len(conditions):
        for record, condition in zip(found, conditions, strict=True):
            assert record.items() >= json.loads(json.dumps(dataclasses.asdict(condition))).items()
    if getattr(module, "ALONE", False):  # what measures time never repeats itself
        return
    if 1 < len(found) == len(conditions):  # the last one, and without those before it
        config, found = dataclasses.replace(config, conditions=config.conditions[-1:]), found[-1:]
    assert run(config) == found


def test_a_full_seed_gives_what_is_on_record(tmp_path):
    """The cheapest run in full. Sums come out in another order on another processor.

    In float64 that is a difference in the sixteenth digit at first. Training lets it grow, and a
    ReLU that opens for one image more or less makes a step of it.
    """
    name = "gradient_parts"
    saved = experiments.load(name)
    seed = saved.seeds[0]
    again = experiments.run_experiment(name, seeds=[seed], directory=tmp_path, progress=False)
    for before, now in zip(saved.runs[0]["records"], again.runs[0]["records"], strict=True):
        assert before["norm"] == now["norm"]
        for key in ("along_mean", "ratio"):
            np.testing.assert_allclose(now[key][0], before[key][0], rtol=1e-6)
            np.testing.assert_allclose(now[key], before[key], rtol=1e-2)


# --- its record is honest -------------------------------------------------------------------------


@pytest.mark.parametrize("name", experiments.names())
def test_what_is_reported_rests_on_enough_seeds(name):
    module, saved = experiments.module_of(name), experiments.load(name)
    fresh = set(module.SEEDS) - set(getattr(module, "TUNING", ()))
    needed = 3 if getattr(module, "ALONE", False) else 5
    assert len(fresh) >= needed, f"SEEDS needs {needed} seeds that chose no learning rate"
    for values in module.rows(saved).values():
        assert len(values) == len(fresh), (
            f"{name}: rows(saved) gives one number per seed, without those in TUNING"
        )


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_says_what_else_could_explain_its_result(name):
    assert len(experiments.control(name).split()) >= 15, (
        "say which boring cause would give the same result, and what was done about it"
    )


@pytest.mark.parametrize(
    "name", [n for n in experiments.names() if hasattr(experiments.module_of(n), "TUNING")]
)
def test_rates_chosen_within_an_experiment_do_not_see_the_reported_seeds(name):
    module, saved = experiments.module_of(name), experiments.load(name)
    tuning = [run for run in saved.runs if run["seed"] in module.TUNING]
    assert 0 < len(tuning) < len(saved.runs)
    alone = dataclasses.replace(saved, runs=tuple(tuning))
    assert module.best_rates(alone) == module.best_rates(saved)


# --- the book shows where its figures come from ---------------------------------------------------

BOOK = Path(__file__).resolve().parents[2] / "book"
PAGES = [*BOOK.glob("[0-9]*.ipynb"), *BOOK.glob("in_depth/*.ipynb")]
CELLS = {path: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in PAGES}


def figures_of(chapter):
    """The figures of a chapter's pages: name, caption and code of each."""
    for path, cells in CELLS.items():
        for cell in cells:
            figure = cell["metadata"].get("mystnb", {}).get("figure", {})
            if path.stem == chapter and "name" in figure:
                yield figure["name"], figure["caption"], "".join(cell["source"])


@pytest.mark.parametrize("name", experiments.names())
def test_a_reported_experiment_has_its_figure_with_the_command_that_reruns_it(name):
    module = experiments.module_of(name)
    (caption,) = [c for figure, c, _ in figures_of(module.CHAPTER) if figure == module.FIGURE]
    assert f"experiments run {name}`" in caption


@pytest.mark.parametrize("chapter", sorted({path.stem for path in PAGES}))
def test_a_figure_that_loads_a_saved_run_shows_its_command(chapter):
    for figure, caption, code in figures_of(chapter):
        for name in re.findall(r'experiments\.load\("(\w+)"\)', code):
            assert f"experiments run {name}`" in caption, figure


def test_a_depth_page_names_what_else_could_explain_its_runs():
    with_controls = {
        path.stem for path, cells in CELLS.items() if "```{controls}" in json.dumps(cells)
    }
    assert with_controls == {experiments.module_of(name).CHAPTER for name in experiments.names()}
