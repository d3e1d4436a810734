"""The benchmark for a GPU: it refuses politely without one, and what it prints is right."""

import pytest
import torch

from normtutor import gpu_speed


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(capsys):
    assert gpu_speed.main([]) == 1
    assert "needs an NVIDIA GPU" in capsys.readouterr().err


def test_a_processor_is_sent_elsewhere(capsys):
    assert gpu_speed.main(["--device", "cpu"]) == 1
    assert "normtutor.benchmark" in capsys.readouterr().err


def test_every_contestant_is_measured_forward_and_as_a_step():
    found = gpu_speed.measure((4, 8), "float32", rounds=2, calls=1, compiled=False)
    assert {len(seconds) for seconds in found.values()} == {2}
    assert all(second > 0 for seconds in found.values() for second in seconds)
    lines = gpu_speed.table((4, 8), "float32", found)
    assert [line.split()[0] for line in lines[2:]] == ["formula,"] * 2 + ["torch,"] * 2


def test_ratios_are_taken_within_a_round():
    found = {"copy": [1e-6, 1e-6, 1e-6]}
    for part in ("forward", "step"):
        found[f"torch layer, {part}"] = [1e-6, 2e-6, 4e-6]
        found[f"torch rms, {part}"] = [2e-6, 4e-6, 2e-6]
    lines = gpu_speed.table((4, 8), "float32", found)
    assert lines[2].split() == ["torch,", "forward", "2.0", "2.0", "2.00", "0.50"]
