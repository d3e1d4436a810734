"""Experiments: each runs, saves, resumes and refuses; what is saved is what the book may say."""

import dataclasses
import functools
import json
import platform
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import __main__ as command_line
from normtutor_studies.experiments import records, two_processes


@pytest.mark.parametrize("name", experiments.names())
def test_the_saved_run_belongs_to_the_code(name):
    saved, module = experiments.load(name), experiments.module_of(name)
    assert saved.seeds == sorted(module.SEEDS)
    fingerprint = records.fingerprint_of(module, module.CONFIG)
    for run in saved.runs:
        environment = run["environment"]
        assert run["records"] and environment["processor"]
        assert {"Python", "torch", "numpy"} <= environment["versions"].keys()
        assert 0 < run["cpu_seconds"] <= 20 * 60  # so that a reader can run a seed again
        # The text differs between versions of Python; on the recorded one it must be the same.
        if environment["versions"]["Python"] == platform.python_version():
            assert environment["data"] == fingerprint
    text = (records.results_directory() / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r'"/|\\\\|[A-Za-z]:\\|hostname', text)


# --- saving, resuming, refusing -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ToyConfig:
    steps: int = 3
    rates: tuple[float, ...] = (0.1, 0.2)


class Toy:
    """An experiment that costs nothing and can be interrupted."""

    CONFIG = ToyConfig()
    SEEDS = (1, 2, 3, 4)

    def __init__(self):
        self.ran = []
        self.fail_at = None

    def fingerprint(self, config):
        return {}

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
    # What costs less than a hundredth of a second has its cost on record, too.
    assert all(0 < run["cpu_seconds"] < 1 for run in saved.runs)
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


def test_a_write_that_fails_leaves_the_old_file(toy, tmp_path):
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    broken = dataclasses.replace(saved, runs=({"seed": 1, "records": object()},))
    with pytest.raises(TypeError):
        records.save(broken, tmp_path)
    assert records.read("toy", tmp_path) == saved
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_another_configuration_or_other_data_are_refused(toy, tmp_path):
    experiments.run_experiment("toy", directory=tmp_path, progress=False)
    toy.fingerprint = lambda config: {"text_sha256": "another"}
    with pytest.raises(ValueError, match="other data"):
        experiments.run_experiment("toy", directory=tmp_path, progress=False)
    toy.CONFIG = ToyConfig(steps=4)
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
    toy.CONFIG = ToyConfig(steps=4)
    assert command_line.main(command) == 1
    assert "another configuration" in capsys.readouterr().err


def test_a_changed_record_is_one_changed_line(toy, tmp_path):
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    before = records.save(saved, tmp_path).read_text().splitlines()
    saved.runs[1]["records"][0]["another"] = 1.0
    after = records.save(saved, tmp_path).read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


RUN = {"seed": 1, "cpu_seconds": 1.0, "environment": {"versions": {}, "data": {}}, "records": [{}]}
BROKEN_RUNS = [{**RUN, key: None} for key in RUN] + [
    {**RUN, "environment": {"data": {}}},
    {**RUN, "records": [0]},
]
DAMAGED = ['{"experiment": "toy", "ru', "{}", '{"experiment": "toy", "config": {}, "runs": []}']
DAMAGED += [json.dumps({"experiment": "toy", "config": {}, "runs": [run]}) for run in BROKEN_RUNS]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_run_is_named_with_what_to_do(content, toy, tmp_path, monkeypatch, capsys):
    path = tmp_path / "toy.json"
    path.write_text(content)
    for act in (records.load, functools.partial(experiments.run_experiment, progress=False)):
        with pytest.raises(ValueError, match=rf"{path}' is damaged: .*--restart"):
            act("toy", directory=tmp_path)
    # The book's own record is restored and not run again; the list goes on to the last.
    path.rename(tmp_path / "company.json")
    for module in (records, command_line):
        monkeypatch.setattr(module, "results_directory", lambda: tmp_path)
    assert command_line.main(["show", "company"]) == 1
    error = capsys.readouterr().err
    assert "company.json' is damaged" in error and "--restart" not in error
    assert command_line.main(["list"]) == 0
    assert "company.json' is damaged" in capsys.readouterr().out


