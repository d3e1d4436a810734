"""Claims about Pre-LN and Post-LN; chapter 7 explains them."""

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from normtutor import norms
from normtutor.models import TransformerLM
from normtutor.training import start
from normtutor_studies import experiments, study
from normtutor_studies.claims.ledger import (
    ASSISTANT,
    NOTES,
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
    encoder_decoder,
    remedies,
    update_size,
)

CHAPTER = "07_pre_ln_and_post_ln"
OVER_LAYERS = Place(CHAPTER, "The gradient over the layers", in_depth=True)
SHALLOW = Place(CHAPTER, "Wide and shallow", in_depth=True)
MAP = Place(CHAPTER, "The map in numbers", in_depth=True)
SEEDS = range(5)


@cache
def _at_the_start(wiring: str, depth: int) -> dict[str, np.ndarray]:
    """Of an untrained language model, one row a seed.

    "gradients": of the feed-forward output matrices, from the lowest layer to the highest;
    "kept": the cosine of the last state of the residual stream with the first; "increments": what
    each layer adds to the stream over what is there, lowest to highest.
    """
    gradients, kept = [], []
    increments: list[list[float]] = []
    for seed in SEEDS:
        start(seed)
        model = TransformerLM(50, depth=depth, max_length=16, wiring=wiring, dropout=0.0)
        tokens, targets = torch.randint(50, (2, 8, 16))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        parameters = dict(model.named_parameters())
        matrices = [parameters[f"layers.{i}.feed_forward.2.weight"] for i in range(depth)]
        gradients.append([g.norm().item() for g in torch.autograd.grad(loss, matrices)])
        with torch.no_grad():
            x = first = model.embed(tokens)
            increments.append([])
            for layer in model.layers:
                before, x = x, layer(x)
                increments[-1].append(((x - before).norm() / before.norm()).item())
            kept.append(F.cosine_similarity(first, x, dim=-1).mean().item())
    return {
        "gradients": np.array(gradients),
        "kept": np.array(kept),
        "increments": np.array(increments),
    }


def _bottom_over_top(wiring: str, depth: int) -> np.ndarray:
    """log2 of the lowest layer's gradient over the highest layer's, one per seed."""
    gradients = _at_the_start(wiring, depth)["gradients"]
    return np.log2(gradients[:, 0] / gradients[:, -1])


@claim(
    "In the first Transformer a LayerNorm follows each feed-forward activation.",
    met=ASSISTANT,
    place=Place(CHAPTER, "One formula for all wirings", in_depth=True),
    recorded="false",
    answer="The norm follows the residual sum; no norm stands inside the feed-forward network.",
    condition="{cite:t}`vaswani2017` normalize LN(x + FFN(x)). Between the two linear maps of "
    "FFN there is only the activation.",
)
def norm_behind_the_activation() -> Evidence:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    with torch.no_grad():
        h = layer.norm1(x + layer.self_attn(x, x, x)[0])
        inside = torch.relu(layer.linear1(h))
        after_sum = layer.norm2(h + layer.linear2(inside))
        after_activation = layer.norm2(h + layer.linear2(F.layer_norm(inside, (16,))))
        y = layer(x)
    return [
        Finding(
            "torch's TransformerEncoderLayer against the formula with a norm after the "
            "activation: largest difference",
            (y - after_activation).abs().max().item(),
            below(1e-9),
            "The layer would compute what the claim describes.",
            form=".2g",
        ),
        Finding(
            "the same against LN(h + FFN(h))",
            (y - after_sum).abs().max().item(),
            form=".0e",
        ),
    ]


@claim(
    "In Pre-LN the gradients of the bottom layers are larger than those of the top layers.",
    met=f"{NOTES}, after a sentence in {{cite:t}}`wang2022`",
    place=OVER_LAYERS,
    recorded="true",
    scope="at our scale",
    answer="True before training, and the more so the deeper the model.",
    condition="It is often said, after {cite:t}`xiong2020`, that the gradient is the same in "
    "every layer. That is true of a bound, not of the gradient.",
)
def larger_at_the_bottom() -> Evidence:
    why = "Larger is a ratio above 1, which is 0 in log2."
    return [
        Finding(
            f"gradient of the lowest layer over the highest, {depth} layers, Pre-LN, log2 (1 is "
            "twice)",
            over_seeds(_bottom_over_top("pre", depth)),
            above(0),
            why,
            form=".2f",
        )
        for depth in (6, 12, 24)
    ]


