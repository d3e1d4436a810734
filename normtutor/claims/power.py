"""Claims about PowerNorm; chapter 6 explains them."""

import numpy as np
import torch

from normtutor import experiments, layers, norms
from normtutor.claims.ledger import (
    EXPLANATION,
    REVIEW,
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
from normtutor.experiments import power_statistics, power_text, topic_share

CHAPTER = "06_power_norm"


def _gap_of_modes(norm: str, share: float) -> Interval:
    """Loss in evaluation minus training mode, on batches as in training (nats per token)."""
    saved, where = experiments.load("topic_share"), {"norm": norm, "share": share}
    return over_seeds(saved.values("own", **where) - saved.values("own_batch", **where))


def _on_text(norm: str, order: str, size: int, mode: str = "kept_") -> np.ndarray:
    """Test loss on batches as in training, one a seed; ``mode`` "batch_" is training mode."""
    return power_text.values(experiments.load("power_text"), f"{mode}all", norm, order, size)


def _gap_on_text(norm: str) -> Interval:
    """The gap between the modes on 16 sentences of equal length (nats per token)."""
    where = (norm, "length", 16)
    return over_seeds(_on_text(*where) - _on_text(*where, "batch_"))


@claim(
    "PowerNorm has no gap between training and evaluation, because it uses running statistics.",
    met=REVIEW,
    place=Place(CHAPTER, "PN: a running average, in training too"),
    recorded="half",
    condition="In its warm-up it divides by the statistic of the batch, like BatchNorm. After that "
    "only one step of lag is left between the two modes.",
)
def no_gap() -> Evidence:
    def gap(warmup: int) -> float:
        """Root mean square of evaluation minus training, in batches that differ in scale."""
        rng = np.random.default_rng(0)
        norm = layers.PowerNorm(16, warmup_steps=warmup).double()
        differences = []
        for step in range(60):
            scale = np.exp(0.5 * rng.normal())
            x = torch.from_numpy(scale * rng.normal(size=(8, 4, 16)))
            y = norm.train()(x)
            if step >= 40:
                evaluated = norm.eval()(x)
                differences.append(
                    (evaluated - y).square().mean().item() / y.square().mean().item()
                )
        return float(np.sqrt(np.mean(differences)))

    why = (
        "No gap is a difference of at most 10%, the weight of one batch in the running average; "
        "the batches of this test differ in scale by half and more."
    )
    return [
        Finding(
            "difference of the two modes during warm-up, over the output",
            gap(100),
            below(0.1),
            why,
            form=".2f",
        ),
        Finding("difference after warm-up, over the output", gap(0), below(0.1), why, form=".2f"),
        Finding(
            "loss of trained models in evaluation minus training mode, batches of one topic: "
            "PowerNorm (nats per token)",
            _gap_of_modes("power", 1.0),
            near(0, 0.05),
            "No gap is less than 0.05 nats, 5% of probability per token.",
            form=".3f",
        ),
        Finding("the same with BatchNorm", _gap_of_modes("batch", 1.0), form=".3f"),
        Finding(
            "the same on text, 16 sentences of equal length: PowerNorm (nats per token)",
            _gap_on_text("power"),
            near(0, 0.05),
            "No gap is less than 0.05 nats, 5% of probability per token.",
            form=".3f",
        ),
        Finding("the same with masked BatchNorm", _gap_on_text("masked batch"), form=".3f"),
    ]


@claim(
    "PowerNorm has a smaller Lipschitz constant than BatchNorm: its gradients are smaller.",
    met="summaries of {cite:t}`shen2020`",
    place=Place(CHAPTER, "Is its gradient smaller than BatchNorm's?"),
    recorded="half",
    condition="True where a feature has a mean that is not small against its spread, which the "
    "paper's assumption amounts to. Without a mean PN-V's gradient is the larger one.",
)
def smaller_gradients_than_batch_norm() -> Evidence:
    rng = np.random.default_rng(0)

    def larger(mean: float) -> float:
        """Share of draws in which PN-V's gradient is longer than BatchNorm's."""
        count = 0
        for _ in range(300):
            x = rng.normal(size=(100, 1))
            x, g = x - x.mean() + mean, rng.normal(size=(100, 1))
            _, batch, _ = norms.batch_norm(x)
            power = norms.power_norm_v(x)[1]
            lengths = [
                np.linalg.norm(norms.power_norm_v_backward(g, power).x),
                np.linalg.norm(norms.batch_norm_backward(g, batch).x),
            ]
            count += lengths[0] > lengths[1]
        return count / 300

    why = "Smaller in general means in more than half of the draws."
    return [
        Finding(
            "share of 300 random gradients that PN-V makes longer than BatchNorm does, mean 0",
            larger(0.0),
            below(0.5),
            why,
            form=".0%",
        ),
        Finding("the same, mean 1 standard deviation", larger(1.0), below(0.5), why, form=".0%"),
    ]


@claim(
    "Batch statistics of text fluctuate more than those of images.",
    met=f"{EXPLANATION}, and {REVIEW}",
    place=Place(CHAPTER, "The four quantities, while real models train"),
    recorded="half",
    condition="Raw distances depend on how many values are pooled and on the width. Counted alike, "
    "the mean of text still fluctuates more, the variance hardly, and the gradient's part "
    "through the mean less. Most of the excess is gone when images are read pixel by pixel.",
)
def text_fluctuates_more() -> Evidence:
    saved = experiments.load("power_statistics")

    def ratio(quantity: str, a: str, b: str) -> Interval:
        """log2 of the scale-free fluctuation of a over that of b; both pool 1024 values."""
        effect = [power_statistics.first_norm(saved, name, "effect", quantity) for name in (a, b)]
        return over_seeds(0.5 * np.log2(effect[0] / effect[1]))

    why = "More is a ratio above 1, 0 in log2; all first norms pool 1024 values, in units of σ."
    return [
        Finding(
            "fluctuation of the batch mean: shuffled text over images, log2 (1 is twice)",
            ratio("mean", "shuffled", "images"),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "fluctuation of the gradient's part that goes through the mean: shuffled text over "
            "images, log2 (1 is twice)",
            ratio("g_mu", "shuffled", "images"),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "fluctuation of the batch variance: shuffled text over images, log2 (1 is twice)",
            ratio("variance", "shuffled", "images"),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "fluctuation of the batch mean: shuffled text over images read pixel by pixel, log2 "
            "(1 is twice)",
            ratio("mean", "shuffled", "pixels"),
            form=".2f",
        ),
    ]


@claim(
    "PowerNorm beats LayerNorm in Transformers.",
    met=f"the abstract of {{cite:t}}`shen2020`, and {REVIEW}",
    place=Place(CHAPTER, "The paper's results and ours"),
    recorded="open",
    condition="Reported on two translation tasks and two language models. Users of the published "
    "code could not reproduce it. In our models PowerNorm is never ahead and mostly behind, but "
    "they are too small to decide it for large ones.",
)
def better_than_layer_norm() -> Evidence:
    gaps = topic_share.differences(experiments.load("topic_share"))
    text = experiments.load("power_text")
    why = "To beat is to be better."
    return [
        *(
            Finding(
                f"BLEU of PowerNorm minus LayerNorm, {task}",
                gain,
                above(0),
                why,
                form=".1f",
                reported="shen2020",
            )
            for task, gain in (("IWSLT14", 0.4), ("WMT14", 0.6))
        ),
        *(
            Finding(
                f"our test loss of PowerNorm minus LayerNorm's, {words} (nats per token)",
                over_seeds(gaps["power"][:, position]),
                below(0),
                why,
                form=".3f",
            )
            for position, words in ((0, "mixed batches"), (2, "batches of one topic"))
        ),
        *(
            Finding(
                f"our test loss of PowerNorm minus LayerNorm's on text, {words} (nats per token)",
                over_seeds(
                    power_text.values(text, "all", "power", order, size)
                    - power_text.values(text, "all", "layer", order, size)
                ),
                below(0),
                why,
                form=".3f",
            )
            for order, size, words in (
                ("shuffled", 4, "4 shuffled sentences"),
                ("document", 2, "2 neighbouring sentences"),
                ("document", 4, "4 neighbouring sentences"),
                ("length", 16, "16 sentences of equal length"),
            )
        ),
        Unsettled(
            "One group reports gains, others report none, and we know of no comparison "
            "at that size with seeds and intervals.",
            "Train both on one of the paper's tasks with the published code, each at its own "
            "learning rate, five seeds or more, and compare the test scores paired by seed.",
        ),
    ]


@claim(
    "BatchNorm's trouble on text is that training and evaluation disagree.",
    met=f"{EXPLANATION}, {REVIEW}, and {{cite:t}}`wang2022bn`",
    place=Place(CHAPTER, "The cause: who shares a batch"),
    recorded="half",
    condition="With batches of equal length the gap is most of the loss. Where batches of one "
    "topic and mixed ones alternate, BatchNorm is behind in training mode already: the mean "
    "that it subtracts is what the batch is about.",
)
def trouble_of_batch_norm() -> Evidence:
    text, where = experiments.load("text_batches"), {"order": "length", "batch_size": 16}
    batch, layer = (text.values("all", norm=norm, **where) for norm in ("masked batch", "layer"))
    gap = text.values("kept_all", norm="masked batch", **where) - text.values(
        "batch_all", norm="masked batch", **where
    )
    topics = experiments.load("topic_share")
    training = topics.values("own_batch", norm="batch", share=0.5)
    return [
        Finding(
            "equal lengths: what BatchNorm loses against LayerNorm minus its gap between the "
            "modes (nats per token)",
            over_seeds(batch - layer - gap),
            near(0, 0.3),
            "If the gap is the trouble, little of the loss of about one nat is left without it.",
            form=".2f",
        ),
        Finding(
            "every second batch of one topic: BatchNorm minus LayerNorm in training mode (nats "
            "per token)",
            over_seeds(training - topics.values("own", norm="layer", share=0.5)),
            near(0, 0.05),
            "In training mode there is no gap, so by the claim no loss of 0.05 nats either.",
            form=".3f",
        ),
        Finding(
            "of the same models, evaluation minus training mode",
            _gap_of_modes("batch", 0.5),
            form=".3f",
        ),
        *(
            Finding(
                f"text, 2 neighbouring sentences: masked BatchNorm minus LayerNorm, {words} mode "
                "(nats per token)",
                over_seeds(
                    _on_text("masked batch", "document", 2, mode) - _on_text("layer", "document", 2)
                ),
                form=".3f",
            )
            for mode, words in (("batch_", "training"), ("kept_", "evaluation"))
        ),
    ]
