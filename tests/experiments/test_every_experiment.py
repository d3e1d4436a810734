"""Every experiment, whatever it is about: it runs, it repeats itself, and its record is honest."""

import json
import platform
import re
from pathlib import Path

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import modes_disagree, norm_speed, rates, records

from normtutor import data

# Settings that say how long a run takes, and what they are cut to. An experiment with others of its
# own names them in REDUCED.
SMALL = {
    "depth": 2,
    "depths": (2, 4),
    "every": 2,
    "fixed_batch": 60,
    "iterations": 3,
    "linear_layers": 6,
    "rates": (1e-3, 4e-3),
    "steps": 5,
    "task": experiments.module_of("warmup_map").Task(test_sequences=32),
    "test_batches": 2,
    "test_sequences": 32,
    "trace_depth": 2,
    "trace_steps": 4,
    "warmup": 2,
    "width": 16,
}


def reduced(name):
    """The configuration cut to what a test can afford: of cells that differ in numbers, one."""
    module = experiments.module_of(name)
    config = dict(vars(module.CONFIG))
    config |= {key: value for key, value in SMALL.items() if key in config}
    for key in config.keys() & {"conditions", "remedies"}:
        few = {}
        for cell in config[key]:
            cell = cell | ({"depth": 2} if "depth" in cell else {})
            few.setdefault(tuple(v for v in cell.values() if isinstance(v, str)), cell)
        config[key] = [*few.values()]
    return records.Config(**config | getattr(module, "REDUCED", {}))


def few_digits():
    """Digits for an epoch of eleven batches and one image, which mistakes in loaders need."""
    parts = zip(data.load_digits(), (11 * 32 + 1, 100, 100), strict=True)
    return data.Digits(*(data.Split(*(each[:count] for each in part)) for part, count in parts))


@pytest.mark.parametrize("name", experiments.names())
def test_one_seed_at_reduced_length(name, tmp_path, monkeypatch):
    # Compiling would take most of the time, and not every machine has a compiler.
    monkeypatch.setattr(norm_speed, "compiler_found", lambda: False)
    monkeypatch.setattr(modes_disagree, "load_digits", few_digits)
    config, module = reduced(name), experiments.module_of(name)
    options = {"seeds": [97], "directory": tmp_path, "progress": False, "restart": True}
    saved = experiments.run_experiment(name, config=config, **options)
    assert records.read(name, tmp_path) == saved
    found = saved.runs[0]["records"]
    assert found and not any(record.get("loss", 0.0) is None for record in found)
    if name == "norm_speed":  # what measures time never repeats itself
        return
    if not hasattr(module, "run"):  # the last one, and without those before it
        config.conditions, found = config.conditions[-1:], found[-1:]
        assert found[0].items() >= config.conditions[0].items()
    again = experiments.run_experiment(name, config=config, **options)
    assert again.runs[0]["records"] == found


def test_a_full_seed_gives_what_is_on_record(tmp_path):
    """The cheapest run in full. Sums come out in another order on another processor.

    In float64 that is a difference in the sixteenth digit at first. Training lets it grow, and a
    ReLU that opens for one image more or less makes a step of it.
    """
    name = "gradient_parts"
    (before, *_) = experiments.load(name).runs
    options = {"seeds": [before["seed"]], "directory": tmp_path, "progress": False}
    (again,) = experiments.run_experiment(name, **options).runs
    for key in ("along_mean", "ratio"):
        recorded, now = before["records"][0][key], again["records"][0][key]
        np.testing.assert_allclose(now[0], recorded[0], rtol=1e-6)
        np.testing.assert_allclose(now, recorded, rtol=1e-2)


@pytest.mark.parametrize("name", experiments.names())
def test_the_saved_run_belongs_to_the_code(name):
    saved, module = experiments.load(name), experiments.module_of(name)
    assert saved.seeds == sorted(module.SEEDS)
    for run in saved.runs:
        environment = run["environment"]
        assert run["records"] and environment["processor"]
        assert 0 < run["cpu_seconds"] <= 20 * 60  # so that a reader can run a seed again
        # The text differs between versions of Python; on the recorded one it must be the same.
        if environment["versions"]["Python"] == platform.python_version():
            assert environment["data"] == records.fingerprint_of(module)
    text = (records.RESULTS / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r'"/|\\\\|[A-Za-z]:\\|hostname', text)
    # What is reported rests on enough seeds that chose no learning rate, and on a control.
    fresh = set(module.SEEDS) - set(getattr(module, "TUNING", ()))
    assert len(fresh) >= (3 if name == "norm_speed" else 5)
    assert all(len(values) == len(fresh) for values in module.rows(saved).values())
    assert len(experiments.control(name).split()) >= 15


@pytest.mark.parametrize("name", ["gru_statistics", "input_drift"])
def test_rates_chosen_within_an_experiment_do_not_see_the_reported_seeds(name):
    module, saved = experiments.module_of(name), experiments.load(name)
    tuning, _ = both = rates.split(saved, module.TUNING)
    assert all(part.runs for part in both)
    assert module.best_rates(tuning) == module.best_rates(saved)


# --- the book shows where its figures come from ---------------------------------------------------

BOOK = Path(__file__).resolve().parents[2] / "book"
PAGES = [*BOOK.glob("[0-9]*.ipynb"), *BOOK.glob("in_depth/*.ipynb")]
CELLS = {path: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in PAGES}


def test_a_figure_of_a_saved_run_shows_its_command_and_every_run_is_shown():
    shown = {}
    for path, cells in CELLS.items():
        for cell in cells:
            code, caption = "".join(cell["source"]), json.dumps(cell["metadata"])
            for name in re.findall(r'experiments\.load\("(\w+)"\)', code):
                shown.setdefault(path.stem, set()).add(name)
                assert '"caption"' not in caption or f"experiments run {name}`" in caption
    for name in experiments.names():
        assert name in shown[experiments.module_of(name).CHAPTER]


def test_a_depth_page_names_what_else_could_explain_its_runs():
    with_controls = {p.stem for p, cells in CELLS.items() if "```{controls}" in json.dumps(cells)}
    assert with_controls == {experiments.module_of(name).CHAPTER for name in experiments.names()}
