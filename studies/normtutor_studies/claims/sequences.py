"""Claims about BatchNorm and LayerNorm on sequences and batches; chapter 3 explains them."""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from normtutor import layers, norms
from normtutor.models import CausalAttention, TransformerLayer, TransformerLM
from normtutor.training import start
from normtutor_studies import experiments, study
from normtutor_studies.claims.ledger import (
    ASSISTANT,
    EXPLANATION,
    GUIDE,
    NOTES,
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

CHAPTER = "03_batch_norm_vs_layer_norm"
PARTED = Place(CHAPTER, "Twelve reasons that you may have heard")


def _lengths(outputs: torch.Tensor) -> torch.Tensor:
    """The root mean square of each token."""
    return outputs.square().mean(-1).sqrt()


@claim(
    "On (B, L, H), BatchNorm's statistics have the shape (1, 1, H).",
    met=REVIEW,
    place=Place(CHAPTER, "What BatchNorm pools over"),
    recorded="true",
    answer="True of the pooled statistic, which is the usual one.",
    condition="Some recurrent networks have a statistic per step, of shape (1, L, H) "
    "({prf:ref}`def-seq-statistics`).",
)
def one_statistic_a_feature() -> Evidence:
    x = np.random.default_rng(0).normal(size=(4, 5, 6))
    mean = x.mean(axis=(0, 1), keepdims=True)
    variance = x.var(axis=(0, 1), keepdims=True)
    y = norms.batch_norm(x, feature_axis=-1)[0]
    return [
        Finding(
            "largest difference of BatchNorm from a formula with statistics of shape (1, 1, H)",
            float(np.abs((x - mean) / np.sqrt(variance + 1e-5) - y).max()),
            below(1e-9),
            "The same statistics give the same numbers.",
            form=".0e",
        )
    ]


@claim(
    "Padding shifts BatchNorm's statistics.",
    met=f"{EXPLANATION}, and {REVIEW}",
    place=Place(CHAPTER, "Padding: a mask removes its effect"),
    recorded="true",
    answer="A mask removes the effect completely.",
    condition="By how much padding shifts them follows in closed form "
    "({prf:ref}`cor-seq-padding`). With a mask they are those of the real tokens "
    "({prf:ref}`prop-seq-masked`).",
)
def padding_shifts() -> Evidence:
    z = np.random.default_rng(0).normal(size=400)
    real = 2 + (z - z.mean()) / z.std()
    share = 0.6
    padded = np.concatenate([real, np.zeros(600)])[:, None]
    start = np.zeros(1), np.ones(1)
    mask = np.arange(1000) < 400
    seen, masked = (
        norms.batch_norm(padded, None, None, *start, momentum=1.0, mask=m)[2] for m in (None, mask)
    )
    assert seen.mean is not None and seen.var is not None and masked.mean is not None
    formula = (1 - share) * 2, (1 - share) + share * (1 - share) * 4
    return [
        Finding(
            "mean that BatchNorm sees when 60% of the positions are zeros and real tokens have "
            "mean 2 and standard deviation 1",
            float(seen.mean[0]),
            below(1.9),
            "Shifted means off by a tenth of a standard deviation or more; a mean of zeros and "
            "twos is lower.",
            form=".2f",
        ),
        Finding(
            "largest difference of that mean and variance from the closed form",
            max(abs(seen.mean[0] - formula[0]), abs(seen.var[0] * 999 / 1000 - formula[1])),
            form=".0e",
        ),
        Finding("mean with a mask", float(masked.mean[0]), form=".2f"),
    ]


@claim(
    "BatchNorm cannot handle sequences of different length.",
    met=ASSISTANT,
    place=Place(CHAPTER, "Sentences of different length", in_depth=True),
    recorded="partly",
    answer="True of unmasked batches; a mask removes it.",
    condition="Pooled and masked, BatchNorm does not see lengths at all. Statistics per step "
    "have fewer and fewer sentences to average over.",
)
def variable_lengths() -> Evidence:
    rng = np.random.default_rng(0)
    tokens = rng.normal(loc=1, size=(3, 8, 4))
    mask = np.arange(8) < np.array([[8], [5], [3]])
    longer_mask = np.concatenate([mask, np.zeros((3, 8), dtype=bool)], axis=1)

    def change(masked: bool) -> float:
        """Largest change of a real token when the batch is padded to twice the length."""
        padded = np.where(mask[..., None], tokens, 0.0)
        short = norms.batch_norm(padded, feature_axis=-1, mask=mask if masked else None)[0]
        long = np.concatenate([padded, np.zeros((3, 8, 4))], axis=1)
        wide = norms.batch_norm(long, feature_axis=-1, mask=longer_mask if masked else None)[0]
        return float(np.abs(wide[:, :8] - short)[mask].max())

    why = "If lengths were the trouble, more padding would change the outputs of real tokens."
    return [
        Finding(
            "largest change of a real token when a batch is padded to twice the length, no mask",
            change(False),
            above(0.01),
            why,
            form=".2f",
        ),
        Finding(
            "largest change of a real token when a batch is padded to twice the length, with a "
            "mask",
            change(True),
            above(0.01),
            why,
            form=".0e",
        ),
        Finding(
            "sentences of 3 that still go on at position 8, for a statistic per step",
            int(mask[:, 7].sum()),
        ),
    ]


@claim(
    "A token is normalized with its neighbour's padding, and a token at a position never seen in "
    "training has no statistics.",
    met=GUIDE,
    place=Place(CHAPTER, "Sentences of different length", in_depth=True),
    recorded="partly",
    answer="True without a mask, or of statistics per step; pooled and masked it has "
    "neither trouble.",
    condition="The statistic of pooled BatchNorm belongs to the feature and not to the position.",
)
def unseen_position() -> Evidence:
    rng = np.random.default_rng(0)
    norm = layers.BatchNorm(4, feature_axis=-1).double()
    norm(torch.from_numpy(rng.normal(size=(2, 20, 4))))
    norm.eval()
    y = norm(torch.from_numpy(rng.normal(size=(1, 30, 4))))
    short, long = np.zeros((10, 4)), rng.normal(size=(20, 4))
    batch = np.stack([np.concatenate([short + 1, np.zeros((10, 4))]), long])
    mask = np.arange(20) < np.array([[10], [20]])
    moved = norms.batch_norm(batch, feature_axis=-1)[0][1, 10]
    alone = norms.batch_norm(batch, feature_axis=-1, mask=mask)[0][1, 10]
    return [
        Finding(
            "outputs that are not finite in a sentence of 30 tokens, after training on 20",
            int((~torch.isfinite(y)).sum()),
            above(1),
            "Without a statistic there is no output.",
        ),
        Finding(
            "how far padding beside it moves token 11 of the longer of two sentences, no mask",
            float(np.abs(moved - alone).max()),
            above(0.01),
            "If it takes part, it moves the token by more than rounding.",
            form=".2f",
        ),
    ]


@claim(
    "BatchNorm has trouble with parallel training; LayerNorm parallelises.",
    met=f"{ASSISTANT}, and {GUIDE}",
    place=Place(CHAPTER, "Two devices", in_depth=True),
    recorded="partly",
    answer="True of statistics kept local; synchronized, they give the gradient of the "
    "whole batch.",
    condition="Synchronizing costs an exchange in every layer. LayerNorm has nothing to exchange.",
)
def parallel_training() -> Evidence:
    rng = np.random.default_rng(3)
    document = np.repeat(rng.normal(size=(2, 1, 6)), 4, axis=0)
    x = torch.from_numpy(document + rng.normal(size=(8, 16, 6)))
    target = torch.from_numpy(rng.normal(size=(8, 16, 6)))
    weight = torch.from_numpy(rng.normal(size=(6, 6))).requires_grad_()

    def gradient(statistics: str) -> torch.Tensor:
        h = (x @ weight).reshape(2, -1, 6)  # (device, token, feature)
        shared = (1,) if statistics == "local" else (0, 1)
        mean = h.mean(dim=shared, keepdim=True)
        if statistics == "local":
            variance = ((h - mean) ** 2).mean(dim=1, keepdim=True)
        else:  # from what each device can send: its own mean and variance
            local = h.mean(dim=1, keepdim=True)
            variance = ((h - local) ** 2).mean(dim=1, keepdim=True) + (local - mean) ** 2
            variance = variance.mean(dim=0, keepdim=True)
        y = ((h - mean) / torch.sqrt(variance + 1e-5)).reshape(x.shape)
        return torch.autograd.grad((y - target).square().mean(), weight)[0]

    y = norms.batch_norm(x @ weight, feature_axis=-1)[0]
    whole = torch.autograd.grad((y - target).square().mean(), weight)[0]

    def off(statistics: str) -> float:
        return ((gradient(statistics) - whole).norm() / whole.norm()).item()

    why = "Trouble means a gradient that differs from that of the whole batch by 1% or more."
    return [
        Finding(
            "relative error of the gradient, a batch of two documents on two devices, local "
            "statistics",
            off("local"),
            above(0.01),
            why,
            form=".2f",
        ),
        Finding(
            "relative error of the gradient, statistics combined from what each device sends",
            off("synchronised"),
            above(0.01),
            why,
            form=".0e",
        ),
    ]


@claim(
    "BatchNorm cannot learn online, with a batch of one.",
    met=GUIDE,
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="partly",
    answer="True of a single vector; one sentence or one image has values enough.",
    condition="A single sentence (1, L, H) has L values per feature, and an image one per pixel.",
)
def batch_of_one() -> Evidence:
    def refused(shape: tuple[int, ...]) -> int:
        norm = layers.BatchNorm(8, feature_axis=-1)
        try:
            norm(torch.randn(shape, generator=torch.manual_seed(0)))
        except ValueError:
            return 1
        return 0

    why = "1 is an error, 0 is an output; “cannot” means an error."
    return [
        Finding(
            "BatchNorm refuses to train on x of shape (1, 8)", refused((1, 8)), near(1, 0), why
        ),
        *(
            Finding(f"the same for {words}, {shape}", refused(shape), near(1, 0), why)
            for words, shape in (("one sentence", (1, 5, 8)), ("one image", (1, 4, 4, 8)))
        ),
    ]


@claim(
    "BatchNorm makes a model less sensitive to outliers.",
    met=GUIDE,
    place=Place(CHAPTER, "One bad token", in_depth=True),
    recorded="partly",
    answer="The outlier itself is bounded in training; the rest of its batch pays.",
    condition="The other tokens of the batch are squeezed together "
    "({prf:ref}`cor-seq-outlier`), and in evaluation nothing is bounded. Whether "
    "trained models are more accurate on data with outliers is not measured.",
)
def outliers() -> Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 1))
    calm = norms.batch_norm(x)[0]
    x[-1] = 1000
    y = norms.batch_norm(x)[0]
    evaluated = norms.batch_norm(x, None, None, np.zeros(1), np.ones(1), training=False)[0]
    return [
        Finding(
            "output for an outlier of 1000 standard deviations among 100 values, training",
            float(y[-1, 0]),
            below(100),
            "Less sensitive means that it comes out ten times smaller or more.",
            form=".1f",
        ),
        Finding(
            "spread of 99 other outputs beside an outlier over what it was without",
            float(y[:-1].std() / calm[:-1].std()),
            near(1, 0.1),
            "A model that is less sensitive leaves the others as they were, to a tenth.",
        ),
        Finding(
            "output for the outlier in evaluation",
            float(evaluated[-1, 0]),
            below(100),
            "As in training.",
            form=".0f",
        ),
    ]


