"""Mistakes that no other test would notice: a false sentence, a flipped sign, a leak, a silence."""

import itertools

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments.records import Saved

# Each sentence that a saved run reports, and what must hold of its rows for the sentence to be
# true. Who writes another sentence says here what it comes to.
NORMED = ("Pre-LN", "Pre-BatchNorm")
RECOMPUTED = "eval(), recomputed"

FINDINGS = {
    "company": (
        "among short sentences BatchNorm's model expects the end of a long one many times as often",
        lambda rows: rows["BatchNorm"] > 5 and abs(rows["LayerNorm"] - 1) < 0.01,
    ),
    "covariate_shift_gradients": (
        "at equal rates less shift need not go with a smaller loss: BatchNorm has either without "
        "the other",
        # A smaller cosine is a larger shift; the claims' tests hold the losses.
        lambda rows: rows["linear"] < -0.2 and rows["relu"] > 0.2,
    ),
    "depth_profiles": (
        "after training the gradient falls towards the top in all four wirings",
        lambda rows: min(rows.values()) > 0,
    ),
    "detach_norm": (
        "on sorting, in 300 steps, the loss is far higher without the scale's gradient; the mean, "
        "in either pass, matters little",
        lambda rows: (
            min(value for name, value in rows.items() if "scale detached" in name) > 0.5
            and abs(rows["centre off, scale on"]) < 0.05
            and abs(rows["centre detached, scale on"]) < 0.05
        ),
    ),
    "digit_batches": (
        "after 3 epochs BatchNorm has the lowest loss of three norms with 2, 8 and 32 images, not "
        "with 1",
        lambda rows: all(
            value > 0.4 if "batch of 1," not in name else value < 0
            for name, value in rows.items()
            if "no norm" not in name
        ),
    ),
    "effective_rate": (
        "with weight decay and one hidden layer the weights turn by the angle that rate and decay "
        "predict, to about 2%",
        lambda rows: all(abs(ratio - 1) < 0.03 for ratio in rows.values()) and len(rows) >= 8,
    ),
    "encoder_decoder": (
        "before training the gradient falls towards the bottom of Post-LN's decoder, the more the "
        "deeper; in its encoder it hardly does",
        lambda rows: (
            rows["Post-LN, decoder, 18 layers"] < rows["Post-LN, decoder, 12 layers"] - 1
            and rows["Post-LN, decoder, 12 layers"] < rows["Post-LN, decoder, 6 layers"] - 1
            and all(-1 < rows[f"Post-LN, encoder, {depth} layers"] < 0 for depth in (6, 12, 18))
            and min(v for name, v in rows.items() if "Pre-LN" in name) > 0.5
        ),
    ),
    "fine_tuning": (
        "statistics recomputed on sixty images, without a label, take the error from four fifths "
        "to two fifths; fifteen steps in training mode leave a fifth of the old ones",
        lambda rows: (
            min(rows[f"batches of {size}, eval(), old"] for size in (2, 16)) > 5
            and rows["batches of 16, training mode"] > 5
            and rows["batches of 16, training mode, then recomputed"] < -3
        ),
    ),
    "gradient_parts": (
        "the last BatchNorm removes two to four times what chance would, the two below it about "
        "that after 100 and 300 steps",
        lambda rows: 0.01 < rows["batch"] < rows["rms"] < rows["layer"],
    ),
    "gru_statistics": (
        "after 300 steps RMSNorm is ahead of LayerNorm, and no norm behind all three; LayerNorm "
        "and RMSNorm hold the spread, pRMSNorm in part; LayerNorm also evens out the means",
        lambda rows: (
            rows["RMSNorm"] < -0.02 and rows["no norm"] > max(0.1, rows["pRMSNorm, p = 1/16"] + 0.1)
        ),
    ),
    "image_norms": (
        "after ten epochs BatchNorm makes fewer errors on shifted images than LayerNorm or no "
        "norm; on ordinary and noisy ones their errors cannot be told apart",
        lambda rows: all(
            mean > 5 if "shifted" in name else abs(mean) < 2 for name, mean in rows.items()
        ),
    ),
    "input_drift": (
        "at the best rates the sigmoids' inputs move far less with BatchNorm; the input of "
        "BatchNorm itself drifts",
        lambda rows: (
            rows["BatchNorm, at the sigmoid"] < 0.2
            and rows["BatchNorm, before the norm"] > 1
            and rows["no norm, at the sigmoid"] > 2
        ),
    ),
    "loss_landscape": (
        "at equal rates BatchNorm's loss is smoother",
        lambda rows: rows["batch"] > 0.5,
    ),
    "modes_disagree": (
        "on every seed the remedy lowers the error in evaluation after six of seven mistakes, on "
        "four of five after a last batch of one; with other preprocessing to twice the healthy "
        "error; the diagnosis names the mistake in 34 of 35 networks",
        lambda rows: (
            abs(rows.pop("none")) < 1
            and 0 < rows.pop("last batch of one") < 5
            and len(rows) == 6
            and min(rows.values()) > 5
        ),
    ),
    "hundred_digits": (
        "on 100 digits, in 150 steps, LayerNorm fits less closely at one rate and more closely at "
        "three times that, its γ and β fit more closely, and BatchNorm's noise less at 0.03, more "
        "in 600 steps at 0.003",
        lambda rows: rows["γ and β, rate 0.03"] > 0 and rows["BatchNorm's noise, 150 steps"] > 0,
    ),
    "norm_speed": (
        "on a CPU RMSNorm saves time as an eager formula, less compiled, and loses against a fused "
        "kernel",
        lambda rows: all(
            0 < rows[f"formula, {shape}"] < rows[f"compiled, {shape}"] < 1 < rows[f"torch, {shape}"]
            for shape in ("64 x 64", "512 x 512", "4096 x 768")
        ),
    ),
    "power_statistics": (
        "in the first norm the contrast between shuffled text and images is unit, sample count, "
        "model and task",
        # Once all three are alike, shuffled text moves no more than images do.
        lambda rows: (
            0 < 3 * rows["ResNet, 64 digits"] < rows["text, shuffled"]
            and rows["text, padding out"] < 1.1 * rows["Transformer, digits"]
        ),
    ),
    "remedies": (
        "every remedy trains twelve layers without warm-up at rates where Post-LN stalls",
        lambda rows: len(rows) == 7 and all(0 < loss < 0.3 for loss in rows.values()),
    ),
    "scale_and_rate": (
        "in 150 steps of plain gradient descent without a norm one initial scale in five trains; "
        "with BatchNorm or LayerNorm all five do",
        lambda rows: 1 < rows["none"] <= 5 < rows["layer"] < rows["batch"],
    ),
    "statistics_outside": (
        "with the statistics outside the gradient a useless bias walks off, and in 150 steps the "
        "loss falls less",
        lambda rows: len(rows) == 4 and min(rows.values()) > 0.1,
    ),
    "update_size": (
        "in the Post-LN run that fails, all tokens become alike and stay so, and the lowest "
        "gradient vanishes",
        lambda rows: (
            rows["post"] > 1
            and all(0.4 < rows[mended] < 0.8 for mended in ("post-small", "deepnorm"))
        ),
    ),
    "warmup_map": (
        "in 200 steps of sorting Post-LN needs warm-up or a small rate, twelve layers more so than "
        "six; Pre-LN neither",
        # At the largest rate sixty steps of warm-up still mend six layers, and no longer twelve.
        lambda rows: (
            rows["Post-LN, 6 layers"] < -1 < -0.3 < rows["Post-LN, 12 layers"]
            and -0.5 < rows["Pre-LN, 12 layers"] < rows["Pre-LN, 6 layers"] < 0
        ),
    ),
    "wide_and_shallow": (
        "upper Pre-LN layers can be removed or swapped at less cost than upper Post-LN layers",
        lambda rows: rows["pre"] > rows["post"] + 0.1 and rows["peri"] > 0.8,
    ),
}


