"""The benchmark runs and measures what it says. No time is checked."""

import torch
from normtutor_studies import benchmark

SMALL = ((4, 8, 16), (2, 16, 3, 3))


def test_every_contest_compares_two_ways_to_the_same_numbers():
    contests = [
        *benchmark.of_layers(SMALL[0], torch.float32, compiled=False),
        *benchmark.of_layers(SMALL[1], torch.float32, compiled=False),
        *benchmark.of_formulas(SMALL[0], torch.float32),
    ]
    assert len(contests) == 5 + 3 + 5
    for contest in contests:
        if contest.name == "PowerNorm":  # which is no BatchNorm
            continue
        ours, theirs = (torch.as_tensor(y[0] if isinstance(y, tuple) else y) for y in both(contest))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def both(contest):
    return contest.ours(), contest.theirs()


def test_the_report_names_a_contest_its_aim_and_the_threads():
    before = torch.get_num_threads()
    some = {"repeats": 1, "compiled": False, "numbers_of_threads": (2,), "only": "PowerNorm"}
    text = "\n".join(benchmark.benchmark(SMALL[:1], **some))
    assert "torch.compile is left out: not asked for" in text
    assert "(4, 8, 16), threads: 2" in text
    for words in ("PowerNorm", "ratio", "memory", " 2.0 "):
        assert words in text
    assert torch.get_num_threads() == before


def test_peak_memory_counts_what_lives_at_the_same_time():
    x = torch.zeros(1000)
    assert benchmark.peak_bytes(lambda: (x + x).exp()) == 8000
    assert benchmark.peak_bytes(lambda: (x + x).sum() + (x * x).sum()) < 8000