@claim(
    "BatchNorm does not suit recurrent networks.",
    met=f"{NOTES}, and {REVIEW}",
    place=Place(CHAPTER, "Sentences of different length", in_depth=True),
    recorded="partly",
    answer="True of one statistic for all steps; with statistics per step it has worked.",
    condition="A state that starts at zero and settles does not fit one statistic, and the "
    "first attempt reports no help between the states {cite:p}`laurent2016`. With "
    "statistics of its own for every step, and a small γ at the start, BatchNorm "
    "worked there, too {cite:p}`cooijmans2017`.",
)
def recurrent_networks() -> Evidence:
    start(0)
    cell, state, spread = torch.nn.GRUCell(32, 64), torch.zeros(512, 64), []
    with torch.no_grad():
        for _ in range(32):
            state = cell(torch.randn(512, 32), state)
            spread.append((state @ cell.weight_hh.T).std().item())
    return [
        Finding(
            "spread of an untrained GRU's projected state after step 1 over that after step 32, "
            "random inputs",
            spread[0] / spread[-1],
            below(0.9),
            "If BatchNorm's one statistic for all steps does not suit, it is off by a tenth or "
            "more at some of them.",
            form=".2f",
        ),
        Finding(
            "pixels of digits in a fixed random order: accuracy of an LSTM with BatchNorm per step "
            "minus without, percentage points",
            95.4 - 90.2,
            below(0),
            "What does not suit gains nothing.",
            form=".1f",
            reported="cooijmans2017",
        ),
    ]


