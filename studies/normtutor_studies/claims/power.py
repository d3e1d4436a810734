"""Claims about PowerNorm; chapter 6 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies import study
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    Unsettled,
    above,
    claim,
    near,
)
from normtutor_studies.engine import Study
from normtutor_studies.measures.power_statistics import QUANTITIES, first_norm

CHAPTER = "06_power_norm"


def _gap(one: Study, world: str, label: str) -> np.ndarray:
    """Test loss in evaluation minus with the statistics of the batch, after training."""
    return one.final(world, label) - one.values(world, label, "batch_loss")[:, -1]


@claim(
    "PowerNorm has no gap between training and evaluation, because it uses running statistics.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "What PowerNorm does"),
    recorded="true",
    scope="at our scale",
    answer="True; on the same mixed batches our BatchNorm models had hardly one either.",
    condition="Programs add a warm-up, in which training divides by the batch.",
)
def no_gap() -> Findings:
    for world in ("formulas", "code"):
        yield Finding(
            f"{world}, six layers, batches of 16: PowerNorm's test loss in evaluation minus in "
            "training mode (nats)",
            _gap(study(f"power_norm_on_{world}"), world, "PowerNorm, 16"),
            near(0, 0.01, "No gap is less than a hundredth of a nat."),
        )
    for world in ("formulas", "code"):
        gap = _gap(study(f"power_norm_on_{world}"), world, "BatchNorm, 16")
        yield Finding(f"{world}: the same with BatchNorm", gap)


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
def text_fluctuates_more() -> Findings:
    saved = study("power_statistics")

    def ratio(quantity: str, images: str) -> np.ndarray:
        """log2 of the fluctuation of shuffled text over that of images, in the first norm."""
        text, other = (first_norm(saved, name, "effect", quantity) for name in ("shuffled", images))
        return 0.5 * np.log2(text / other)

    what = "fluctuation of the batch {} in the first norm, text over images, log2 (1 is twice)"
    more = above(0, "More is a ratio above 1, 0 in log2; both pool 1024 values, in units of σ.")
    yield Finding(what.format("mean"), ratio("mean", "images"), more)
    yield Finding(what.format("variance"), ratio("variance", "images"), more)
    yield Finding("that of the mean, over images read pixel by pixel", ratio("mean", "pixels"))


@claim(
    "PowerNorm beats LayerNorm in Transformers.",
    met=f"the abstract of {{cite:t}}`shen2020`, and {sources.REVIEW}",
    place=Place(CHAPTER, "Is it better than LayerNorm?"),
    recorded="open",
    answer="Its authors report it; of our models neither ended lower on both tasks.",
    condition="One user [could not reproduce it](https://github.com/sIncerass/powernorm/issues/7), "
    "another [saw little](https://github.com/lucidrains/x-transformers/pull/321). The code also "
    "scales each token first, [as in the "
    "appendix](https://github.com/sIncerass/powernorm/issues/8).",
)
def better_than_layer_norm() -> Findings:
    reported = (
        ("BLEU of PowerNorm minus LayerNorm, IWSLT14", 0.4),
        ("the same, WMT14", 0.6),
        ("perplexity of LayerNorm minus PowerNorm, PTB", 5.6),
        ("the same, WikiText-103", 3.0),
    )
    for what, gain in reported:
        yield Finding(what, gain, above(0, "To beat is to be better."), reported="shen2020")
    for norm in ("PowerNorm", "PowerNorm, warmed up"):
        for world, size in (("formulas", 16), ("formulas", 64), ("code", 4), ("code", 16)):
            yield Finding(
                f"{world}, six layers, batches of {size}: test loss of LayerNorm minus that of "
                f"{norm} (nats)",
                -study(f"power_norm_on_{world}").row(
                    f"{world}: {norm}, {size} - LayerNorm, {size}"
                ),
                above(0, "To beat is to have the lower loss."),
            )
    yield Unsettled(
        "The reports are of one run each, and our models are small.",
        "Train both on one of the paper's tasks with the published code, each at its own learning "
        "rate, five seeds or more, and compare the test scores paired by seed.",
    )


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
def trouble_of_batch_norm() -> Findings:
    one = study("batch_composition")

    trouble = above(0, "If that were the trouble, evaluation would have a higher loss.")
    for world, batches, what in (
        (
            *("formulas", "one topic"),
            "formulas, batches of one kind of operator: BatchNorm's test loss in evaluation minus "
            "with the statistics of the test batch (nats)",
        ),
        ("code", "one topic", "source code, batches of one package: the same"),
        ("formulas", "varied lengths", "formulas, mixed batches: the same"),
        ("code", "varied lengths", "code, mixed batches: the same"),
    ):
        yield Finding(what, _gap(one, world, f"BatchNorm, {batches}"), trouble)


@claim(
    "The gradient terms that run through BatchNorm's fluctuating statistics make gradients vanish "
    "or explode.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "The gradient's two parts", in_depth=True),
    recorded="false",
    answer="These terms only shorten a gradient, and in our networks never to nothing.",
    condition="They are projections that are subtracted, so they cannot lengthen it.",
    scope="at our scale",
)
def gradient_terms() -> Findings:
    saved = study("power_statistics")
    rng = np.random.default_rng(0)

    def removed(condition: str) -> np.ndarray:
        """The share of the squared gradient, in the norm in which it is largest; one per seed."""
        effect, values = (saved.read(key, condition=condition) for key in ("effect", "n"))
        both = sum(effect[:, :, QUANTITIES.index(part)] for part in ("g_mu", "g_sigma"))
        return np.asarray((both / values).max(axis=1))

    def kept(values: int) -> float:
        """Length of a random gradient with the two terms over its length without."""
        x, g = rng.normal(size=(2, values, 1))
        _, cache, _ = norms.batch_norm(x, eps=1e-12)
        left = x.std() * norms.batch_norm_backward(g, cache).x
        return float(np.linalg.norm(left) / np.linalg.norm(g))

    for condition, what in (("document", "neighbouring chunks of text"), ("images", "images")):
        yield Finding(
            f"share of the squared gradient that both terms remove, {what}, the norm in which it "
            "is largest",
            removed(condition),
            above(0.5, "To vanish is to lose more than half of the squared gradient in a norm."),
            form=".1%",
        )
    yield Finding(
        "length of the gradient with the two terms over its length without them, largest of 300 "
        "random draws of 20 values",
        max(kept(20) for _ in range(300)),
        above(1.05, "To explode it must at least grow by a twentieth."),
    )
    yield Finding(
        "share of the squared gradient that both terms remove from such draws of 8 values, mean",
        1 - float(np.mean([kept(8) ** 2 for _ in range(300)])),
        form=".0%",
    )
