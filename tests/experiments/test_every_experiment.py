"""Every experiment, whatever it is about: it runs, it repeats itself, and its record is honest."""

import ast
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
    "recalibration_batches": 2,
    "steps": 5,
    "test_batches": 2,
    "test_sentences": 96,
    "test_sequences": 32,
    "trace_depth": 2,
    "trace_steps": 4,
    "validation_chunks": 64,
    "warmup": 2,
    "width": 16,
}
# The same of what a configuration holds as its task, and as the size of its models of text.
WITHIN = {"task": {"test_sequences": 32}, "size": {"batch_size": 4, "length": 16, "steps": 3}}
OWN = {
    "power_statistics": {"many_images": 32, "chunks": 8, "sentences": 16, "block": 2},
    "norm_speed": {"shapes": ((16, 16),), "rounds": 2, "slice_seconds": 1e-4},
}
RATES = ("rate", "learning_rate")
REPORTED = [
    name
    for name in experiments.names()
    if not experiments.module_of(name).FIGURE.startswith("none:")
]


def cell_of(condition):
    """What a condition is, apart from its learning rate."""
    entries = dataclasses.asdict(condition).items()
    return tuple(value for key, value in entries if key not in RATES)


def rate_of(condition):
    """The learning rate of a condition, whichever of its two names it has."""
    return next(getattr(condition, name) for name in RATES if hasattr(condition, name))


def few(conditions):
    """One rate for each condition; where that leaves many, one condition for each norm."""
    cells = {}
    for condition in conditions:
        cells.setdefault(cell_of(condition), condition)
    if len(cells) > 9:
        few = {}
        for cell, condition in cells.items():
            few.setdefault(getattr(condition, "norm", cell[:2]), condition)
        cells = few
    return tuple(cells.values())


def shallow(conditions):
    """The same conditions with as many different depths, the least of them 2 layers."""
    if not all(hasattr(condition, "depth") for condition in conditions):
        return conditions
    depths = sorted({condition.depth for condition in conditions})
    return tuple(
        dataclasses.replace(
            condition, depth=min(condition.depth, depths.index(condition.depth) + 2)
        )
        for condition in conditions
    )


def reduced(name):
    """The configuration cut to what a test can afford."""
    module = experiments.module_of(name)
    config = module.CONFIG
    small = {key: value for key, value in SMALL.items() if hasattr(config, key)}
    if dataclasses.is_dataclass(next(iter(getattr(config, "conditions", ())), None)):
        small["conditions"] = shallow(few(config.conditions))
    small |= OWN.get(name, {}) | getattr(module, "REDUCED", {})
    for field, values in WITHIN.items():
        if dataclasses.is_dataclass(part := small.get(field, getattr(config, field, None))):
            there = {key: value for key, value in values.items() if hasattr(part, key)}
            small[field] = dataclasses.replace(part, **there)
    return dataclasses.replace(config, **small)


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


CELLS = {}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_trained_again_gives_what_is_on_record(name, tmp_path):
    """One cell of one seed in full, of runs that are too long to repeat as a whole.

    On another processor training drifts apart in the last digits; effects are larger than that.
    """
    module, saved = experiments.module_of(name), experiments.load(name)
    assert saved.config == records.as_plain(module.CONFIG)
    seed, environment = saved.seeds[0], saved.runs[0]["environment"]
    config = dataclasses.replace(module.CONFIG, **CELLS[name])
    again = experiments.run_experiment(
        name, seeds=[seed], config=config, directory=tmp_path, progress=False
    )
    if again.runs[0]["environment"]["data"] != environment["data"]:
        pytest.skip("the text of the packages is another one here, so its losses are others")
    (now,) = again.runs[0]["records"]
    settings = {key: value for key, value in now.items() if isinstance(value, str | bool)}
    settings |= {key: now[key] for key in ("learning_rate", "scale", "depth") if key in now}
    loss = "test" if "test" in now else "all"
    assert abs(now[loss] - saved.values(loss, **settings)[0]) < 0.02


# --- its record is honest -------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPORTED)
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


