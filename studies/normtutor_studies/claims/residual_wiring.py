"""Claims about Pre-LN and Post-LN; chapter 7 explains them."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from normtutor import norms
from normtutor.models import TransformerLM
from normtutor.training import start
from normtutor_studies import study
from normtutor_studies.claims import sources
from normtutor_studies.claims.ledger import (
    Finding,
    Findings,
    Place,
    Unsettled,
    above,
    below,
    claim,
    near,
)
from normtutor_studies.engine import at_best_rate
from normtutor_studies.measures import encoder_decoder

CHAPTER = "07_pre_ln_and_post_ln"
OVER_LAYERS = Place(CHAPTER, "The gradient over the layers", in_depth=True)
SHALLOW = Place(CHAPTER, "Wide and shallow", in_depth=True)
MAP = Place(CHAPTER, "The map in numbers", in_depth=True)


class _Start(NamedTuple):
    """Of untrained language models, one row per seed."""

    gradients: np.ndarray  # of the feed-forward output matrices, lowest layer first
    kept: np.ndarray  # cosine of the last state of the residual stream with the first

    @property
    def bottom_over_top(self) -> np.ndarray:
        """log2 of the lowest layer's gradient over the highest layer's."""
        return np.log2(self.gradients[:, 0] / self.gradients[:, -1])


@cache
def _at_the_start(wiring: str, depth: int) -> _Start:
    """Five seeds of one wiring and depth."""
    gradients, kept = [], []
    for seed in range(5):
        start(seed)
        model = TransformerLM(50, depth=depth, max_length=16, wiring=wiring, dropout=0.0)
        tokens, targets = torch.randint(50, (2, 8, 16))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        parameters = dict(model.named_parameters())
        matrices = [parameters[f"layers.{i}.feed_forward.2.weight"] for i in range(depth)]
        gradients.append([g.norm().item() for g in torch.autograd.grad(loss, matrices)])
        with torch.no_grad():
            first = last = model.embed(tokens)
            for layer in model.layers:
                last = layer(last)
        kept.append(F.cosine_similarity(first, last, dim=-1).mean().item())
    return _Start(np.array(gradients), np.array(kept))


@claim(
    "In Pre-LN the gradients of the bottom layers are larger than those of the top layers.",
    met=f"{sources.NOTES}, after a sentence in {{cite:t}}`wang2022`",
    place=OVER_LAYERS,
    recorded="true",
    scope="at our scale",
    answer="True before training, and the more so the deeper the model.",
    condition="It is often said, after {cite:t}`xiong2020`, that the gradient is the same in every "
    "layer. That is true of a bound, not of the gradient.",
)
def larger_at_the_bottom() -> Findings:
    for depth in (6, 24):
        yield Finding(
            f"gradient of the lowest layer over the highest, {depth} layers, Pre-LN, log2 (1 is "
            "twice)",
            _at_the_start("pre", depth).bottom_over_top,
            above(0, "Larger is a ratio above 1, which is 0 in log2."),
        )


@claim(
    "Larger gradients at the bottom mean that Pre-LN is biased towards its identity branch.",
    met=sources.NOTES,
    place=OVER_LAYERS,
    recorded="false",
    answer="The bottom layers are not the identity branch, which runs through every layer.",
    condition="DeepNorm leans far more on the identity, and before training its gradients are "
    "level.",
)
def bias_to_the_identity() -> Findings:
    deepnorm, pre = _at_the_start("deepnorm", 12), _at_the_start("pre", 12)
    larger = "DeepNorm leans more on the identity; by the claim its ratio would be the larger one."
    yield Finding(
        "cosine of the last state with the input, 12 layers: DeepNorm minus Pre-LN",
        deepnorm.kept - pre.kept,
    )
    yield Finding(
        "gradient of the lowest layer over the highest, log2: DeepNorm minus Pre-LN",
        deepnorm.bottom_over_top - pre.bottom_over_top,
        above(0, larger),
    )


@claim(
    "Post-LN is hard to train because its gradients vanish towards the bottom.",
    met=f"{sources.TUTORIALS}, after {{cite:t}}`zhang2019dsinit` and others",
    place=Place(CHAPTER, "Do Post-LN's gradients vanish?", in_depth=True),
    recorded="partly",
    scope="at our scale",
    answer="They vanish in the decoder of an encoder-decoder; self-attention alone fails without "
    "that.",
    condition="Cross-attention leads part of the decoder's gradient into the encoder.",
)
def vanish_in_post_ln() -> Findings:
    vanished = below(-3.3, "To vanish is to lose a factor of ten or more, −3.3 in log2.")
    pairs = study("encoder_decoder")
    where = {"wiring": "post", "width": 128}
    yield Finding(
        "gradient of the lowest layer over the highest before training, Post-LN, 24 layers of "
        "self-attention, log2 (1 is twice)",
        _at_the_start("post", 24).bottom_over_top,
        vanished,
    )
    yield Finding(
        "the same, decoder of an encoder-decoder with 18 layers each",
        encoder_decoder.bottom_over_top(pairs, "decoder", depth=18, **where),
        vanished,
    )
    yield Finding(
        "what the variance of cross-attention's output predicts for that decoder, log2",
        encoder_decoder.predicted(pairs, depth=18, **where),
    )


@claim(
    "Each norm of Post-LN weakens the identity branch.",
    met=sources.NOTES,
    place=SHALLOW,
    recorded="true",
    answer="True before training: each norm shrinks the input's share of the stream.",
    condition="With branches as large as the stream the input keeps the share 2^(−L/2) after L "
    "steps.",
)
def weakened_identity() -> Findings:
    rng = np.random.default_rng(0)
    x = first = norms.layer_norm(rng.normal(size=(500, 768)))[0]
    for _ in range(8):
        x = norms.layer_norm(x + norms.layer_norm(rng.normal(size=x.shape))[0])[0]
    yield Finding(
        "share of the input after 8 steps with independent branches over 2^(−4)",
        16 * float((x * first).sum() / (first**2).sum()),
        near(1, 0.1, "A factor 1/√2 in every step gives 1; a tenth allows for 500 draws."),
    )
    yield Finding(
        "cosine of the last state with the input, 12 untrained layers: Post-LN minus Pre-LN",
        _at_the_start("post", 12).kept - _at_the_start("pre", 12).kept,
        below(0, "Weaker in Post-LN is a negative difference."),
    )


@claim(
    "Pre-LN is wide and shallow: its depth is not real.",
    met=f"{sources.NOTES}, after {{cite:t}}`su2022pre`",
    place=SHALLOW,
    recorded="partly",
    scope="at our scale",
    answer="Mostly true in sorting and on code; on formulas the later layers need one another's "
    "output.",
    condition="Nowhere are the later layers superfluous. In large trained models up to half "
    "of the layers can be left out with little loss on question answering {cite:p}`gromov2024`.",
)
def wide_and_shallow() -> Findings:
    def kept(world: str, wiring: str) -> np.ndarray:
        """The share of what the layers are worth that is left when all read one stream."""
        one = study("side_by_side_in_code" if world == "code" else "side_by_side")
        return one.row(f"{world}, {wiring}: side by side, kept")

    shallow = above(0.75, "Layers that need not wait for one another keep most of their worth.")
    settings = (("sorting", "5 to 12 of 12"), ("code", "3 to 6 of 6"), ("formulas", "3 to 6 of 6"))
    for world, layers in settings:
        yield Finding(
            f"{world}, trained Pre-LN: what layers {layers} keep, all side by side, of what "
            "removing them costs",
            kept(world, "Pre-LN"),
            shallow,
            form=".0%",
        )
    for world, _ in settings:
        yield Finding(f"{world}: the same in Post-LN", kept(world, "Post-LN"), form=".0%")


TRAINED = 1.15  # nats per digit: half of chance
FAILED = above(TRAINED, "Not to train is to end above half of chance, ln 10 = 2.30 nats per digit.")


@claim(
    "Post-LN does not train without warm-up.",
    met=f"{sources.TUTORIALS}, after {{cite:t}}`xiong2020`",
    place=MAP,
    recorded="partly",
    scope="at our scale",
    answer="True at large learning rates; at a small one ours trained without.",
    condition="Twelve layers fail from a smaller rate on than six.",
)
def warm_up_for_post_ln() -> Findings:
    def loss(rate: float, warmup: int = 0) -> np.ndarray:
        return study("warmup_map").read("loss", wiring="post", depth=12, warmup=warmup, rate=rate)

    what = "loss of Post-LN of 12 layers after 200 steps"
    yield Finding(f"{what} without warm-up, rate 0.004", loss(4e-3), FAILED)
    yield Finding(f"{what} without warm-up, rate 0.001", loss(1e-3), FAILED)
    yield Finding(f"{what} with 60 steps of warm-up, rate 0.004", loss(4e-3, warmup=60))


@claim(
    "Pre-LN needs no warm-up.",
    met=f"{sources.TUTORIALS}, after {{cite:t}}`xiong2020`",
    place=MAP,
    recorded="partly",
    scope="at our scale",
    answer="It trains without, yet deep models at large rates end better with it.",
    condition="At the best rates of each, what warm-up gains is small or nothing.",
)
def no_warm_up_for_pre_ln() -> Findings:
    saved = study("warmup_map")
    cold, warm = (  # (seeds, rates)
        saved.across("rate", wiring="pre", depth=12, warmup=warmup) for warmup in (0, 60)
    )
    trained = "To train is to end below half of chance, which is ln 10 = 2.30 nats per digit."
    none = below(0.05, "To need none is to lose nothing that one would notice without it.")
    yield Finding(
        "loss of Pre-LN of 12 layers after 200 steps without warm-up, the worst of five rates",
        cold[:, cold.mean(axis=0).argmax()],
        below(TRAINED, trained),
    )
    yield Finding(
        "loss without warm-up minus with 60 steps of it, the largest rate",
        (cold - warm)[:, -1],
        none,
    )
    gained = at_best_rate(cold) - at_best_rate(warm)
    yield Finding("the same, each at its best rate", gained, none)


@claim(
    "Post-LN ends better than Pre-LN, if it trains at all.",
    met=sources.NOTES,
    place=Place(CHAPTER, "Which ends better?"),
    recorded="open",
    answer="The literature disagrees, and our models and runs are too small to decide.",
    condition="On our sorting task Post-LN ends a little ahead with six layers, and behind with "
    "twelve.",
)
def post_ln_ends_better() -> Findings:
    saved = study("warmup_map")

    def end(wiring: str, depth: int) -> np.ndarray:
        """Test loss at the rate and warm-up that were best on the other seeds."""
        where: dict[str, Any] = {"wiring": wiring, "depth": depth}
        warmups = saved.choices("warmup", **where)
        losses = [saved.across("rate", **where, warmup=warmup) for warmup in warmups]
        return at_best_rate(np.concatenate(losses, axis=1))

    for depth in (6, 12):
        yield Finding(
            f"sorting, {depth} layers, 200 steps: test loss of Post-LN minus Pre-LN's, each at its "
            "best rate and warm-up (nats per digit)",
            end("post", depth) - end("pre", depth),
            below(0, "To end better is to have the smaller loss."),
        )
    yield Unsettled(
        "Reports go both ways: comparable {cite:p}`xiong2020`; Pre-LN with other norms and smaller "
        "weights better on small translation tasks, alone worse on a large one "
        "{cite:p}`nguyen2019`; Post-LN better in shallow models {cite:p}`takase2023`.",
        "Train both at several depths and sizes, each with its own learning rate and enough "
        "warm-up, until the loss no longer falls, and compare paired by seed.",
    )
