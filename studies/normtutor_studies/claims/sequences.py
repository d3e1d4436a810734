"""Claims about BatchNorm and LayerNorm on sequences and batches; chapter 3 explains them."""

import numpy as np
import torch
from torch.nn import functional as F

from normtutor import layers, norms
from normtutor.models import TransformerLayer, TransformerLM
from normtutor.training import start
from normtutor_studies import study
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    Unsettled,
    above,
    apart,
    below,
    claim,
    near,
)

CHAPTER = "03_batch_norm_vs_layer_norm"
PARTED = Place(CHAPTER, "Reasons that you may have heard")


@claim(
    "On (B, L, H), BatchNorm's statistics have the shape (1, 1, H).",
    met=sources.REVIEW,
    place=Place(CHAPTER, "What BatchNorm pools over"),
    recorded="true",
    answer="True of the pooled statistic, which is the usual one.",
    condition="Some recurrent networks have a statistic per step, of shape (1, L, H) "
    "({prf:ref}`def-seq-statistics`).",
)
def one_statistic_a_feature() -> Findings:
    x = np.random.default_rng(0).normal(size=(4, 5, 6))
    mean, variance = (of(x, axis=(0, 1), keepdims=True) for of in (np.mean, np.var))
    formula = (x - mean) / np.sqrt(variance + 1e-5)
    yield Finding(
        "largest difference of BatchNorm from a formula with statistics of shape (1, 1, H)",
        apart(norms.batch_norm(x, feature_axis=-1)[0], formula),
        below(1e-9, "The same statistics give the same numbers."),
    )


@claim(
    "Padding shifts BatchNorm's statistics.",
    met=f"{sources.EXPLANATION}, and {sources.REVIEW}",
    place=Place(CHAPTER, "Padding: a mask removes its effect"),
    recorded="true",
    answer="True without a mask, which removes the effect completely.",
    condition="By how much padding shifts them follows in closed form "
    "({prf:ref}`cor-seq-padding`), and with a mask they are those of the real tokens "
    "({prf:ref}`prop-seq-masked`).",
)
def padding_shifts() -> Findings:
    real = np.arange(1000) < 400
    x = np.where(real, 2 + np.random.default_rng(0).normal(size=1000), 0)[:, None]

    def mean(mask: np.ndarray | None) -> float:
        """Of the real tokens behind BatchNorm; 0 if its statistics are theirs."""
        return float(norms.batch_norm(x, mask=mask)[0][real].mean())

    yield Finding(
        "mean of the real tokens behind BatchNorm, 60% of the positions being zeros",
        mean(None),
        above(0.1, "Shifted means off by a tenth of a standard deviation or more."),
    )
    yield Finding("the same with a mask", mean(real))


@claim(
    "BatchNorm cannot handle sequences of different length.",
    met=sources.ASSISTANT,
    place=Place(CHAPTER, "Sentences of different length", in_depth=True),
    recorded="partly",
    answer="True of unmasked batches; a mask removes the trouble.",
    condition="Statistics per step have fewer and fewer sentences to average over.",
)
def variable_lengths() -> Findings:
    lengths = np.array([[8], [5], [3]])
    tokens = np.random.default_rng(0).normal(loc=1, size=(3, 16, 4))

    def change(masked: bool) -> float:
        """Largest change of a real token when the batch is padded to twice the length."""
        outputs = []
        for padded in (8, 16):
            real = np.arange(padded) < lengths
            x = np.where(real[..., None], tokens[:, :padded], 0.0)
            y = norms.batch_norm(x, feature_axis=-1, mask=real if masked else None)[0]
            outputs.append(y[real])
        return apart(*outputs)

    why = "If lengths were the trouble, more padding would change the outputs of real tokens."
    yield Finding(
        "largest change of a real token when a batch is padded to twice the length, no mask",
        change(masked=False),
        above(0.01, why),
    )
    yield Finding("the same with a mask", change(masked=True), above(0.01, why))