@claim(
    "Larger gradients at the bottom mean that Pre-LN is biased towards its identity branch.",
    met=NOTES,
    place=OVER_LAYERS,
    recorded="false",
    answer="The bottom layers are not the identity branch, which runs through every layer.",
    condition="DeepNorm leans far more on the identity, and before training its gradients are "
    "level.",
)
def bias_to_the_identity() -> Evidence:
    ratio = _bottom_over_top("deepnorm", 12) - _bottom_over_top("pre", 12)
    kept = _at_the_start("deepnorm", 12)["kept"] - _at_the_start("pre", 12)["kept"]
    out = _bottom_over_top("out", 12) - _bottom_over_top("pre", 12)
    nearer = _at_the_start("out", 12)["kept"] - _at_the_start("pre", 12)["kept"]
    return [
        Finding(
            "cosine of the last state with the input, 12 layers: DeepNorm minus Pre-LN",
            over_seeds(kept),
            form=".2f",
        ),
        Finding(
            "gradient of the lowest layer over the highest, log2: DeepNorm minus Pre-LN",
            over_seeds(ratio),
            above(0),
            "DeepNorm leans more on the identity; if the ratio showed that, its ratio would be "
            "the larger one.",
            form=".2f",
        ),
        Finding(
            "cosine of the last state with the input: norm at the end of the branch minus Pre-LN",
            over_seeds(nearer),
            form=".2f",
        ),
        Finding(
            "gradient of the lowest layer over the highest, log2: norm at the end of the branch "
            "minus Pre-LN",
            over_seeds(out),
            below(0),
            "This wiring leans less on the identity, so its ratio would be the smaller one.",
            form=".2f",
        ),
    ]


@claim(
    "Post-LN is hard to train because its gradients vanish towards the bottom.",
    met=f"{TUTORIALS}, after {{cite:t}}`zhang2019dsinit` and others",
    place=Place(CHAPTER, "Do Post-LN's gradients vanish?"),
    recorded="partly",
    scope="at our scale",
    answer="They vanish in the decoder of an encoder-decoder; stacks of self-attention "
    "fail without that.",
    condition="Cross-attention leads part of the decoder's gradient into the encoder. Where "
    "training fails, our runs do not show what comes first, alike tokens or vanishing gradients.",
)
def vanish_in_post_ln() -> Evidence:
    why = "To vanish is to lose a factor of ten or more, −3.3 in log2."
    pairs = experiments.load("encoder_decoder")
    where = {"wiring": "post", "width": 128}
    return [
        *(
            Finding(
                f"gradient of the lowest layer over the highest before training, Post-LN, {depth} "
                "layers of self-attention, log2 (1 is twice)",
                over_seeds(_bottom_over_top("post", depth)),
                below(-3.3),
                why,
                form=".2f",
            )
            for depth in (12, 24)
        ),
        *(
            Finding(
                f"the same, {part} of an encoder-decoder with 18 layers each",
                over_seeds(encoder_decoder.bottom_over_top(pairs, part, depth=18, **where)),
                below(-3.3),
                why,
                form=".2f",
            )
            for part in encoder_decoder.PARTS
        ),
        Finding(
            "what the variance of cross-attention's output predicts for that decoder, log2",
            over_seeds(encoder_decoder.predicted(pairs, depth=18, **where)),
            form=".2f",
        ),
    ]


@claim(
    "Each norm of Post-LN weakens the identity branch.",
    met=NOTES,
    place=SHALLOW,
    recorded="true",
    answer="True before training: each norm divides the input by what the branch adds.",
    condition="With branches as large as the stream the input keeps the share 2^(−L/2) after "
    "L steps.",
)
def weakened_identity() -> Evidence:
    rng = np.random.default_rng(0)
    x = first = norms.layer_norm(rng.normal(size=(500, 768)))[0]
    shares = []
    for _ in range(8):
        x = norms.layer_norm(x + norms.layer_norm(rng.normal(size=x.shape))[0])[0]
        shares.append(float((x * first).sum() / (first**2).sum()))
    kept = {wiring: _at_the_start(wiring, 12)["kept"] for wiring in ("post", "pre")}
    return [
        Finding(
            "share of the input after 8 steps with independent branches over 2^(−4)",
            shares[-1] * 16,
            near(1, 0.1),
            "A factor 1/√2 in every step gives 1; a tenth allows for 500 draws.",
            form=".2f",
        ),
        Finding(
            "cosine of the last state with the input, 12 untrained layers: Post-LN minus Pre-LN",
            over_seeds(kept["post"] - kept["pre"]),
            below(0),
            "Weaker in Post-LN is a negative difference.",
            form=".2f",
        ),
    ]