def test_a_docstring_without_a_control_is_found():
    control = "Control: it could be the rate, :mod:`normtutor_studies.experiments.rates` chose\nit."
    assert records.control_in(f"What.\n\n{control}") == "it could be the rate, rates chose it."
    for docstring in ("What.\n\nHow.", "", f"{control}\n\n{control}", "What. Control: none."):
        with pytest.raises(ValueError, match="begins with 'Control:'"):
            records.control_in(docstring)


def tuned():
    """Pairs: an experiment that chooses learning rates, and the one that they are chosen for."""
    for name in experiments.names():
        found = re.match(
            r"none: it chooses the learning rates of (\w+)", experiments.module_of(name).FIGURE
        )
        if found:
            yield name, found[1]


def test_most_learning_rates_are_chosen_by_an_experiment():
    assert len(list(tuned())) >= 3


@pytest.mark.parametrize(("chooser", "name"), list(tuned()))
def test_learning_rates_are_chosen_on_other_seeds(chooser, name):
    module, choosing = experiments.module_of(name), experiments.module_of(chooser)
    assert not set(module.SEEDS) & set(choosing.SEEDS)
    best = choosing.best_rates(experiments.load(chooser))
    # What is run at another rate, too, comes after that at the chosen one.
    conditions = reversed(module.CONFIG.conditions)
    used = {cell_of(condition): rate_of(condition) for condition in conditions}
    shared = used.keys() & best.keys()
    assert shared
    assert {cell: used[cell] for cell in shared} == {cell: best[cell] for cell in shared}


@pytest.mark.parametrize(
    "name", [n for n in REPORTED if hasattr(experiments.module_of(n), "TUNING")]
)
def test_rates_chosen_within_an_experiment_do_not_see_the_reported_seeds(name):
    module, saved = experiments.module_of(name), experiments.load(name)
    tuning = [run for run in saved.runs if run["seed"] in module.TUNING]
    assert 0 < len(tuning) < len(saved.runs)
    alone = dataclasses.replace(saved, runs=tuple(tuning))
    assert module.best_rates(alone) == module.best_rates(saved)


# --- the book shows where its figures come from ---------------------------------------------------

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted([*BOOK.glob("[0-9]*.ipynb"), *BOOK.glob("in_depth/*.ipynb")])


LOADERS = ("experiments.load", "records.load", "load")


def read_by(node):
    """The names that a statement reads from outside: not its own arguments and loop variables."""
    own = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    for loop in ast.walk(node):
        if isinstance(loop, ast.comprehension):
            own |= {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Load)} - own