@claim(
    "BatchNorm has trouble with parallel training; LayerNorm parallelises.",
    met=f"{sources.ASSISTANT}, and {sources.GUIDE}",
    place=Place(CHAPTER, "Two devices", in_depth=True),
    recorded="partly",
    answer="Local statistics change the gradient; synchronized, they give that of the whole batch.",
    condition="Synchronizing costs an exchange in every layer. LayerNorm has nothing to exchange.",
)
def parallel_training() -> Findings:
    rng = np.random.default_rng(3)
    document = np.repeat(rng.normal(size=(2, 1, 6)), 4, axis=0)
    x = torch.from_numpy(document + rng.normal(size=(8, 16, 6)))
    target = torch.from_numpy(rng.normal(size=(8, 16, 6)))
    weight = torch.from_numpy(rng.normal(size=(6, 6))).requires_grad_()

    def gradient(local: bool) -> torch.Tensor:
        h = (x @ weight).reshape(2, -1, 6)  # (device, token, feature)
        variance, mean = torch.var_mean(h, dim=1, correction=0, keepdim=True)
        if not local:  # put together from what each device sends, its mean and variance
            square, mean = (variance + mean**2).mean(dim=0), mean.mean(dim=0)
            variance = square - mean**2
        y = ((h - mean) / torch.sqrt(variance + 1e-5)).reshape(x.shape)
        return torch.autograd.grad((y - target).square().mean(), weight)[0]

    y = norms.batch_norm(x @ weight, feature_axis=-1)[0]
    whole = torch.autograd.grad((y - target).square().mean(), weight)[0]

    def error(local: bool) -> float:
        return ((gradient(local) - whole).norm() / whole.norm()).item()

    why = "Trouble means a gradient that differs from that of the whole batch by 1% or more."
    yield Finding(
        "relative error of the gradient, two documents on two devices, local statistics",
        error(local=True),
        above(0.01, why),
    )
    yield Finding(
        "the same, statistics put together from what each device sends",
        error(local=False),
        above(0.01, why),
    )


@claim(
    "BatchNorm cannot learn online, with a batch of one.",
    met=sources.GUIDE,
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="partly",
    answer="True of a single vector; one sentence or one image has values enough.",
    condition="A single sentence (1, L, H) has L values per feature, and an image one per pixel.",
)
def batch_of_one() -> Findings:
    def refused(shape: tuple[int, ...]) -> int:
        norm = layers.BatchNorm(8, feature_axis=-1)
        try:
            norm(torch.randn(shape, generator=torch.manual_seed(0)))
        except ValueError:
            return 1
        return 0

    cannot = near(1, 0, "1 is an error, 0 is an output; “cannot” means an error.")
    for words, shape in (("one vector", (1, 8)), ("one sentence", (1, 5, 8))):
        yield Finding(f"BatchNorm refuses to train on {words} {shape}", refused(shape), cannot)


@claim(
    "BatchNorm makes a model less sensitive to outliers.",
    met=sources.GUIDE,
    place=Place(CHAPTER, "One bad token", in_depth=True),
    recorded="partly",
    answer="The outlier itself is bounded in training; the rest of its batch pays.",
    condition="The other tokens are squeezed together ({prf:ref}`cor-seq-outlier`), and in "
    "evaluation nothing is bounded.",
)
def outliers() -> Findings:
    x = np.random.default_rng(0).normal(size=(100, 1))
    calm = norms.batch_norm(x)[0]
    x[-1] = 1000
    y = norms.batch_norm(x)[0]
    yield Finding(
        "output for an outlier of 1000 standard deviations among 100 values, training",
        float(y[-1, 0]),
        below(100, "Less sensitive means that it comes out ten times smaller or more."),
    )
    yield Finding(
        "spread of 99 other outputs beside an outlier over what it was without",
        float(y[:-1].std() / calm[:-1].std()),
        near(1, 0.1, "A model that is less sensitive leaves the others as they were, to a tenth."),
    )


