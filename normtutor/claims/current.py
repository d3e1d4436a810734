"""Claims about what models do since 2020; chapter 8 explains them."""

import numpy as np
import torch

from normtutor import experiments, norms
from normtutor.claims.ledger import (
    ASSISTANT,
    TUTORIALS,
    Evidence,
    Finding,
    Place,
    above,
    below,
    claim,
    over_seeds,
)
from normtutor.models import TransformerLM
from normtutor.training import start

CHAPTER = "08_after_2020"


@claim(
    "A Transformer does not train without normalization.",
    met=f"{ASSISTANT}, and {TUTORIALS}",
    place=Place(CHAPTER, "?"),
    recorded="half",
    condition="True of a deep model that is merely stripped of its norms. With an initialisation "
    "made for it, or with few layers, it trains.",
)
def without_normalization() -> Evidence:
    remedies = experiments.load("remedies")

    def best(wiring: str) -> np.ndarray:
        """The smallest mean loss over the rates, one a seed at that rate."""
        rates = remedies.config["rates"]
        losses = [remedies.values("loss", wiring=wiring, learning_rate=rate) for rate in rates]
        return np.array(min(losses, key=np.mean))

    text = experiments.load("text_batches")
    where = {"order": "shuffled", "batch_size": 16}
    why = "Not to train is to end above half of chance, which is ln 10 = 2.30 nats a digit."
    return [
        Finding(
            "BLEU of a Transformer of usual size whose LayerNorms were taken out",
            0,
            below(1),
            "A model that does not train translates nothing.",
            form=".0f",
            reported="zhang2019rms",
        ),
        Finding(
            "loss of 12 layers without a norm and without anything in its place over that of "
            "chance, best of five rates, log10",
            over_seeds(np.log10(best("none") / np.log(10))),
            above(0),
            "Not to train is to end at chance or worse.",
            form=".1f",
        ),
        Finding(
            "loss of 12 layers without a norm, Fixup's initialisation",
            over_seeds(best("fixup")),
            above(1.15),
            why,
            form=".2f",
        ),
        Finding(
            "two layers on text: test loss without a norm minus LayerNorm's (nats per token)",
            over_seeds(
                text.values("all", norm="none", **where) - text.values("all", norm="layer", **where)
            ),
            form=".3f",
        ),
    ]


@claim(
    "Query-key normalization bounds the attention logits.",
    met="reports on large models, for instance {cite:t}`dehghani2023`",
    place=Place(CHAPTER, "?"),
    recorded="true",
    condition="The bound is √d times the largest product of the two learned weights γ; it is fixed "
    "at the start and can grow in training.",
)
def bounded_logits() -> Evidence:
    rng = np.random.default_rng(0)
    d = 64
    query, key = 1000 * rng.normal(size=(2, 200, d))
    direction = rng.normal(size=d)
    query[0] = key[0] = 1e4 * direction  # as aligned as two tokens can be
    normed = [norms.rms_norm(x)[0] for x in (query, key)]
    return [
        Finding(
            "largest logit with RMSNorm on queries and keys, d = 64, over √d = 8",
            float(np.abs(normed[0] @ normed[1].T).max() / d**0.5 / d**0.5),
            below(1.000001),
            "By the Cauchy-Schwarz inequality the quotient is at most 1, up to rounding.",
            form=".4f",
        ),
        Finding(
            "the same without a norm",
            float(np.abs(query @ key.T).max() / d**0.5 / d**0.5),
            form=".0e",
        ),
    ]


@claim(
    "In Pre-LN the variance of the residual stream grows with depth.",
    met="papers on the depth of language models, for instance {cite:t}`sun2025`",
    place=Place(CHAPTER, "?"),
    recorded="true",
    condition="At initialisation about in proportion to the depth, not exponentially. What "
    "training makes of it is another matter.",
)
def growing_stream() -> Evidence:
    rows = []
    for seed in range(5):
        start(seed)
        model = TransformerLM(50, depth=24, max_length=16, wiring="pre", dropout=0.0)
        with torch.no_grad():
            stream = [model.embed(torch.randint(50, (8, 16)))]
            for layer in model.layers:
                stream.append(layer(stream[-1]))
        rows.append([x.square().mean().item() for x in stream])
    squares = np.array(rows)  # (seeds, layers + 1)
    return [
        Finding(
            "mean square of the stream after 24 untrained layers over that of the embedding, "
            "log2 (1 is twice)",
            over_seeds(np.log2(squares[:, -1] / squares[:, 0])),
            above(0),
            "Growth is a ratio above 1, 0 in log2.",
            form=".2f",
        ),
        Finding(
            "what layers 13 to 24 add over what layers 1 to 12 add: 1 is growth in proportion",
            over_seeds((squares[:, 24] - squares[:, 12]) / (squares[:, 12] - squares[:, 0])),
            form=".2f",
        ),
    ]