def bound_by(node):
    """The names that a statement leaves behind."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    targets = getattr(node, "targets", None) or [getattr(node, "target", ast.Pass())]
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


class Stems(ast.NodeVisitor):
    """From which saved runs each name of a notebook stems, followed from statement to statement."""

    def __init__(self):
        self.of = {}
        self.commands = set()  # experiments whose command the page shows
        self.shown = set()  # experiments that the present cell reads

    def origin(self, node):
        loads = {
            call.args[0].value
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
            and ast.unparse(call.func) in LOADERS
            and isinstance(call.args[0], ast.Constant)
        }
        return loads.union(*(self.of.get(name, set()) for name in read_by(node)))

    def visit_For(self, node):
        self.take(node.iter, bound_by(node))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_If(self, node):
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_With(self, node):
        for statement in node.body:
            self.visit(statement)

    def generic_visit(self, node):
        if isinstance(node, ast.Module):
            super().generic_visit(node)
        else:
            self.take(node, bound_by(node))

    visit_FunctionDef = generic_visit

    def take(self, node, bound):
        origin = self.origin(node)
        self.shown |= origin
        for attribute in ast.walk(node):
            if isinstance(attribute, ast.Attribute) and attribute.attr == "provenance":
                self.commands |= self.origin(attribute.value)
        for name in bound:
            self.of[name] = origin


def figures_and_commands(notebook):
    """Figures with the saved runs behind them, and the experiments whose command is shown."""
    stems, figures = Stems(), []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            stems.commands |= set(re.findall(r"normtutor_studies\.experiments run (\w+)", source))
            continue
        stems.shown = set()
        stems.visit(ast.parse(source))
        described = cell["metadata"].get("mystnb", {}).get("figure", {})
        caption = described.get("caption", "")
        stems.commands |= set(re.findall(r"normtutor_studies\.experiments run (\w+)", caption))
        figure = described.get("name")
        if figure:
            figures.append((figure, stems.shown))
    return figures, stems.commands


def untraceable(notebook):
    """Figures of saved runs whose command the page does not show, each with what to add."""
    figures, commands = figures_and_commands(notebook)
    return [
        f"{figure}: end its caption in "
        f"'Saved run: `python -m normtutor_studies.experiments run {name}`.'"
        for figure, names in figures
        for name in sorted(names - commands)
    ]


@pytest.mark.parametrize(
    "path", CHAPTERS, ids=lambda path: path.relative_to(BOOK).with_suffix("").as_posix()
)
def test_every_figure_of_a_saved_run_shows_the_command_that_reruns_it(path):
    assert untraceable(json.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", REPORTED)
def test_the_figure_of_an_experiment_is_drawn_from_its_saved_run(name):
    module = experiments.module_of(name)
    figures = []
    for path in (path for path in CHAPTERS if path.stem == module.CHAPTER):
        figures += figures_and_commands(json.loads(path.read_text(encoding="utf-8")))[0]
    assert any(figure == module.FIGURE and name in names for figure, names in figures), (
        f"no cell of {module.CHAPTER} draws experiments.load({name!r}) under mystnb.figure.name: "
        f"{module.FIGURE}; a run that no page draws has a FIGURE that begins with 'none:'"
    )


def test_a_figure_without_a_command_is_found():
    def cell(source, name="", caption=""):
        described = {"name": name, "caption": caption}
        metadata = {"mystnb": {"figure": described}} if name else {}
        return {"cell_type": "code", "source": [source], "metadata": metadata}

    load = cell("run = experiments.load('company')\ndef get(): return run.values('loss')")
    figure = cell("losses = get()\nplt.plot(losses)", "fig-x")
    command = "python -m normtutor_studies.experiments run company"
    found = [f"fig-x: end its caption in 'Saved run: `{command}`.'"]
    assert untraceable({"cells": [load, figure]}) == found
    assert untraceable({"cells": [load, figure, cell("print(run.provenance())")]}) == []
    words = {
        "cell_type": "markdown",
        "source": ["python -m normtutor_studies.experiments run company"],
    }
    assert untraceable({"cells": [load, figure, words]}) == []
    told = "5 seeds; `python -m normtutor_studies.experiments run company`."
    assert untraceable({"cells": [load, cell("plt.plot(get())", "fig-x", told)]}) == []
    loop = cell("for x in [get()]:\n    with style():\n        plt.plot(x)", "fig-x")
    assert untraceable({"cells": [load, loop]}) == found
    other = cell("run = [1, 2]\nplt.plot([losses for losses in run])", "fig-y")
    assert untraceable({"cells": [load, cell("losses = get()"), other]}) == []
    other = cell("plt.plot(np.arange(3))", "fig-y")
    assert untraceable({"cells": [load, other]}) == []


# --- what else could explain a result stands on the page ------------------------------------------

DEPTH_PAGES = sorted(BOOK.glob("in_depth/0*.ipynb"))


@pytest.mark.parametrize("path", DEPTH_PAGES, ids=lambda path: path.stem)
def test_a_depth_page_names_what_else_could_explain_its_runs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    told = ["".join(cell["source"]) for cell in notebook["cells"]]
    assert any("```{controls}" in text for text in told) == bool(records.controls(path.stem))


def test_every_experiment_belongs_to_a_page():
    stems = {path.stem for path in DEPTH_PAGES}
    others = {name: records.module_of(name).CHAPTER for name in experiments.names()}
    assert {name: stem for name, stem in others.items() if stem not in stems} == {}


def test_names_of_experiments_stand_in_code_style():
    told = "".join(records.controls(path.stem) for path in DEPTH_PAGES)
    assert re.findall(r"\w+_\w+", re.sub(r"`[^`]+`", "", told)) == []