@claim(
    "BatchNorm does not suit recurrent networks.",
    met=f"{sources.NOTES}, and {sources.REVIEW}",
    place=Place(CHAPTER, "Sentences of different length", in_depth=True),
    recorded="partly",
    answer="True of one statistic for all steps; with statistics per step it has worked.",
    condition="A state that starts at zero and settles does not fit one statistic, and the first "
    "attempt reports no help between the states {cite:p}`laurent2016`.",
)
def recurrent_networks() -> Findings:
    start(0)
    cell, state, spread = torch.nn.GRUCell(32, 64), torch.zeros(512, 64), []
    with torch.no_grad():
        for _ in range(32):
            state = cell(torch.randn(512, 32), state)
            spread.append((state @ cell.weight_hh.T).std().item())
    off = "If one statistic for all steps does not suit, it is off by a tenth or more at some."
    yield Finding(
        "spread of an untrained GRU's projected state after step 1 over that after step 32, random "
        "inputs",
        spread[0] / spread[-1],
        below(0.9, off),
    )
    yield Finding(
        "pixels of digits in a fixed random order: accuracy of an LSTM with BatchNorm per step "
        "minus without, percentage points",
        95.4 - 90.2,
        below(0, "What does not suit gains nothing."),
        reported="cooijmans2017",
    )


@claim(
    "BatchNorm fails on text.",
    met=f"{sources.EXPLANATION}, and {sources.ASSISTANT}",
    place=Place(CHAPTER, "What is reported", in_depth=True),
    recorded="open",
    answer="Reports go both ways.",
    condition="One group finds it behind LayerNorm {cite:p}`shen2020`, another level or better "
    "where training and evaluation agree {cite:p}`wang2022bn`.",
)
def fails_on_text() -> Findings:
    yield Finding(
        "share of 20 settings in which BatchNorm with a penalty on the inconsistency of its modes "
        "is on par with LayerNorm or better",
        17 / 20,
        below(0.5, "To fail is to be behind in most settings."),
        form=".0%",
        reported="wang2022bn",
    )
    yield Finding(
        "BatchNorm's test loss minus LayerNorm's, source code, mixed batches with masked padding, "
        "six layers, each at its own rate (nats per character)",
        study("batch_composition").row(
            "code: BatchNorm, varied lengths - LayerNorm, varied lengths"
        ),
        above(0, "To fail is to have the larger loss."),
    )
    yield Unsettled(
        "The two reports differ in what they do about batches, and both are of one model each.",
        "Train both norms on mixed batches, on a second kind of text, each at its own learning "
        "rate, padding left out, and compare the test losses paired by seed.",
    )


@claim(
    "Batches of equal length need no padding, so they suit BatchNorm best.",
    met="advice on data loaders",
    place=Place(CHAPTER, "Who shares a batch"),
    recorded="false",
    scope="at our scale",
    answer="With a mask, mixed batches ended lower, for LayerNorm as well.",
    condition="The tests are the same, mixed and of all lengths.",
)
def equal_lengths() -> Findings:
    one = study("batch_composition")

    def more(norm: str, world: str) -> np.ndarray:
        """Test loss after batches of equal length minus after mixed batches with a mask."""
        return one.row(f"{world}: {norm}, equal lengths - {norm}, varied lengths")

    for world in ("formulas", "code"):
        yield Finding(
            f"{world}, six layers, BatchNorm: test loss after batches of equal length minus after "
            "mixed batches with a mask (nats)",
            more("BatchNorm", world),
            below(0, "What suits best ends lowest."),
        )
    for world in ("formulas", "code"):
        yield Finding(f"{world}: the same with LayerNorm", more("LayerNorm", world))


@claim(
    "A BatchNorm model cannot write text token by token, because there is no batch.",
    met="forums",
    place=Place(CHAPTER, "When BatchNorm is the right choice"),
    recorded="false",
    answer="In evaluation BatchNorm is a fixed affine map of each token and needs no batch.",
)
def writing_without_a_batch() -> Findings:
    norm = layers.BatchNorm(8, feature_axis=-1).double()
    seen, x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 4, 9, 8)))
    norm(seen)
    norm.eval()
    yield Finding(
        "difference of one token alone from the same token in a batch, evaluation",
        apart(norm(x[:1, :1]).detach(), norm(x)[:1, :1].detach()),
        above(1e-9, "If it needed the batch, a token alone would come out differently."),
    )