# What a sentence says beside its rows: the values in a saved run, averaged over seeds.
BESIDE = {
    "fine_tuning": lambda of: (
        0.77 < of("before", way="training mode", batch_size=16) < 0.85
        and 0.33 < of("before_recomputed", way="training mode", batch_size=16) < 0.43
    ),
    "gru_statistics": lambda of: (
        of("after_mean_varies", norm="layer") < of("after_mean_varies", norm="rms") / 3
        and of("after_spread", norm="none") > 2 * of("after_spread", norm="layer")
    ),
    "gradient_parts": lambda of: (
        of("along_mean", norm="batch") > 2 * of("chance", norm="batch")  # the last norm, the end
    ),
    "hundred_digits": lambda of: (
        of("training", norm="layer", rate=0.03)
        < of("training", norm="none")
        < of("training", norm="layer", rate=0.01)
        < of("training", norm="plain layer", rate=0.01)
        and of("training", norm="batch", steps=150, company=100)
        < of("training", norm="batch", steps=150, company=10)
        and of("training", norm="batch", steps=600, company=10, rate=0.003)
        < of("training", norm="batch", steps=600, company=100, rate=0.003)
    ),
    # A model that knows how often each piece occurs and nothing else ends at 6.00.
    "update_size": lambda of: (
        of("likeness", part="trace", wiring="post", warmup=0, learning_rate=4e-3) > 0.99
        and of("bottom", part="trace", wiring="post", warmup=0, learning_rate=4e-3) < 1e-4
        and of("likeness", part="trace", wiring="post", warmup=60, learning_rate=4e-3) < 0.5
        and of("bottom", part="trace", wiring="post", warmup=60, learning_rate=4e-3) > 1e-2
    ),
}


# These say that something is small, whatever its sign: what would be noticed is a large one.
def means(name: str) -> dict[str, float]:
    rows = experiments.module_of(name).rows(experiments.load(name))
    return {key: float(np.mean(values)) for key, values in rows.items()}