@claim(
    "BatchNorm fails on text.",
    met=f"{EXPLANATION}, and {ASSISTANT}",
    place=Place(CHAPTER, "What is reported", in_depth=True),
    recorded="open",
    answer="Reports go both ways.",
    condition="One group finds it behind LayerNorm {cite:p}`shen2020`, another level or better "
    "where training and evaluation agree {cite:p}`wang2022bn`. Padding has a mask, and "
    "batches that differ in kind can be shuffled.",
)
def fails_on_text() -> Evidence:
    return [
        Finding(
            "share of 20 settings in which BatchNorm with a penalty on the inconsistency of its "
            "modes is on par with LayerNorm or better",
            17 / 20,
            below(0.5),
            "To fail is to be behind in most settings.",
            form=".0%",
            reported="wang2022bn",
        ),
        Finding(
            "BatchNorm's test loss minus LayerNorm's, source code, mixed batches with masked "
            "padding, six layers, each at its own rate (nats per character)",
            over_seeds(
                study("company").row("code: BatchNorm, varied lengths - LayerNorm, varied lengths")
            ),
            above(0),
            "To fail is to have the larger loss.",
            form=".3f",
        ),
        Unsettled(
            "The two reports differ in what they do about batches, and both are of one model each.",
            "Train both norms on mixed batches, on a second kind of text, each at its own learning "
            "rate, padding left out, and compare the test losses paired by seed.",
        ),
    ]


