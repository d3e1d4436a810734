"""Claims about why BatchNorm works; chapter 1 explains them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F

from normtutor import norms, probes
from normtutor.data import Digits, image_batches, load_digits
from normtutor.models import MLP
from normtutor.training import start
from normtutor_studies import experiments, study
from normtutor_studies.claims.ledger import (
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
from normtutor_studies.experiments import (
    covariate_shift_gradients,
    gradient_parts,
    input_drift,
    loss_landscape,
)
from normtutor_studies.experiments.descent import descend, he, xavier
from normtutor_studies.experiments.rates import split
from normtutor_studies.tables.ch01 import largest

CHAPTER = "01_internal_covariate_shift"
# Of the paper that named internal covariate shift; a test compares it with the bibliography.
TITLE = (
    "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift"
)


def _step(model: nn.Module, batch: tuple[Tensor, Tensor], rate: float) -> float:
    """One step of gradient descent; return the loss before it."""
    images, labels = batch
    loss = F.cross_entropy(model(images), labels)
    parameters = list(model.parameters())
    with torch.no_grad():
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.sub_(gradient, alpha=rate)
    return loss.item()


def _half_trained() -> tuple[MLP, Iterator[tuple[Tensor, Tensor]], Digits]:
    """A sigmoid network that has learned for a while, the batches to come, and the digits."""
    order = start(0)
    digits = Digits(*(part._replace(images=part.images.double()) for part in load_digits()))
    network = xavier(MLP((64, 100, 100, 100, 10), activation=torch.sigmoid)).double()
    stream = image_batches(digits.train, 60, order)
    for _ in range(150):
        _step(network, next(stream), rate=1.0)
    return network, stream, digits


def _travelled(mean: np.ndarray, spread: np.ndarray) -> float:
    """From the first ten rows to the last ten, in standard deviations; median over the units."""
    way = mean[-10:].mean(axis=0) - mean[:10].mean(axis=0)
    return float(np.median(np.abs(way) / spread))


@claim(
    "Internal covariate shift means that the data differ from batch to batch.",
    met=f"{GUIDE}, and {REVIEW}",
    place=Place(CHAPTER, "Second explanation: internal covariate shift"),
    recorded="false",
    answer="It is the change of a layer's inputs that training makes, whatever the data do.",
    condition="Internal covariate shift is the change that comes from the *parameters*, at a fixed "
    "distribution of the data ({prf:ref}`def-ics`). Batches also differ in a network that learns "
    "nothing.",
)
def shift_between_batches() -> Evidence:
    network, stream, digits = _half_trained()
    layer, still = ["linears.2"], digits.train.images[:300]
    with probes.record_statistics(network, layer, of="output") as frozen:
        for _ in range(100):
            network(next(stream)[0])
    with probes.record_statistics(
        network, layer, of="output", fixed=lambda model: model(still)
    ) as training:
        for _ in range(100):
            _step(network, next(stream), rate=0.3)
    spread = np.sqrt(training[layer[0]].variance[0])
    scatter = float(np.median(frozen[layer[0]].mean.std(axis=0) / spread))
    why = "less than a tenth of a standard deviation is what sampling moves a mean of ten batches."
    return [
        Finding(
            "distance that a unit's mean moves in 100 training steps, seen on *one fixed batch*, "
            "in standard deviations",
            _travelled(training[layer[0]].mean, spread),
            below(0.1),
            f"If shift came from the batches, one batch would show none; {why}",
        ),
        Finding(
            "distance that a unit's mean moves over 100 *new batches*, parameters frozen, in "
            "standard deviations",
            _travelled(frozen[layer[0]].mean, spread),
            above(0.1),
            f"If shift came from the batches, it would not need learning; {why}",
        ),
        Finding(
            "scatter of the means of single new batches, parameters frozen, in standard deviations",
            scatter,
        ),
    ]


@claim(
    "ICS stands for internal covariance shift.",
    met=REVIEW,
    place=Place(CHAPTER, "Second explanation: internal covariate shift"),
    recorded="false",
    answer="The word is covariate, which means an input variable.",
    condition="Statisticians call an input variable a *covariate*. A covariance is something "
    "else, and normalizing by the batch changes no correlation between units.",
)
def covariance_shift() -> Evidence:
    x = np.random.default_rng(0).normal(size=(200, 8)) @ np.random.default_rng(1).normal(
        size=(8, 8)
    )
    before, after = (np.corrcoef(a, rowvar=False) for a in (x, norms.batch_norm(x)[0]))
    return [
        Finding(
            "times that the title of the paper that coined the term says “covariance”",
            TITLE.lower().count("covariance"),
            above(1),
            "If the letters stood for that, the title would say it.",
            reported="ioffe2015",
        ),
        Finding("times that it says “covariate”", TITLE.lower().count("covariate")),
        Finding(
            "largest change of a correlation between two units through BatchNorm",
            float(np.abs(after - before).max()),
            form=".0e",
        ),
    ]


@claim(
    "BatchNorm makes activations normally distributed, N(0, 1).",
    met=REVIEW,
    place=Place(CHAPTER, "What BatchNorm computes"),
    recorded="false",
    answer="It sets the mean and the variance; the shape of the distribution stays.",
    condition="BatchNorm sets the mean and the variance. The shape of the distribution stays as it "
    "was, because the map is affine.",
)
def standard_normal() -> Evidence:
    x = np.random.default_rng(0).exponential(size=(5000, 1))
    y = norms.batch_norm(x)[0]
    return [
        Finding(
            "skewness of exponential values after BatchNorm",
            float(stats.skew(y)[0]),
            near(0, 0.2),
            "A normal distribution has none; with 5000 values 0.2 is six standard errors.",
            form=".2f",
        ),
        Finding(
            "change of that skewness through BatchNorm",
            float(np.abs(stats.skew(y) - stats.skew(x))[0]),
            above(0.2),
            "To make it normal, BatchNorm would have to change it.",
            form=".0e",
        ),
        Finding("mean after BatchNorm", abs(float(y.mean())), form=".0e"),
        Finding("variance after BatchNorm", float(y.var()), form=".2f"),
    ]


@claim(
    "Gradients vanish because the dimension of the data grows.",
    met=REVIEW,
    place=Place(CHAPTER, "Do gradients vanish because of the dimension?", in_depth=True),
    recorded="false",
    answer="Depth makes gradients vanish; usual initial weights allow for the dimension.",
    condition="Wide layers of sigmoids saturate only if the weights keep their size, and even "
    "then the gradient grows with the dimension, because it is multiplied by the "
    "weights too. Initial weights are made smaller as the dimension grows "
    "{cite:p}`glorot2010`. Six sigmoid layers of *one* width lose nearly all of the "
    "gradient.",
)
def dimension_and_gradient() -> Evidence:
    rng = np.random.default_rng(0)

    def slope(dimension: int, scaled: bool) -> float:
        """Mean derivative of a sigmoid of w·x."""
        w = rng.normal(size=(2000, dimension)) / (dimension**0.5 if scaled else 1.0)
        z = (w * rng.normal(size=(2000, dimension))).sum(axis=1)
        sigmoid = 1 / (1 + np.exp(-z))
        return float((sigmoid * (1 - sigmoid)).mean())

    def below_four_layers(dimension: int, seed: int) -> float:
        """Length of the gradient below four sigmoid layers whose weights have variance 1."""
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(32, dimension, generator=draw, requires_grad=True)
        h = x
        for _ in range(4):
            h = torch.sigmoid(h @ torch.randn(dimension, dimension, generator=draw))
        read = torch.randn(dimension, generator=draw) / dimension**0.5
        return torch.autograd.grad((h @ read).sum(), x)[0].norm(dim=1).mean().item()

    grown = [np.log2(below_four_layers(1024, i) / below_four_layers(64, i)) for i in range(5)]
    order = start(0)
    digits = load_digits()
    images, labels = next(image_batches(digits.train, 100, order))
    deep = xavier(MLP((64, *(64,) * 6, 10), activation=torch.sigmoid))
    gradients = probes.gradients(deep, lambda model: F.cross_entropy(model(images), labels))
    lengths = [gradients[f"linears.{i}.weight"].norm().item() for i in (0, 5)]
    return [
        Finding(
            "a sigmoid's mean slope in 4096 dimensions over that in 64, weights of fixed size",
            slope(4096, scaled=False) / slope(64, scaled=False),
            form=".2f",
        ),
        Finding(
            "a sigmoid's mean slope in 4096 dimensions over that in 64, weights of variance 1/d",
            slope(4096, scaled=True) / slope(64, scaled=True),
            form=".2f",
        ),
        Finding(
            "gradient below four sigmoid layers with weights of fixed size, 1024 dimensions over "
            "64, log2 (1 is twice)",
            over_seeds(grown),
            below(0),
            "If the dimension made it vanish, it would shrink.",
            form=".1f",
        ),
        Finding(
            "gradient of the first over that of the last hidden weights, six sigmoid layers of "
            "*one* width",
            lengths[0] / lengths[1],
            above(0.5),
            "Where the dimension does not change, the gradient should not vanish either.",
            form=".0e",
        ),
    ]


@claim(
    "BatchNorm works because it smooths the loss.",
    met=f"{REVIEW}, and {TUTORIALS} since {{cite:t}}`santurkar2018`",
    place=Place(CHAPTER, "Third explanation: a smoother loss"),
    recorded="open",
    answer="It does smooth the loss; whether that is why networks learn faster is undecided.",
    condition="At the same learning rate the largest curvature is much smaller with "
    "BatchNorm, whether or not one allows for the weights' scale. But {cite:t}`yao2020` report "
    "networks that BatchNorm does not smooth.",
)
def smoother_loss() -> Evidence:
    land = experiments.load("loss_landscape")

    def ratio(key: str, first: str, second: str) -> np.ndarray:
        """Log2 of the medians over the run, at rate 0.1."""
        medians = [
            np.median(land.values(key, hidden=loss_landscape.DEEP, norm=norm, rate=0.1), axis=1)
            for norm in (first, second)
        ]
        return np.log2(medians[0] / medians[1])

    why = "The account says that BatchNorm has the smaller one; 0 is equality."
    return [
        Finding(
            "effective smoothness along the gradient without a norm over that with BatchNorm, "
            "both at rate 0.1, log2 (1 is twice)",
            over_seeds(ratio("smoothness", "none", "batch")),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "the same smoothness for relative changes of the weights, which their scale cannot "
            "change (for one matrix β‖W‖²), log2",
            over_seeds(ratio("relative_smoothness", "none", "batch")),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "largest curvature for relative changes of the weights, without a norm over with "
            "BatchNorm, log2",
            over_seeds(ratio("relative_curvature", "none", "batch")),
            above(0),
            why,
            form=".2f",
        ),
        Finding(
            "trace of the Hessian without a norm over with BatchNorm, log2",
            over_seeds(ratio("trace", "none", "batch")),
            form=".2f",
        ),
        Unsettled(
            "A smoother loss and faster learning come together; neither is shown to cause the "
            "other.",
            "Smooth the loss without normalizing, by as much as BatchNorm does, and see over rates "
            "and seeds whether the gain in speed comes with it.",
        ),
    ]


@claim(
    "BatchNorm works because it reduces internal covariate shift.",
    met=f"{{cite:t}}`ioffe2015`, and {TUTORIALS} since",
    place=Place(CHAPTER, "Shake the inputs"),
    recorded="false",
    scope="at our scale",
    answer="Its gain does not need less shift.",
    condition="A deep linear network learned faster with BatchNorm, though its gradients changed "
    "more.",
)
def works_by_reducing_shift() -> Evidence:
    saved = experiments.load("covariate_shift_gradients")
    _, shifts = split(saved, covariate_shift_gradients.TUNING)

    def change(key: str, task: str, rate: float) -> Interval:
        """BatchNorm minus no norm, at the same rate."""
        where = {"task": task, "rate": rate}
        return over_seeds(
            shifts.values(key, norm="batch", **where) - shifts.values(key, norm="none", **where)
        )

    return [
        Finding(
            "tanh network at rate 0.3: cosine of a layer's gradient before and after the layers "
            "below it move, BatchNorm minus no norm",
            change("cosine", "tanh", 0.3),
            form=".2f",
        ),
        Finding(
            "tanh network, loss at the end, BatchNorm minus no norm",
            change("loss", "tanh", 0.3),
            form=".4f",
        ),
        Finding(
            "deep linear network: the same difference of cosines",
            change("cosine", "linear", 0.03),
            form=".2f",
        ),
        Finding(
            "deep linear network, loss at the end, BatchNorm minus no norm",
            change("loss", "linear", 0.03),
            above(0),
            "There BatchNorm has more shift; if less of it made the gain, it would end higher.",
            form=".2f",
        ),
    ]


def _shift_of_last_input(hidden: int, width: int, seed: int, rate: float) -> float:
    """Shift per step in front of the last ReLU of a network without a norm, He's weights."""
    order = start(seed)
    digits, network = load_digits(), he(MLP((64, *(width,) * hidden, 10)))
    last, still = f"norms.{hidden - 1}", digits.train.images[:300]
    with probes.record_statistics(
        network, [last], of="output", fixed=lambda model: model(still), quantiles=()
    ) as seen:
        descend(network, image_batches(digits.train, 64, order), steps=40, rate=rate)
    return input_drift.shift_of_a_step(seen[last].mean, seen[last].variance)