@claim(
    "Pre-LN is wide and shallow: its depth is not real.",
    met=f"{NOTES}, after {{cite:t}}`su2022pre`",
    place=SHALLOW,
    recorded="partly",
    scope="at our scale",
    answer="Before training upper layers add less; after it, the last adds more than a fresh one.",
    condition="Fresh layers add ever less to a stream that grows. Training lengthens the step of "
    "the last layer again.",
)
def wide_and_shallow() -> Evidence:
    increments = _at_the_start("pre", 12)["increments"]
    # Twelve half steps, each of which adds half of the width to the squared length.
    fresh = (7 / 6) ** 0.5 - 1

    def lengthened(world: str) -> Interval:
        runs = study("growth").runs(world, "Pre-LN")
        streams = np.array([run["after"]["stream"] for run in runs])
        return over_seeds(streams[:, -1] / streams[:, -2] - 1)

    return [
        Finding(
            "relative increment of the last of 12 layers over the first, before training, log2 (1 "
            "is twice)",
            over_seeds(np.log2(increments[:, -1] / increments[:, 0])),
            below(0),
            "Shallow means that upper layers add less; 0 is as much.",
            form=".2f",
        ),
        *(
            Finding(
                f"{world}: by what share the last of six layers lengthens the stream after "
                "training, which is at most its relative increment",
                lengthened(world),
                below(fresh),
                "The argument needs layers that add as little beside the stream as fresh ones, "
                "and the last of six fresh layers lengthens it by √(7/6) − 1.",
                form=".0%",
            )
            for world in ("formulas", "code")
        ),
    ]


def _final_losses(experiment: str, rate: float, **where: object) -> np.ndarray:
    """Test loss of sorting at one learning rate, one per seed; chance is ln 10 = 2.30."""
    saved = experiments.load(experiment)
    return saved.values("loss", learning_rate=rate, **where)


TRAINED = 1.15  # nats a digit: half of chance


@claim(
    "Post-LN does not train without warm-up.",
    met=f"{TUTORIALS}, after {{cite:t}}`xiong2020`",
    place=MAP,
    recorded="partly",
    scope="at our scale",
    answer="True at large learning rates; at a small one ours trained without.",
    condition="Twelve layers fail from a smaller rate on than six.",
)
def warm_up_for_post_ln() -> Evidence:
    def loss(rate: float) -> Interval:
        return over_seeds(_final_losses("warmup_map", rate, wiring="post", depth=12, warmup=0))

    why = "Not to train is to end above half of chance, which is ln 10 = 2.30 nats a digit."
    return [
        Finding(
            "loss of Post-LN after 200 steps without warm-up, 12 layers, rate 0.004",
            loss(4e-3),
            above(TRAINED),
            why,
            form=".2f",
        ),
        Finding(
            "loss of Post-LN after 200 steps without warm-up, 12 layers, rate 0.001",
            loss(1e-3),
            above(TRAINED),
            why,
            form=".2f",
        ),
        Finding(
            "at rate 0.004 with 60 steps of warm-up",
            over_seeds(_final_losses("warmup_map", 4e-3, wiring="post", depth=12, warmup=60)),
            form=".2f",
        ),
    ]


@claim(
    "Pre-LN needs no warm-up.",
    met=f"{TUTORIALS}, after {{cite:t}}`xiong2020`",
    place=MAP,
    recorded="partly",
    scope="at our scale",
    answer="It trains without, yet deep models at large rates end better with it.",
    condition="At the best rates of each, what warm-up gains is small or nothing.",
)
def no_warm_up_for_pre_ln() -> Evidence:
    saved = experiments.load("warmup_map")
    losses = {
        (depth, rate): _final_losses("warmup_map", rate, wiring="pre", depth=depth, warmup=0)
        for depth in (6, 12)
        for rate in saved.config["rates"]
    }
    worst = max(losses.values(), key=np.mean)
    deep = {
        warmup: _final_losses("warmup_map", 16e-3, wiring="pre", depth=12, warmup=warmup)
        for warmup in (0, 60)
    }

    def at_best(depth: int, warmup: int) -> np.ndarray:
        losses = remedies.losses_by_rate(saved, wiring="pre", depth=depth, warmup=warmup)
        return remedies.at_best_rate(losses)[0]

    return [
        Finding(
            "loss of Pre-LN after 200 steps without warm-up, the worst of two depths and five "
            "rates",
            over_seeds(worst),
            below(TRAINED),
            "To train is to end below half of chance, which is ln 10 = 2.30 nats a digit.",
            form=".2f",
        ),
        *(
            Finding(
                f"test loss without warm-up minus with it, {words}",
                over_seeds(difference),
                below(0.05),
                "To need none is to lose nothing that one would notice without it.",
                form=".3f",
            )
            for words, difference in (
                ("sorting, 12 layers, the largest rate, 60 steps", deep[0] - deep[60]),
                ("the same, each at its best rate", at_best(12, 0) - at_best(12, 60)),
                ("the same with 6 layers", at_best(6, 0) - at_best(6, 60)),
            )
        ),
    ]


