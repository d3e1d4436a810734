"""Claims about RMSNorm; chapter 5 explains them."""

from collections.abc import Callable

import numpy as np

from normtutor import norms
from normtutor_studies import study
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    Range,
    Unsettled,
    above,
    apart,
    below,
    claim,
    near,
)
from normtutor_studies.tables.ch05 import SHAPES, time_of_rms

CHAPTER = "05_rms_norm"


def _faster(way: str) -> list[float]:
    """RMSNorm's time over LayerNorm's, forward and backward, one number per shape."""
    return [float(np.median(time_of_rms(study("norm_speed"), way, shape))) for shape in SHAPES]


@claim(
    "RMSNorm normalizes the variance only.",
    met=sources.ASSISTANT,
    place=Place(CHAPTER, "RMSNorm: drop one statistic"),
    recorded="false",
    answer="It normalizes the mean square, which is the variance plus the squared mean.",
    condition="Only an input whose mean is 0 comes out with variance 1.",
)
def variance_only() -> Findings:
    z = np.random.default_rng(0).normal(size=(1, 768))
    z = (z - z.mean()) / z.std()  # mean 0, variance 1
    yield Finding(
        "variance of RMSNorm's output, an input of mean 2 and variance 1",
        float(norms.rms_norm(2 + z)[0].var()),
        near(1, 0.01, "Normalizing the variance means making it 1."),
    )
    yield Finding("the same, an input of mean 0", float(norms.rms_norm(z)[0].var()))


@claim(
    "Recentring makes a model insensitive to random noise.",
    met=sources.GUIDE,
    place=Place(CHAPTER, "The mean in the residual stream", in_depth=True),
    recorded="false",
    answer="Recentring removes one direction of d, and noise lies in all of them.",
    condition="{cite:t}`zhang2019rms` write about a shift that is the same for all features, and "
    "that it removes completely.",
)
def noise_removed() -> Findings:
    noise = np.random.default_rng(0).normal(size=(2000, 768))
    yield Finding(
        "share of the energy of independent noise that centring removes, d = 768",
        float((noise.mean(axis=1) ** 2).mean() / (noise**2).mean()),
        above(0.5, "To be insensitive to noise, a model must lose most of it."),
    )


@claim(
    "RMSNorm is 7 to 64% faster than LayerNorm.",
    met=f"the abstract of {{cite:t}}`zhang2019rms`, and {sources.GUIDE}",
    place=Place(CHAPTER, "Where 7 to 64% comes from", in_depth=True),
    recorded="partly",
    answer="That is time saved in the paper's programs; a fused LayerNorm beats an RMSNorm that is "
    "not fused.",
    condition="The upper end belongs to pRMSNorm.",
)
def seven_to_sixty_four() -> Findings:
    lower = above(0.07, "The claim is that at least 7% of the time is saved.")
    yield Finding(
        "largest saving of RMSNorm in the paper's tables",
        0.408,
        near(0.64, 0.01, "The upper end of the claim."),
        form=".1%",
        reported="zhang2019rms",
    )
    yield Finding(
        "time saved by RMSNorm as a formula, operation by operation, the worst of three shapes",
        1 - max(_faster("formula")),
        lower,
        form=".0%",
    )
    yield Finding(
        "time saved by RMSNorm with torch's own functions on a CPU, the best of three shapes",
        1 - min(_faster("torch")),
        lower,
        form=".0%",
    )


@claim(
    "RMSNorm is always faster than LayerNorm, because it computes less.",
    met=sources.TUTORIALS,
    place=Place(CHAPTER, "Speed, honestly"),
    recorded="false",
    answer="A fused LayerNorm beats an RMSNorm that is computed operation by operation.",
    condition="Where both are computed operation by operation, RMSNorm is faster, because it "
    "computes less.",
)
def always_faster() -> Findings:
    yield Finding(
        "RMSNorm's time over LayerNorm's, forward and backward on a CPU: the slowest of three "
        "shapes and three ways of computing",
        max(max(_faster(way)) for way in ("formula", "compiled", "torch")),
        below(1, "Always faster means a ratio below 1 in every case, the slowest included."),
    )
    yield Finding(
        "the same as a formula, operation by operation, the slowest of three shapes",
        max(_faster("formula")),
    )


def _without_the_mean(claimed: Callable[[float, str], Range], why: str) -> Findings:
    """RMSNorm's test loss minus LayerNorm's, judged by a tenth of what LayerNorm gains."""
    gru, one = study("gru_statistics"), study("rms_against_layer")
    gain = gru.effect("gru_statistics", "no norm", "LayerNorm").full.mean()
    yield Finding(
        "test loss without the mean minus with it, RMSNorm against LayerNorm, a network of GRUs on "
        "text, each at its own rate (nats per character)",
        gru.effect("gru_statistics", "RMSNorm", "LayerNorm").full,
        claimed(float(gain) / 10, why),
    )
    for world in one.worlds:
        yield Finding(
            f"the same, {world.title.lower()}, six layers, where there is no such margin "
            f"({world.unit})",
            one.effect(world.name, "RMSNorm", "LayerNorm").full,
        )