@claim(
    "Internal covariate shift gets worse as networks grow.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Does covariate shift get worse as networks grow?", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="True of depth in our networks; width alone need not make it worse.",
    condition="With four times the depth the shift grew severalfold. With four times the "
    "width it grew little in a shallow network, and much in a deep one. Measured "
    "in the first steps of training.",
)
def shift_grows_with_the_network() -> Evidence:
    def growth(small: tuple[int, int], large: tuple[int, int], rate: float = 0.02) -> Interval:
        shifts = [
            [_shift_of_last_input(*size, seed, rate) for seed in range(4)]
            for size in (small, large)
        ]
        return over_seeds(np.log2(np.divide(shifts[1], shifts[0])))

    why = "Four times the size, and twice the shift is the least that “worse” should mean."
    return [
        Finding(
            "shift per step in front of the last ReLU, no norm, 12 hidden layers over 3, log2 "
            "(1 is twice)",
            growth((3, 64), (12, 64)),
            above(1),
            why,
            form=".2f",
        ),
        Finding(
            "shift per step in front of the last ReLU, no norm, 4 hidden layers, width 256 over "
            "width 64, log2 (1 is twice)",
            growth((4, 64), (4, 256)),
            above(1),
            why,
            form=".2f",
        ),
        Finding(
            "the same, 12 hidden layers, at half the rate, log2",
            growth((12, 64), (12, 256), rate=0.01),
            above(1),
            why,
            form=".2f",
        ),
    ]


