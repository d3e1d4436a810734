"""Claims about RMSNorm; chapter 5 explains them."""

import numpy as np

from normtutor import experiments, norms
from normtutor.claims.ledger import (
    ASSISTANT,
    GUIDE,
    TUTORIALS,
    Evidence,
    Finding,
    Interval,
    Place,
    Unsettled,
    above,
    below,
    claim,
    near,
    over_seeds,
)
from normtutor.experiments import text_stability

CHAPTER = "05_rms_norm"
MEASURED = Place(CHAPTER, "Measured")


def _faster(way: str) -> list[float]:
    """RMSNorm's time over LayerNorm's, forward and backward, one number a shape."""
    saved = experiments.load("norm_speed")
    where = {"what": "forward and backward", "norm": "rms", "way": way}
    return [
        float(np.median(saved.values("to_layer", shape=shape, **where)[:, 1]))
        for shape in saved.config["shapes"]
    ]


def _saved_of_the_step(model: str, way: str) -> float:
    """The share of a training step that RMSNorm saves against LayerNorm."""
    saved = experiments.load("norm_speed")
    ratios = saved.values("to_layer", what=f"{model} step", way=way, norm="rms")[:, 1]
    return 1 - float(np.median(ratios))


@claim(
    "RMSNorm normalizes the variance only.",
    met=ASSISTANT,
    place=Place(CHAPTER, "RMSNorm: drop one statistic"),
    recorded="half",
    condition="True of an input whose mean is 0. RMSNorm divides by the root of the mean *square*, "
    "which is the variance plus the squared mean; it is the mean square that always becomes 1.",
)
def variance_only() -> Evidence:
    z = np.random.default_rng(0).normal(size=(1, 768))
    z = (z - z.mean()) / z.std()  # mean 0, variance 1
    saved = experiments.load("rms_against_layer")
    why = "To normalize the variance is to make it 1."
    return [
        *(
            Finding(
                f"variance of RMSNorm's output, an input of mean {mean} and variance 1",
                float(norms.rms_norm(mean + z)[0].var()),
                near(1, 0.01),
                why,
                form=".2f",
            )
            for mean in (2, 0)
        ),
        Finding(
            "mean square of the output, input of mean 2",
            float((norms.rms_norm(2 + z)[0] ** 2).mean()),
            form=".2f",
        ),
        Finding(
            "variance of the output at the end of our models that were trained with RMSNorm",
            over_seeds(1 - saved.values("end_ones", norm="rms")[:, -1]),
            form=".3f",
        ),
    ]


@claim(
    "Recentring makes a model insensitive to random noise.",
    met=GUIDE,
    place=Place(CHAPTER, "Is there a mean to remove?"),
    recorded="false",
    condition="It removes one direction of d. Of noise without a preferred direction it takes away "
    "the share 1/d. A shift that is the same for all features, of which {cite:t}`zhang2019rms` "
    "speak, it removes altogether.",
)
def noise_removed() -> Evidence:
    noise = np.random.default_rng(0).normal(size=(2000, 768))
    left = noise - noise.mean(axis=1, keepdims=True)
    return [
        Finding(
            "share of the energy of independent noise that centring removes, d = 768",
            float(1 - (left**2).sum() / (noise**2).sum()),
            above(0.5),
            "To be insensitive, a model must be rid of most of it.",
            form=".4f",
        )
    ]


@claim(
    "RMSNorm is 7 to 64% faster than LayerNorm.",
    met=f"the abstract of {{cite:t}}`zhang2019rms`, and {GUIDE}",
    place=Place(CHAPTER, "Where 7 to 64 % comes from"),
    recorded="half",
    condition="The time of whole models, in programs of 2019 without fused norms. The upper end "
    "belongs to pRMSNorm. What is faster depends on what is compared.",
)
def seven_to_sixty_four() -> Evidence:
    formula, built_in = _faster("formula"), _faster("torch")
    why = "Faster by 7% or more."
    return [
        Finding(
            "largest saving of RMSNorm in the paper's tables",
            0.408,
            near(0.64, 0.01),
            "The upper end of the claim.",
            form=".1%",
            reported="zhang2019rms",
        ),
        Finding("largest saving of pRMSNorm there", 0.639, form=".1%", reported="zhang2019rms"),
        Finding(
            "time saved by RMSNorm as a formula, operation by operation, the worst of three shapes",
            1 - max(formula),
            above(0.07),
            why,
            form=".0%",
        ),
        Finding(
            "time saved by RMSNorm with torch's own functions on a CPU, the best of three shapes",
            1 - min(built_in),
            above(0.07),
            why,
            form=".0%",
        ),
        Finding(
            "time saved compiled, the best of three shapes",
            1 - min(_faster("compiled")),
            form=".0%",
        ),
    ]


