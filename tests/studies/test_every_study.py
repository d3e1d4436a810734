"""Every study, whatever it is about: its arms run, its record belongs to its code."""

import platform

import numpy as np
import pytest
from normtutor_studies import STUDIES, numbers
from normtutor_studies.engine import without_rate
from normtutor_studies.measures import modes_disagree, norm_speed

from normtutor import data

pytestmark = pytest.mark.slow

MEASURES = {
    world.name: (study, world)
    for study in STUDIES.values()
    for world in study.worlds
    if world.small and study.name != "input_drift_at_every_rate"
}
TIMES = {"norm_speed"}  # what measures time never repeats itself


def few_digits():
    """Digits for an epoch of eleven batches and one image, which mistakes in loaders need."""
    parts = zip(data.load_digits(), (11 * 32 + 1, 100, 100), strict=True)
    return data.Digits(*(data.Split(*(each[:count] for each in part)) for part, count in parts))


def small_cells(study, world):
    """Of the arms that differ in words alone, or in numbers alone, one each."""
    few = {}
    for cell in study.arms.values():
        words = tuple(str(v) for v in cell.values() if isinstance(v, str))
        few.setdefault(words, {**world.full(without_rate(cell)), **world.small})
    return few.values()


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_runs_at_reduced_size_and_repeats_itself(name, monkeypatch):
    # Compiling would take most of the time, and not every machine has a compiler.
    monkeypatch.setattr(norm_speed, "compiler_found", lambda: False)
    monkeypatch.setattr(modes_disagree, "load_digits", few_digits)
    study, world = MEASURES[name]
    recorded = {key for label in study.arms for key in study.runs(name, label)[0]}
    for cell in small_cells(study, world):
        run = world.train(cell, 1e-3, 97)
        assert run.keys() <= recorded, cell
        assert run.get("loss", 0.0) is not None
    if name not in TIMES:
        np.testing.assert_equal(world.train(cell, 1e-3, 97), run)


def test_a_full_run_gives_what_is_on_record():
    """The cheapest run in full. Sums come out in another order on another processor.

    In float64 that is a difference in the sixteenth digit at first. Training lets it grow, and a
    ReLU that opens for one image more or less makes a step of it.
    """
    study, world = MEASURES["gradient_parts"]
    recorded = study.runs(world.name, "BatchNorm")[0]
    again = world.train(world.settings, recorded["rate"], recorded["seed"])
    for key in ("along_mean", "ratio"):
        np.testing.assert_allclose(again[key][0], recorded[key][0], rtol=1e-4)
        np.testing.assert_allclose(again[key], recorded[key], rtol=1e-2)


def on_record(name):
    """A study that is answered; one whose runs are still to be made has no record to look at."""
    study = STUDIES[name]
    if not study.complete():
        pytest.skip("python -m normtutor_studies run --record makes what is missing")
    return study


@pytest.mark.parametrize("name", STUDIES)
def test_the_record_belongs_to_the_code(name):
    study = on_record(name)
    for world in study.on_record():
        store = study.stores[world]
        text = store.path.read_text(encoding="utf-8")
        for private in ('"/', "\\\\", "hostname"):
            assert private not in text
        for label in study.arms:
            for run in study.runs(world, label):
                assert run["environment"]["processor"]
                assert run["seconds"] <= 20 * 60  # so that a reader can make a run again
        # A text differs between versions of Python; on the recorded one it must be the same.
        if run["environment"]["Python"] == platform.python_version() and store.data:
            assert store.data == store.world.fingerprint()


@pytest.mark.parametrize("name", STUDIES)
def test_what_is_reported_rests_on_seeds_that_chose_no_rate_and_on_a_control(name):
    study = on_record(name)
    assert len(study.control.split()) >= 10
    if study.rates or any("rate" not in cell for cell in study.arms.values()):
        assert not set(study.seeds) & set(study.tuning)
    needless = study.stores.keys() - study.on_record()  # what nothing was left to confirm in
    for row in study.rows:
        if row.split(",")[0].split(":")[0] not in needless:
            assert len(study.row(row)) == len(study.seeds), row
    assert numbers.table(study)