@claim(
    "After BatchNorm, the inputs of a layer hardly drift any more.",
    met=f"{TUTORIALS}, after figure 1 of {{cite:t}}`ioffe2015`",
    place=Place(CHAPTER, "Does BatchNorm stop the drift?"),
    recorded="partly",
    scope="at our scale",
    answer="True of what leaves BatchNorm; what enters it keeps drifting.",
    condition="What leaves BatchNorm has mean β and spread |γ|, and β moves slowly. What "
    "enters it drifts on, though less far than without a norm.",
)
def inputs_stand_still() -> Evidence:
    saved = experiments.load("input_drift")
    rate = input_drift.best_rates(saved)["batch", 1.0]
    _, reported = split(saved, input_drift.TUNING)

    def of(norm: str, place: str, key: str) -> np.ndarray:
        records = input_drift.chosen_records(reported, norm, 1.0, rate)  # best for both networks
        return np.array([record[place][key] for record in records])

    why = "An input that hardly drifts travels less than one standard deviation in all 1,000 steps."
    return [
        Finding(
            "path of the mean at the sigmoid, behind BatchNorm (standard deviations)",
            over_seeds(of("batch", "sigmoid", "path")),
            below(1),
            why,
            form=".2f",
        ),
        Finding(
            "path of the mean in front of BatchNorm (standard deviations)",
            over_seeds(of("batch", "before", "path")),
            below(1),
            why,
            form=".2f",
        ),
        Finding(
            "the same path in final standard deviations",
            over_seeds(of("batch", "before", "path_end")),
            form=".2f",
        ),
        Finding(
            "path of the mean at the sigmoid without a norm (final standard deviations)",
            over_seeds(of("none", "sigmoid", "path_end")),
            form=".2f",
        ),
    ]