@claim(
    "Post-LN needs warm-up because the gradients near its output are large at the start.",
    met="summaries of {cite:t}`xiong2020`",
    place=Place(CHAPTER, "The usual explanation: large gradients"),
    recorded="partly",
    scope="at our scale",
    answer="True of SGD; Adam divides the size of a gradient away and fails all the same.",
    condition="With SGD smaller gradients keep the tokens apart. With Adam gradients a "
    "hundredth as large fail in the same way.",
)
def large_gradients_and_warm_up() -> Evidence:
    def likeness(optimizer: str, rate: float, factor: float) -> Interval:
        return over_seeds(
            [
                update_size.likeness_after(
                    6,
                    "post",
                    optimizer=optimizer,
                    learning_rate=rate,
                    factor=factor,
                    seed=seed,
                )
                for seed in range(10, 13)
            ]
        )

    first = experiments.load("update_size")
    top = {
        wiring: np.log2(first.values("top", part="first step", wiring=wiring, depth=16))
        for wiring in ("post", "pre", "post-small")
    }
    why = (
        "If large gradients are the reason, small ones prevent the failure, in which all tokens "
        "become alike: the mean cosine of two tokens stays below 0.9. It starts near 0.75."
    )
    return [
        Finding(
            "likeness of the tokens after 6 steps, Post-LN, 12 layers, no warm-up, all gradients "
            "divided by 100: SGD at the rate 0.1",
            likeness("sgd", 0.1, 0.01),
            below(0.9),
            why,
            form=".3f",
        ),
        Finding("SGD, gradients as they are", likeness("sgd", 0.1, 1.0), form=".3f"),
        Finding(
            "likeness of the tokens after the same 6 steps, all gradients divided by 100: Adam at "
            "the rate 0.004",
            likeness("adam", 4e-3, 0.01),
            below(0.9),
            why,
            form=".3f",
        ),
        Finding("Adam, gradients as they are", likeness("adam", 4e-3, 1.0), form=".3f"),
        Finding(
            "loss after 200 steps of Adam without warm-up, rate 0.004: Post-LN of 12 layers with "
            "small weights below, which changes the update as well",
            over_seeds(_final_losses("remedies", 4e-3, wiring="post-small")),
            form=".2f",
        ),
        Finding(
            "its top gradient over that of Pre-LN, 16 layers, log2 (1 is twice)",
            over_seeds(top["post-small"] - top["pre"]),
            form=".2f",
        ),
    ]


@claim(
    "Post-LN ends better than Pre-LN, if it trains at all.",
    met=NOTES,
    place=Place(CHAPTER, "Which ends better?"),
    recorded="open",
    answer="The literature disagrees, and our models and runs are too small to decide.",
    condition="On our sorting task Post-LN ends a little ahead with six layers and behind "
    "with twelve, unless its lower layers start smaller.",
)
def post_ln_ends_better() -> Evidence:
    saved = experiments.load("warmup_map")

    def end(wiring: str, depth: int) -> np.ndarray:
        """Test loss at the rate and warm-up that were best on the other seeds."""
        conditions = [
            c for c in saved.config["conditions"] if (c["wiring"], c["depth"]) == (wiring, depth)
        ]
        losses = [remedies.losses_by_rate(saved, **c) for c in conditions]
        return remedies.at_best_rate(np.concatenate(losses, axis=1))[0]

    tried = experiments.load("remedies")
    small = remedies.losses_by_rate(tried, wiring="post-small", depth=12, warmup=0)
    small = remedies.at_best_rate(small)[0]
    why = "To end better is to have the smaller loss."
    return [
        *(
            Finding(
                f"sorting, {depth} layers, 200 steps: test loss of Post-LN minus Pre-LN's, each at "
                "its best rate and warm-up (nats per digit)",
                over_seeds(end("post", depth) - end("pre", depth)),
                below(0),
                why,
                form=".3f",
            )
            for depth in (6, 12)
        ),
        Finding(
            "sorting, 12 layers, 200 steps: test loss of Post-LN with smaller initial weights in "
            "its lower layers, without warm-up, minus Pre-LN's (nats per digit)",
            over_seeds(small - end("pre", 12)),
            form=".3f",
        ),
        Unsettled(
            "Reports go both ways: comparable {cite:p}`xiong2020`; Pre-LN with other norms and "
            "smaller weights better on small translation tasks, alone worse on a large one "
            "{cite:p}`nguyen2019`; Post-LN better in shallow models {cite:p}`takase2023`.",
            "Train both at several depths and sizes, each with its own learning rate and enough "
            "warm-up, until the loss no longer falls, and compare paired by seed.",
        ),
    ]