@claim(
    "BatchNorm fails with small batches.",
    met=sources.TUTORIALS,
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True where a feature has one value per example; a convolution has many, and can lead.",
    condition="On ImageNet two images per device were too few.",
)
def small_batches() -> Findings:
    yield Finding(
        "ImageNet, 2 images a device: error of BatchNorm minus GroupNorm, percentage points",
        10.6,
        above(1, "To fail is to be behind by a point or more."),
        reported="wu2018",
    )
    for world in ("perceptron", "convolutions"):
        yield Finding(
            f"MNIST-1D, {world}, 4 examples: test loss of BatchNorm minus LayerNorm's (nats)",
            study("batch_sizes").row(f"{world}: BatchNorm, 4 - LayerNorm, 4"),
            above(0, "To fail is to have the larger loss."),
        )


@claim(
    "The larger the batch, the better BatchNorm.",
    met=f"{sources.TUTORIALS} that explain batch statistics as estimates",
    place=Place(CHAPTER, "Small batches", in_depth=True),
    recorded="open",
    answer="In our perceptron, yes; in a convolution, which pools more values, it is undecided.",
    condition="With a fixed number of examples a larger batch means fewer steps for any network, "
    "so each size is compared with no norm at the same size.",
)
def larger_is_better() -> Findings:
    def lead(world: str, size: int) -> np.ndarray:
        """Test loss without a norm minus BatchNorm's, both with batches of one size."""
        return study("batch_sizes").row(f"{world}: no norm, {size} - BatchNorm, {size}")

    for world in ("perceptron", "convolutions"):
        for small, large in ((4, 16), (16, 64)):
            yield Finding(
                f"MNIST-1D, {world}: by how much BatchNorm ends below no norm with {large} "
                f"examples, minus the same with {small} (nats)",
                lead(world, large) - lead(world, small),
                above(0, "Better is further below no norm; every run saw as many examples."),
            )


@claim(
    "Batches in NLP are small.",
    met=sources.ASSISTANT,
    place=PARTED,
    recorded="partly",
    answer="Often true of fine-tuning; in pre-training a batch holds up to millions of tokens.",
    condition="The part that one device sees may be small, too. Rests on published settings.",
)
def small_batches_in_language() -> Findings:
    why = "BatchNorm's own paper used 32 images a batch {cite:p}`ioffe2015`; small is below that."
    for number, words in ((256, "pre-training"), (16, "fine-tuning, the smaller setting")):
        what = f"sequences in a batch, BERT, {words}"
        yield Finding(what, number, below(31, why), reported="devlin2019")
    yield Finding(
        "million tokens in a batch, Llama 2, pre-training", 4, reported="touvron2023llama2"
    )