@claim(
    "BatchNorm permits larger learning rates.",
    met=f"{{cite:t}}`ioffe2015`, and {GUIDE}",
    place=Place(CHAPTER, "Fourth explanation: larger learning rates"),
    recorded="true",
    scope="at our scale",
    answer="True: the largest rate that ended better than guessing was eight times larger.",
    condition="Measured on two small networks. Whether the larger rates explain the whole gain is "
    "another question {cite:p}`bjorck2018`: in ours the best rate was at most twice as large.",
)
def larger_rates() -> Evidence:
    rates = study("learning_rates")
    return [
        Finding(
            "largest rate at which every seed ends better than guessing, BatchNorm over no norm, "
            f"{world.title[0].lower() + world.title[1:]}",
            largest(rates, world.name, "BatchNorm") / largest(rates, world.name, "no norm"),
            above(2),
            "Larger means at least the next rate that was tried, which is twice as large.",
            form="g",
        )
        for world in rates.worlds
    ]


@claim(
    "Thanks to BatchNorm, ImageNet training takes 14 times fewer steps.",
    met="the abstract of {cite:t}`ioffe2015`, and nearly every summary of it",
    place=Place(CHAPTER, "What papers report, and what remains open", in_depth=True),
    recorded="partly",
    answer="BatchNorm alone more than halved the steps; changes made with it did the rest.",
    condition="The 14 belong to a model that also has a higher learning rate, no dropout, a "
    "weaker weight penalty and other changes. BatchNorm by itself is in another row "
    "of the same table. Rests on the paper's table, not on a run of ours.",
)
def fourteen_times() -> Evidence:
    steps = {"Inception": 31.0, "BN-Baseline": 13.3, "BN-x5": 2.1}
    why = "The claim says 14 times; 13 leaves room for rounding."
    return [
        Finding(
            "steps of Inception over steps of BN-x5, to 72.2%",
            steps["Inception"] / steps["BN-x5"],
            above(13),
            why,
            reported="ioffe2015",
        ),
        Finding(
            "steps of Inception over steps of BN-Baseline, which adds BatchNorm and nothing else",
            steps["Inception"] / steps["BN-Baseline"],
            above(13),
            why,
            reported="ioffe2015",
        ),
    ]


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


