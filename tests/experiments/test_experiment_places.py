"""Experiments elsewhere: on another text, another device, in other processes, on a cluster."""

import dataclasses
import hashlib
import json
import math
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
import torch
from joblib.parallel import ThreadingBackend
from normtutor_studies import experiments
from normtutor_studies.experiments import __main__ as command_line
from normtutor_studies.experiments import company, digit_rates, records

from normtutor import data, models, training


@pytest.fixture
def small(monkeypatch):
    """company with one model and few steps: an experiment on text that takes a second."""
    config = dataclasses.replace(
        company.CONFIG, norms=("layer",), steps=60, warmup=3, test_batches=2, learning_rate=1e-2
    )
    monkeypatch.setattr(company, "CONFIG", config)
    monkeypatch.setattr(company, "SEEDS", (5,))
    return config


@pytest.fixture
def text_file(tmp_path):
    """A text in which every word says which one follows, with letters beyond ASCII."""
    words = ["über", "allen", "gipfeln", "ist", "ruh", "in", "allen", "wipfeln", "spürest", "du"]
    rng = np.random.default_rng(0)
    sentences = [" ".join(words[: rng.integers(4, 11)]) + "." for _ in range(3000)]
    path = tmp_path / "gedicht.txt"
    path.write_text("\n\n".join(sentences), encoding="utf-8")
    return path


def run(*arguments):
    return command_line.main(["run", *map(str, arguments)])


# --- a text of one's own --------------------------------------------------------------------------


def test_a_language_model_learns_a_text_of_ones_own(small, text_file, tmp_path, capsys):
    place = tmp_path / "own"
    command = ("company", "--text-file", text_file, "--directory", place)
    assert run(*command) == 0
    printed = capsys.readouterr().out
    digest = hashlib.sha256(text_file.read_bytes()).hexdigest()
    assert digest[:16] in printed
    assert "run company --text-file gedicht.txt" in printed
    assert "compare effects with it, not digits" in printed
    (saved,) = experiments.load("company", place).runs
    assert saved["environment"]["data"] == {"text_sha256": digest}
    assert str(tmp_path) not in (place / "company.json").read_text(encoding="utf-8")
    # What the model must have learned, whatever the digits: far better than guessing words.
    assert saved["records"][0]["loss_in_evaluation"] < 0.5 * math.log(12)
    # A second call finds everything done.
    assert run(*command) == 0
    assert "All seeds are saved" in capsys.readouterr().err
    # Without the option the text is the book's again.
    assert data.load_corpus().name == "docstrings of the installed packages"


def test_results_on_other_data_are_not_mixed(small, text_file, tmp_path, capsys):
    place = tmp_path / "own"
    assert run("company", "--text-file", text_file, "--directory", place) == 0
    assert run("company", "--directory", place, "--seeds", 6) == 1
    assert "run on other data" in capsys.readouterr().err
    assert experiments.load("company", place).seeds == [5]
    assert run("company", "--directory", place, "--seeds", 6, "--restart") == 0
    (saved,) = experiments.load("company", place).runs
    assert saved["environment"]["data"] == company.fingerprint(small)
    assert "text_file" not in saved["environment"]


def test_the_record_of_the_book_is_out_of_reach(small, text_file, tmp_path, monkeypatch):
    before = (records.results_directory() / "company.json").read_bytes()
    monkeypatch.chdir(tmp_path)
    assert run("company", "--text-file", text_file) == 0
    assert (tmp_path / "runs" / "company.json").exists()
    assert (records.results_directory() / "company.json").read_bytes() == before


@pytest.mark.parametrize("option", [("--text-file", "any.txt"), ("--device", "cuda")])
def test_what_reads_no_text_takes_no_text_and_no_device(option, tmp_path, capsys):
    assert run("digit_rates", *option, "--directory", tmp_path) == 1
    assert "trains no language model" in capsys.readouterr().err


