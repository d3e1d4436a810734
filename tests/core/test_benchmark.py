"""The benchmark runs and measures what it says. No time is checked."""

import pytest
import torch
from normtutor_studies import benchmark

from normtutor.layers import common

SMALL = (2, 3, 16)


@pytest.mark.parametrize("contest", benchmark.CONTESTS, ids=lambda contest: contest.name)
def test_every_contest_runs(contest):
    x = torch.randn(2, 16, 3) if contest.channels_first else torch.randn(2, 3, 16)
    assert contest.ours(16)(x).shape == contest.theirs(16)(x).shape == x.shape
    found = benchmark.measure(contest, SMALL, repeats=2, compiled=False)
    assert {len(found[side, False, "step"]) for side in ("ours", "theirs")} == {2}
    assert all(value > 0 for values in found.values() for value in values)
    rows = benchmark.rows_of(contest, found)  # of what was compiled none, for nothing was
    assert [row[2:4] for row in rows] == [["eager", what] for what in benchmark.QUANTITIES]


def test_the_report_names_each_layer_its_counterpart_and_the_threads():
    before = torch.get_num_threads()
    text = "\n".join(benchmark.benchmark((SMALL,), repeats=2, compiled=False))
    assert "torch.compile is left out: not asked for" in text
    assert "B, L, H = 2, 3, 16, threads: 1" in text and "threads: 2" in text
    assert all(contest.name in text and contest.against in text for contest in benchmark.CONTESTS)
    assert torch.get_num_threads() == before


def test_peak_memory_counts_what_lives_at_the_same_time():
    x = torch.zeros(1000)
    assert benchmark.peak_bytes(lambda: (x + x).exp()) == 8000
    assert benchmark.peak_bytes(lambda: (x + x).sum() + (x * x).sum()) < 8000
    assert benchmark.peak_bytes(lambda: x) == 0


def test_with_torchs_kernels_only_while_it_measures(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark, "benchmark", lambda **_: [seen.append(common._runs_fused())])
    for arguments, fused in (([], False), (["--fused"], True)):
        assert benchmark.main([*arguments, "--layers", "LayerNorm"]) == 0
        assert seen.pop() == fused
        assert not common._runs_fused()


def test_what_cannot_be_measured_is_refused(capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--layers", "Nothing"])
    assert "there are: BatchNorm" in capsys.readouterr().err
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit):
            benchmark.main(["--device", "cuda"])
        assert "finds no CUDA device" in capsys.readouterr().err
