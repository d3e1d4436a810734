"""Claims about what each norm computes and about LayerNorm's geometry; chapter 2 explains them."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from normtutor import layers, norms
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    above,
    apart,
    below,
    claim,
    near,
)

CHAPTER = "02_family_of_norms"
GEOMETRY = Place(CHAPTER, "What LayerNorm forgets")
IMAGES = Place(CHAPTER, "LayerNorm on images")
WIDTH = 768  # of a usual small Transformer


def _tokens(count: int = 1000, width: int = WIDTH) -> np.ndarray:
    """Tokens whose means and scales differ."""
    rng = np.random.default_rng(0)
    scale, offset = np.exp(rng.normal(size=(count, 1))), rng.normal(size=(count, 1))
    return scale * rng.normal(size=(count, width)) + offset


@claim(
    "LayerNorm puts every embedding on the sphere of radius 1 around the origin.",
    met=sources.EXPLANATION,
    place=GEOMETRY,
    recorded="false",
    answer="The radius is √d, and with γ and β the outputs lie on an ellipsoid.",
    condition="The sphere lies inside the hyperplane of vectors with mean 0 "
    "({prf:ref}`thm-norms-sphere`).",
)
def unit_sphere() -> Findings:
    x, rng = _tokens(), np.random.default_rng(1)
    lengths = np.linalg.norm(norms.layer_norm(x)[0], axis=1)
    weight, bias = 1 + 0.3 * rng.normal(size=(2, WIDTH))
    learned = np.linalg.norm(norms.layer_norm(x, weight, bias)[0], axis=1)
    yield Finding(
        f"mean length of an output, d = {WIDTH}",
        float(lengths.mean()),
        near(1, 0.01, "A hundredth allows for ε."),
    )
    yield Finding(
        "longest over shortest output with random γ and β",
        float(learned.max() / learned.min()),
        near(1, 0.01, "On a sphere around the origin all have one length."),
    )


@claim(
    "BatchNorm wipes out the differences between tokens; LayerNorm loses nothing.",
    met=sources.EXPLANATION,
    place=Place(CHAPTER, "Which norm loses the differences between tokens?"),
    recorded="partly",
    answer="Within a batch LayerNorm loses some and BatchNorm none; between batches BatchNorm "
    "loses some.",
    condition="Within a batch BatchNorm applies one invertible affine map to all tokens; LayerNorm "
    "forgets the mean and the scale of each ({prf:ref}`thm-norms-forgets`). Between batches "
    "BatchNorm erases what a topic adds to all tokens.",
)
def differences_between_tokens() -> Findings:
    x = _tokens(2000, 32)
    x[1] = 3 * x[0] + 2
    batch, layer = norms.batch_norm(x)[0], norms.layer_norm(x)[0]
    design = np.column_stack([batch, np.ones(len(x))])
    left = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    rng = np.random.default_rng(2)
    topics = rng.normal(size=(2, 1000, 32)) + rng.normal(size=(2, 1, 32))

    def distance(norm: Callable[..., tuple]) -> float:
        """Between the mean tokens of two batches with a topic each, after the norm over before."""
        means = [(batch.mean(axis=0), norm(batch)[0].mean(axis=0)) for batch in topics]
        before, after = np.linalg.norm(np.diff(means, axis=0)[0], axis=1)
        return after / before

    yield Finding(
        "share of the tokens' variance that one affine map recovers from BatchNorm's output",
        float(1 - left.var() / x.var(axis=0).mean()),
        below(0.99, "What is wiped out cannot be recovered; 0.99 allows for ε."),
    )
    yield Finding(
        "distance of two outputs of LayerNorm over the distance of their inputs x and 3x + 2",
        float(np.linalg.norm(layer[0] - layer[1]) / np.linalg.norm(x[0] - x[1])),
        above(0.01, "If nothing were lost, different tokens would stay different."),
    )
    yield Finding(
        "distance between the mean tokens of two batches with a topic each, after BatchNorm on "
        "each batch over before",
        distance(norms.batch_norm),
        below(0.01, "A difference that is wiped out is gone; a hundredth allows for rounding."),
    )
    yield Finding("the same after LayerNorm", distance(norms.layer_norm))


@claim(
    "torch.var gives the variance that LayerNorm divides by.",
    met=f"the code in {sources.GUIDE}",
    place=Place(CHAPTER, "Two variances", in_depth=True),
    recorded="false",
    answer="torch.var divides by d − 1 unless told otherwise, and LayerNorm by d.",
    condition="Pass correction=0. The outputs differ by the factor √((d−1)/d) "
    "({prf:ref}`prop-norms-unbiased`), which is close to 1 for wide layers.",
)
def torch_variance() -> Findings:
    def ratio(width: int) -> float:
        x = torch.from_numpy(_tokens(100, width))
        by_hand = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)
        return (by_hand / nn.functional.layer_norm(x, (width,))).median().item()

    same = near(1, 1e-9, "In double precision the same formula agrees to 1e-9.")
    for width in (4, WIDTH):
        yield Finding(f"output with torch.var over LayerNorm's, d = {width}", ratio(width), same)


@claim(
    "On (N, C, H, W), LayerNorm averages over C, H and W.",
    met=sources.NOTES,
    place=IMAGES,
    recorded="partly",
    answer="True of one layer of that name; Transformers and ConvNeXt average over C alone.",
    condition="Two layers share the name. The average over the whole image is GroupNorm with one "
    "group.",
)
def whole_image() -> Findings:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 6, 5, 5)) * 3 + 1)
    whole = norms.group_norm(x, num_groups=1)[0]
    flat = nn.functional.layer_norm(x, (6, 5, 5))
    token = nn.functional.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1)
    same = below(1e-9, "The same axes give the same numbers.")
    yield Finding(
        "LayerNorm([C, H, W]) against the average over the whole image: largest difference",
        apart(flat, whole),
        same,
    )
    yield Finding("the same with LayerNorm(C), as in Transformers", apart(token, whole), same)


@claim(
    "LayerNorm and BatchNorm differ in the axes of their statistics, and in nothing else.",
    met=sources.REVIEW,
    place=Place(CHAPTER, "Training and evaluation"),
    recorded="false",
    answer="Without γ and β that is all in training; in evaluation BatchNorm uses running "
    "statistics.",
    condition="In training transposing the matrix turns one into the other. On a given batch "
    "BatchNorm's affine map can undo it ({prf:ref}`prop-norms-affine`).",
)
def axes_alone() -> Findings:
    x = _tokens(12, 8)
    module, batch = layers.BatchNorm(8).double(), torch.from_numpy(x)
    trained, evaluated = module(batch).detach(), module.eval()(batch).detach()
    yield Finding(
        "BatchNorm of the transposed matrix against LayerNorm: largest difference",
        apart(norms.batch_norm(x.T)[0].T, norms.layer_norm(x)[0]),
    )
    yield Finding(
        "the same batch in evaluation against training: largest difference in BatchNorm",
        apart(evaluated, trained),
        below(1e-9, "LayerNorm has one mode; if only the axes differed, so would BatchNorm."),
    )


@claim(
    "With γ and β a network can undo the normalization if it wants to.",
    met=f"{sources.TUTORIALS}, after a remark in {{cite:t}}`ioffe2015` about BatchNorm",
    place=Place(CHAPTER, "What γ and β can undo", in_depth=True),
    recorded="partly",
    answer="True of BatchNorm on a given batch; LayerNorm's γ and β cannot restore each token's "
    "mean and scale.",
    condition="LayerNorm has a mean and a scale for each token, and γ and β for each feature "
    "({prf:ref}`prop-norms-affine`).",
)
def undone_by_the_affine_map() -> Findings:
    x = _tokens(500, 16)

    def restored(y: np.ndarray) -> float:
        """Share of the variance that the best γ and β bring back, feature by feature."""
        y, target = y - y.mean(axis=0), x - x.mean(axis=0)
        weight = (y * target).mean(axis=0) / y.var(axis=0)
        return float(1 - ((target - weight * y) ** 2).sum() / (target**2).sum())

    undone = above(0.999, "To undo is to bring all of it back; 0.999 allows for rounding.")
    what = "share of the input that the best γ and β restore"
    yield Finding(f"{what}, BatchNorm", restored(norms.batch_norm(x)[0]), undone)
    yield Finding(f"{what}, LayerNorm", restored(norms.layer_norm(x)[0]), undone)


@claim(
    "ε is only there to avoid a division by zero.",
    met=f"comments in code, and {sources.TUTORIALS}",
    place=Place(CHAPTER, "What ε does", in_depth=True),
    recorded="partly",
    answer="True while ε is far below the variance of the input; from there on it shrinks the "
    "output.",
    condition="An embedding table with standard deviation 0.02 has variance 0.0004. BERT's ε is "
    "far below that {cite:p}`wolf2020`; the default of Keras is above it "
    "{cite:p}`chollet2015keras`.",
)
def epsilon_is_harmless() -> Findings:
    x = 0.02 * np.random.default_rng(0).normal(size=(10, 4096))

    def length(eps: float) -> float:
        return float((np.linalg.norm(norms.layer_norm(x, eps=eps)[0], axis=1) / 64).mean())

    guard = near(1, 0.01, "If ε only guarded, no output would change by a hundredth of its length.")
    what = "length of an output over √d, inputs of standard deviation 0.02, ε ="
    yield Finding(f"{what} 0.001, as by default in Keras", length(1e-3), guard)
    yield Finding(f"{what} 10⁻¹², as in BERT", length(1e-12), guard)
    yield Finding(f"{what} 0.00001, as by default in torch", length(1e-5))


@claim(
    "GroupNorm with one group and LayerNorm are the same layer.",
    met=sources.TUTORIALS,
    place=IMAGES,
    recorded="false",
    answer="They agree on vectors; on sequences and images GroupNorm averages over positions too.",
    condition="So in a causal model GroupNorm leaks the future. Its affine map has another shape, "
    "too.",
)
def one_group() -> Findings:
    x = np.random.default_rng(0).normal(size=(2, 5, 8))

    def gap(x: np.ndarray) -> float:
        group = norms.group_norm(x, num_groups=1, feature_axis=-1)[0]
        return apart(group, norms.layer_norm(x)[0])

    yield Finding(
        "largest difference on sequences, (B, L, H)",
        gap(x),
        below(1e-9, "The same layer gives the same numbers."),
    )
    yield Finding("largest difference on vectors, (B, H)", gap(x[:, 0]))


@claim(
    "LayerNorm at each pixel of an image destroys locality and translation invariance.",
    met=sources.ASSISTANT,
    place=IMAGES,
    recorded="false",
    answer="A norm at each pixel commutes with every shift.",
    condition="In ConvNeXt such a norm replaces BatchNorm without loss {cite:p}`liu2022`.",
)
def layer_norm_at_each_pixel() -> Findings:
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 6))  # channels last

    def shifted(images: np.ndarray) -> np.ndarray:
        return np.roll(images, (1, 2), axis=(1, 2))

    yield Finding(
        "normalizing a shifted image against shifting the normalized one: largest difference",
        apart(norms.layer_norm(shifted(x))[0], shifted(norms.layer_norm(x)[0])),
        above(1e-9, "A layer that breaks translation invariance does not commute with a shift."),
    )
    yield Finding(
        "ImageNet, accuracy (%) of a network on the way to ConvNeXt after LayerNorm per pixel "
        "replaced BatchNorm, minus before",
        81.5 - 81.4,
        below(-0.1, "What is destroyed should cost at least a tenth of a point."),
        reported="liu2022",
    )


@claim(
    "In evaluation BatchNorm is free: it folds into the neighbouring linear layer.",
    met="the documentation of tools that fold or fuse BatchNorm",
    place=Place("03_batch_norm_vs_layer_norm", "When BatchNorm is the right choice"),
    recorded="true",
    answer="True where no activation stands between BatchNorm and the linear layer.",
    condition="LayerNorm cannot be folded away, because it measures every token anew.",
)
def folded_away() -> Findings:
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(50, 6)), rng.normal(size=(4, 6))
    bias, gamma, beta, mean = rng.normal(size=(4, 4))
    variance = rng.uniform(0.5, 2, size=4)
    z = x @ weight.T + bias
    y = norms.batch_norm(z, gamma, beta, running_mean=mean, running_var=variance, training=False)[0]
    scale = gamma / np.sqrt(variance + 1e-5)
    folded = x @ (scale[:, None] * weight).T + scale * (bias - mean) + beta
    yield Finding(
        "largest difference of linear layer and BatchNorm in evaluation from one linear layer",
        apart(folded, y),
        below(1e-9, "Folded away means that one linear layer computes the same."),
    )
