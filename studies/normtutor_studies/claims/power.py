"""Claims about PowerNorm; chapter 6 explains them."""

import numpy as np
import torch

from normtutor import layers, norms
from normtutor.training import train
from normtutor_studies import experiments, study
from normtutor_studies.claims.ledger import (
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
    over_seeds,
)
from normtutor_studies.experiments import power_statistics

CHAPTER = "06_power_norm"


@claim(
    "PowerNorm has no gap between training and evaluation, because it uses running statistics.",
    met=REVIEW,
    place=Place(CHAPTER, "What PowerNorm does"),
    recorded="partly",
    answer="True after its warm-up; until then it divides by the batch, as BatchNorm does.",
    condition="Afterwards only one step of lag is left between the two modes.",
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
    ]


def _gradients_on_text(seed: int, steps: int = 20) -> tuple[float, float]:
    """PN-V's gradient beside BatchNorm's, in a small language model trained with BatchNorm.

    Each norm's input and upstream gradient on one more batch go through both norms. Returns the
    share of features whose gradient PN-V makes the longer one, and the length of PN-V's whole
    gradient over BatchNorm's; means over the norms.
    """
    settings = power_statistics.CONFIG
    model, batches, loss = power_statistics.setting(settings, "shuffled", seed)
    stream = iter(batches)
    train(model, stream, loss, steps=steps, learning_rate=settings.learning_rate, warmup=20)
    lengths: list[np.ndarray] = []

    def compare(module: layers.BatchNorm, given: tuple, output: torch.Tensor) -> None:
        x = given[0].detach().flatten(0, -2).double().numpy()
        power, batch = norms.power_norm_v(x)[1], norms.batch_norm(x)[1]

        def backward(upstream: torch.Tensor) -> None:
            g = (upstream * module.weight.detach()).flatten(0, -2).double().numpy()
            through = norms.power_norm_v_backward(g, power).x, norms.batch_norm_backward(g, batch).x
            lengths.append(np.linalg.norm(through, axis=1))  # (2, H)

        output.register_hook(backward)

    for module in model.modules():
        if isinstance(module, layers.BatchNorm):
            module.register_forward_hook(compare)
    loss(model.train(), next(stream)).backward()
    found = np.array(lengths)  # (norms, 2, H)
    whole = np.linalg.norm(found, axis=2)
    return float((found[:, 0] > found[:, 1]).mean()), float((whole[:, 0] / whole[:, 1]).mean())