@claim(
    "A padding mask makes BatchNorm work on text.",
    met="bug trackers and forums",
    place=Place(CHAPTER, "Padding: a mask removes its effect"),
    recorded="partly",
    answer="A mask mends what padding does, and nothing else.",
    condition="With a mask padding has no effect. Batches that differ in kind part training and "
    "evaluation all the same ({prf:ref}`cor-seq-running`).",
)
def mask_mends() -> Evidence:
    rng = np.random.default_rng(0)
    tokens, mask = rng.normal(size=(3, 8, 4)), np.arange(8) < np.array([[8], [5], [3]])
    once, otherwise = (
        norms.batch_norm(np.where(mask[..., None], tokens, pad), feature_axis=-1, mask=mask)[0]
        for pad in (0.0, 5.0)
    )
    norm = layers.BatchNorm(1, feature_axis=-1).double()
    short, long = (torch.from_numpy(rng.normal(kind, size=(16, 20, 1))) for kind in (-2, 2))
    real = torch.arange(20).expand(16, 20) < 15
    for _ in range(100):
        norm(short, real), norm(long, real)
    evaluated = norm.eval()(short, real)[real].detach()
    return [
        Finding(
            "largest change of a real token when padding has other values, with a mask",
            float(np.abs(once - otherwise)[mask].max()),
            below(1e-9),
            "A mask that works leaves the real tokens as they are.",
            form=".0e",
        ),
        Finding(
            "mean of a masked batch in evaluation, where batches of two kinds have taken turns "
            "(0 in training)",
            abs(evaluated.mean().item()),
            below(0.1),
            "BatchNorm works if evaluation does what training did, to a tenth of a standard "
            "deviation.",
            form=".2f",
        ),
    ]


