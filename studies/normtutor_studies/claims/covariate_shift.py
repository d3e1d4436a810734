"""Claims about why BatchNorm works; chapter 1 explains them."""

from functools import partial

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from normtutor import norms, probes
from normtutor.data import image_batches, load_digits
from normtutor.models import MLP
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
from normtutor_studies.measures.descent import descend, he, xavier
from normtutor_studies.tables.ch01 import largest

CHAPTER = "01_internal_covariate_shift"


@claim(
    "Internal covariate shift means that the data differ from batch to batch.",
    met=f"{sources.GUIDE}, and {sources.REVIEW}",
    place=Place(CHAPTER, "Second explanation: internal covariate shift"),
    recorded="false",
    answer="It is the change of a layer's inputs that training makes, whatever the data do.",
    condition="The data may stay as they are ({prf:ref}`def-ics`), and batches also differ in a "
    "network that learns nothing.",
)
def shift_between_batches() -> Findings:
    order, digits, last = start(0), load_digits(), "linears.2"
    network = xavier(MLP((64, 100, 100, 100, 10), activation=torch.sigmoid))
    stream, still = image_batches(digits.train, 60, order), digits.train.images[:300]
    descend(network, stream, steps=150, rate=1.0)
    with probes.record_statistics(network, [last], of="output") as frozen:
        for _ in range(100):
            network(next(stream)[0])
    with probes.record_statistics(
        network, [last], of="output", fixed=lambda model: model(still)
    ) as training:
        descend(network, stream, steps=100, rate=0.3)

    def travelled(mean: np.ndarray) -> float:
        """From the first ten rows to the last ten, in standard deviations; median of the units."""
        way = np.abs(mean[-10:].mean(axis=0) - mean[:10].mean(axis=0))
        return float(np.median(way / np.sqrt(training[last].variance[0])))

    yield Finding(
        "distance that a unit's mean moves in 100 training steps, seen on *one fixed batch*, in "
        "standard deviations",
        travelled(training[last].mean),
        below(0.1, "If shift came from the batches, one batch would show none; a tenth is little."),
    )
    yield Finding(
        "the same over 100 *new batches*, ten averaged at either end, parameters frozen",
        travelled(frozen[last].mean),
    )


@claim(
    "BatchNorm makes activations normally distributed, N(0, 1).",
    met=sources.REVIEW,
    place=Place(CHAPTER, "What BatchNorm computes"),
    recorded="false",
    answer="It sets the mean and the variance; the shape of the distribution stays.",
    condition="The map is affine.",
)
def standard_normal() -> Findings:
    y = norms.batch_norm(np.random.default_rng(0).exponential(size=(5000, 1)))[0]
    few = "A normal distribution has none; with 5000 values 0.2 is six standard errors."
    yield Finding(
        "skewness of exponential values after BatchNorm",
        float(stats.skew(y)[0]),
        near(0, 0.2, few),
    )
    yield Finding("their mean after BatchNorm", float(y.mean()))
    yield Finding("their variance after BatchNorm", float(y.var()))


@claim(
    "BatchNorm works because it smooths the loss.",
    met=f"{sources.REVIEW}, and {sources.TUTORIALS} since {{cite:t}}`santurkar2018`",
    place=Place(CHAPTER, "Third explanation: a smoother loss"),
    recorded="open",
    answer="In our network it does; whether that is why networks learn faster is undecided.",
    condition="At the same learning rate the largest curvature is much smaller with BatchNorm, "
    "whether or not one allows for the weights' scale. But {cite:t}`yao2020` report networks that "
    "BatchNorm does not smooth.",
)
def smoother_loss() -> Findings:
    land = study("loss_landscape")

    def ratio(key: str) -> np.ndarray:
        """Log2 of the medians over the run, without a norm over with BatchNorm, at rate 0.1."""
        none, batch = (np.median(land.read(key, norm=norm), axis=1) for norm in ("none", "batch"))
        return np.log2(none / batch)

    smaller = above(0, "The account says that BatchNorm has the smaller one; 0 is equality.")
    yield Finding(
        "effective smoothness along the gradient without a norm over that with BatchNorm, both at "
        "rate 0.1, log2 (1 is twice)",
        ratio("smoothness"),
        smaller,
    )
    yield Finding(
        "largest curvature for relative changes of the weights, which their scale cannot change, "
        "without a norm over with BatchNorm, log2",
        ratio("relative_curvature"),
        smaller,
    )
    yield Finding("trace of the Hessian without a norm over with BatchNorm, log2", ratio("trace"))
    yield Unsettled(
        "A smoother loss and faster learning come together; neither is shown to cause the other.",
        "Smooth the loss without normalizing, by as much as BatchNorm does, and see over rates and "
        "seeds whether the gain in speed comes with it.",
    )