BAD_FILES = {
    "missing": (None, "does not exist"),
    "empty": (b"", "too short"),
    "one sentence": (b"Just one sentence, and no more.", "too short"),
    "a few sentences": (b"One sentence of a few words. " * 12, "Use a smaller batch or a longer"),
    "not UTF-8": ("Übermut tut selten gut. ".encode("latin-1") * 100, "not UTF-8: byte 0"),
    "UTF-16": ("Übermut tut selten gut. ".encode("utf-16") * 100, "not UTF-8"),
    "binary": (bytes(range(32)) * 100, "not text: it holds zero bytes"),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_gets_a_clear_message(small, content, message, tmp_path, capsys):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    place = tmp_path / "own"
    assert run("company", "--text-file", path, "--directory", place) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (place / "company.json").exists()


def test_a_directory_is_no_text(small, tmp_path, capsys):
    assert run("company", "--text-file", tmp_path, "--directory", tmp_path / "own") == 1
    assert "is a directory" in capsys.readouterr().err


def test_an_own_text_holds_inside_its_block_only(text_file):
    with data.own_text(text_file):
        assert data.load_corpus().name == "gedicht.txt"
        with data.own_text(None):
            assert data.load_corpus().name == "docstrings of the installed packages"
    assert data.load_corpus().name == "docstrings of the installed packages"


def test_an_experiment_that_keeps_a_text_is_found_out(small, text_file, tmp_path, monkeypatch):
    kept = company.fingerprint(small)
    monkeypatch.setattr(company, "fingerprint", lambda config: kept)
    with pytest.raises(ValueError, match="keeps a text that it has read before"):
        experiments.run_experiment("company", text_file=text_file, directory=tmp_path)


def test_a_worker_that_finds_another_text_refuses(small, text_file):
    with pytest.raises(ValueError, match="finds other data here than where it was started"):
        records._run_seeds("company", small, [5], "cpu", text_file, {"text_sha256": "0" * 64})


def test_a_byte_order_mark_and_dos_line_ends_change_nothing(tmp_path):
    text = "\n\n".join(f"the sentence number {i} is here." for i in range(300))
    corpora = []
    for name, content in (
        ("unix.txt", text.encode()),
        ("dos.txt", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()),
    ):
        (tmp_path / name).write_bytes(content)
        corpora.append(data.load_corpus(tmp_path / name, min_count=1))
    assert corpora[0].vocabulary.tokens == corpora[1].vocabulary.tokens
    assert corpora[0].sha256 != corpora[1].sha256  # that of the file, as sha256sum prints it


# --- another device -------------------------------------------------------------------------------


@pytest.fixture
def gpus(monkeypatch):
    """Pretend that there are so many GPUs."""

    def pretend(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return pretend


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("cuda", 0, "'cuda' is not there: torch .* finds 0 CUDA devices"),
        ("cuda:3", 2, "'cuda:3' is not there: torch .* finds 2 CUDA devices"),
        ("meta", 0, 'must be "cpu", "cuda" or "cuda:N"'),
        ("gpu", 0, 'must be "cpu", "cuda" or "cuda:N"'),
    ],
)
def test_a_device_that_is_not_there_gets_a_clear_message(name, count, message, gpus):
    gpus(count)
    with pytest.raises(ValueError, match=message), training.on_device(name):
        pass


def test_the_command_line_says_that_there_is_no_gpu(small, gpus, tmp_path, capsys):
    gpus(0)
    assert run("company", "--device", "cuda", "--directory", tmp_path) == 1
    assert "finds 0 CUDA devices" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_the_default_inside_its_block_only(gpus, monkeypatch):
    gpus(2)
    chosen = []
    monkeypatch.setattr(torch, "set_default_device", chosen.append)
    with pytest.raises(KeyError), training.on_device("cuda:1"):
        raise KeyError
    with training.on_device("cpu"):
        pass
    assert chosen == [torch.device("cuda:1"), None]


def test_data_and_models_go_to_the_default_device():
    sentences = [np.array([2, 5, 6, 7, 2])] * 40
    with torch.device("meta"):
        digits = data.load_digits().train
        batches = [
            data.pad(sentences[:3]),
            data.chunk_batches([sentences], 2, 5, "shuffled", np.random.default_rng(0))[0],
            next(data.image_batches(digits, 4, np.random.default_rng(0))),
        ]
        model = models.TransformerLM(12, max_length=8)
        assert training.masked_language_model_loss(model, batches[1]).device.type == "meta"
    for batch in batches:
        assert {part.device.type for part in batch} == {"meta"}


def test_a_gpu_is_on_record_and_is_not_mixed_with_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Example GPU ({device})")
    where = records.environment({"text_sha256": "0" * 64}, device="cuda:1")
    assert where["gpu"] == "Example GPU (cuda:1)"
    run = {"seed": 1, "cpu_seconds": 60.0, "environment": where, "records": []}
    saved = experiments.Saved("company", {}, (run,))
    assert "on Example GPU (cuda:1) and" in saved.provenance()
    assert saved.provenance().endswith("run company --device cuda")
    records._refuse_other_data(saved, where["data"], "cuda")
    with pytest.raises(ValueError, match=r"Example GPU .* on cpu\."):
        records._refuse_other_data(saved, where["data"], "cpu")


# --- several seeds at once, and several at the same time ------------------------------------------


class Together:
    """An experiment that trains its seeds together, and says which ones it got in one call."""

    SEEDS = (1, 2, 3, 4, 5)

    def __init__(self):
        self.calls = []
        self.inside = 0

    @dataclasses.dataclass(frozen=True)
    class Config:
        steps: int = 1

    CONFIG = Config()

    def fingerprint(self, config):
        return {}

    def run(self, config, seed):
        return self.run_seeds(config, [seed])[0]

    def run_seeds(self, config, seeds):
        self.inside += 1
        assert self.inside == 1, "two runs share the random numbers of one process"
        self.calls.append((list(seeds), threading.get_ident()))
        threading.Event().wait(0.05)
        self.inside -= 1
        return [[{"loss": float(seed)}] for seed in seeds]