def _digits_loss(detached: bool, seed: int) -> float:
    """Mean training loss of the last 20 of 150 steps, with one of the two backward passes."""
    order = start(seed)
    norm = partial(_BatchNorm, detached=detached)
    network = he(MLP((64, 100, 100, 100, 10), norm=norm))
    stream = image_batches(load_digits().train, 60, order)
    return float(np.mean([_step(network, next(stream), rate=0.3) for _ in range(150)][-20:]))


@claim(
    "In the backward pass one may take the batch's mean and variance for constants.",
    met="home-made implementations, and code that detaches the statistics",
    place=Place(CHAPTER, "Why the statistics belong inside the gradient", in_depth=True),
    recorded="false",
    answer="The result is not the gradient of the loss, and training suffers.",
    condition="Parameters then move in directions that the loss does not depend on "
    "({prf:ref}`thm-ics-outside`), and our networks learn less in as many steps.",
)
def constant_statistics() -> Evidence:
    inside, outside = (
        np.array([_digits_loss(detached, seed) for seed in range(5)]) for detached in (False, True)
    )
    x = 5 + 2 * torch.randn(64, 8, dtype=torch.float64, generator=torch.manual_seed(0))
    bias = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    target = torch.randn(64, 8, dtype=torch.float64, generator=torch.manual_seed(1)) + 1

    def gradient(detached: bool) -> Tensor:
        z = x + bias
        source = z.detach() if detached else z
        variance, mean = torch.var_mean(source, dim=0, correction=0)
        y = (z - mean) / torch.sqrt(variance + 1e-5)
        return torch.autograd.grad(0.5 * (y - target).square().mean(), bias)[0]

    return [
        Finding(
            "length of the gradient of a bias in front of BatchNorm, statistics held constant; "
            "the true one is 0, since the mean takes the bias away",
            gradient(True).norm().item(),
            below(1e-9),
            "A permitted shortcut gives the same gradient; rounding is below 1e−9.",
        ),
        Finding("the same with the statistics inside", gradient(False).norm().item(), form=".0e"),
        Finding(
            "digits, 150 steps at rate 0.3: training loss with constant statistics over that with "
            "the true gradient, log2 (1 is twice)",
            over_seeds(np.log2(outside / inside)),
            below(0.5),
            "A shortcut that may be taken costs little; half a doubling is a generous little.",
            form=".2f",
        ),
    ]