@claim(
    "PowerNorm has a smaller Lipschitz constant than BatchNorm: its gradients are smaller.",
    met="summaries of {cite:t}`shen2020`",
    place=Place(CHAPTER, "Is its gradient smaller than BatchNorm's?", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="A little shorter where features have a mean; longer where they have none.",
    condition="In our small language model most features have one, and the whole gradient is "
    "a few per cent shorter.",
)
def smaller_gradients_than_batch_norm() -> Evidence:
    rng = np.random.default_rng(0)
    longer = 0
    for _ in range(300):
        x, g = rng.normal(size=(100, 1)), rng.normal(size=(100, 1))
        x -= x.mean()
        power = norms.power_norm_v_backward(g, norms.power_norm_v(x)[1]).x
        batch = norms.batch_norm_backward(g, norms.batch_norm(x)[1]).x
        longer += np.linalg.norm(power) > np.linalg.norm(batch)
    shares, ratios = zip(*(_gradients_on_text(seed) for seed in range(3)), strict=True)
    where = "in a small language model trained with BatchNorm, the same batch through both norms"
    return [
        Finding(
            f"share of the features whose gradient PN-V makes longer than BatchNorm does, {where}",
            over_seeds(shares),
            below(0.5),
            "Smaller in general means in more than half of the features.",
            form=".0%",
        ),
        Finding("length of PN-V's whole gradient over BatchNorm's there", over_seeds(ratios)),
        Finding(
            "share of 300 random gradients that PN-V makes the longer ones where a feature has no "
            "mean over the batch",
            longer / 300,
            below(0.5),
            "A smaller Lipschitz constant is claimed for every input.",
            form=".0%",
        ),
    ]


@claim(
    "Batch statistics of text fluctuate more than those of images.",
    met=f"{EXPLANATION}, and {REVIEW}",
    place=Place(CHAPTER, "Does text fluctuate more than images?"),
    recorded="partly",
    scope="at our scale",
    answer="Some statistics of text fluctuate more, others less; it is no property of text.",
    condition="Compared in the same unit, with equally many values and in the same "
    "Transformer, nothing is left of the difference in the first norm. In later "
    "norms it depends on the statistic and on the comparison.",
)
def text_fluctuates_more() -> Evidence:
    saved = experiments.load("power_statistics")

    def ratio(quantity: str, a: str, b: str, position: int = 0) -> Interval:
        """log2 of the scale-free fluctuation of a over that of b; first norms pool 1024 values."""
        effect = [power_statistics.effect(saved, name, quantity)[:, position] for name in (a, b)]
        return over_seeds(0.5 * np.log2(effect[0] / effect[1]))

    why = "More is a ratio above 1, 0 in log2; all first norms pool 1024 values, in units of σ."
    in_general = "A statement about batch statistics covers all norms of a model, also the last."
    return [
        Finding(
            "fluctuation of the batch mean: shuffled text over images, log2 (1 is twice)",
            ratio("mean", "shuffled", "images"),
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
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "fluctuation of the batch mean in the last norm: shuffled text over images read pixel "
            "by pixel, log2 (1 is twice)",
            ratio("mean", "shuffled", "pixels", -1),
            above(0),
            in_general,
            form=".2f",
        ),
        Finding(
            "fluctuation of the batch variance in the last norm: shuffled text over images, log2 "
            "(1 is twice)",
            ratio("variance", "shuffled", "images", -1),
            above(0),
            in_general,
            form=".2f",
        ),
        Finding(
            "fluctuation of the batch mean in the second norm: shuffled text over images, log2 "
            "(1 is twice)",
            ratio("mean", "shuffled", "images", 1),
            above(0),
            in_general,
            form=".2f",
        ),
    ]


@claim(
    "PowerNorm beats LayerNorm in Transformers.",
    met=f"the abstract of {{cite:t}}`shen2020`, and {REVIEW}",
    place=Place(CHAPTER, "Is it better than LayerNorm?"),
    recorded="open",
    answer="One group reports it; a user could not reproduce it.",
    condition="Reported on two translation tasks and two language models, with a code that also "
    "divides each token by its own root mean square. With that code a user "
    "[could not reproduce it](https://github.com/sIncerass/powernorm/issues/7).",
)
def better_than_layer_norm() -> Evidence:
    return [
        *(
            Finding(
                f"BLEU of PowerNorm minus LayerNorm, {task}",
                gain,
                above(0),
                "To beat is to be better.",
                form=".1f",
                reported="shen2020",
            )
            for task, gain in (("IWSLT14", 0.4), ("WMT14", 0.6))
        ),
        Unsettled(
            "One group reports gains, a user reports none, and we know of no comparison "
            "at that size with seeds and intervals.",
            "Train both on one of the paper's tasks with the published code, each at its own "
            "learning rate, five seeds or more, and compare the test scores paired by seed.",
        ),
    ]


@claim(
    "BatchNorm's trouble on text is that training and evaluation disagree.",
    met=f"{EXPLANATION}, {REVIEW}, and {{cite:t}}`wang2022bn`",
    place=Place("03_batch_norm_vs_layer_norm", "What is reported", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True of batches of equal length; with mixed batches the two modes agreed.",
    condition="{cite:t}`wang2022bn` find it the leading cause. The running averages miss what lies "
    "between batches ({prf:ref}`cor-seq-running`); between mixed batches that is little.",
)
def trouble_of_batch_norm() -> Evidence:
    alike, mixed = experiments.load("company"), study("company")
    batch, layer = ("BatchNorm, varied lengths", "LayerNorm, varied lengths")
    evaluated = mixed.final("code", batch)
    by_batch = mixed.values("code", batch, "batch_loss")[:, -1]
    reference = mixed.final("code", layer)
    docstrings = "docstrings, trained and tested on batches of equal length"
    code = "source code, trained and tested on mixed batches of varied lengths"
    why = "If that were the trouble, evaluation would have the higher loss."

    def loss(norm: str, mode: str) -> np.ndarray:
        return alike.values(f"loss_{mode}", norm=norm)

    return [
        Finding(
            f"{docstrings}: BatchNorm's loss in evaluation minus in training mode (nats per token)",
            over_seeds(loss("batch", "in_evaluation") - loss("batch", "by_batch")),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "the same models: BatchNorm's loss in training mode minus LayerNorm's",
            over_seeds(loss("batch", "by_batch") - loss("layer", "by_batch")),
            form=".2f",
        ),
        Finding(
            f"{code}: BatchNorm's test loss in evaluation minus with the statistics of the batch "
            "(nats per character)",
            over_seeds(evaluated - by_batch),
            above(0),
            why,
            form=".4f",
        ),
        Finding(
            "the same models: BatchNorm's test loss in evaluation minus LayerNorm's",
            over_seeds(evaluated - reference),
            form=".4f",
        ),
        Finding(
            "the same with the statistics of the batch",
            over_seeds(by_batch - reference),
            form=".4f",
        ),
    ]


@claim(
    "PowerNorm-V's statistic fluctuates less than BatchNorm's variance.",
    met=f"{REVIEW}, after {{cite:t}}`shen2020`",
    place=Place(CHAPTER, "Does its statistic fluctuate less?", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True of independent values with a mean; in our Transformer it is no calmer.",
    condition="What PN-V gains is that there is no second statistic, the mean.",
)
def calmer_statistic() -> Evidence:
    saved = experiments.load("power_statistics")
    quadratic, variance = (
        power_statistics.effect(saved, name, "variance") for name in ("power-v", "shuffled")
    )
    ratios = 0.5 * np.log2(quadratic / variance)  # (seeds, norms)
    why = "Less is a ratio below 1, 0 in log2; a tenth less is -0.15."
    x = 1 + np.random.default_rng(0).normal(size=(2000, 1024))  # batches of 1024 values
    alone = [of.std() / of.mean() for of in ((x**2).mean(axis=1), x.var(axis=1))]
    return [
        Finding(
            "fluctuation of the mean square over that of the variance, relative to each, batches "
            "of 1024 independent Gaussian values with mean and standard deviation 1, log2 (1 is "
            "twice)",
            float(np.log2(alone[0] / alone[1])),
            below(-0.15),
            why,
            form=".2f",
        ),
        *(
            Finding(
                f"fluctuation of PN-V's mean square over that of BatchNorm's variance, relative to "
                f"each, {words} norm, log2 (1 is twice)",
                over_seeds(ratios[:, position]),
                below(-0.15),
                why,
                form=".2f",
            )
            for position, words in enumerate(("first", "second", "third", "last"))
        ),
    ]


@claim(
    "The gradient terms that run through BatchNorm's fluctuating statistics make gradients vanish "
    "or explode.",
    met=REVIEW,
    place=Place(CHAPTER, "The gradient's two parts", in_depth=True),
    recorded="false",
    answer="These terms only shorten a gradient, and in a large batch hardly that.",
    condition="They are projections that are subtracted, so they cannot lengthen it. That "
    "their fluctuation keeps training from converging is another claim, not judged "
    "here.",
    scope="at our scale",
)
def gradient_terms() -> Evidence:
    saved = experiments.load("power_statistics")
    pooled = saved.config["chunks"] * saved.config["length"]

    def removed(condition: str, position: int) -> Interval:
        """Share of the squared gradient that both terms remove in one norm."""
        parts = [power_statistics.effect(saved, condition, part) for part in ("g_mu", "g_sigma")]
        return over_seeds((parts[0] + parts[1])[:, position] / pooled)

    rng = np.random.default_rng(0)

    def kept(values: int) -> np.ndarray:
        """Length of a gradient with the two terms over its length without, for random draws."""
        ratios = []
        for _ in range(300):
            x, g = rng.normal(size=(2, values, 1))
            _, cache, _ = norms.batch_norm(x, eps=1e-12)
            left = np.linalg.norm(x.std() * norms.batch_norm_backward(g, cache).x)
            ratios.append(left / np.linalg.norm(g))
        return np.array(ratios)

    vanish = "To vanish is to lose more than half of the squared gradient in a norm."
    return [
        *(
            Finding(
                f"share of the squared gradient that both terms remove, neighbouring chunks of "
                f"text, {words} norm",
                removed("document", position),
                above(0.5),
                vanish,
                form=".2%",
            )
            for position, words in ((0, "first"), (-1, "last"))
        ),
        Finding(
            "length of the gradient with the two terms over its length without them, largest of "
            "300 random draws of 20 values",
            float(kept(20).max()),
            above(1.05),
            "To explode it must at least grow by a twentieth.",
            form=".3f",
        ),
        *(
            Finding(
                f"share of the squared gradient that both terms remove from such draws of {n} "
                "values, mean",
                float(1 - np.square(kept(n)).mean()),
                form=".0%",
            )
            for n in (2, 8, 100)
        ),
    ]