def test_every_experiment_that_the_book_shows_is_held_to_its_words():
    shown = {
        name
        for name in experiments.names()
        if not experiments.module_of(name).FIGURE.startswith("none: it chooses")
    }
    # It has no rows: the ledger reads it, and tests/claims turns its numbers round.
    assert shown - set(FINDINGS) == {"encoder_decoder_training"}


@pytest.mark.parametrize("name", FINDINGS)
def test_what_a_run_is_said_to_find_is_what_its_rows_show(name):
    sentence, holds = FINDINGS[name]
    assert experiments.module_of(name).FINDING == sentence, "say in FINDINGS what the words mean"
    assert holds(means(name))


@pytest.mark.parametrize("name", FINDINGS)
def test_the_opposite_would_be_noticed(name):
    opposite = {key: -value for key, value in means(name).items()}
    assert not FINDINGS[name][1](opposite)


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_run_is_said_to_find_is_what_is_on_record(name):
    saved = experiments.load(name)

    def last_of(key, **where):
        """The mean over seeds; of a curve, and of a row of layers, the last entry."""
        values = saved.values(key, **where)
        while values.ndim > 1:
            values = values[:, -1]
        return float(values.mean())

    assert BESIDE[name](last_of)


# What an experiment that chooses learning rates says of them, and what must hold of the best ones.
CHOSEN = {
    "digit_rates": (
        "the best rate is larger with 8 or 32 images than with 1 or 2, and differs between norms",
        lambda best: (
            all(
                min(best[norm, 8], best[norm, 32]) > max(best[norm, 1], best[norm, 2])
                for norm, _ in best
            )
            and all(len({best[n, s] for n, s in best if s == size}) > 1 for size in (1, 2, 8, 32))
        ),
    ),
    "image_rates": (
        "BatchNorm's best rate is ten times that of either LayerNorm; none is best at an edge",
        lambda best: (
            best["batch",] == pytest.approx(10 * best["pixel",])
            and best["pixel",] == best["image",]
            and 0.003 < min(best.values()) <= max(best.values()) < 3
        ),
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_said_of_chosen_rates_is_what_the_best_ones_show(name):
    module, (sentence, holds) = experiments.module_of(name), CHOSEN[name]
    assert module.FINDING == sentence
    best = module.best_rates(experiments.load(name))
    assert holds(best)
    assert not holds(best | {next(iter(best)): 0.5})


# What rows make of records that were made up, so that one sees which numbers they take.
MADE_UP = {
    "depth_profiles": (
        {"wirings": ["post"]},
        [
            {"wiring": "post", "when": "start", "signal": [7.0, 7.0, 7.0]},
            {"wiring": "post", "when": "trained", "signal": [1.0, 2.0, 3.0, 8.0]},
        ],
        {"post": 4.0},
    ),
    "gradient_parts": (
        {},
        [
            {"norm": norm, "along_mean": [[1.0, 2.0], [3.0, last]]}
            for norm, last in (("batch", 4.0), ("layer", 5.0), ("rms", 6.0))
        ],
        {"batch": 4.0, "layer": 5.0, "rms": 6.0},
    ),
    "warmup_map": (
        {
            "rates": [0.001, 0.016],
            "conditions": [{"wiring": "post", "depth": 6, "warmup": warmup} for warmup in (0, 60)],
        },
        [
            {"wiring": w, "depth": 6, "warmup": warmup, "learning_rate": rate, "loss": loss}
            for w, warmup, rate, loss in (
                *(("post", 0, 0.016, 5.0), ("post", 60, 0.016, 2.0), ("post", 0, 0.001, 9.0)),
                *(("pre", 0, 0.016, 1.0), ("pre", 60, 0.016, 1.5)),
            )
        ],
        {"Post-LN, 6 layers": -3.0, "Pre-LN, 6 layers": 0.5},
    ),
    "wide_and_shallow": (
        {"wirings": ["pre"]},
        [{"wiring": "pre", "reversed_accuracy": [0.5, 0.9]}],
        {"pre": 0.5},
    ),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_rows_take_the_numbers_that_they_say(name):
    config, records, expected = MADE_UP[name]
    rows = experiments.module_of(name).rows(Saved(name, config, ({"seed": 0, "records": records},)))
    assert {row: float(values[0]) for row, values in rows.items()} == expected


# The words of a figure's rows, where the lines above do not name them.
WORDS = {
    "digit_batches": (
        ("batch of 1", "batch of 2", "batch of 8", "batch of 32"),
        ("GroupNorm", "LayerNorm", "no norm"),
    ),
    "encoder_decoder": (
        ("Post-LN", "Pre-LN"),
        ("encoder", "decoder"),
        ("6 layers", "12 layers", "18 layers"),
    ),
    "image_norms": (
        ("test images as they are", "shifted by one pixel", "with noise"),
        ("LayerNorm per pixel", "GroupNorm(1)", "no norm"),
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_rows_of_a_figure_say_what_they_show(name):
    every = {", ".join(words) for words in itertools.product(*WORDS[name])}
    found = set(means(name))
    assert found <= every
    for words in WORDS[name]:
        assert all(any(word in row for row in found) for word in words)
