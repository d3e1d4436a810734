"""Claims about what each norm computes and about LayerNorm's geometry; chapter 2 explains them."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from normtutor import layers, norms
from normtutor.models import MLP
from normtutor_studies.claims.ledger import (
    ASSISTANT,
    EXPLANATION,
    GUIDE,
    NOTES,
    REVIEW,
    TUTORIALS,
    Evidence,
    Finding,
    Place,
    above,
    below,
    claim,
    near,
    over_seeds,
)

CHAPTER = "02_family_of_norms"
GEOMETRY = Place(CHAPTER, "What LayerNorm forgets")
IMAGES = Place(CHAPTER, "LayerNorm on images")
ORIGINS = Place(CHAPTER, "Where each norm comes from", in_depth=True)
WIDTH = 768  # of a usual small Transformer


def _tokens(count: int = 1000, width: int = WIDTH) -> np.ndarray:
    """Tokens whose means and scales differ."""
    rng = np.random.default_rng(0)
    scale, offset = np.exp(rng.normal(size=(count, 1))), rng.normal(size=(count, 1))
    return scale * rng.normal(size=(count, width)) + offset


@claim(
    "LayerNorm puts every embedding on the sphere of radius 1 around the origin.",
    met=EXPLANATION,
    place=GEOMETRY,
    recorded="false",
    answer="Its radius is √d, and with γ and β it is an ellipsoid.",
    condition="Without γ and β the radius is √d, inside the hyperplane of vectors with mean 0 "
    "({prf:ref}`thm-norms-sphere`). With them it is a shifted ellipsoid.",
)
def unit_sphere() -> Evidence:
    x, rng = _tokens(), np.random.default_rng(1)
    lengths = np.linalg.norm(norms.layer_norm(x)[0], axis=1)
    weight, bias = 1 + 0.3 * rng.normal(size=(2, WIDTH))
    learned = np.linalg.norm(norms.layer_norm(x, weight, bias)[0], axis=1)
    return [
        Finding(
            f"mean length of an output, d = {WIDTH}",
            float(lengths.mean()),
            near(1, 0.01),
            "A hundredth allows for ε.",
            form=".3f",
        ),
        Finding(
            "longest over shortest output with random γ and β",
            float(learned.max() / learned.min()),
            near(1, 0.01),
            "On a sphere around the origin all have one length.",
            form=".2f",
        ),
    ]


@claim(
    "LayerNorm's outputs fill a ball, the sparser the further from the sphere.",
    met=EXPLANATION,
    place=GEOMETRY,
    recorded="false",
    answer="All outputs lie on the sphere itself, or with γ and β on one ellipsoid.",
    condition="There is no ball. Without γ and β all outputs lie *on* the sphere, and only ε moves "
    "them inwards; with γ and β they all lie on one ellipsoid.",
)
def ball() -> Evidence:
    x, rng = _tokens(), np.random.default_rng(1)
    weight, bias = 1 + 0.3 * rng.normal(size=(2, WIDTH))
    radius = np.linalg.norm(norms.layer_norm(x)[0], axis=1) / WIDTH**0.5
    y = norms.layer_norm(x, weight, bias)[0]
    ellipsoid = np.linalg.norm((y - bias) / weight, axis=1) / WIDTH**0.5
    why = "In a ball that is only sparser there, more than one in a hundred lies so far inside."
    return [
        Finding(
            "share of 1000 outputs that lie further than 5% of the radius from the sphere",
            float((np.abs(radius - 1) > 0.05).mean()),
            above(0.01),
            why,
        ),
        Finding(
            "share of 1000 outputs that lie further than 5% from the ellipsoid of random γ and β",
            float((np.abs(ellipsoid - 1) > 0.05).mean()),
            above(0.01),
            why,
        ),
    ]


def _distance_of_topics(norm: Callable[..., tuple]) -> float:
    """How far apart two batches with a topic each remain, relative to the distance before."""
    rng = np.random.default_rng(2)
    batches = rng.normal(size=(2, 1000, 32)) + rng.normal(size=(2, 1, 32))

    def distance(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)))

    return distance(*(norm(batch)[0] for batch in batches)) / distance(*batches)


@claim(
    "BatchNorm wipes out the differences between tokens; LayerNorm loses nothing.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Which norm loses the differences between tokens?"),
    recorded="partly",
    answer="Within a batch LayerNorm loses some and BatchNorm none; between batches "
    "BatchNorm loses some.",
    condition="Within a batch BatchNorm applies one invertible affine map to all tokens, and "
    "LayerNorm forgets the mean and the scale of each "
    "({prf:ref}`thm-norms-forgets`). Between batches BatchNorm erases the mean and "
    "the scale of each feature, and with the mean what a topic adds to all tokens.",
)
def differences_between_tokens() -> Evidence:
    x = _tokens(2000, 32)
    x[1] = 3 * x[0] + 2
    batch, layer = norms.batch_norm(x)[0], norms.layer_norm(x)[0]
    design = np.column_stack([batch, np.ones(len(x))])
    left = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    return [
        Finding(
            "share of the tokens' variance that one affine map recovers from BatchNorm's output",
            float(1 - (left**2).sum() / ((x - x.mean(axis=0)) ** 2).sum()),
            below(0.99),
            "What is wiped out cannot be recovered; 0.99 allows for ε.",
            form=".4f",
        ),
        Finding(
            "distance of two outputs of LayerNorm over the distance of their inputs x and 3x + 2",
            float(np.linalg.norm(layer[0] - layer[1]) / np.linalg.norm(x[0] - x[1])),
            above(0.01),
            "If nothing were lost, different tokens would stay different.",
            form=".0e",
        ),
        Finding(
            "distance between the mean tokens of two batches with a topic each, after BatchNorm on "
            "each batch over before",
            _distance_of_topics(norms.batch_norm),
            below(0.01),
            "A difference that is wiped out is gone; a hundredth allows for rounding.",
            form=".2f",
        ),
        Finding(
            "the same after LayerNorm",
            _distance_of_topics(norms.layer_norm),
            form=".2f",
        ),
    ]


@claim(
    "BatchNorm takes away the information about positions.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Which differences survive", in_depth=True),
    recorded="partly",
    answer="True of statistics for each position; the usual, pooled BatchNorm keeps positions.",
    condition="The pooled BatchNorm maps all tokens of a batch by one affine map that can be "
    "inverted ({prf:ref}`prop-norms-affine`), so a position can be read from its "
    "output as well as from its input. Statistics of its own for each position "
    "subtract what all tokens there have in common.",
)
def positions_lost() -> Evidence:
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(20, 32))
    x = embedding + rng.normal(size=(200, 20, 32))  # 200 sentences, 20 positions
    place = np.tile(np.arange(20), 200)

    def read(y: np.ndarray) -> float:
        """Share of the positions that a linear map, fitted on half of the tokens, gets right."""
        design = np.column_stack([y.reshape(-1, 32), np.ones(len(place))])
        half = len(place) // 2
        fit = np.linalg.lstsq(design[:half], np.eye(20)[place[:half]], rcond=None)[0]
        return float(((design[half:] @ fit).argmax(axis=1) == place[half:]).mean())

    before = read(x)
    why = "What is taken away cannot be read any more; a twentieth is the least that counts."
    per_step = norms.batch_norm(x.reshape(200, -1))[0].reshape(x.shape)
    return [
        Finding(
            "positions that a linear map reads from BatchNorm's output, minus those from its input",
            read(norms.batch_norm(x, feature_axis=-1)[0]) - before,
            below(-0.05),
            why,
            form=".3f",
        ),
        Finding(
            "the same with statistics for each position", read(per_step) - before, below(-0.05), why
        ),
        Finding("the same after LayerNorm", read(norms.layer_norm(x)[0]) - before, form=".3f"),
        Finding("positions that it reads from the input, of 20", before, form=".1%"),
    ]


@claim(
    "LayerNorm's code is the mean, and the mean of the squares, over the last axis.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Three choices"),
    recorded="false",
    answer="The axis is right, but the mean must be subtracted before squaring.",
    condition="The mean of the squares is the variance only of a token whose mean is 0 "
    "already. And ε, γ and β are missing.",
)
def layer_norm_in_two_lines() -> Evidence:
    x = _tokens(100, 16)

    def two_lines(x: np.ndarray) -> np.ndarray:
        mean = x.mean(axis=-1, keepdims=True)
        square = (x**2).mean(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(square)

    def gap(x: np.ndarray) -> float:
        return float(np.abs(two_lines(x) - norms.layer_norm(x)[0]).max())

    return [
        Finding(
            "largest difference to LayerNorm, tokens of any mean",
            gap(x),
            below(0.01),
            "The same layer gives the same numbers; a hundredth allows for the missing ε.",
        ),
        Finding(
            "largest difference to LayerNorm, tokens of mean 0",
            gap(x - x.mean(axis=-1, keepdims=True)),
        ),
    ]


@claim(
    "torch.var gives the variance that LayerNorm divides by.",
    met=f"the code in {GUIDE}",
    place=Place(CHAPTER, "Two variances", in_depth=True),
    recorded="false",
    answer="torch.var divides by d − 1 unless told otherwise, and LayerNorm by d.",
    condition="By default torch.var divides by d − 1, and LayerNorm by d; pass correction=0 to get "
    "LayerNorm's. The outputs differ by the factor √((d−1)/d) ({prf:ref}`prop-norms-unbiased`), "
    "which is close to 1 for wide layers.",
)
def torch_variance() -> Evidence:
    def ratio(width: int) -> float:
        x = torch.from_numpy(_tokens(100, width))
        by_hand = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)
        return (by_hand / nn.functional.layer_norm(x, (width,))).median().item()

    why = "In double precision the same formula agrees to 1e-9."
    return [
        Finding(
            f"output with torch.var over LayerNorm's, d = {width}",
            ratio(width),
            near(1, 1e-9),
            why,
            form=".5f",
        )
        for width in (4, WIDTH)
    ]


@claim(
    "On (N, C, H, W), LayerNorm averages over C, H and W.",
    met=NOTES,
    place=IMAGES,
    recorded="partly",
    answer="True of one layer of that name; Transformers and ConvNeXt average over C alone.",
    condition="Two layers share the name. The average over the whole image is GroupNorm with one "
    "group; Transformers, and ConvNeXt {cite:p}`liu2022`, normalize each position over its "
    "features.",
)
def whole_image() -> Evidence:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 6, 5, 5)) * 3 + 1)
    whole = norms.group_norm(x, num_groups=1)[0]
    flat = nn.functional.layer_norm(x, (6, 5, 5))
    token = nn.functional.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1)
    why = "The same axes give the same numbers."
    return [
        Finding(
            "LayerNorm([C, H, W]) against the average over the whole image: largest difference",
            (flat - whole).abs().max().item(),
            below(1e-9),
            why,
        ),
        Finding(
            "LayerNorm(C), as in Transformers: largest difference",
            (token - whole).abs().max().item(),
            below(1e-9),
            why,
        ),
    ]


@claim(
    "LayerNorm and BatchNorm differ in the axes of their statistics, and in nothing else.",
    met=REVIEW,
    place=Place(CHAPTER, "Training and evaluation"),
    recorded="false",
    answer="That is all in training; but BatchNorm also keeps running statistics for evaluation.",
    condition="In training, without γ and β, transposing the matrix turns one into the other. "
    "BatchNorm also has running statistics and a second mode, and its affine map "
    "can undo it ({prf:ref}`prop-norms-affine`).",
)
def axes_alone() -> Evidence:
    x = _tokens(12, 8)
    transposed = norms.batch_norm(x.T)[0].T
    module = layers.BatchNorm(8).double()
    module(torch.from_numpy(x))
    evaluated = module.eval()(torch.from_numpy(x)).detach().numpy()
    return [
        Finding(
            "BatchNorm of the transposed matrix against LayerNorm: largest difference",
            float(np.abs(transposed - norms.layer_norm(x)[0]).max()),
        ),
        Finding(
            "running statistics that a BatchNorm of 8 features keeps, LayerNorm keeping none",
            sum(buffer.numel() for name, buffer in module.named_buffers() if "running" in name),
            near(0, 0),
            "If only the axes differed, neither would keep any.",
        ),
        Finding(
            "the same batch in evaluation against training: largest difference in BatchNorm",
            float(np.abs(evaluated - norms.batch_norm(x)[0]).max()),
            below(1e-9),
            "LayerNorm has one mode; if only the axes differed, so would BatchNorm.",
        ),
    ]


@claim(
    "With γ and β a network can undo the normalization if it wants to.",
    met=f"{TUTORIALS}, after a remark in {{cite:t}}`ioffe2015` about BatchNorm",
    place=Place(CHAPTER, "What γ and β can undo", in_depth=True),
    recorded="partly",
    answer="True of BatchNorm; LayerNorm's γ and β cannot restore each token's mean and scale.",
    condition="True of BatchNorm, on a given batch. LayerNorm has a mean and a scale for each "
    "token, and γ and β for each feature ({prf:ref}`prop-norms-affine`).",
)
def undone_by_the_affine_map() -> Evidence:
    x = _tokens(500, 16)

    def restored(y: np.ndarray) -> float:
        """Share of the variance that the best γ and β bring back, feature by feature."""
        y, target = y - y.mean(axis=0), x - x.mean(axis=0)
        weight = (y * target).mean(axis=0) / y.var(axis=0)
        return float(1 - ((target - weight * y) ** 2).sum() / (target**2).sum())

    why = "To undo is to bring all of it back; 0.999 allows for rounding."
    return [
        Finding(
            f"share of the input that the best γ and β restore, {name}",
            restored(y),
            above(0.999),
            why,
            form=".3f",
        )
        for name, y in (
            ("BatchNorm", norms.batch_norm(x)[0]),
            ("LayerNorm", norms.layer_norm(x)[0]),
        )
    ]


@claim(
    "LN(x) = LN(αx) for every α other than 0.",
    met=TUTORIALS,
    place=GEOMETRY,
    recorded="false",
    answer="A negative factor flips the sign, and a tiny one lets ε in.",
    condition="α must be positive, and the variances of x and αx large against ε "
    "({prf:ref}`thm-norms-forgets`). Then the outputs are the same.",
)
def any_factor() -> Evidence:
    x = _tokens(100, 64)
    y = norms.layer_norm(x)[0]

    def change(factor: float) -> float:
        return float(np.abs(norms.layer_norm(factor * x)[0] - y).max())

    why = "Outputs have size 1; a hundredth allows for ε."
    return [
        *(
            Finding(f"largest change of an output, α = {words}", change(a), below(0.01), why)
            for a, words in ((-3.0, "−3"), (1e-3, "0.001"))
        ),
        Finding("largest change of an output, α = 3", change(3.0)),
    ]


@claim(
    "LayerNorm gives embeddings excellent properties for similarity and correlation analysis.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Dot products, distances, cosines", in_depth=True),
    recorded="partly",
    answer="It turns dot products into cosines; neighbours by cosine get no better.",
    condition="The dot product of two outputs behaves like a cosine "
    "({prf:ref}`thm-norms-similarity`), and so finds better neighbours. On images "
    "of digits neighbours by cosine or by distance stayed as they were.",
)
def similarity() -> Evidence:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)

    def right(vectors: np.ndarray, measure: str) -> float:
        """How often the nearest neighbour of an image shows the same digit."""
        lengths = np.linalg.norm(vectors, axis=1)
        scores = vectors @ vectors.T
        if measure == "cosine":
            scores = scores / np.outer(lengths, lengths)
        if measure == "distance":
            scores = 2 * scores - lengths**2  # the larger, the nearer, within a row
        np.fill_diagonal(scores, -np.inf)
        return float((labels[scores.argmax(axis=1)] == labels).mean())

    normalized = norms.layer_norm(images)[0]
    measures = ("dot product", "cosine", "distance")
    gain = {m: right(normalized, m) - right(images, m) for m in measures}
    why = "Better means that more neighbours show the same digit; 0.01 is 18 images of 1797."
    return [
        Finding(
            f"gain in right neighbours among images of digits, by {measure}",
            value,
            above(0.01),
            why,
            form="+.3f",
        )
        for measure, value in gain.items()
    ]


@claim(
    "ε is only there to avoid a division by zero.",
    met=f"comments in code, and {TUTORIALS}",
    place=Place(CHAPTER, "What ε does", in_depth=True),
    recorded="partly",
    answer="True while ε is far below the variance of the input; from there on it shrinks "
    "the output.",
    condition="True if ε is far below the variance of the input. An embedding table with standard "
    "deviation 0.02 has variance 0.0004. BERT's ε is far below that {cite:p}`wolf2020`; the "
    "default of Keras is above it {cite:p}`chollet2015keras`.",
)
def epsilon_is_harmless() -> Evidence:
    x = 0.02 * np.random.default_rng(0).normal(size=(10, 4096))

    def length(eps: float) -> float:
        return float((np.linalg.norm(norms.layer_norm(x, eps=eps)[0], axis=1) / 64).mean())

    why = "If ε only guarded a division, no output would change by a hundredth of its length."
    what = "length of an output over √d, inputs of standard deviation 0.02, ε ="
    return [
        *(
            Finding(f"{what} {words}", length(eps), near(1, 0.01), why, form=".3f")
            for eps, words in (
                (1e-3, "0.001, as by default in Keras"),
                (1e-12, "10⁻¹², as in BERT"),
            )
        ),
        Finding("the same with torch's default, ε = 0.00001", length(1e-5), form=".3f"),
    ]


@claim(
    "WeightNorm separates a weight vector's length from its direction.",
    met=REVIEW,
    place=ORIGINS,
    recorded="true",
    answer="The length of w is |g|, and its direction is that of v.",
    condition="w = g v/‖v‖: the length is |g|, and the length of v has no effect.",
)
def length_and_direction() -> Evidence:
    rng = np.random.default_rng(0)
    v, g = rng.normal(size=(8, 32)), rng.normal(size=(8, 1))
    w = norms.weight_norm(v, g)[0]
    longer = norms.weight_norm(5 * v, g)[0]
    why = "Separate means that changing one leaves the other alone, up to rounding."
    return [
        Finding(
            "largest difference of ‖w‖ and |g|",
            float(np.abs(np.linalg.norm(w, axis=1) - np.abs(g[:, 0])).max()),
            below(1e-9),
            why,
            form=".0e",
        ),
        Finding(
            "largest change of w when v becomes five times as long",
            float(np.abs(longer - w).max()),
            below(1e-9),
            why,
            form=".0e",
        ),
    ]


@claim(
    "Instance normalization dates from 2017.",
    met=NOTES,
    place=ORIGINS,
    recorded="false",
    answer="The paper appeared in July 2016, in the month of LayerNorm's.",
    condition="A later paper by its authors appeared in 2017.",
)
def year_of_instance_norm() -> Evidence:
    return [
        Finding(
            "year of arXiv:1607.08022, whose number begins with year and month",
            2016,
            near(2017, 0),
            "The claim names the year.",
            form=".0f",
            reported="ulyanov2016",
        )
    ]


@claim(
    "All normalization layers act on the input of an activation function.",
    met=NOTES,
    place=Place("04_invariance", "Where the norm stands", in_depth=True),
    recorded="false",
    answer="BatchNorm was proposed so; in a Transformer no activation reads a norm.",
    condition="Linear map, norm, activation is the order of {cite:t}`ioffe2015`. In a "
    "Transformer a norm is followed by a linear map or by the next residual step, "
    "and WeightNorm does not act on activations at all.",
)
def in_front_of_an_activation() -> Evidence:
    def readers(network: nn.Module, kind: type[nn.Module], x: torch.Tensor) -> tuple[int, Counter]:
        """How many norms of this kind there are, and what sort of modules read their outputs."""
        normed: list[torch.Tensor] = []
        found: Counter[str] = Counter()

        def note(module: nn.Module, inputs: tuple[torch.Tensor, ...], y: torch.Tensor) -> None:
            if any(inputs[0] is output for output in normed):
                found[type(module).__name__] += 1
            if isinstance(module, kind):
                normed.append(y)

        for module in network.modules():
            if not list(module.children()):
                module.register_forward_hook(note)
        network(x)
        return len(normed), found

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, activation=nn.ReLU(), batch_first=True, norm_first=True
    )
    network = MLP(norm=nn.BatchNorm1d, activation=nn.ReLU())
    count, read = readers(layer, nn.LayerNorm, torch.randn(1, 3, 8))
    batch_count, batch_read = readers(network, nn.BatchNorm1d, torch.randn(5, 64))
    return [
        Finding(
            "of the norms in torch's TransformerEncoderLayer, those whose output an activation "
            "function reads",
            read["ReLU"],
            near(count, 0),
            "By the claim every norm stands in front of an activation.",
        ),
        Finding(
            "those whose output a linear layer reads; the other feeds attention, which begins with "
            "linear maps",
            read["Linear"],
        ),
        Finding(
            f"of the {batch_count} BatchNorms in chapter 1's network, which follows "
            "{cite:t}`ioffe2015`, those whose output an activation function reads",
            batch_read["ReLU"],
        ),
    ]


@claim(
    "GroupNorm with one group and LayerNorm are the same layer.",
    met=TUTORIALS,
    place=IMAGES,
    recorded="false",
    answer="They agree on vectors; on sequences and images GroupNorm averages over positions too.",
    condition="So in a causal model GroupNorm leaks the future. Its affine map has another "
    "shape, too.",
)
def one_group() -> Evidence:
    x = np.random.default_rng(0).normal(size=(2, 5, 8))

    def gap(x: np.ndarray) -> float:
        group = norms.group_norm(x, num_groups=1, feature_axis=-1)[0]
        return float(np.abs(group - norms.layer_norm(x)[0]).max())

    return [
        Finding(
            "largest difference on sequences, (B, L, H)",
            gap(x),
            below(1e-9),
            "The same layer gives the same numbers.",
        ),
        Finding("largest difference on vectors, (B, H)", gap(x[:, 0])),
    ]


@claim(
    "LayerNorm at each pixel of an image destroys locality and translation invariance.",
    met=ASSISTANT,
    place=IMAGES,
    recorded="false",
    answer="A norm at each pixel commutes with every shift.",
    condition="The output of a pixel depends on that pixel alone. In ConvNeXt such a norm replaces "
    "BatchNorm without loss {cite:p}`liu2022`.",
)
def layer_norm_at_each_pixel() -> Evidence:
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 6))  # channels last

    def shifted(images: np.ndarray) -> np.ndarray:
        return np.roll(images, (1, 2), axis=(1, 2))

    moved = norms.layer_norm(shifted(x))[0] - shifted(norms.layer_norm(x)[0])
    return [
        Finding(
            "normalizing a shifted image against shifting the normalized one: largest difference",
            float(np.abs(moved).max()),
            above(1e-9),
            "A layer that breaks translation invariance does not commute with a shift.",
            form=".0e",
        ),
        Finding(
            "ImageNet, accuracy (%) of a network on the way to ConvNeXt after LayerNorm per pixel "
            "replaced BatchNorm, minus before",
            81.5 - 81.4,
            below(-0.1),
            "What is destroyed should cost at least a tenth of a point.",
            form=".1f",
            reported="liu2022",
        ),
    ]


@claim(
    "Because LayerNorm works across channels, the information of some channels is suppressed.",
    met=ASSISTANT,
    place=IMAGES,
    recorded="partly",
    answer="One loud channel makes the others quiet; their direction survives, and γ can "
    "raise them.",
    condition="The outputs keep the direction of the centred channels. Two numbers of each "
    "pixel are lost, its mean and its scale ({prf:ref}`thm-norms-forgets`).",
)
def crossing_channels() -> Evidence:
    x = np.random.default_rng(0).normal(size=(1000, 64))  # pixels, channels
    x[:, 0] *= 100
    y = norms.layer_norm(x)[0]
    # Ratios of centred channels are all that LayerNorm passes on, and it passes them on exactly.
    centred = x - x.mean(axis=1, keepdims=True)
    direction = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    kept = y / np.linalg.norm(y, axis=1, keepdims=True)
    return [
        Finding(
            "size of the other 63 channels after LayerNorm if one is 100 times as large; "
            "1 without it",
            float(y[:, 1:].std()),
            below(0.5),
            "To be suppressed is to have less than half the usual size.",
            form=".2f",
        ),
        Finding(
            "of the 64 numbers of a pixel, those that cannot be computed from the output",
            float(64 - np.linalg.matrix_rank(y) + 1),
            above(4),
            "If the information of channels were gone, more than the 2 that LayerNorm always "
            "forgets would be missing.",
            form=".0f",
        ),
        Finding(
            "largest difference of the direction of the centred channels before and after",
            float(np.abs(direction - kept).max()),
            form=".0e",
        ),
    ]


class _WeightNormStart(NamedTuple):
    """Numbers of a deep network with WeightNorm, as libraries start it and as published."""

    grown: float  # the output's size for inputs ten times as large over that before
    same: float  # the gradient at the input, with WeightNorm over without
    chosen: float  # the same with g and the biases chosen by one batch
    chosen_grown: float


def _weight_norm_start(seed: int) -> _WeightNormStart:
    torch.manual_seed(seed)
    x = torch.randn(64, 32, dtype=torch.float64)
    network = nn.Sequential(
        *(module for _ in range(20) for module in (nn.Linear(32, 32), nn.ReLU()))
    ).double()
    layers_ = [module for module in network if isinstance(module, nn.Linear)]
    for layer in layers_:
        nn.init.zeros_(layer.bias)

    def gradient() -> float:
        """The gradient at the input over that at the output."""
        leaf = x.clone().requires_grad_()
        y = network(leaf)
        (grad,) = torch.autograd.grad(y.sum(), leaf)
        return float(grad.norm() / y.numel() ** 0.5)

    def grown() -> float:
        with torch.no_grad():
            return float(network(10 * x).std() / network(x).std())

    without = gradient()
    for layer in layers_:
        nn.utils.parametrizations.weight_norm(layer)
    as_in_torch = grown(), gradient() / without
    h = x
    with torch.no_grad():
        for module in network:
            if isinstance(module, nn.Linear):
                own = dict(module.named_parameters())
                g, v = (own[f"parametrizations.weight.original{i}"] for i in (0, 1))
                t = h @ (v / v.norm(dim=1, keepdim=True)).T
                variance, mean = torch.var_mean(t, dim=0, correction=0)
                g.copy_(variance.rsqrt()[:, None])
                module.bias.copy_(-mean * variance.rsqrt())
            h = module(h)
    return _WeightNormStart(*as_in_torch, gradient() / without, grown())


@claim(
    "WeightNorm adjusts the distribution of the data and relieves vanishing gradients.",
    met=REVIEW,
    place=ORIGINS,
    recorded="partly",
    scope="at our scale",
    answer="It measures no data; what relieves gradients is its start, chosen by one batch.",
    condition="Put into a network without changing its weights, as libraries do, it changes "
    "no gradient of the activations at the start. {cite:t}`salimans2016` choose g "
    "and the biases by one batch first; that relieves it, as the same start would "
    "without WeightNorm.",
)
def weight_norm_and_data() -> Evidence:
    starts = [_weight_norm_start(seed) for seed in range(5)]
    why = "To relieve vanishing is to make the gradient larger."
    return [
        Finding(
            "20 layers with WeightNorm: size of the output for inputs ten times as large, relative "
            "to before",
            starts[0].grown,
            near(1, 0.5),
            "A norm that adjusts the distribution brings both to one size.",
            form=".1f",
        ),
        Finding(
            "the gradient at the input of those layers, with WeightNorm over without it, same "
            "weights",
            starts[0].same,
            above(1.1),
            why,
            form=".3f",
        ),
        Finding(
            "the same with g and the biases chosen by one batch, log10 (1 is ten times)",
            over_seeds(np.log10([numbers.chosen for numbers in starts])),
            above(0),
            why,
            form=".1f",
        ),
        Finding(
            "size of the output for inputs ten times as large, g and the biases so chosen",
            over_seeds([numbers.chosen_grown for numbers in starts]),
            form=".0f",
        ),
    ]


@claim(
    "In evaluation BatchNorm is free: it folds into the neighbouring linear layer.",
    met="the documentation of tools that fold or fuse BatchNorm",
    place=Place("03_batch_norm_vs_layer_norm", "When BatchNorm is the right choice"),
    recorded="true",
    answer="True where no activation stands between BatchNorm and the linear layer.",
    condition="LayerNorm cannot be folded away, because it measures every token anew.",
)
def folded_away() -> Evidence:
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=(50, 6)), rng.normal(size=(4, 6)), rng.normal(size=4)
    gamma, beta, mean = rng.normal(size=(3, 4))
    variance = rng.uniform(0.5, 2, size=4)
    z = x @ weight.T + bias
    y = norms.batch_norm(z, gamma, beta, mean, variance, training=False)[0]
    scale = gamma / np.sqrt(variance + 1e-5)
    folded = x @ (scale[:, None] * weight).T + scale * (bias - mean) + beta
    return [
        Finding(
            "largest difference of linear layer and BatchNorm in evaluation from one linear layer",
            float(np.abs(folded - y).max()),
            below(1e-9),
            "Folded away means that one linear layer computes the same.",
            form=".0e",
        )
    ]
