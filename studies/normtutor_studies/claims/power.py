"""Claims about PowerNorm; chapter 6 explains them."""

import numpy as np
import torch

from normtutor import layers, norms
from normtutor_studies import experiments, study
from normtutor_studies.claims import heard
from normtutor_studies.claims.ledger import (
    Evidence,
    Finding,
    Place,
    Unsettled,
    above,
    below,
    claim,
)
from normtutor_studies.experiments import power_statistics

CHAPTER = "06_power_norm"


@claim(
    "PowerNorm has no gap between training and evaluation, because it uses running statistics.",
    met=heard.REVIEW,
    place=Place(CHAPTER, "What PowerNorm does"),
    recorded="true",
    answer="True but for one update: evaluation divides by the average of one batch later.",
    condition="Programs add a warm-up, in which training divides by the batch and the gap is open.",
)
def no_gap() -> Evidence:
    def gap(warmup: int) -> float:
        """Root mean square of evaluation minus training, in batches that differ in scale."""
        rng = np.random.default_rng(0)
        norm = layers.PowerNorm(16, warmup_steps=warmup).double()
        squares = []
        for _ in range(60):
            x = torch.from_numpy(np.exp(0.5 * rng.normal()) * rng.normal(size=(8, 4, 16)))
            trained, evaluated = norm.train()(x), norm.eval()(x)
            squares.append(((evaluated - trained).square().mean() / trained.square().mean()).item())
        return float(np.sqrt(np.mean(squares[40:])))

    none = below(0.1, "No gap is at most 10%, the weight of one batch in the running average.")
    return [
        Finding("difference of the two modes, over the output", gap(0), none),
        Finding("the same during a warm-up, as programs add one", gap(100)),
    ]


@claim(
    "Batch statistics of text fluctuate more than those of images.",
    met=f"{heard.EXPLANATION}, and {heard.REVIEW}",
    place=Place(CHAPTER, "Does text fluctuate more than images?"),
    recorded="partly",
    scope="at our scale",
    answer="Some statistics of text fluctuate more, others less; it is no property of text.",
    condition="Compared in the same unit, with equally many values and in the same Transformer, it "
    "depends on the statistic.",
)
def text_fluctuates_more() -> Evidence:
    saved = experiments.load("power_statistics")

    def ratio(quantity: str, images: str) -> np.ndarray:
        """log2 of the fluctuation of shuffled text over that of images, in the first norm."""
        text, other = (
            power_statistics.effect(saved, name, quantity)[:, 0] for name in ("shuffled", images)
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
    met=f"the abstract of {{cite:t}}`shen2020`, and {heard.REVIEW}",
    place=Place(CHAPTER, "Is it better than LayerNorm?"),
    recorded="open",
    answer="Its authors report it, in translation and language modelling; two others saw no gain.",
    condition="One user [could not reproduce it](https://github.com/sIncerass/powernorm/issues/7), "
    "another [saw little](https://github.com/lucidrains/x-transformers/pull/321). The code also "
    "scales each token first, [as in the appendix]"
    "(https://github.com/sIncerass/powernorm/issues/8).",
)
def better_than_layer_norm() -> Evidence:
    return [
        *(
            Finding(
                f"BLEU of PowerNorm minus LayerNorm, {task}",
                gain,
                above(0, "To beat is to be better."),
                reported="shen2020",
            )
            for task, gain in (("IWSLT14", 0.4), ("WMT14", 0.6))
        ),
        *(
            Finding(
                f"perplexity of LayerNorm minus PowerNorm, {task}",
                gain,
                above(0, "To beat is to have the lower perplexity."),
                reported="shen2020",
            )
            for task, gain in (("PTB", 5.6), ("WikiText-103", 3.0))
        ),
        Unsettled(
            "Its authors report gains, two others none, and we know of no comparison "
            "at that size with seeds and intervals.",
            "Train both on one of the paper's tasks with the published code, each at its own "
            "learning rate, five seeds or more, and compare the test scores paired by seed.",
        ),
    ]


@claim(
    "BatchNorm's trouble on text is that training and evaluation disagree.",
    met=f"{heard.EXPLANATION}, {heard.REVIEW}, and {{cite:t}}`wang2022bn`",
    place=Place("03_batch_norm_vs_layer_norm", "What is reported", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True of batches of equal length; with mixed batches the two modes agreed.",
    condition="{cite:t}`wang2022bn` find it the leading cause. The running averages miss what lies "
    "between batches ({prf:ref}`cor-seq-running`); between mixed batches that is little.",
)
def trouble_of_batch_norm() -> Evidence:
    alike, mixed = experiments.load("company"), study("batch_composition")
    varied = "BatchNorm, varied lengths"
    trouble = above(0, "If that were the trouble, evaluation would have the higher loss.")
    return [
        Finding(
            "docstrings, batches of equal length: BatchNorm's loss in evaluation minus in training "
            "mode (nats per token)",
            alike.values("loss_in_evaluation", norm="batch")
            - alike.values("loss_by_batch", norm="batch"),
            trouble,
        ),
        Finding(
            "source code, mixed batches of varied lengths: the same (nats per character)",
            mixed.final("code", varied) - mixed.values("code", varied, "batch_loss")[:, -1],
            trouble,
        ),
    ]


@claim(
    "The gradient terms that run through BatchNorm's fluctuating statistics make gradients vanish "
    "or explode.",
    met=heard.REVIEW,
    place=Place(CHAPTER, "The gradient's two parts", in_depth=True),
    recorded="false",
    answer="These terms only shorten a gradient, and in a large batch hardly that.",
    condition="They are projections that are subtracted, so they cannot lengthen it.",
    scope="at our scale",
)
def gradient_terms() -> Evidence:
    saved = experiments.load("power_statistics")
    pooled = saved.config["chunks"] * saved.config["length"]
    parts = [power_statistics.effect(saved, "document", part) for part in ("g_mu", "g_sigma")]
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