def test_values_are_stacked_over_seeds_and_must_be_unique(toy, tmp_path):
    saved = experiments.run_experiment("toy", directory=tmp_path, progress=False)
    assert saved.values("loss", norm="layer").tolist() == [1.0, 2.0, 3.0, 4.0]
    assert np.isnan(saved.values("loss", norm="batch")).all()
    for where in ({}, {"norm": "group"}):
        with pytest.raises(ValueError, match="exactly one record"):
            saved.values("loss", **where)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="experiments run company"):
        experiments.load("company", tmp_path)
    with pytest.raises(ValueError, match="there is no experiment"):
        experiments.load("nothing")


# --- the command line -----------------------------------------------------------------------------


def test_the_command_line_lists(capsys):
    assert command_line.main([]) == 0
    listed = capsys.readouterr().out
    assert "CPU minutes" in listed
    for name in experiments.names():
        module = experiments.module_of(name)
        assert f"{name}\n" in listed and f"finding: {module.FINDING}\n" in listed
        assert f"chapter {module.CHAPTER}, figure {module.FIGURE}; " in listed


@pytest.mark.parametrize("name", experiments.names())
def test_the_command_line_draws(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "DOTS_PER_INCH", 40)  # to compress a large one takes longest
    image = tmp_path / "figure.png"
    assert command_line.main(["show", name, "--output", str(image)]) == 0
    printed = capsys.readouterr().out
    assert f"experiments run {name}" in printed
    module = experiments.module_of(name)
    assert image.read_bytes().startswith(b"\x89PNG")
    if hasattr(module, "best_rates"):
        rates = module.best_rates(experiments.load(name)).values()
        assert all(f"learning rate {rate:g}" in printed for rate in rates)


# --- two processes --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 5, 3))
    x[2:] += 2  # the two halves differ, as the sentences of two documents do
    return x, rng.standard_normal((3, 3)), rng.standard_normal((4, 5, 3))


def test_synchronised_statistics_equal_one_big_batch(small_problem):
    split = two_processes.compare(*small_problem)
    whole = {
        "batch, synchronised": two_processes.forward_backward("batch, local", *small_problem),
        "layer": two_processes.forward_backward("layer", *small_problem),
    }
    for variant, (outputs, gradient) in whole.items():
        np.testing.assert_allclose(split[variant]["outputs"], outputs, atol=1e-12)
        np.testing.assert_allclose(split[variant]["gradient"], gradient, atol=1e-12)
    outputs, gradient = whole["batch, synchronised"]
    assert np.abs(split["batch, local"]["outputs"] - outputs).max() > 0.1
    assert np.abs(split["batch, local"]["gradient"] - gradient).max() > 1e-3


def test_two_processes_never_hang(small_problem):
    with pytest.raises(TimeoutError, match=r"longer than 0.05 s"):
        two_processes.compare(*small_problem, time_limit=0.05)
    with pytest.raises(ValueError, match="even number"):
        two_processes.compare(*(array[:3] for array in small_problem))
    x, weight, target = small_problem
    with pytest.raises(RuntimeError, match="a process ended"):
        two_processes.compare(x, weight[:2], target)


def test_one_process_that_fails_is_not_waited_for(tmp_path):
    processes, logs = [], []
    for rank, script in enumerate(
        ("import time; time.sleep(60)", "raise SystemExit('the reason')")
    ):
        logs.append(tmp_path / f"log{rank}.txt")
        with logs[-1].open("w") as output:
            processes.append(subprocess.Popen([sys.executable, "-c", script], stderr=output))
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="the reason"):
        two_processes._wait(processes, logs, time_limit=50)
    assert time.monotonic() - start < 30
    assert all(process.returncode is not None for process in processes)
