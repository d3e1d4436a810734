"""Mistakes that no other test would notice: a false sentence, a flipped sign, a leak, a silence."""

import itertools

import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    final_norm,
    final_norm_longer_rates,
    from_start_norms_rates,
    package_chunks,
    swapped_norms,
    variance_growth,
)
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
    "deep_last_norm": (
        "in 300 clipped steps at twelve layers, each at its best embeddings, LayerNorm and RMSNorm "
        "gain by a last norm, tied or not, and dynamic tanh loses by its last place; small initial "
        "gains do much of what the last norm does",
        lambda rows: all(
            rows[f"{norm}, no last norm, {head}"] - rows[f"{norm}, last norm, {head}"] > 0.3
            and rows[f"DyT, last norm, {head}"] - rows[f"DyT, no last norm, {head}"] > 0.03
            and rows[f"LN, small gains, no last norm, {head}"] - rows[f"LN, last norm, {head}"]
            < 0.12
            for norm in ("LN", "RMSNorm")
            for head in ("tied", "untied")
        ),
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
    "final_norm": (
        "in 300 steps, with ordinary embeddings and weights, a tied model of three layers with a "
        "last norm loses to one without any norm; without the last norm it is ahead",
        lambda rows: (
            all(
                (value > 0.03) == (", final norm, tied" in name)
                and (value < -0.08) != (", final norm, tied" in name)
                for name, value in rows.items()
            )
            and rows["dynamic tanh, no final norm, tied"]
            < rows["LayerNorm, no final norm, tied"] - 0.05
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
    "learning_rate_sweep": (
        "in 200 steps BatchNorm trains at rates and from weights at which the same network does "
        "not",
        lambda rows: (
            rows["sigmoid, sgd"] < -0.8
            and rows["sigmoid, adamw"] < -0.1
            and all(-0.05 < rows[f"relu, {optimizer}"] < 0 for optimizer in ("sgd", "adamw"))
        ),
    ),
    "learning_rate_sweep_longer": (
        "in 1,000 steps Adam trains the sigmoid network without a norm from Xavier's weights, to "
        "5 % of errors; SGD trains it only from weights four times as large, to 3 %",
        lambda rows: (
            rows["no norm, weights 1×, SGD"] > 85
            and round(rows["no norm, weights 1×, Adam"]) == 5
            and round(rows["no norm, weights 4×, SGD"]) == 3
        ),
    ),
    "logit_remedies": (
        "in 300 steps at eight times a good rate QK-norm, weight decay and a cap keep logits below "
        "60, clipping does not; decay ends lowest",
        lambda rows: (
            rows["weight decay, rate 0.128"] < rows["QK-norm, rate 0.128"]
            and rows["QK-norm, rate 0.128"] < rows["soft cap, rate 0.128"] < 0
            and abs(rows["clipping, rate 0.128"]) < 0.01
            and rows["weight decay, rate 0.016"] < -0.03
        ),
    ),
    "loss_landscape": (
        "at equal rates BatchNorm's loss is smoother; at 0.1 the rougher network ends lower",
        lambda rows: min(rows["batch"], rows["noisy batch"]) > 0.5,
    ),
    "loss_landscape_longer": (
        "from step 400 to 1,000 the largest eigenvalue is below 1/rate, at equal rates still "
        "several times larger without a norm; at both rates that network ends lower",
        lambda rows: min(rows.values()) > 0.5,
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
    "last_norm_parts": (
        "in 300 steps, at the end of a tied model of three layers, one length for all tokens costs "
        "what LayerNorm costs or more; sharing the matrix about doubles it",
        lambda rows: (
            abs(rows["one length for all tokens"] - rows["LayerNorm"]) < 0.05
            and 1.7 < rows["LayerNorm"] / rows["LayerNorm, output a copy"] < 2.5
            and min(rows.values()) > 0.1
        ),
    ),
    "noisy_batch_norm": (
        "in 200 steps at the best rates inputs move more with noise behind BatchNorm than without "
        "a norm, and it is still faster",
        lambda rows: rows["noisy batch"] < rows["none"] / 5,
    ),
    "noisy_batch_norm_longer": (
        "over 1,000 steps 78 % of BatchNorm's gain in training loss stay when noise shakes its "
        "outputs",
        lambda rows: (
            rows["none"] > 0 and round(100 * (1 - rows["noisy batch"] / rows["none"])) == 78
        ),
    ),
    "hundred_digits": (
        "on 100 digits, in 150 steps, LayerNorm fits less closely at one rate and more closely at "
        "three times that, its γ and β fit more closely, and BatchNorm's noise less at 0.03, more "
        "in 600 steps at 0.003",
        lambda rows: rows["γ and β, rate 0.03"] > 0 and rows["BatchNorm's noise, 150 steps"] > 0,
    ),
    "more_tokens_last_norm": (
        "in 1,000 steps of 1,024 tokens, untied, LayerNorm gains nothing visible by a last norm "
        "and RMSNorm a hundredth of a nat; without it they are level",
        lambda rows: (
            abs(rows["LN, without the last norm minus with it"]) < 0.01
            and round(rows["RMSNorm, without the last norm minus with it"], 2) == 0.01
            and abs(rows["RMSNorm minus LN, both without it"]) < 0.01
        ),
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
    "qk_norm": (
        "logits grow with the learning rate, and QK-norm bounds them",
        lambda rows: rows["rate 0.128"] < rows["rate 0.064"] < 0,
    ),
    "remedies": (
        "every remedy trains twelve layers without warm-up at rates where Post-LN stalls",
        lambda rows: len(rows) == 7 and all(0 < loss < 0.3 for loss in rows.values()),
    ),
    "rms_against_layer": (
        "in 300 steps, tied, with a norm at the end and the usual embeddings, RMSNorm ends ahead "
        "of LayerNorm, and no norm ahead of both",
        lambda rows: rows["no norm"] < rows["RMSNorm"] < -0.01,
    ),
    "scale_and_rate": (
        "in 150 steps of plain gradient descent without a norm one initial scale in five trains; "
        "with BatchNorm or LayerNorm all five do",
        lambda rows: 1 < rows["none"] <= 5 < rows["layer"] < rows["batch"],
    ),
    "scale_and_rate_adam": (
        "under Adam the network without a norm gets 90 % of the images right from torch's scale in "
        "1,000 steps, 31 % in 150; with BatchNorm 97 % and 94 %",
        lambda rows: (
            [
                f"{rows[f'{name}, {n} steps']:.0f}"
                for name in ("no norm", "BatchNorm")
                for n in (1000, 150)
            ]
            == ["90", "31", "97", "94"]
        ),
    ),
    "scale_and_rate_longer": (
        "in 1,500 steps of plain gradient descent without a norm 0.7 times He's scale trains, too, "
        "1.4 times gets less than half of the images right, and torch's stays at guessing",
        lambda rows: (
            min(rows["no norm, 0.71×"], rows["no norm, 1×"]) > 85
            and rows["no norm, 1.4×"] < 50
            and abs(rows["no norm, 0.41×"] - 10) < 0.5
        ),
    ),
    "rms_against_layer_longer": (
        "in 1,500 steps, tied, with a norm at the end and the usual embeddings, RMSNorm and "
        "LayerNorm are equivalent within 2% of perplexity, and no norm is 0.02 nats ahead of "
        "LayerNorm",
        lambda rows: abs(rows["RMSNorm"]) < 0.01 and round(rows["no norm"], 2) == -0.02,
    ),
    "statistics_outside": (
        "with the statistics outside the gradient a useless bias walks off, and in 150 steps the "
        "loss falls less",
        lambda rows: len(rows) == 4 and min(rows.values()) > 0.1,
    ),
    "larger_batches": (
        "with 1,024 tokens a step BatchNorm keeps up with LayerNorm in twelve layers",
        lambda rows: len(rows) == 2 and max(abs(value) for value in rows.values()) < 0.03,
    ),
    "embedding_sizes": (
        "in 300 steps embeddings of 16 times the usual size or more suit twelve layers with "
        "LayerNorm, RMSNorm or BatchNorm; Fixup needs its own size",
        lambda rows: (
            max(rows[f"{build}, {scale} times"] for build in NORMED for scale in (16, 64)) < 0.04
            and rows["Pre-RMSNorm, 16 times"] < 0.04
            and min(rows[f"{build}, 1 times"] for build in ("Pre-LN", "Pre-BatchNorm")) > 0.5
            and min(value for name, value in rows.items() if "Fixup" in name) > 0.1
        ),
    ),
    "more_tokens": (
        "where layers pay, twelve of them end lowest with a norm, a little higher with Fixup, "
        "higher still from Xavier's weights",
        lambda rows: (
            0.01 < rows["no norm, Fixup"] - max(rows["Pre-LN"], rows["Pre-RMSNorm"]) < 0.05
            and rows["no norm, Fixup"] + 0.05 < rows["no norm"] < 0
        ),
    ),
    "text_stability": (
        "in 300 steps, of three ways to train twelve layers without a norm, only Fixup comes near "
        "RMSNorm",
        lambda rows: (
            rows["no norm, 12 layers"] > 0.5
            and rows["no norm, scaled weights, 12 layers"] > 0.2
            and abs(rows["no norm, Fixup, 12 layers"]) < 0.02
        ),
    ),
    "from_start_norms": (
        "with BatchNorm from the start these models end less far behind LayerNorm than after a "
        "swap with γ and β copied, with PowerNorm further",
        lambda rows: (
            rows["BatchNorm from the start, minus LN"] > 0.03
            and rows["BatchNorm, swapped minus from the start"] > 0.03
            and rows["PN from the start, minus LN"] > 0.03
            and rows["PN, swapped minus from the start"] < -0.03
        ),
    ),
    "final_norm_longer": (
        "in 1,000 steps, at the usual embeddings, dynamic tanh is ahead of LayerNorm by two "
        "hundredths of a nat or less without the last norm, and behind tied with it",
        lambda rows: (
            all(-0.025 < rows[f"no final norm, {head}"] < -0.01 for head in ("tied", "untied"))
            and rows["final norm, tied"] > 0.03
        ),
    ),
    "fixup_factor_longer": (
        "on a million tokens twelve layers with Fixup's weights end a hundredth of a nat higher "
        "without the learned factor, well below no layers",
        lambda rows: round(rows["no norm, Fixup"], 2) == 0.01 and rows["no layers"] < -0.1,
    ),
    "fixup_factor": (
        "in 300 clipped steps twelve layers with Fixup's weights end 0.28 nats higher without the "
        "learned factor, each at its best rate, 0.09 at one rate, and diverge at Fixup's best",
        lambda rows: (
            round(rows["best rate of each"], 2) == 0.28 and round(rows["both at 0.016"], 2) == 0.09
        ),
    ),
    "small_starts": (
        "in 300 steps with three layers Fixup without a norm beats LayerNorm, tied or not, at the "
        "usual embeddings",
        lambda rows: (
            max(rows["Fixup, tied"], rows["Fixup, untied"]) < -0.07
            and rows["small gains, tied"] < -0.04
        ),
    ),
    "swapped_norms": (
        "after 100 steps on other text a LayerNorm model whose γ and β RMSNorm took over is level "
        "with one that kept LayerNorm; with PowerNorm it is behind by 0.06 nats, with BatchNorm by "
        "0.14",
        lambda rows: (
            abs(rows["RMSNorm"]) < 0.005
            and 0.055 < rows["PN"] < 0.065
            and 0.13 < rows["BatchNorm"] < 0.145
        ),
    ),
    "swapped_norms_fitted": (
        "with γ and β fitted to LayerNorm's outputs BatchNorm and PowerNorm begin level; BatchNorm "
        "ends about half as far behind LayerNorm as with copied ones, PowerNorm a little further",
        lambda rows: (
            abs(fitted_starts("batch") - fitted_starts("power")) < 0.01
            and 0.04 < rows["BatchNorm, minus LN"] < 0.08
            and -0.09 < rows["BatchNorm, minus copied"] < -0.06
            and 0.01 < rows["PN, minus copied"] < 0.03
        ),
    ),
    "tanh_embeddings": (
        "at three layers larger embeddings for both do not change who is ahead: tied dynamic tanh, "
        "untied LayerNorm",
        lambda rows: rows["tied"] < -0.05 and rows["untied"] > 0.04,
    ),
    "variance_growth_rates": (
        "Peri-LN, behind Pre-LN at 0.004, is ahead at larger rates; each at its best of three, for "
        "Peri-LN the largest, 0.064, it leads by 0.47, LN scaling by 0.19",
        lambda rows: (
            max(rows.values()) < -0.1
            and round(rows["Peri-LN, best rates"], 2) == -0.47
            and round(rows["LN scaling, best rates"], 2) == -0.19
        ),
    ),
    "qk_norm_longer": (
        "in 1,000 steps, embeddings of the usual size, QK-norm makes no visible difference at the "
        "best rate, and costs about 0.01 at half of it",
        lambda rows: abs(rows["rate 0.016"]) < 0.006 and round(rows["rate 0.008"], 2) == 0.01,
    ),
    "qk_norm_embeddings": (
        "with large embeddings QK-norm ends lower at the best rate, too, by 0.016 nats; 0.008 at "
        "half of it, 0.12 at twice",
        lambda rows: (
            round(rows["each at its best"], 3) == -0.016
            and round(rows["64 times, rate 0.032"], 3) == -0.008
            and round(rows["64 times, rate 0.128"], 2) == -0.12
        ),
    ),
    "qk_norm_embeddings_longer": (
        "in 1,000 steps with large embeddings QK-norm ends 0.04 nats lower at the best rate and "
        "0.02 at half of it",
        lambda rows: (
            round(rows["each at its best"], 2) == round(rows["64 times, rate 0.032"], 2) == -0.04
            and round(rows["64 times, rate 0.016"], 2) == -0.02
        ),
    ),
    "variance_growth_embeddings": (
        "with large embeddings twelve layers of Peri-LN end 0.003 nats above Pre-RMSNorm after 300 "
        "steps",
        lambda rows: round(rows["Peri-LN"], 3) == 0.003,
    ),
    "detach_norm_longer": (
        "in 900 steps at one rate a detached scale still ends far behind no norm, which is within "
        "0.001 of LayerNorm",
        lambda rows: rows["scale detached"] > 0.1 and abs(rows["no norm"]) < 0.001,
    ),
    "update_size": (
        "in the Post-LN run that fails, all tokens become alike and stay so, and the lowest "
        "gradient vanishes",
        lambda rows: (
            rows["post"] > 1
            and all(0.4 < rows[mended] < 0.8 for mended in ("post-small", "deepnorm"))
        ),
    ),
    "variance_growth": (
        "before training Pre-LN's stream grows about linearly with depth; after it faster at the "
        "two smaller rates, with 24 and 48 layers as a power",
        lambda rows: (
            1.9 < rows["pre, 24 layers, rate 0.004"] < rows["pre, 48 layers, rate 0.004"] < 2.6
            and rows["pre, 12 layers, rate 0.001"] > rows["pre, 12 layers, rate 0.004"] > 1.5
            and rows["pre, 12 layers, rate 0.016"] < 1.2
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
    "learning_rate_sweep": lambda of: all(
        of("test_error", activation=activation, norm=norm, scale=1.0, optimizer="sgd", rate=rate)
        < 0.05
        if norm == "batch"
        else of(
            "test_error", activation=activation, norm=norm, scale=1.0, optimizer="sgd", rate=rate
        )
        > 0.8
        for activation, rate in (("relu", 0.3), ("relu", 1.0), ("sigmoid", 0.1), ("sigmoid", 1.0))
        for norm in ("none", "batch")
    ),
    "loss_landscape": lambda of: (
        of("loss", hidden=5, norm="none", rate=0.1) < of("loss", hidden=5, norm="batch", rate=0.1)
    ),
    "loss_landscape_longer": lambda of: all(
        of("loss", hidden=5, norm="none", rate=rate)
        < of("loss", hidden=5, norm="batch", rate=rate) / 3
        for rate in (0.1, 0.3)
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
    "qk_norm": lambda of: (
        of("largest", qk_norm="none", learning_rate=0.128) > 50
        and of("largest", qk_norm="none", learning_rate=0.064) > 20
        and all(
            of("largest", qk_norm="rms", learning_rate=rate) < 10
            for rate in (0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
        )
    ),
    "fixup_factor": lambda of: (
        of("diverged", build="no norm, Fixup, factor fixed", learning_rate=4e-2) == 1
        and of("diverged", build="no norm, Fixup, factor fixed", learning_rate=1.6e-2) == 0
    ),
    "update_size": lambda of: (
        of("likeness", part="trace", wiring="post", warmup=0, learning_rate=4e-3) > 0.99
        and of("bottom", part="trace", wiring="post", warmup=0, learning_rate=4e-3) < 1e-4
        and of("likeness", part="trace", wiring="post", warmup=60, learning_rate=4e-3) < 0.5
        and of("bottom", part="trace", wiring="post", warmup=60, learning_rate=4e-3) > 1e-2
    ),
}
# These say that something is small, whatever its sign: what would be noticed is a large one.
SMALL = {
    "larger_batches": "Pre-BatchNorm",
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
    sentence, holds = FINDINGS[name]
    assert experiments.module_of(name).FINDING == sentence, "say in FINDINGS what the words mean"
    assert holds(means(name))


@pytest.mark.parametrize("name", FINDINGS)
def test_the_opposite_would_be_noticed(name):
    if name in SMALL:
        opposite = means(name) | {SMALL[name]: 0.05}
    else:
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


def shorter(name):
    """The best rates of the shorter runs."""
    return experiments.module_of(name).best_rates(experiments.load(name))


def fitted_starts(norm):
    """Mean test loss before fine-tuning with a norm whose γ and β were fitted."""
    return experiments.load("swapped_norms_fitted").values("before", norm=norm).mean()


def lowest_qk(norm: str, size: float) -> float:
    """The smallest mean validation loss with embeddings of this size, over the rates."""
    saved = experiments.load("qk_norm_embeddings_rates")
    return min(
        float(saved.values("validation", **c).mean())
        for c in saved.config["conditions"]
        if (c["qk_norm"], c["embedding_scale"]) == (norm, size)
    )


# What an experiment that chooses learning rates says of them, and what must hold of the best ones.
CHOSEN = {
    "rms_against_layer_longer_rates": (
        "at 1,500 steps the best rate of each of the three is half of that of 300",
        lambda best: all(rate == shorter("rms_rates")[cell] / 2 for cell, rate in best.items()),
    ),
    "fixup_factor_longer_rates": (
        "on a million tokens Fixup's weights have the same best rate of three without the learned "
        "factor as with it, and diverge at the largest",
        lambda best: (
            list(best.values())
            == [
                rate
                for (build, *_), rate in shorter("more_tokens_rates_none").items()
                if build == "no norm, Fixup"
            ]
            and experiments.load("fixup_factor_longer_rates").runs[0]["records"][-1]["diverged"]
        ),
    ),
    "from_start_norms_rates": (
        "on one seed BatchNorm and PowerNorm have the same best rate of four, half LayerNorm's",
        lambda best: (
            set(best.values()) == {swapped_norms.CONFIG.learning_rate / 2}
            and len(best) == 2
            and min(from_start_norms_rates.RATES)
            < min(best.values())
            < max(from_start_norms_rates.RATES)
        ),
    ),
    "final_norm_longer_rates": (
        "on one seed all six models have the same best rate of three, half of that in 300 steps",
        lambda best: (
            len(best) == 6
            and set(best.values()) == {sorted(final_norm_longer_rates.RATES)[1]}
            and all(
                final_norm.chosen(
                    experiments.load("final_norm"), norm=norm, final=final, tied=tied, scale=scale
                )["learning_rate"]
                == 2 * rate
                for (norm, final, tied, scale, *_), rate in best.items()
            )
        ),
    ),
    "fixup_factor_rates": (
        "without the learned factor Fixup's weights are best at a smaller rate than with it, and "
        "worse",
        lambda best: all(
            rate < shorter("text_stability_rates_12_none")["no norm, Fixup", depth, scale]
            for (_, depth, scale), rate in best.items()
        ),
    ),
    "swapped_norms_rates": (
        "on one seed LayerNorm, RMSNorm, BatchNorm and PowerNorm have the same best rate of five",
        lambda best: len(best) == 4 and set(best.values()) == {16e-3},
    ),
    "swapped_norms_fitted_rates": (
        "on two seeds BatchNorm and PowerNorm with fitted γ and β have the best rate of copied "
        "ones",
        lambda best: set(best) == {("batch",), ("power",)} and set(best.values()) == {16e-3},
    ),
    "qk_norm_embeddings_rates": (
        "on one seed 0.064 is the best rate, with QK-norm twice that at 256 times the embeddings; "
        "64 times is the best size with it, level with 256 without",
        lambda best: (
            {cell for cell, rate in best.items() if rate != 0.064} == {("rms", 256.0)}
            and best["rms", 256.0] == 0.128
            and np.argmin([lowest_qk("rms", size) for size in (16.0, 64.0, 256.0)]) == 1
            and abs(lowest_qk("none", 64.0) - lowest_qk("none", 256.0)) < 0.001
        ),
    ),
    "noisy_batch_norm_longer_rates": (
        "on one seed the best rates over 1,000 steps are those of 200: 0.1 without a norm, 1 with "
        "BatchNorm, with noise or without",
        lambda best: (
            best == {("none",): 0.1, ("batch",): 1.0, ("noisy batch",): 1.0}
            and best.items() <= {(k,): v for k, v in shorter("noisy_batch_norm").items()}.items()
        ),
    ),
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
    "rms_against_layer": (
        {},
        [
            {"norm": "layer", "loss": 1.0},
            {"norm": "rms", "loss": 1.5},
            {"norm": "none", "loss": 4.0},
        ],
        {"RMSNorm": 0.5, "no norm": 3.0},
    ),
    "variance_growth": (
        {"conditions": [{"wiring": "pre", "depth": 12, "learning_rate": 0.004}]},
        [
            {"wiring": "pre", "depth": 12, "learning_rate": 0.004, "last_over_middle": [2.0, 8.0]},
            {"wiring": "pre", "depth": 24, "learning_rate": 0.004, "last_over_middle": [1.0, 1.0]},
        ],
        {"pre, 12 layers, rate 0.004": 3.0},
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
HEADS = ("tied", "untied")
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
    "final_norm": (
        ("LayerNorm", "RMSNorm", "dynamic tanh"),
        ("final norm", "no final norm"),
        HEADS,
    ),
    "image_norms": (
        ("test images as they are", "shifted by one pixel", "with noise"),
        ("LayerNorm per pixel", "GroupNorm(1)", "no norm"),
    ),
    "larger_batches": (("Pre-BatchNorm", "Pre-BatchNorm, batch statistics"),),
    "logit_remedies": (
        ("QK-norm", "clipping", "weight decay", "soft cap"),
        ("rate 0.016", "rate 0.128"),
    ),
    "noisy_batch_norm": (("none", "noisy batch", "noise alone"),),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_rows_of_a_figure_say_what_they_show(name):
    every = {", ".join(words) for words in itertools.product(*WORDS[name])}
    found = set(means(name))
    assert found <= every
    for words in WORDS[name]:
        assert all(any(word in row for row in found) for word in words)


# --- held-out parts -------------------------------------------------------------------------------


SIZE = package_chunks.Size(width=8, heads=2, length=8, batch_size=4, steps=4, warmup=1)


def sentences_of(part: str) -> set[tuple[int, ...]]:
    documents = getattr(package_chunks.corpus_of(SIZE), part)
    return {tuple(np.asarray(sentence).tolist()) for doc in documents for sentence in doc}


def test_each_part_is_measured_on_its_own_sentences():
    for part in ("validation", "test"):
        documents = getattr(package_chunks.corpus_of(SIZE), part)
        stream = np.concatenate([sentence[:-1] for doc in documents for sentence in doc])
        text = f" {' '.join(map(str, stream.tolist()))} "
        for batch in package_chunks.held_out(SIZE, part):
            for chunk in batch.inputs[:4]:
                assert f" {' '.join(map(str, chunk.tolist()))} " in text


def test_no_test_sentence_is_in_another_part():
    test = sentences_of("test")
    assert len(test) > 1000
    # Up to the letters that no piece holds, which are all one token.
    for part in ("train", "validation"):
        assert len(test & sentences_of(part)) / len(test) < 0.001


def test_the_growth_of_the_stream_is_recorded_while_the_model_trains():
    config = variance_growth.Config(
        conditions=variance_growth.CONFIG.conditions[:1], size=SIZE, evaluate_every=2, kept=(2, 4)
    )
    (record,) = variance_growth.run(config, 0)
    assert record["steps"] == [0, 2, 4]
    assert len(record["stream"]) == len(record["last_over_middle"]) == 3
    assert record["stream"][0] != record["stream"][-1]
