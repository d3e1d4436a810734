"""Claims about PowerNorm; chapter 6 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies import study
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Evidence,
    Finding,
    Place,
    Unsettled,
    above,
    below,
    claim,
    near,
)
from normtutor_studies.measures.power_statistics import QUANTITIES

CHAPTER = "06_power_norm"


@claim(
    "PowerNorm has no gap between training and evaluation, because it uses running statistics.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "What PowerNorm does"),
    recorded="true",
    scope="at our scale",
    answer="True; on the same mixed batches our BatchNorm models had hardly one either.",
    condition="Programs add a warm-up, in which training divides by the batch.",
)
def no_gap() -> Evidence:
    def gap(world: str, label: str) -> np.ndarray:
        """Test loss in evaluation minus with the statistics of training, after training."""
        one = study(f"power_norm_on_{world}")
        return one.final(world, label) - one.values(world, label, "batch_loss")[:, -1]

    none = near(0, 0.01, "No gap is less than a hundredth of a nat.")
    return [
        *(
            Finding(
                f"{world}, six layers, batches of 16: PowerNorm's test loss in evaluation minus in "
                "training mode (nats)",
                gap(world, "PowerNorm, 16"),
                none,
            )
            for world in ("formulas", "code")
        ),
        *(
            Finding(f"{world}: the same with BatchNorm", gap(world, "BatchNorm, 16"))
            for world in ("formulas", "code")
        ),
    ]


@claim(
    "Batch statistics of text fluctuate more than those of images.",
    met=f"{sources.EXPLANATION}, and {sources.REVIEW}",
    place=Place(CHAPTER, "Does text fluctuate more than images?"),
    recorded="partly",
    scope="at our scale",
    answer="Some statistics of text fluctuate more, others less; it is no property of text.",
    condition="Compared in the same unit, with equally many values and in the same Transformer, it "
    "depends on the statistic.",
)
def text_fluctuates_more() -> Evidence:
    saved = study("power_statistics")

    def ratio(quantity: str, images: str) -> np.ndarray:
        """log2 of the fluctuation of shuffled text over that of images, in the first norm."""
        text, other = (
            saved.read("effect", condition=name)[:, 0, QUANTITIES.index(quantity)]
            for name in ("shuffled", images)
        )
        return 0.5 * np.log2(text / other)

    what = "fluctuation of the batch {} in the first norm, text over images, log2 (1 is twice)"
    more = above(0, "More is a ratio above 1, 0 in log2; both pool 1024 values, in units of σ.")
    return [
        Finding(what.format("mean"), ratio("mean", "images"), more),
        Finding(what.format("variance"), ratio("variance", "images"), more),
        Finding("that of the mean, over images read pixel by pixel", ratio("mean", "pixels")),
    ]


@claim(
    "PowerNorm beats LayerNorm in Transformers.",
    met=f"the abstract of {{cite:t}}`shen2020`, and {sources.REVIEW}",
    place=Place(CHAPTER, "Is it better than LayerNorm?"),
    recorded="open",
    answer="Its authors report it; of our models neither ended lower on both tasks.",
    condition="One user [could not reproduce it](https://github.com/sIncerass/powernorm/issues/7), "
    "another [saw little](https://github.com/lucidrains/x-transformers/pull/321). The code also "
    "scales each token first, [as in the appendix]"
    "(https://github.com/sIncerass/powernorm/issues/8).",
)
def better_than_layer_norm() -> Evidence:
    lower = "To beat is to have the lower loss."
    reported = (
        ("BLEU of PowerNorm minus LayerNorm, IWSLT14", 0.4),
        ("the same, WMT14", 0.6),
        ("perplexity of LayerNorm minus PowerNorm, PTB", 5.6),
        ("the same, WikiText-103", 3.0),
    )
    return [
        *(
            Finding(what, gain, above(0, "To beat is to be better."), reported="shen2020")
            for what, gain in reported
        ),
        *(
            Finding(
                f"{world}, six layers, batches of {size}: test loss of PowerNorm minus LayerNorm's "
                "(nats)",
                study(f"power_norm_on_{world}").row(
                    f"{world}: PowerNorm, {size} - LayerNorm, {size}"
                ),
                below(0, lower),
            )
            for world, size in (("formulas", 16), ("formulas", 64), ("code", 16))
        ),
        Unsettled(
            "The reports are of one run each, and our models are small.",
            "Train both on one of the paper's tasks with the published code, each at its own "
            "learning rate, five seeds or more, and compare the test scores paired by seed.",
        ),
    ]


@claim(
    "BatchNorm's trouble on text is that training and evaluation disagree.",
    met=f"{sources.EXPLANATION}, {sources.REVIEW}, and {{cite:t}}`wang2022bn`",
    place=Place("03_batch_norm_vs_layer_norm", "What is reported", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="They disagreed on formulas with one topic per batch, but not on code or with mixed "
    "batches.",
    condition="{cite:t}`wang2022bn` find it the leading cause. The running averages miss what lies "
    "between batches ({prf:ref}`cor-seq-running`); between mixed batches that is little.",
)
def trouble_of_batch_norm() -> Evidence:
    one = study("batch_composition")

    def gap(world: str, label: str) -> np.ndarray:
        return one.final(world, label) - one.values(world, label, "batch_loss")[:, -1]

    trouble = above(0, "If that were the trouble, evaluation would have a higher loss.")
    return [
        Finding(
            "formulas, batches of one kind of operator: BatchNorm's test loss in evaluation minus "
            "with the statistics of the test batch (nats)",
            gap("formulas", "BatchNorm, one topic"),
            trouble,
        ),
        Finding(
            "source code, batches of one package: the same",
            gap("code", "BatchNorm, one topic"),
            trouble,
        ),
        *(
            Finding(
                f"{world}, mixed batches: the same",
                gap(world, "BatchNorm, varied lengths"),
                trouble,
            )
            for world in ("formulas", "code")
        ),
    ]


@claim(
    "The gradient terms that run through BatchNorm's fluctuating statistics make gradients vanish "
    "or explode.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "The gradient's two parts", in_depth=True),
    recorded="false",
    answer="These terms only shorten a gradient, and in a large batch hardly that.",
    condition="They are projections that are subtracted, so they cannot lengthen it.",
    scope="at our scale",
)
def gradient_terms() -> Evidence:
    saved = study("power_statistics")
    pooled = saved.settings["chunks"] * saved.settings["length"]
    effect = saved.read("effect", condition="document")
    parts = [effect[:, :, QUANTITIES.index(part)] for part in ("g_mu", "g_sigma")]
    rng = np.random.default_rng(0)

    def kept(values: int) -> float:
        """Length of a random gradient with the two terms over its length without."""
        x, g = rng.normal(size=(2, values, 1))
        _, cache, _ = norms.batch_norm(x, eps=1e-12)
        left = x.std() * norms.batch_norm_backward(g, cache).x
        return float(np.linalg.norm(left) / np.linalg.norm(g))

    return [
        Finding(
            "share of the squared gradient that both terms remove, neighbouring chunks of text, "
            "last norm",
            (parts[0] + parts[1])[:, -1] / pooled,
            above(0.5, "To vanish is to lose more than half of the squared gradient in a norm."),
            form=".2%",
        ),
        Finding(
            "length of the gradient with the two terms over its length without them, largest of "
            "300 random draws of 20 values",
            max(kept(20) for _ in range(300)),
            above(1.05, "To explode it must at least grow by a twentieth."),
        ),
        Finding(
            "share of the squared gradient that both terms remove from such draws of 8 values, "
            "mean",
            1 - float(np.mean([kept(8) ** 2 for _ in range(300)])),
            form=".0%",
        ),
    ]
