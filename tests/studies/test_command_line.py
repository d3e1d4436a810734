"""The one command: it lists studies, makes runs beside the book, shows and reports them."""

import dataclasses

import pytest
from normtutor_studies.__main__ import main
from normtutor_studies.engine import STUDIES, Study
from normtutor_studies.store import World


@pytest.fixture
def toy(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = {"height": 1.0}
    study = Study(
        name="toy",
        chapter=1,
        question="Is it higher?",
        arms={"low": {"rate": 1.0}, "high": {"height": 2.0, "rate": 1.0}},
        pairs=[("high", "low")],
        worlds=[World("toy", lambda cell, rate, seed: {"loss": [cell["height"]] * 8}, settings)],
        control="Nothing else differs.",
    )
    yield study
    del STUDIES["toy"]


def test_what_was_run_is_shown_and_reported(toy, tmp_path, capsys, monkeypatch):
    assert main(["run", "toy"]) == 0
    assert (tmp_path / "runs" / "toy.jsonl").exists()
    assert "show toy --directory runs" in capsys.readouterr().out
    assert main(["show", "toy", "--directory", "runs"]) == 0
    shown = capsys.readouterr().out
    for part in ("Is it higher?", "10 runs", "Nothing else differs.", "| toy | high | 1 |"):
        assert part in shown
    assert main(["show", "toy"]) == 1  # not in the book's own record
    assert "not on record" in capsys.readouterr().err
    monkeypatch.setitem(STUDIES, "toy", dataclasses.replace(toy, folder=tmp_path / "runs"))
    assert main(["report", "toy"]) == 0
    assert "| toy | high - low | toy | 1.000" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["list"]])
def test_every_study_is_listed_with_its_question(command, capsys):
    assert main(command) == 0
    listed = capsys.readouterr().out
    assert all(f"{one.name}: {one.question}" in listed for one in STUDIES.values())


def test_a_study_that_there_is_not_is_named(capsys):
    assert main(["show", "nothing"]) == 1
    assert "there is no study 'nothing'" in capsys.readouterr().err