@claim(
    "BatchNorm works because it reduces internal covariate shift.",
    met=f"{{cite:t}}`ioffe2015`, and {sources.TUTORIALS} since",
    place=Place(CHAPTER, "Shake the inputs"),
    recorded="false",
    scope="at our scale",
    answer="BatchNorm's gain does not need less shift.",
    condition="A deep linear network learned faster with BatchNorm, though its gradients changed "
    "more.",
)
def works_by_reducing_shift() -> Findings:
    shifts = study("gradient_shift")

    def change(key: str) -> np.ndarray:
        """BatchNorm minus no norm in the deep linear network, at the same rate."""
        norm, none = (
            shifts.read(key, norm=norm, task="linear", rate=0.03) for norm in ("batch", "none")
        )
        return norm - none

    higher = "BatchNorm has more shift there; if less of it made the gain, it would end higher."
    yield Finding(
        "deep linear network: cosine of a layer's gradient before and after the layers below it "
        "move, BatchNorm minus no norm",
        change("cosine"),
    )
    yield Finding(
        "deep linear network, loss at the end, BatchNorm minus no norm",
        change("loss"),
        above(0, higher),
    )


@claim(
    "Internal covariate shift gets worse as networks grow.",
    met=sources.EXPLANATION,
    place=Place(CHAPTER, "Does covariate shift get worse as networks grow?", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True of depth in our networks; width alone need not make it worse.",
    condition="Measured in the first steps of training.",
)
def shift_grows_with_the_network() -> Findings:
    def shift(hidden: int, width: int, seed: int) -> float:
        """Per step in front of the last ReLU of a network without a norm, He's weights."""
        order, digits, last = start(seed), load_digits(), f"norms.{hidden - 1}"
        network, still = he(MLP((64, *(width,) * hidden, 10))), digits.train.images[:300]
        with probes.record_statistics(
            network, [last], of="output", fixed=lambda model: model(still), quantiles=()
        ) as seen:
            descend(network, image_batches(digits.train, 64, order), steps=40, rate=0.02)
        mean, variance = seen[last].mean, seen[last].variance
        std = np.sqrt((variance[1:] + variance[:-1]) / 2)
        alive = std > 1e-6  # a unit that is the same for every image has no spread to compare with
        return float((np.abs(np.diff(mean, axis=0))[alive] / std[alive]).mean())

    def growth(small: tuple[int, int], large: tuple[int, int]) -> np.ndarray:
        return np.log2([shift(*large, seed) / shift(*small, seed) for seed in range(4)])

    worse = above(1, "Four times the size: twice the shift is the least that “worse” should mean.")
    yield Finding(
        "shift per step in front of the last ReLU, no norm, 12 hidden layers over 3, log2 (1 is "
        "twice)",
        growth((3, 64), (12, 64)),
        worse,
    )
    yield Finding(
        "the same, 4 hidden layers, width 256 over width 64",
        growth((4, 64), (4, 256)),
        worse,
    )


@claim(
    "After BatchNorm, the inputs of a layer hardly drift any more.",
    met=f"{sources.TUTORIALS}, after figure 1 of {{cite:t}}`ioffe2015`",
    place=Place(CHAPTER, "Does BatchNorm stop the drift?"),
    recorded="true",
    scope="at our scale",
    answer="True of what leaves BatchNorm, which is what the next layer receives.",
    condition="It has mean β and spread |γ|, and β moves slowly. What enters BatchNorm keeps "
    "drifting.",
)
def inputs_stand_still() -> Findings:
    drift = study("input_drift")

    def path(network: str, place: str) -> np.ndarray:
        return drift.values("input_drift", network, place)

    yield Finding(
        "path of the mean at the sigmoid, behind BatchNorm, in 1,000 steps (standard deviations)",
        path("BatchNorm", "sigmoid_path"),
        below(1, "What hardly drifts travels less than one standard deviation."),
    )
    yield Finding("the same in front of BatchNorm", path("BatchNorm", "before_path"))
    yield Finding("the same without a norm, at the sigmoid", path("no norm", "sigmoid_path"))


@claim(
    "BatchNorm permits larger learning rates.",
    met=f"{{cite:t}}`ioffe2015`, and {sources.GUIDE}",
    place=Place(CHAPTER, "Fourth explanation: larger learning rates"),
    recorded="true",
    scope="at our scale",
    answer="True: the largest rate that ended better than guessing was eight times larger.",
    condition="Whether that explains the whole gain is another question {cite:p}`bjorck2018`: the "
    "best rate was at most twice as large.",
)
def larger_rates() -> Findings:
    rates = study("learning_rates")
    for world in rates.worlds:
        yield Finding(
            "largest rate at which every seed ends better than guessing, BatchNorm over no norm, "
            f"{world.title[0].lower() + world.title[1:]}",
            largest(rates, world.name, "BatchNorm") / largest(rates, world.name, "no norm"),
            above(2, "Larger means at least the next rate that was tried, twice as large."),
        )


@claim(
    "Thanks to BatchNorm, ImageNet training takes 14 times fewer steps.",
    met="the abstract of {cite:t}`ioffe2015`, and nearly every summary of it",
    place=Place(CHAPTER, "What papers report, and what remains open", in_depth=True),
    recorded="partly",
    answer="BatchNorm alone more than halved the steps; changes made with it did the rest.",
    condition="The 14 belong to a model that also has a higher learning rate, no dropout and a "
    "weaker weight penalty. Rests on the paper's table, not on a run of ours.",
)
def fourteen_times() -> Findings:
    for model, steps in (
        ("BN-x5", 2.1),
        ("BN-Baseline, which adds BatchNorm and nothing else", 13.3),
    ):
        yield Finding(
            f"million steps of Inception over those of {model}, to 72.2%",
            31.0 / steps,
            above(13, "The claim says 14 times; 13 leaves room for rounding."),
            reported="ioffe2015",
        )


class _BatchNorm(nn.Module):
    """BatchNorm in training; ``detached`` takes its statistics for constants going back."""

    def __init__(self, features: int, *, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x.detach() if self.detached else x, dim=0, correction=0)
        return self.weight * (x - mean) / torch.sqrt(variance + 1e-5) + self.bias


@claim(
    "In the backward pass one may take the batch's mean and variance for constants.",
    met="home-made implementations, and code that detaches the statistics",
    place=Place(CHAPTER, "Why the statistics belong inside the gradient", in_depth=True),
    recorded="false",
    answer="The result is not the gradient of the loss, and our networks learned more slowly.",
    condition="Parameters then move in directions that the loss does not depend on "
    "({prf:ref}`thm-ics-outside`).",
)
def constant_statistics() -> Findings:
    def loss(detached: bool) -> np.ndarray:
        """Mean training loss of the last 20 of 150 steps, one per seed."""
        ends = []
        for seed in range(5):
            order, norm = start(seed), partial(_BatchNorm, detached=detached)
            network = he(MLP((64, 100, 100, 100, 10), norm=norm))
            stream = image_batches(load_digits().train, 60, order)
            ends.append(np.mean(descend(network, stream, steps=150, rate=1.0)[-20:]))
        return np.array(ends)

    def gradient(detached: bool) -> float:
        """Its length for a bias in front of BatchNorm, which has no effect on the output."""
        draw = torch.Generator().manual_seed(0)
        x, target = torch.randn(2, 64, 8, dtype=torch.float64, generator=draw)
        bias = torch.zeros(8, dtype=torch.float64, requires_grad=True)
        y = _BatchNorm(8, detached=detached).double()(5 + 2 * x + bias)
        return torch.autograd.grad((y - target - 1).square().mean(), bias)[0].norm().item()

    yield Finding(
        "length of the gradient of a bias in front of BatchNorm, statistics held constant; the "
        "true one is 0, since the mean takes the bias away",
        gradient(True),
        below(1e-9, "A permitted shortcut gives the same gradient; rounding is below 1e−9."),
    )
    yield Finding("the same with the statistics inside", gradient(False))
    yield Finding(
        "digits, 150 steps at rate 1, best for both: training loss with constant statistics over "
        "that with the true gradient, log2 (1 is twice)",
        np.log2(loss(True) / loss(False)),
    )


@claim(
    "BatchNorm makes the gradients that pass through it smaller.",
    met="summaries of the theorem of {cite:t}`santurkar2018`",
    place=Place(CHAPTER, "What the norms of a network take out of the gradient", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="It shortens gradients where its input spreads widely, and can lengthen them elsewhere.",
    condition="The factor γ²/σ² in front decides ({prf:ref}`thm-ics-norm`). Both occur in one "
    "network.",
)
def smaller_gradients() -> Findings:
    parts = study("gradient_parts")
    ratio = parts.read("ratio")
    for place in range(3):
        yield Finding(
            f"squared length of the gradient below over above BatchNorm {place + 1} of 3, after "
            f"{parts.settings['looks'][-1]} steps, median over the units",
            ratio[:, -1, place],
            below(1, "Smaller means a ratio below 1."),
        )


@claim(
    "BatchNorm acts as a regularizer.",
    met="the abstract of {cite:t}`ioffe2015`",
    place=Place("03_batch_norm_vs_layer_norm", "Small batches", in_depth=True),
    recorded="open",
    answer="Its noise is real; whether the noise lowers the test loss we have not measured.",
    condition="A lower test loss alone does not show that the noise is the reason.",
)
def batch_norm_regularizes() -> Findings:
    x = np.random.default_rng(0).normal(size=(15, 16))
    yield Finding(
        "change of an example's BatchNorm output when the batch around it changes",
        apart(norms.batch_norm(x[:8])[0][0], norms.batch_norm(x[[0, *range(8, 15)]])[0][0]),
        above(
            1e-6,
            "A regularizer that adds no penalty works by noise: the same example must come out "
            "differently in other company, by more than rounding.",
        ),
    )
    yield Unsettled(
        "That there is noise does not say what it does to the test loss.",
        "Train with statistics of few and of all examples to the same training loss, each at its "
        "own best rate, on several data sets, and compare the test losses.",
    )
