"""Mistakes that no other test would notice: a false sentence, a flipped sign, a leak, a silence."""

import numpy as np
import pytest
from normtutor_studies import experiments

# What must hold of a saved run's rows for its FINDING to be true.
FINDINGS = {
    "company": lambda rows: rows["BatchNorm"] > 5 and abs(rows["LayerNorm"] - 1) < 0.01,
    "covariate_shift_gradients": lambda rows: rows["linear"] < -0.2 and rows["relu"] > 0.2,
    "depth_profiles": lambda rows: min(rows.values()) > 0,
    "detach_norm": lambda rows: (
        min(value for name, value in rows.items() if "scale detached" in name) > 0.5
        and abs(rows["centre off, scale on"]) < 0.05
        and abs(rows["centre detached, scale on"]) < 0.05
    ),
    "digit_batches": lambda rows: all(
        value > 0.4 if "batch of 1," not in name else value < 0
        for name, value in rows.items()
        if "no norm" not in name
    ),
    "effective_rate": lambda rows: (
        all(abs(ratio - 1) < 0.03 for ratio in rows.values()) and len(rows) >= 8
    ),
    "encoder_decoder": lambda rows: (
        rows["Post-LN, decoder, 18 layers"] < rows["Post-LN, decoder, 12 layers"] - 1
        and rows["Post-LN, decoder, 12 layers"] < rows["Post-LN, decoder, 6 layers"] - 1
        and all(-1 < rows[f"Post-LN, encoder, {depth} layers"] < 0 for depth in (6, 12, 18))
        and min(v for name, v in rows.items() if "Pre-LN" in name) > 0.5
    ),
    "fine_tuning": lambda rows: (
        min(rows[f"batches of {size}, eval(), old"] for size in (2, 16)) > 5
        and rows["batches of 16, training mode"] > 5
        and rows["batches of 16, training mode, then recomputed"] < -3
    ),
    "gradient_parts": lambda rows: 0.01 < rows["batch"] < rows["rms"] < rows["layer"],
    "gru_statistics": lambda rows: (
        rows["RMSNorm"] < -0.02 and rows["no norm"] > max(0.1, rows["pRMSNorm, p = 1/16"] + 0.1)
    ),
    "image_norms": lambda rows: all(
        mean > 5 if "shifted" in name else abs(mean) < 2 for name, mean in rows.items()
    ),
    "input_drift": lambda rows: (
        rows["BatchNorm, at the sigmoid"] < 0.2
        and rows["BatchNorm, before the norm"] > 1
        and rows["no norm, at the sigmoid"] > 2
    ),
    "loss_landscape": lambda rows: rows["batch"] > 0.5,
    "modes_disagree": lambda rows: (
        abs(rows.pop("none")) < 1
        and 0 < rows.pop("last batch of one") < 5
        and len(rows) == 6
        and min(rows.values()) > 5
    ),
    "hundred_digits": lambda rows: (
        rows["γ and β, rate 0.03"] > 0 and rows["BatchNorm's noise, 150 steps"] > 0
    ),
    "norm_speed": lambda rows: all(
        0 < rows[f"formula, {shape}"] < rows[f"compiled, {shape}"] < 1 < rows[f"torch, {shape}"]
        for shape in ("64 x 64", "512 x 512", "4096 x 768")
    ),
    "power_statistics": lambda rows: (
        0 < 3 * rows["ResNet, 64 digits"] < rows["text, shuffled"]
        and rows["text, padding out"] < 1.1 * rows["Transformer, digits"]
    ),
    "remedies": lambda rows: len(rows) == 7 and all(0 < loss < 0.3 for loss in rows.values()),
    "scale_and_rate": lambda rows: 1 < rows["none"] <= 5 < rows["layer"] < rows["batch"],
    "statistics_outside": lambda rows: len(rows) == 4 and min(rows.values()) > 0.1,
    "update_size": lambda rows: (
        rows["post"] > 1 and all(0.4 < rows[mended] < 0.8 for mended in ("post-small", "deepnorm"))
    ),
    "warmup_map": lambda rows: (
        rows["Post-LN, 6 layers"] < -1 < -0.3 < rows["Post-LN, 12 layers"]
        and -0.5 < rows["Pre-LN, 12 layers"] < rows["Pre-LN, 6 layers"] < 0
    ),
    "wide_and_shallow": lambda rows: rows["pre"] > rows["post"] + 0.1 and rows["peri"] > 0.8,
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
    assert FINDINGS[name](means(name)), experiments.module_of(name).FINDING


@pytest.mark.parametrize("name", FINDINGS)
def test_the_opposite_would_be_noticed(name):
    opposite = {key: -value for key, value in means(name).items()}
    assert not FINDINGS[name](opposite)


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


# The same of experiments that choose learning rates.
CHOSEN = {
    "digit_rates": lambda best: (
        all(
            min(best[norm, 8], best[norm, 32]) > max(best[norm, 1], best[norm, 2])
            for norm, _ in best
        )
        and all(len({best[n, s] for n, s in best if s == size}) > 1 for size in (1, 2, 8, 32))
    ),
    "image_rates": lambda best: (
        best["batch",] == pytest.approx(10 * best["pixel",])
        and best["pixel",] == best["image",]
        and 0.003 < min(best.values()) <= max(best.values()) < 3
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_said_of_chosen_rates_is_what_the_best_ones_show(name):
    module, holds = experiments.module_of(name), CHOSEN[name]
    best = module.best_rates(experiments.load(name))
    assert holds(best)
    assert not holds(best | {next(iter(best)): 0.5})
