"""Experiments: each runs, saves, resumes and refuses; what is saved is what the book may say."""

import functools

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import __main__ as command_line
from normtutor_studies.experiments import records


class Toy:
    """An experiment that costs nothing and can be interrupted."""

    CONFIG = records.Config(steps=3, rates=(0.1, 0.2))
    SEEDS = (1, 2, 3, 4)

    def __init__(self):
        self.ran = []
        self.fail_at = None

    def run(self, config, seed):
        if seed == self.fail_at:
            raise KeyboardInterrupt
        self.ran.append(seed)
        return [{"norm": "layer", "loss": float(seed)}, {"norm": "batch", "loss": float("nan")}]


@pytest.fixture
def toy(monkeypatch):
    experiment = Toy()
    monkeypatch.setattr(records, "module_of", lambda name: experiment)
    return experiment


def test_an_interrupted_run_goes_on_without_losing_or_repeating(toy, tmp_path):
    toy.fail_at = 3
    with pytest.raises(KeyboardInterrupt):
        experiments.run_experiment("toy", directory=tmp_path, progress=False)
    assert records.read("toy", tmp_path).seeds == [1, 2]
    toy.fail_at = None
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    assert toy.ran == [1, 2, 3, 4]
    assert saved.seeds == records.load("toy", tmp_path).seeds == [1, 2, 3, 4]
    # Nothing is left to do, and nothing is done.
    experiments.run_experiment("toy", directory=tmp_path, progress=False)
    assert toy.ran == [1, 2, 3, 4]
    experiments.run_experiment("toy", directory=tmp_path, progress=False, restart=True, seeds=[2])
    assert records.load("toy", tmp_path).seeds == [2]


def test_two_processes_that_run_other_seeds_keep_each_others(toy, tmp_path):
    def run(config, seed, *, here=toy.run):
        if seed == 1:  # meanwhile, in another process
            toy.run = here
            experiments.run_experiment("toy", seeds=[2], directory=tmp_path, progress=False)
        return here(config, seed)

    toy.run = run
    experiments.run_experiment("toy", seeds=[1, 3], directory=tmp_path, progress=False)
    assert records.load("toy", tmp_path).seeds == [1, 2, 3]


def test_another_configuration_or_other_data_are_refused(toy, tmp_path, monkeypatch):
    experiments.run_experiment("toy", directory=tmp_path, progress=False)
    monkeypatch.setattr(records, "fingerprint_of", lambda module: {"text_sha256": "another"})
    with pytest.raises(ValueError, match="other data"):
        experiments.run_experiment("toy", directory=tmp_path, progress=False)
    toy.CONFIG = records.Config(steps=4, rates=(0.1, 0.2))
    for act in (records.load, functools.partial(experiments.run_experiment, progress=False)):
        with pytest.raises(ValueError, match=r"another configuration: steps differ"):
            act("toy", directory=tmp_path)
    assert toy.ran == [1, 2, 3, 4]


def test_a_run_is_saved_beside_the_book_and_not_in_it(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experiments.run_experiment("toy", progress=False)
    assert records.load("toy", "runs").seeds == [1, 2, 3, 4]
    command = ["run", "company", "--seeds", "5"]
    assert command_line.main(command) == 0
    assert records.load("company", "runs").seeds == [5]
    assert "show company --directory runs" in capsys.readouterr().out
    toy.CONFIG = records.Config(steps=4, rates=(0.1, 0.2))
    assert command_line.main(command) == 1
    assert "another configuration" in capsys.readouterr().err


def test_a_changed_record_is_one_changed_line(toy, tmp_path):
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    before = records.save(saved, tmp_path).read_text().splitlines()
    saved.runs[1]["records"][0]["another"] = 1.0
    after = records.save(saved, tmp_path).read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_values_are_stacked_over_seeds_and_must_be_unique(toy, tmp_path):
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    assert saved.values("loss", norm="layer").tolist() == [1.0, 2.0, 3.0, 4.0]
    assert np.isnan(saved.values("loss", norm="batch")).all()
    for where in ({}, {"norm": "group"}):
        with pytest.raises(ValueError, match="exactly one record"):
            saved.values("loss", **where)


def test_a_damaged_or_missing_file_is_named(tmp_path):
    (tmp_path / "company.json").write_text('{"experiment": "company", "ru')
    with pytest.raises(ValueError, match=r"company.json' is damaged"):
        experiments.load("company", tmp_path)
    with pytest.raises(FileNotFoundError, match="experiments run gru_statistics"):
        experiments.load("gru_statistics", tmp_path)
    with pytest.raises(ValueError, match="there is no experiment"):
        experiments.load("nothing")


def test_the_command_line_lists_and_shows(capsys):
    assert command_line.main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"{name}\n" in listed for name in experiments.names())
    assert "CPU minutes" in listed
    assert command_line.main(["show", "company"]) == 0
    shown = capsys.readouterr().out
    assert "LayerNorm: 1 ± 0" in shown and "Control: the sentences" in shown