@claim(
    "Batches of equal length need no padding, so they suit BatchNorm best.",
    met="advice on data loaders",
    place=Place(CHAPTER, "Who shares a batch"),
    recorded="false",
    scope="at our scale",
    answer="On such batches training and evaluation part.",
    condition="In training each batch is normalized by the statistics of its own length; in "
    "evaluation an average over all lengths takes their place. LayerNorm has one mode.",
)
def equal_lengths() -> Evidence:
    saved = experiments.load("company")

    def gap(norm: str) -> Interval:
        of = {
            mode: saved.values(f"loss_{mode}", norm=norm) for mode in ("in_evaluation", "by_batch")
        }
        return over_seeds(of["in_evaluation"] - of["by_batch"])

    return [
        Finding(
            "loss of BatchNorm's model in evaluation minus in training mode, on batches of equal "
            "length (nats per token)",
            gap("batch"),
            near(0, 0.05),
            "Batches that suit a norm leave its two modes alike, to 5% of probability per token.",
            form=".2f",
        ),
        Finding("the same with LayerNorm, which has one mode", gap("layer"), form=".2f"),
    ]


@claim(
    "A BatchNorm model cannot write text token by token, because there is no batch.",
    met="forums",
    place=Place(CHAPTER, "When BatchNorm is the right choice"),
    recorded="false",
    answer="In evaluation BatchNorm is a fixed affine map of each token and needs no batch.",
    condition="Nothing is computed from the other tokens, so a model can write one token at a "
    "time.",
)
def writing_without_a_batch() -> Evidence:
    rng = np.random.default_rng(0)
    norm = layers.BatchNorm(8, feature_axis=-1).double()
    norm(torch.from_numpy(rng.normal(size=(4, 9, 8))))
    norm.eval()
    x = torch.from_numpy(rng.normal(size=(4, 9, 8)))
    together, alone = norm(x), norm(x[:1, :1])
    return [
        Finding(
            "difference of one token alone from the same token in a batch, evaluation",
            (alone - together[:1, :1]).abs().max().item(),
            above(1e-9),
            "If it needed the batch, a token alone would come out differently.",
        )
    ]


@claim(
    "BatchNorm fails with small batches.",
    met=TUTORIALS,
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True where a feature has one value per example; a convolution, with many, can lead.",
    condition="With 4 examples per batch our perceptron ends behind LayerNorm, and our "
    "convolutional network ahead of it. On ImageNet 2 images per device were too few.",
)
def small_batches() -> Evidence:
    return [
        Finding(
            "ImageNet, 2 images a device: error of BatchNorm minus GroupNorm, percentage points",
            10.6,
            above(1),
            "To fail is to be behind by a point or more.",
            reported="wu2018",
        ),
        *(
            Finding(
                f"MNIST-1D, {world}, 4 examples: test loss of BatchNorm minus LayerNorm's (nats)",
                over_seeds(study("batch_sizes").row(f"{world}: BatchNorm, 4 - LayerNorm, 4")),
                above(0),
                "To fail is to have the larger loss.",
                form=".3f",
            )
            for world in ("perceptron", "convolutions")
        ),
    ]


@claim(
    "The larger the batch, the better BatchNorm.",
    met=f"{TUTORIALS} that explain batch statistics as estimates",
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="open",
    answer="In our perceptron, yes; in a convolution, which pools more values, it is undecided.",
    condition="With a fixed number of examples a larger batch also means fewer steps, and less "
    "of the noise that may help.",
)
def larger_is_better() -> Evidence:
    return [
        Finding(
            f"MNIST-1D, {world}: test loss with {large} examples minus with {small} (nats)",
            over_seeds(
                study("batch_sizes").row(f"{world}: BatchNorm, {large} - BatchNorm, {small}")
            ),
            below(0),
            "Better is a smaller test loss; every run saw the same number of examples.",
            form=".3f",
        )
        for world in ("perceptron", "convolutions")
        for small, large in ((4, 16), (16, 64))
    ]