@claim(
    "Attention's outputs have a large dynamic range, which needs LayerNorm.",
    met=sources.ASSISTANT,
    place=Place(CHAPTER, "Attention's range", in_depth=True),
    recorded="open",
    answer="True of causal attention before training; whether that needs a norm is undecided.",
    condition="The first tokens average over few values and the last over many. Without the mask "
    "what attention adds differs about as much in length as what the feed-forward network adds.",
)
def range_of_attention() -> Findings:
    def spread(tokens: torch.Tensor) -> float:
        """The longest over the shortest, log2."""
        lengths = tokens.norm(dim=-1)
        return torch.log2(lengths.max() / lengths.min()).item()

    more = []
    for seed in range(5):
        start(seed)
        model = TransformerLM(1024, width=48, wiring="pre", dropout=0.0)
        layer = model.layers[0]
        assert isinstance(layer, TransformerLayer)
        with torch.no_grad():
            x = model.embed(torch.randint(1024, (16, 20)))
            read = F.layer_norm(x, (48,))
            causal = layer.attention(read)
            mixed = F.scaled_dot_product_attention(*layer.attention.split(read))
            unmasked = layer.attention.project_out(mixed.transpose(1, 2).reshape(x.shape))
            other = spread(layer.feed_forward(F.layer_norm(x + causal, (48,))))
        more.append([spread(causal) - other, spread(unmasked) - other])
    large = above(0.5, "A large range exceeds the other branch's clearly, by half a doubling.")
    yield Finding(
        "longest over shortest token that attention adds, causal mask, over the same of the "
        "feed-forward network, first layer, log2 (1 is twice)",
        [causal for causal, _ in more],
        large,
    )
    yield Finding("the same, mask left out", [unmasked for _, unmasked in more], large)
    yield Unsettled(
        "That attention adds tokens of different lengths does not show that they need a norm.",
        "Train with what attention adds rescaled to one length by a fixed factor per position, "
        "without a norm, and compare the test losses with LayerNorm's, paired by seed.",
    )


@claim(
    "BatchNorm on the residual sum breaks the flow of the signal; LayerNorm fits it.",
    met=sources.ASSISTANT,
    place=Place(CHAPTER, "Verdicts on single statements", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="ResNets end worse with BatchNorm on the sum; LayerNorm on it, Post-LN, has its own "
    "trouble.",
    condition="That LayerNorm keeps the samples of a batch independent is true "
    "({prf:ref}`thm-norms-hears`), on the sum as anywhere.",
)
def on_the_residual_sum() -> Findings:
    post, pre = (
        study("warmup_map").read("loss", wiring=wiring, depth=12, warmup=0, rate=4e-3)
        for wiring in ("post", "pre")
    )
    for network, error in (("ResNet-110", 8.17 - 6.61), ("ResNet-164", 6.50 - 5.93)):
        yield Finding(
            f"CIFAR-10, {network}: error with BatchNorm on the sum minus with it in the branch, "
            "percentage points",
            error,
            above(0, "What breaks the flow ends worse."),
            reported="he2016identity",
        )
    yield Finding(
        "sorting, 12 layers, rate 0.004, no warm-up: test loss with LayerNorm on the sum minus "
        "with it in the branch (nats per digit)",
        post - pre,
        below(0.05, "What fits loses nothing that one would notice."),
    )


@claim(
    "LayerNorm is not mainstream in computer vision.",
    met=sources.ASSISTANT,
    place=PARTED,
    recorded="partly",
    answer="True of older convolutional networks; Vision Transformers and ConvNeXt have it.",
    condition="Counted in a public collection of architectures, not run.",
)
def layer_norm_in_vision() -> Findings:
    mainstream = "Mainstream means at least half of them."
    yield Finding(
        "architectures of torchvision with LayerNorm, of 15 up to RegNet (2012 to spring 2020)",
        0,
        below(7, mainstream),
        reported="torchvision2016",
    )
    yield Finding(
        "architectures of torchvision with LayerNorm, of 5 since then (ViT, EfficientNetV2, Swin, "
        "ConvNeXt, MaxViT)",
        4,
        below(2, mainstream),
        reported="torchvision2016",
    )


@claim(
    "LayerNorm improves generalization.",
    met=sources.ASSISTANT,
    place=Place(CHAPTER, "What is reported", in_depth=True),
    recorded="open",
    answer="A lower test loss after as many steps may be faster training alone.",
    condition="Generalization is test loss at equal training loss, and we know of no comparison of "
    "that kind.",
)
def generalization() -> Findings:
    yield Finding(
        "test error on CIFAR-10 with LayerNorm minus without, percentage points, where LayerNorm "
        "converged faster",
        10.49 - 8.96,
        reported="zhang2019rms",
    )
    yield Unsettled(
        "The difference mixes speed with generalization.",
        "Train with and without LayerNorm to the same training loss, on several tasks and sizes, "
        "and compare the test losses.",
    )
