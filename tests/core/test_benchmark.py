"""The benchmark runs and measures what it says. No time is checked."""

import pytest
import torch
from normtutor_studies import benchmark

from normtutor.layers import common

SMALL = (2, 3, 16)


@pytest.mark.parametrize("contest", benchmark.CONTESTS, ids=lambda contest: contest.name)
def test_every_contest_runs(contest):
    found = benchmark.measure(contest, SMALL, repeats=2, compiled=False)
    assert {len(found[side, False, "step"]) for side in ("ours", "theirs")} == {2}
    assert all(value > 0 for values in found.values() for value in values)
    rows = benchmark.rows_of(contest, found)  # of what was compiled none, for nothing was
    assert [row[2:4] for row in rows] == [["eager", "forward"], ["", "step"], ["", "memory"]]
    ours, theirs, formula, ratio, ratio_of_formula = rows[-1][4:]
    assert float(ratio) == pytest.approx(float(ours[:-2]) / float(theirs[:-2]), abs=0.02)
    assert float(ratio_of_formula) == pytest.approx(
        float(formula[:-2]) / float(theirs[:-2]), abs=0.02
    )


@pytest.mark.parametrize("contest", benchmark.CONTESTS, ids=lambda contest: contest.name)
def test_both_layers_of_a_contest_have_the_same_shapes(contest):
    x = torch.randn(2, 16, 3) if contest.channels_first else torch.randn(2, 3, 16)
    ours, theirs = contest.ours(16), contest.theirs(16)
    assert ours(x).shape == theirs(x).shape == x.shape


def test_the_report_names_each_layer_its_counterpart_and_the_threads():
    before = torch.get_num_threads()
    text = "\n".join(benchmark.benchmark((SMALL,), repeats=2, compiled=False))
    assert "torch.compile is left out: not asked for" in text
    assert "B, L, H = 2, 3, 16, threads: 1" in text and "threads: 2" in text
    for contest in benchmark.CONTESTS:
        assert contest.name in text
        assert contest.against in text
    assert torch.get_num_threads() == before


def test_peak_memory_counts_what_lives_at_the_same_time():
    x = torch.zeros(1000)

    def two_alive():
        y = x + x
        return y * y

    def one_after_the_other():
        y = x + x
        del y
        return x * x

    assert benchmark.peak_bytes(two_alive) == 8000
    assert benchmark.peak_bytes(one_after_the_other) == 4000
    assert benchmark.peak_bytes(lambda: x) == 0


def test_a_step_leaves_fresh_gradients():
    runner = benchmark.Runner(
        torch.nn.LayerNorm(8), torch.randn(4, 8), torch.ones(4, 8), compiled=False
    )
    runner.seconds("step")
    first = runner.layer.bias.grad.clone()
    runner.seconds("step")
    torch.testing.assert_close(runner.layer.bias.grad, first)


def test_without_a_compiler_the_reason_is_given(monkeypatch):
    def broken(*_arguments, **_options):
        raise RuntimeError("no C++ compiler\nlong story")

    monkeypatch.setattr(torch, "compile", broken)
    assert benchmark.why_not_compiled() == "RuntimeError: no C++ compiler"


def test_by_autograd_no_backward_pass_is_by_hand():
    x, grad_y = torch.randn(4, 8), torch.ones(4, 8)
    for formula, node in ((False, "_ByHandBackward"), (True, "AddBackward0")):
        runner = benchmark.Runner(
            benchmark.layers.LayerNorm(8), x, grad_y, compiled=False, formula=formula
        )
        assert runner.step().grad_fn.name() == node


def test_with_torchs_kernels_only_while_it_measures(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark, "benchmark", lambda **_: [seen.append(common._runs_fused())])
    for arguments, fused in (([], False), (["--fused"], True)):
        assert benchmark.main([*arguments, "--layers", "LayerNorm"]) == 0
        assert seen.pop() == fused
        assert not common._runs_fused()


def test_an_unknown_layer_is_refused(capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--layers", "Nothing"])
    assert "there are: BatchNorm" in capsys.readouterr().err


def test_half_precision_is_measured_in_units_of_its_own():
    contest = benchmark.CONTESTS[1]
    found = benchmark.measure(contest, SMALL, repeats=2, compiled=False, dtype=torch.bfloat16)
    assert found["theirs", False, "memory"][0] >= 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(capsys):
    assert benchmark.main(["--device", "cuda"]) == 1
    assert "needs an NVIDIA GPU" in capsys.readouterr().err