@claim(
    "Batches in NLP are small.",
    met=ASSISTANT,
    place=PARTED,
    recorded="partly",
    answer="True of fine-tuning; in pre-training a batch holds up to millions of tokens.",
    condition="The part of a batch that one device sees may be small, too. Rests on published "
    "settings.",
)
def small_batches_in_language() -> Evidence:
    why = "BatchNorm's own paper used 32 images a batch {cite:p}`ioffe2015`; small is below that."
    return [
        Finding(
            "sequences a batch, BERT, pre-training",
            256,
            below(31),
            why,
            form=".0f",
            reported="devlin2019",
        ),
        Finding(
            "sequences of 4096 tokens a batch, Llama 2, from 4 million tokens",
            4e6 / 4096,
            below(31),
            why,
            form=".0f",
            reported="touvron2023llama2",
        ),
        Finding(
            "sequences a batch, BERT, the smaller setting for fine-tuning",
            16,
            below(31),
            why,
            form=".0f",
            reported="devlin2019",
        ),
        Finding(
            "source tokens a batch, the first Transformer",
            25000,
            form=".0f",
            reported="vaswani2017",
        ),
    ]


@claim(
    "Attention's outputs have a large dynamic range, which needs LayerNorm.",
    met=ASSISTANT,
    place=Place(CHAPTER, "Attention's range", in_depth=True),
    recorded="open",
    answer="True of causal attention before training; whether that needs a norm is undecided.",
    condition="In a causal model the tokens that attention adds differ much in length, "
    "because the first ones average over few values and the last over many. Without "
    "the mask they differ about as much as the feed-forward network's.",
)
def range_of_attention() -> Evidence:
    added: dict[str, list[list[torch.Tensor]]] = {"causal": [], "unmasked": [], "feed-forward": []}
    for seed in range(5):
        start(seed)
        model = TransformerLM(1024, width=48, wiring="pre", dropout=0.0)
        seen: dict[str, list[torch.Tensor]] = {name: [] for name in added}

        def watch(attention: CausalAttention, x: tuple, y: torch.Tensor, seen: dict = seen) -> None:
            weights = F.scaled_dot_product_attention(*attention.split(x[0]))
            unmasked = attention.project_out(weights.transpose(1, 2).reshape(y.shape))
            seen["causal"].append(_lengths(y))
            seen["unmasked"].append(_lengths(unmasked))

        for layer in model.layers:
            assert isinstance(layer, TransformerLayer)
            layer.attention.register_forward_hook(watch)
            layer.feed_forward.register_forward_hook(
                lambda module, x, y, seen=seen: seen["feed-forward"].append(_lengths(y))
            )
        with torch.no_grad():
            model(torch.randint(1024, (16, 20)))
        for name, outputs in seen.items():
            added[name].append(outputs)

    def longest(tokens: torch.Tensor) -> float:
        return (tokens.max() / tokens.min()).item()

    def ratio(size: Callable[[torch.Tensor], float], layer: int, name: str) -> Interval:
        """log2 of a size of what attention adds over that of the feed-forward network."""
        attention, other = (
            np.array([size(run[layer]) for run in added[part]]) for part in (name, "feed-forward")
        )
        return over_seeds(np.log2(attention / other))

    return [
        *(
            Finding(
                f"longest over shortest token that attention adds, {words}, over the same of the "
                f"feed-forward network, layer {layer + 1} of 2, log2 (1 is twice)",
                ratio(longest, layer, name),
                above(0.5),
                "A large range is clearly larger than the other branch's: by half a doubling, "
                "a bound that was set after the first numbers.",
                form=".2f",
            )
            for name, words in (("causal", "causal mask"), ("unmasked", "mask left out"))
            for layer in (0, 1)
        ),
        *(
            Finding(
                "root mean square of what attention adds over that of what the feed-forward "
                f"network adds, causal mask, layer {layer + 1} of 2, log2",
                ratio(lambda tokens: tokens.square().mean().sqrt().item(), layer, "causal"),
                form=".2f",
            )
            for layer in (0, 1)
        ),
        Unsettled(
            "That attention adds tokens of different lengths does not show that they need a norm.",
            "Train with what attention adds rescaled to one length by a fixed factor per position, "
            "without a norm, and compare the test losses with LayerNorm's, paired by seed.",
        ),
    ]