class OneByOne:
    """An experiment that trains one seed at a time, and can fail at one."""

    SEEDS, CONFIG = Together.SEEDS, Together.CONFIG

    def __init__(self):
        self.finished = []
        self.broken = None

    def fingerprint(self, config):
        return {}

    def run(self, config, seed):
        if seed == self.broken:
            raise ArithmeticError
        self.finished.append(seed)
        return [{"thread": threading.get_ident()}]


@pytest.fixture
def together(monkeypatch):
    experiment = Together()
    monkeypatch.setattr(records, "module_of", lambda name: experiment)
    return experiment


def test_seeds_that_are_missing_run_together(together, tmp_path):
    def run(**options):
        return experiments.run_experiment("x", directory=tmp_path, progress=False, **options)

    run(seeds=[2])
    saved = run()
    assert [seeds for seeds, _ in together.calls] == [[2], [1, 3, 4, 5]]
    assert saved.seeds == records.read("x", tmp_path).seeds == [1, 2, 3, 4, 5]
    assert saved.values("loss").tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert run() == saved
    assert len(together.calls) == 2


def test_several_workers_share_the_seeds_and_each_process_runs_one_at_a_time(together, tmp_path):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        saved = experiments.run_experiment("x", directory=tmp_path, progress=False)
    assert sorted(seeds for seeds, _ in together.calls) == [[1, 3, 5], [2, 4]]
    assert saved.values("loss").tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_backend_that_returns_all_or_nothing_loses_one_round_at_most(monkeypatch, tmp_path):
    """Ray's is one: it derives from joblib's multiprocessing backend."""

    class AllOrNothing(ThreadingBackend):
        supports_return_generator = False

    joblib.register_parallel_backend("all or nothing", AllOrNothing)
    experiment = OneByOne()
    monkeypatch.setattr(records, "module_of", lambda name: experiment)
    with joblib.parallel_config(backend="all or nothing", n_jobs=2):
        experiment.broken = 4
        with pytest.raises(ArithmeticError):
            experiments.run_experiment("x", directory=tmp_path, progress=False)
        assert records.read("x", tmp_path).seeds == [1, 2]
        experiment.broken = None
        saved = experiments.run_experiment("x", directory=tmp_path, progress=False)
    assert saved.seeds == [1, 2, 3, 4, 5]
    assert experiment.finished.count(1) == 1


def test_what_measures_time_runs_alone(tmp_path, monkeypatch):
    experiment = OneByOne()
    experiment.ALONE = True
    monkeypatch.setattr(records, "module_of", lambda name: experiment)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        saved = experiments.run_experiment("x", directory=tmp_path, progress=False)
    assert set(saved.values("thread")) == {float(threading.get_ident())}


ON_A_CLUSTER = """
import dataclasses, os, sys
import dask, joblib
from dask.distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from normtutor_studies import experiments
from normtutor_studies.experiments import digit_rates

if __name__ == "__main__":
    if sys.platform == "linux":  # where the workers may be copies of a process that has torch
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
        needed = ["distributed", "torch._dynamo", "sklearn.datasets", "sklearn.model_selection"]
        needed.append("normtutor_studies.experiments.digit_rates")
        get_mp_context().set_forkserver_preload(needed)
    config = dataclasses.replace(
        digit_rates.CONFIG, conditions=digit_rates.CONFIG.conditions[-2:], images_seen=640
    )
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        experiments.run_experiment(
            "digit_rates", seeds=[1, 2, 3], config=config, directory=sys.argv[1], progress=False
        )
        processes = client.run(os.getpid).values()
        tasks = client.run(lambda dask_worker: dask_worker.state.executed_count)
        print(len(set(processes) - {os.getpid()}), sum(tasks.values()))
"""


def test_one_line_moves_a_run_onto_a_dask_cluster(tmp_path):
    script = tmp_path / "on_a_cluster.py"
    script.write_text(ON_A_CLUSTER, encoding="utf-8")
    place = tmp_path / "cluster"
    found = subprocess.run(
        [sys.executable, script, place], capture_output=True, text=True, timeout=1200, cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    workers, tasks = map(int, found.stdout.split())
    assert workers == 2
    assert tasks >= 3  # the cluster has done the work
    saved = records.read("digit_rates", place)
    config = dataclasses.replace(
        digit_rates.CONFIG, conditions=digit_rates.CONFIG.conditions[-2:], images_seen=640
    )
    here = experiments.run_experiment(
        "digit_rates", seeds=[1, 2, 3], config=config, directory=tmp_path, progress=False
    )
    assert saved.seeds == [1, 2, 3]
    assert json.dumps([r["records"] for r in saved.runs]) == json.dumps(
        [r["records"] for r in here.runs]
    )