@claim(
    "In RNNSearch, RMSNorm trains 25% faster at equal BLEU.",
    met=GUIDE,
    place=Place(CHAPTER, "Where 7 to 64 % comes from"),
    recorded="true",
    condition="Rests on table 2 of {cite:t}`zhang2019rms`: one framework of 2019, one run a "
    "row. In two other programs the same model gained 34.0 and 11.0%. Our GRU is a fourth.",
)
def rnnsearch() -> Evidence:
    return [
        Finding(
            "share of the time for 1000 steps that RMSNorm saves against LayerNorm",
            1 - 501 / 665,
            near(0.25, 0.02),
            "25%, to two points.",
            form=".1%",
            reported="zhang2019rms",
        ),
        Finding(
            "BLEU of RMSNorm minus LayerNorm, mean of its two test sets",
            (22.4 + 23.7) / 2 - (22.6 + 23.6) / 2,
            near(0, 0.3),
            "Equal to the accuracy of a score of which runs differ by some tenths.",
            form=".2f",
            reported="zhang2019rms",
        ),
        Finding(
            "saved by RMSNorm in a step of our GRU, as a formula",
            _saved_of_the_step("gru", "formula"),
            form=".0%",
        ),
        Finding(
            "saved in a step of our GRU with torch's own functions",
            _saved_of_the_step("gru", "torch"),
            form=".0%",
        ),
    ]


@claim(
    "RMSNorm is always faster than LayerNorm, because it computes less.",
    met=TUTORIALS,
    place=MEASURED,
    recorded="half",
    condition="True of the formula, operation by operation, where it computes less. What counts "
    "otherwise is the kernel: a fused LayerNorm beats an RMSNorm that is taken apart into "
    "operations.",
)
def always_faster() -> Evidence:
    why = "Always faster is below 1 in every way of computing, even in the slowest shape."
    return [
        Finding(
            "RMSNorm's time over LayerNorm's, torch's own functions on a CPU, forward and "
            "backward: the largest of three shapes",
            max(_faster("torch")),
            below(1),
            why,
            form=".2f",
        ),
        Finding(
            "the same as a formula, operation by operation",
            max(_faster("formula")),
            below(1),
            why,
            form=".2f",
        ),
    ]


@claim(
    "RMSNorm is as good as LayerNorm.",
    met=f"{{cite:t}}`zhang2019rms`, and {GUIDE}",
    place=Place(CHAPTER, "LayerNorm against RMSNorm: a test of equality"),
    recorded="true",
    condition="Shown for small models, to within 2% of perplexity. That large models work with "
    "RMSNorm is no paired comparison.",
)
def as_good() -> Evidence:
    saved = experiments.load("rms_against_layer")
    difference = saved.values("loss", norm="rms") - saved.values("loss", norm="layer")
    gru = experiments.load("gru_statistics")
    sorting = experiments.load("detach_norm")
    deep = text_stability.losses(experiments.load("text_stability"), 12)
    where = {"scale": "on", "learning_rate": 0.0005}
    margin = saved.config["margin"]
    why = (
        "As good is at most 2% of perplexity worse; the margin was fixed before the first of "
        "these runs, and the whole interval must keep to it."
    )
    return [
        Finding(
            "test loss minus LayerNorm's, language model of three layers (nats per token)",
            over_seeds(difference),
            below(margin),
            why,
            form=".4f",
        ),
        Finding(
            "test loss minus LayerNorm's, twelve layers, where ordinary weights need a norm "
            "(nats per token)",
            over_seeds(deep["Pre-RMSNorm"] - deep["Pre-LN"]),
            below(margin),
            why,
            form=".4f",
        ),
        Finding(
            "validation loss minus LayerNorm's, GRU, where a norm helps (nats per character)",
            over_seeds(gru.values("loss", norm="rms") - gru.values("loss", norm="layer")),
            below(margin),
            why,
            form=".4f",
        ),
        Finding(
            "test loss minus LayerNorm's, sorting at a small rate, where a norm helps (nats per "
            "digit)",
            over_seeds(
                sorting.values("loss", centre="off", **where)
                - sorting.values("loss", centre="on", **where)
            ),
            below(margin),
            why,
            form=".4f",
        ),
        Finding(
            "test error on CIFAR-10 minus LayerNorm's, percentage points",
            8.83 - 10.49,
            form=".2f",
            reported="zhang2019rms",
        ),
    ]


@claim(
    "LayerNorm works because it keeps the activations normalized in the forward pass.",
    met=TUTORIALS,
    place=Place(CHAPTER, "What in LayerNorm does the work?"),
    recorded="false",
    condition="The forward pass alone does not help: with the gradient of the scale left out, the "
    "activations are normalized as before and training is worse than without a norm. Measured on "
    "sorting; {cite:t}`xu2019` argue the same from larger models.",
)
def forward_alone() -> Evidence:
    saved = experiments.load("detach_norm")

    def gain(rate: float) -> Interval:
        where = {"centre": "on", "learning_rate": rate}
        detached = saved.values("loss", scale="detached", **where)
        none = saved.values("loss", scale="off", centre="off", learning_rate=rate)
        return over_seeds(detached - none)

    return [
        Finding(
            f"test loss with forward normalization alone minus without a norm, rate {rate:g}",
            gain(rate),
            below(0),
            "If the forward pass did the work, it would beat no norm.",
            form=".2f",
        )
        for rate in (0.0005, 0.002, 0.008)
    ]