@claim(
    "BatchNorm on the residual sum breaks the flow of the signal; LayerNorm fits it.",
    met=ASSISTANT,
    place=Place(CHAPTER, "Verdicts on single statements", in_depth=True),
    recorded="open",
    answer="We know of no comparison in a deep model.",
    condition="That LayerNorm keeps the samples of a batch independent is true "
    "({prf:ref}`thm-norms-hears`), on the sum as anywhere.",
)
def on_the_residual_sum() -> Evidence:
    return [
        Unsettled(
            "What happens to a signal has to be seen in a model of many layers.",
            "Train twelve layers with each norm on the sum, over rates and warm-ups, on shuffled "
            "text, and compare test losses paired by seed.",
        ),
    ]


@claim(
    "Vaswani et al. show that LayerNorm improves training speed and quality.",
    met=ASSISTANT,
    place=Place(CHAPTER, "What is reported", in_depth=True),
    recorded="false",
    answer="They use LayerNorm, and no experiment of theirs leaves it out.",
    condition="Nor does any move it. Rests on the paper's table of variations.",
)
def ablation_of_layer_norm() -> Evidence:
    return [
        Finding(
            "of the five groups of variations in its table 3 (A heads, B key size, C model size, "
            "D dropout and label smoothing, E position encoding), those that vary the norm",
            0,
            above(1),
            "To show that it improves something, one experiment must be without it.",
            reported="vaswani2017",
        )
    ]


@claim(
    "ConvNeXt and Swin Transformer combine BatchNorm and LayerNorm.",
    met=ASSISTANT,
    place=PARTED,
    recorded="false",
    answer="Both use LayerNorm alone.",
    condition="Counted in the authors' published definitions, not run.",
)
def mixed_norms() -> Evidence:
    why = "To combine both there must be a BatchNorm."
    return [
        Finding(
            "BatchNorm layers in the published definition of ConvNeXt",
            0,
            above(1),
            why,
            reported="liu2022",
        ),
        Finding(
            "BatchNorm layers in the published definition of Swin Transformer",
            0,
            above(1),
            why,
            reported="liu2021swin",
        ),
        Finding("LayerNorm layers in ConvNeXt-T: stem 1, downsampling 3, blocks 18, end 1", 23),
    ]


@claim(
    "LayerNorm is not mainstream in computer vision.",
    met=ASSISTANT,
    place=PARTED,
    recorded="partly",
    answer="True of older convolutional networks; Vision Transformers and ConvNeXt have it.",
    condition="Counted in a public collection of architectures, not run.",
)
def layer_norm_in_vision() -> Evidence:
    why = "Mainstream means at least half of them."
    return [
        Finding(
            "architectures of torchvision with LayerNorm, of 15 up to RegNet (2012 to spring 2020)",
            0,
            below(7),
            why,
            reported="torchvision2016",
        ),
        Finding(
            "architectures of torchvision with LayerNorm, of 5 since then (ViT, EfficientNetV2, "
            "Swin, "
            "ConvNeXt, MaxViT)",
            4,
            below(2),
            why,
            reported="torchvision2016",
        ),
    ]


@claim(
    "LayerNorm improves generalization.",
    met=ASSISTANT,
    place=Place(CHAPTER, "What is reported", in_depth=True),
    recorded="open",
    answer="A lower test loss after as many steps may be faster training alone.",
    condition="Generalization is test loss at equal training loss, and we know of no "
    "comparison of that kind.",
)
def generalization() -> Evidence:
    return [
        Finding(
            "test error on CIFAR-10 with LayerNorm minus without, percentage points, where "
            "LayerNorm converged faster",
            10.49 - 8.96,
            form=".2f",
            reported="zhang2019rms",
        ),
        Unsettled(
            "The difference mixes speed with generalization.",
            "Train with and without LayerNorm to the same training loss, on several tasks and "
            "sizes, and compare the test losses.",
        ),
    ]