@claim(
    "BatchNorm makes the gradients that pass through it smaller.",
    met="summaries of the theorem of {cite:t}`santurkar2018`",
    place=Place(CHAPTER, "What the norms of a network take out of the gradient", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="It shortens gradients where its input spreads widely, and can lengthen them elsewhere.",
    condition="The factor γ²/σ² in front decides ({prf:ref}`thm-ics-norm`). BatchNorm shrinks "
    "every gradient where its input spreads more than |γ|, and can magnify it where its input "
    "spreads less. Both occur in one network.",
)
def smaller_gradients() -> Evidence:
    ratio = experiments.load("gradient_parts").values("ratio", norm="batch")
    why = "Smaller means a ratio below 1."
    return [
        Finding(
            f"squared length of the gradient below over above BatchNorm {place + 1} of 3, after "
            f"{gradient_parts.CONFIG.looks[-1]} steps, median over the units",
            over_seeds(ratio[:, -1, place]),
            below(1),
            why,
            form=".2f",
        )
        for place in range(3)
    ]


@claim(
    "Fluctuating gradients of the statistics lead to overfitting.",
    met=EXPLANATION,
    place=Place(CHAPTER, "Do fluctuating statistics overfit?", in_depth=True),
    recorded="open",
    answer="Nobody has shown it, and noise is more often said to work against overfitting.",
    condition="We know of no evidence that is offered with the claim.",
)
def fluctuation_and_overfitting() -> Evidence:
    return [
        Unsettled(
            "We know of no experiment that varies the fluctuation alone and looks at the gap "
            "between "
            "training and test loss.",
            "Train with batch statistics and add noise of known size to the two statistics in the "
            "backward pass alone; compare test loss at equal training loss, over seeds.",
        )
    ]


def _change_in_other_company(norm: Callable[..., Any]) -> float:
    """How far the output for one example moves when the other examples of its batch change."""
    x = np.random.default_rng(0).normal(size=(15, 16))
    company = [[0, *range(1, 8)], [0, *range(8, 15)]]
    first, second = (norm(x[rows])[0][0] for rows in company)
    return float(np.abs(first - second).max())


NOISE = (
    "A regularizer that adds no penalty works by noise: the same example must come out "
    "differently in other company, by more than rounding."
)


@claim(
    "LayerNorm is a regularization technique.",
    met=NOTES,
    place=Place("07_pre_ln_and_post_ln", "Does Post-LN end better?", in_depth=True),
    recorded="false",
    answer="It adds neither a penalty nor noise to training.",
    condition="*Normalization* and *regularization* are two words. In our perceptron the test loss "
    "is higher with LayerNorm than without; in our convolutional network no difference shows.",
)
def layer_norm_regularizes() -> Evidence:
    return [
        Finding(
            "change of an example's LayerNorm output when the batch around it changes",
            _change_in_other_company(norms.layer_norm),
            above(1e-6),
            NOISE,
        ),
        *(
            Finding(
                f"MNIST-1D, {world}, batches of 64: test loss with LayerNorm minus without a norm "
                "(nats per example)",
                over_seeds(study("batch_sizes").row(f"{world}: LayerNorm, 64 - no norm, 64")),
                form=".3f",
            )
            for world in ("perceptron", "convolutions")
        ),
    ]


@claim(
    "BatchNorm acts as a regularizer.",
    met="the abstract of {cite:t}`ioffe2015`",
    place=Place("03_batch_norm_vs_layer_norm", "Small batches", in_depth=True),
    recorded="open",
    answer="Its noise is real; whether the noise lowers the test loss is undecided.",
    condition="In training the other examples of the batch add noise. A lower test loss alone does "
    "not show that the noise is the reason.",
)
def batch_norm_regularizes() -> Evidence:
    return [
        Finding(
            "change of an example's BatchNorm output when the batch around it changes",
            _change_in_other_company(norms.batch_norm),
            above(1e-6),
            NOISE,
        ),
        Unsettled(
            "A smaller batch has more noise, and more steps besides.",
            "Train with statistics of few and of all examples to the same training loss, each at "
            "its own best rate, on several data sets, and compare the test losses.",
        ),
    ]