@claim(
    "RMSNorm is as good as LayerNorm.",
    met=f"{{cite:t}}`zhang2019rms`, and {sources.GUIDE}",
    place=Place(CHAPTER, "LayerNorm against RMSNorm"),
    recorded="true",
    scope="at our scale",
    answer="True where we could tell: in none of our models was the loss measurably higher.",
    condition="The margin is a tenth of what LayerNorm gains over no norm, fixed beforehand; the "
    "six-layer models have none. That large models work with RMSNorm is no paired comparison.",
)
def as_good() -> Findings:
    good = "As good means worse by at most a tenth of what LayerNorm gains."
    yield from _without_the_mean(below, good)


@claim(
    "LayerNorm works because it keeps the activations normalized in the forward pass.",
    met=sources.TUTORIALS,
    place=Place(CHAPTER, "Nine norms in numbers", in_depth=True),
    recorded="open",
    answer="With normalized activations alone our models learned more slowly; why is undecided.",
    condition="{cite:t}`xu2019` conclude from larger models that the gradients of the statistics "
    "matter more than the forward pass.",
)
def forward_alone() -> Findings:
    saved = study("detach_norm")

    def gain(rate: float) -> np.ndarray:
        """Without the gradient of the scale, minus without a norm."""
        detached = saved.read("loss", scale="detached", centre="on", rate=rate)
        return detached - saved.read("loss", scale="off", centre="off", rate=rate)

    for rate in (0.002, 0.008):
        yield Finding(
            f"test loss with forward normalization alone minus without a norm, rate {rate:g}",
            gain(rate),
            below(0, "Were normalized activations enough, they would beat no norm."),
        )
    yield Unsettled(
        "Without the gradient of the scale a step is no gradient step, so the normalized "
        "activations may help and the wrong direction undo it.",
        "Keep the scale of the activations without a norm, by rescaling the weights after each "
        "step, follow the true gradient, and compare the loss with LayerNorm's and no norm's, each "
        "at its best rate.",
    )


@claim(
    "Centring is half of LayerNorm, and dropping it costs quality that one can notice.",
    met="forums",
    place=Place(CHAPTER, "Nine norms in numbers", in_depth=True),
    recorded="false",
    scope="at our scale",
    answer="In our models dropping it cost nothing that one could notice.",
    condition="To notice takes a tenth of what LayerNorm gains over no norm, a margin that was "
    "fixed beforehand.",
)
def centring_matters() -> Findings:
    costs = "Half of LayerNorm would cost a tenth of what LayerNorm gains, or more."
    yield from _without_the_mean(above, costs)


@claim(
    "Large language models have no mean to remove, which is why RMSNorm suffices.",
    met="reports on trained models, for instance {cite:t}`gupta2024`",
    place=Place(CHAPTER, "The mean in the residual stream", in_depth=True),
    recorded="open",
    answer="Reported of finished models; whether it is the reason is undecided.",
    condition="In a Pre-LN model with LayerNorm the loss has no gradient along the mean.",
)
def no_mean_to_remove() -> Findings:
    yield Unsettled(
        "A finished model does not show whether training avoids the mean or merely never feeds it.",
        "Train one large model twice, with LayerNorm and with RMSNorm and otherwise alike, and "
        "follow the share along the all-ones direction from the first step.",
    )


@claim(
    "The norm of a trained model cannot be replaced by another before fine-tuning.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "When the two are the same"),
    recorded="false",
    answer="In a Pre-LN model RMSNorm can take LayerNorm's place and compute the same.",
    condition="The weights that write to the stream are recentred, and β moves into the next "
    "matrix ({prf:ref}`thm-rms-convert`). For norms with statistics of a batch it is open.",
)
def norm_replaced() -> Findings:
    rng = np.random.default_rng(0)
    weight, bias, gain, shift = rng.normal(size=(64, 48)), *rng.normal(size=(3, 64))
    hidden = rng.normal(size=(100, 48))
    old = norms.layer_norm(hidden @ weight.T + bias, gain, shift)[0]
    centred = (hidden @ (weight - weight.mean(axis=0)).T) + bias - bias.mean()
    new = norms.rms_norm(centred, gain, eps=1e-5)[0] + shift
    yield Finding(
        "largest difference between LayerNorm's output and RMSNorm's behind recentred weights",
        apart(old, new),
        above(1e-6, "A norm that cannot be replaced would change what the model computes."),
    )
