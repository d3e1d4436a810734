"""Claims about RMSNorm; chapter 5 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies import Effect, experiments, study
from normtutor_studies.claims.ledger import (
    ASSISTANT,
    GUIDE,
    REVIEW,
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
from normtutor_studies.experiments import gru_statistics

CHAPTER = "05_rms_norm"
SPEED = Place(CHAPTER, "Speed, honestly")
SEVEN_TO_SIXTY_FOUR = Place(CHAPTER, "Where 7 to 64% comes from", in_depth=True)


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
    recorded="false",
    answer="It normalizes the mean square, which is the variance plus the squared mean.",
    condition="Only an input whose mean is 0 comes out with variance 1.",
)
def variance_only() -> Evidence:
    z = np.random.default_rng(0).normal(size=(1, 768))
    z = (z - z.mean()) / z.std()  # mean 0, variance 1
    return [
        Finding(
            "variance of RMSNorm's output, an input of mean 2 and variance 1",
            float(norms.rms_norm(2 + z)[0].var()),
            near(1, 0.01),
            "Normalizing the variance means making it 1.",
            form=".2f",
        ),
        Finding(
            "the same, an input of mean 0",
            float(norms.rms_norm(z)[0].var()),
            form=".2f",
        ),
        Finding(
            "mean square of the output, input of mean 2",
            float((norms.rms_norm(2 + z)[0] ** 2).mean()),
            form=".2f",
        ),
    ]


@claim(
    "Recentring makes a model insensitive to random noise.",
    met=GUIDE,
    place=Place(CHAPTER, "The mean in the residual stream", in_depth=True),
    recorded="false",
    answer="Recentring removes one direction of d, and noise lies in all of them.",
    condition="It removes completely a shift that is the same for all features, which is what "
    "{cite:t}`zhang2019rms` write about.",
)
def noise_removed() -> Evidence:
    noise = np.random.default_rng(0).normal(size=(2000, 768))
    left = noise - noise.mean(axis=1, keepdims=True)
    return [
        Finding(
            "share of the energy of independent noise that centring removes, d = 768",
            float(1 - (left**2).sum() / (noise**2).sum()),
            above(0.5),
            "To be insensitive to noise, a model must lose most of it.",
            form=".4f",
        )
    ]


@claim(
    "RMSNorm is 7 to 64% faster than LayerNorm.",
    met=f"the abstract of {{cite:t}}`zhang2019rms`, and {GUIDE}",
    place=SEVEN_TO_SIXTY_FOUR,
    recorded="partly",
    answer="That is time saved in the paper's programs; with fused kernels LayerNorm can "
    "be faster.",
    condition="The upper end belongs to pRMSNorm. Which norm is faster depends on how both "
    "are computed.",
)
def seven_to_sixty_four() -> Evidence:
    formula, built_in = _faster("formula"), _faster("torch")
    why = "The claim is that at least 7% of the time is saved."
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
    place=SEVEN_TO_SIXTY_FOUR,
    recorded="partly",
    answer="True of one of the paper's three programs, as time saved.",
    condition="In the two others the same model saved more, and less. A quarter less time is "
    "a third more speed.",
)
def rnnsearch() -> Evidence:
    return [
        Finding(
            "share of the time that RMSNorm saves against LayerNorm in RNNSearch, table 2",
            1 - 501 / 665,
            near(0.25, 0.02),
            "The claim says 25%; two points more or less are within rounding.",
            form=".1%",
            reported="zhang2019rms",
        ),
        *(
            Finding(
                "share of the time that RMSNorm saves in RNNSearch, another program",
                saved,
                near(0.25, 0.02),
                "The claim names the model and no program.",
                form=".1%",
                reported="zhang2019rms",
            )
            for saved in (0.34, 0.11)
        ),
        Finding(
            "BLEU of RMSNorm minus LayerNorm, mean of its two test sets",
            (22.4 + 23.7) / 2 - (22.6 + 23.6) / 2,
            near(0, 0.3),
            "Runs differ by some tenths in this score; within 0.3 counts as equal.",
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
    place=SPEED,
    recorded="false",
    answer="A fused LayerNorm beats an RMSNorm that is computed operation by operation.",
    condition="One counterexample is enough against *always*. Where both are computed "
    "operation by operation, RMSNorm is faster, because it computes less.",
)
def always_faster() -> Evidence:
    return [
        Finding(
            "RMSNorm's time over LayerNorm's, forward and backward on a CPU: the slowest of three "
            "shapes and three ways of computing",
            max(max(_faster(way)) for way in ("formula", "compiled", "torch")),
            below(1),
            "Always faster means a ratio below 1 in every case, the slowest included.",
            form=".2f",
        ),
        Finding(
            "the same as a formula, operation by operation, the slowest of three shapes",
            max(_faster("formula")),
            form=".2f",
        ),
    ]


#: 2% of perplexity, fixed before the first of these runs.
MARGIN = float(np.log(1.02))


def _without_the_mean() -> list[tuple[str, str, Effect]]:
    """RMSNorm's test loss minus LayerNorm's: each world of the study, the unit, the effect."""
    one = study("rms_against_layer")
    return [
        (world.title.lower(), world.unit, one.effect(world.name, "RMSNorm", "LayerNorm"))
        for world in one.worlds
    ]


@claim(
    "RMSNorm is as good as LayerNorm.",
    met=f"{{cite:t}}`zhang2019rms`, and {GUIDE}",
    place=Place(CHAPTER, "LayerNorm against RMSNorm"),
    recorded="true",
    scope="at our scale",
    answer="True in all our models, within a margin that was fixed beforehand.",
    condition="The margin is 2% of perplexity. That large models work with RMSNorm is no "
    "paired comparison.",
)
def as_good() -> Evidence:
    gru = gru_statistics.reported(experiments.load("gru_statistics"))
    return [
        *(
            Finding(
                f"RMSNorm's test loss minus LayerNorm's, {world}, six layers, each at its own rate "
                f"({unit})",
                over_seeds(effect.full),
                below(MARGIN),
                "As good means at most 2% of perplexity worse, with the whole interval.",
                form=".4f",
            )
            for world, unit, effect in _without_the_mean()
        ),
        Finding(
            "the same, a GRU on text (nats per character)",
            over_seeds(gru.values("loss", norm="rms") - gru.values("loss", norm="layer")),
            below(MARGIN),
            "2% of perplexity again.",
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
    "RMSNorm's validation scores equal LayerNorm's at every stage of training.",
    met=GUIDE,
    place=Place(CHAPTER, "How the test of equality was made", in_depth=True),
    recorded="open",
    answer="No difference shows in our Transformers; at half length the seeds do not exclude one.",
    condition="The margin is 2% of perplexity, fixed beforehand. The source shows it for one "
    "translation model, as two curves without intervals.",
)
def equal_throughout() -> Evidence:
    return [
        Finding(
            f"RMSNorm's test loss minus LayerNorm's, {world}, {when} ({unit})",
            over_seeds(values),
            near(0, MARGIN),
            "Equal means within 2% of perplexity, with the whole interval.",
            form=".4f",
        )
        for world, unit, effect in _without_the_mean()
        for when, values in (("at half length", effect.half), ("at full length", effect.full))
    ]


@claim(
    "LayerNorm works because it keeps the activations normalized in the forward pass.",
    met=TUTORIALS,
    place=Place(CHAPTER, "Nine norms in numbers", in_depth=True),
    recorded="open",
    answer="Normalized activations were not enough in our models; why is undecided.",
    condition="With the forward pass as it is and without the gradient of the scale, training "
    "is worse than without a norm. But such steps follow no gradient of the loss. "
    "{cite:t}`xu2019` conclude from larger models that the gradients of the "
    "statistics matter more than the forward pass.",
)
def forward_alone() -> Evidence:
    saved = experiments.load("detach_norm")

    def gain(rate: float) -> Interval:
        where = {"centre": "on", "learning_rate": rate}
        detached = saved.values("loss", scale="detached", **where)
        none = saved.values("loss", scale="off", centre="off", learning_rate=rate)
        return over_seeds(detached - none)

    return [
        *(
            Finding(
                f"test loss with forward normalization alone minus without a norm, rate {rate:g}",
                gain(rate),
                below(0),
                "Were normalized activations enough, they would beat no norm.",
                form=".2f",
            )
            for rate in (0.0005, 0.002, 0.008, 0.032)
        ),
        Unsettled(
            "Without the gradient of the scale a step is no gradient step, so the normalized "
            "activations may help and the wrong direction undo it.",
            "Keep the scale of the activations without a norm, by rescaling the weights after each "
            "step, follow the true gradient, and compare the loss with LayerNorm's and no norm's, "
            "each at its best rate.",
        ),
    ]


@claim(
    "Centring is half of LayerNorm, and dropping it costs quality that one can notice.",
    met="forums",
    place=Place(CHAPTER, "Nine norms in numbers", in_depth=True),
    recorded="false",
    scope="at our scale",
    answer="In our models dropping it cost nothing that one could notice.",
    condition="To notice takes 2% of perplexity here, a margin that was fixed beforehand.",
)
def centring_matters() -> Evidence:
    saved = experiments.load("detach_norm")
    where = {"scale": "on", "learning_rate": 0.008}  # the best rate with centring and without
    dropped = saved.values("loss", centre="off", **where) - saved.values(
        "loss", centre="on", **where
    )
    return [
        *(
            Finding(
                f"test loss without the mean minus with it, {world} ({unit})",
                over_seeds(effect.full),
                above(MARGIN),
                "Less than 2% of perplexity nobody notices.",
                form=".4f",
            )
            for world, unit, effect in _without_the_mean()
        ),
        Finding(
            "the same, sorting (nats per digit)",
            over_seeds(dropped),
            form=".4f",
        ),
    ]


@claim(
    "The root mean square can be estimated from a small share of the entries without loss.",
    met="summaries of pRMSNorm {cite:p}`zhang2019rms`",
    place=Place(CHAPTER, "pRMSNorm: the scale from a few entries", in_depth=True),
    recorded="open",
    answer="A few entries give a rough scale; whether that costs quality is undecided.",
    condition="What counts is the number of entries, not the share "
    "({prf:ref}`thm-rms-partial`). In our GRU the seeds neither show a loss nor "
    "exclude one.",
)
def from_a_few_entries() -> Evidence:
    gru = gru_statistics.reported(experiments.load("gru_statistics"))
    loss = {norm: gru.values("loss", norm=norm) for norm in ("partial", "rms", "layer")}
    x = np.random.default_rng(0).normal(size=(2000, 1024))
    whole = np.sqrt((x**2).mean(axis=1))

    def error(count: int) -> float:
        return float(np.std(np.sqrt((x[:, :count] ** 2).mean(axis=1)) / whole - 1))

    return [
        Finding(
            "BLEU of a Transformer with pRMSNorm minus RMSNorm, mean of two test sets",
            (26.5 + 27.8) / 2 - (26.8 + 27.7) / 2,
            above(-0.3),
            "Runs differ by some tenths in this score; a loss within 0.3 counts as none.",
            form=".1f",
            reported="zhang2019rms",
        ),
        Finding(
            "test loss of our GRU with a sixteenth of the entries, 4 and 8 of them, minus "
            "RMSNorm's (nats per character)",
            over_seeds(loss["partial"] - loss["rms"]),
            below(MARGIN),
            "2% of perplexity counts as none.",
            form=".3f",
        ),
        Finding(
            "the same minus LayerNorm's",
            over_seeds(loss["partial"] - loss["layer"]),
            form=".3f",
        ),
        Finding("relative error of the estimate from 8 entries", error(8), form=".1%"),
        Finding("from 256 entries", error(256), form=".1%"),
        Unsettled(
            "Six seeds at one width leave the difference open.",
            "Train both, each at its own best rate, over more seeds and several widths at a fixed "
            "share of the entries, and compare the losses paired by seed.",
        ),
    ]


@claim(
    "Large language models have no mean to remove, which is why RMSNorm suffices.",
    met="reports on trained models, for instance {cite:t}`gupta2024`",
    place=Place(CHAPTER, "The mean in the residual stream", in_depth=True),
    recorded="open",
    answer="Reported of finished models; whether it is the reason is undecided.",
    condition="A finished model does not show whether training avoids the mean or merely never "
    "feeds it. In a Pre-LN model with LayerNorm the loss has no gradient along the mean.",
)
def no_mean_to_remove() -> Evidence:
    noise = np.random.default_rng(0).normal(size=(2000, 768))
    return [
        Finding(
            "share of a random token's energy along the all-ones direction, in units of 1/d",
            float(768 * (noise.mean(axis=1) ** 2 / (noise**2).mean(axis=1)).mean()),
            form=".1f",
        ),
        Unsettled(
            "A finished model does not show whether training avoids the mean or merely never feeds "
            "it.",
            "Train one large model twice, with LayerNorm and with RMSNorm and otherwise alike, and "
            "follow the share along the all-ones direction from the first step.",
        ),
    ]


@claim(
    "The norm of a trained model cannot be replaced by another before fine-tuning.",
    met=REVIEW,
    place=Place(CHAPTER, "When the two are the same"),
    recorded="false",
    answer="RMSNorm can take LayerNorm's place and compute the same.",
    condition="The weights that write to the stream are recentred, and β moves into the next "
    "matrix ({prf:ref}`thm-rms-convert`). For norms with statistics of a batch it is open.",
)
def norm_replaced() -> Evidence:
    rng = np.random.default_rng(0)
    weight, bias, gain, shift = rng.normal(size=(64, 48)), *rng.normal(size=(3, 64))
    hidden = rng.normal(size=(100, 48))
    old = norms.layer_norm(hidden @ weight.T + bias, gain, shift)[0]
    centred = (hidden @ (weight - weight.mean(axis=0)).T) + bias - bias.mean()
    new = norms.rms_norm(centred, gain, eps=1e-5)[0] + shift
    return [
        Finding(
            "largest difference between LayerNorm's output and RMSNorm's behind recentred weights",
            float(np.abs(old - new).max()),
            above(1e-6),
            "A norm that cannot be replaced would change what the model computes.",
            form=".0e",
        )
    ]


@claim(
    "LayerNorm's gain and bias cause overfitting.",
    met="reviews of {cite:t}`xu2019`",
    place=Place(CHAPTER, "Nine norms in numbers", in_depth=True),
    recorded="open",
    answer="Better without them on half of eight data sets, which decides nothing.",
    condition="{cite:t}`xu2019` find LayerNorm better without them on half of their data "
    "sets. To overfit is to end with a wider gap between test and training loss.",
)
def gain_and_bias_overfit() -> Evidence:
    return [
        Finding(
            "data sets of eight on which LayerNorm without gain and bias is better",
            4,
            form=".0f",
            reported="xu2019",
        ),
        Unsettled(
            "Better on half of the data sets is what chance would give, and a better test score "
            "alone does not show less overfitting.",
            "Train with and without gain and bias on several seeds and on shrinking shares of one "
            "text, and compare the gaps between training and test loss.",
        ),
    ]