@claim(
    "Centring is half of LayerNorm, and dropping it costs quality that one can notice.",
    met="forums",
    place=Place(CHAPTER, "What in LayerNorm does the work?"),
    recorded="false",
    condition="In these models the scale does the work. A model trained with LayerNorm even keeps "
    "its loss when the centring is switched off afterwards, because nothing feeds that "
    "direction ({prf:ref}`prop-rms-blind`).",
)
def centring_matters() -> Evidence:
    saved = experiments.load("detach_norm")
    where = {"scale": "on", "learning_rate": 0.008}  # the best rate with centring and without
    dropped = saved.values("loss", centre="off", **where) - saved.values(
        "loss", centre="on", **where
    )
    trained = experiments.load("rms_against_layer")
    layer = trained.values("loss", norm="layer")
    switched = trained.values("loss_without_centring", norm="layer") - layer
    why = "A hundredth of a nat is 1% of probability per token; less nobody notices."
    return [
        Finding(
            "test loss without centring minus with it, language model of three layers (nats per "
            "token)",
            over_seeds(trained.values("loss", norm="rms") - layer),
            above(0.01),
            why,
            form=".4f",
        ),
        Finding(
            "test loss without centring minus with it, sorting (nats per digit)",
            over_seeds(dropped),
            above(0.01),
            why,
            form=".4f",
        ),
        Finding(
            "test loss of a trained LayerNorm model after its centring is switched off, minus "
            "before (nats per token)",
            over_seeds(switched),
            above(0.01),
            why,
            form=".4f",
        ),
    ]


@claim(
    "The root mean square can be estimated from a small share of the entries without loss.",
    met="summaries of pRMSNorm {cite:p}`zhang2019rms`",
    place=Place(CHAPTER, "pRMSNorm: the scale from a few entries"),
    recorded="half",
    condition="What counts is the number of entries, not the share "
    "({prf:ref}`thm-rms-partial`). From 4 or 8 entries it costs quality; from more it need not.",
)
def from_a_few_entries() -> Evidence:
    gru = experiments.load("gru_statistics")
    difference = gru.values("loss", norm="partial") - gru.values("loss", norm="layer")
    x = np.random.default_rng(0).normal(size=(2000, 1024))
    whole = np.sqrt((x**2).mean(axis=1))

    def error(count: int) -> float:
        return float(np.std(np.sqrt((x[:, :count] ** 2).mean(axis=1)) / whole - 1))

    return [
        Finding(
            "BLEU of a Transformer with pRMSNorm minus RMSNorm, mean of two test sets",
            (26.5 + 27.8) / 2 - (26.8 + 27.7) / 2,
            above(-0.3),
            "Without loss to the accuracy of a score of which runs differ by some tenths.",
            form=".1f",
            reported="zhang2019rms",
        ),
        Finding(
            "validation loss of our GRU with a sixteenth of the entries, 4 and 8 of them, minus "
            "LayerNorm's (nats per character)",
            over_seeds(difference),
            below(experiments.load("rms_against_layer").config["margin"]),
            "Without loss is within 2% of perplexity, as for RMSNorm.",
            form=".3f",
        ),
        Finding("relative error of the estimate from 8 entries", error(8), form=".1%"),
        Finding("from 256 entries", error(256), form=".1%"),
    ]


@claim(
    "Large language models have no mean to remove, which is why RMSNorm suffices.",
    met="reports on trained models, for instance {cite:t}`gupta2024`",
    place=Place(CHAPTER, "Is there a mean to remove?"),
    recorded="open",
    condition="In our LayerNorm models the mean is gone because nothing feeds it; in our RMSNorm "
    "models it is there, as large as any other direction, and does no harm.",
)
def no_mean_to_remove() -> Evidence:
    saved = experiments.load("rms_against_layer")
    width = saved.config["width"]

    def share(norm: str) -> Interval:
        return over_seeds(width * saved.values("end_ones", norm=norm)[:, -1])

    return [
        Finding(
            "energy along the all-ones direction after training with LayerNorm, in units of 1/d",
            share("layer"),
            form=".2f",
        ),
        Finding("after training with RMSNorm", share("rms"), form=".2f"),
        Unsettled(
            "Whether large models avoid the mean or merely never feed it looks alike in a "
            "finished model.",
            "Train one large model twice, with LayerNorm and with RMSNorm, the rest alike, and "
            "follow the share along the all-ones direction from the first step.",
        ),
    ]
