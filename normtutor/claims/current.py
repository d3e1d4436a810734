"""Claims about what models do since 2020; chapter 8 explains them."""

import numpy as np

from normtutor import experiments, norms
from normtutor.claims.ledger import (
    ASSISTANT,
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
from normtutor.experiments import text_stability, text_stability_rates

CHAPTER = "08_after_2020"


@claim(
    "A Transformer does not train without normalization.",
    met=f"{ASSISTANT}, and {TUTORIALS}",
    place=Place("07_pre_ln_and_post_ln", "What helps"),
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

    grid, fresh = experiments.load("text_stability_rates"), experiments.load("text_stability")
    bare = text_stability_rates.best_loss(grid, "no norm", 12)
    losses = text_stability.losses(fresh, 12)
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
            "12 layers on text, ordinary weights and no norm: validation loss at the best of seven "
            "rates (nats per token)",
            bare,
            above(np.log(1024)),
            "Not to train is to end at chance or worse; with 1,024 pieces chance is 6.93 nats.",
            form=".0f",
        ),
        Finding(
            "12 layers on text, Fixup's initialisation: test loss minus that with RMSNorm (nats "
            "per token)",
            over_seeds(losses["no norm, Fixup"] - losses["Pre-RMSNorm"]),
            above(0.1),
            "Not to train is to be far behind a model that does.",
            form=".3f",
        ),
    ]


@claim(
    "Query-key normalization bounds the attention logits.",
    met="reports on large models, for instance {cite:t}`dehghani2023`",
    place=Place(CHAPTER, "QK-norm: a bound on the logits"),
    recorded="true",
    condition="The bound is √d times the largest product of the two learned weights γ "
    "({prf:ref}`thm-after-qk`), so that it can grow in training.",
)
def bounded_logits() -> Evidence:
    rng = np.random.default_rng(0)
    d = 64
    query, key = 1000 * rng.normal(size=(2, 200, d))
    direction = rng.normal(size=d)
    query[0] = key[0] = 1e4 * direction  # as aligned as two tokens can be
    normed = [norms.rms_norm(x)[0] for x in (query, key)]
    saved = experiments.load("qk_norm")

    def largest(norm: str) -> np.ndarray:
        """The largest logit at the end of training at the largest rate, one a seed."""
        return saved.values("largest", qk_norm=norm, learning_rate=0.128)[:, -1]

    bound = saved.values("bound", qk_norm="rms", learning_rate=0.128)
    return [
        Finding(
            "largest logit with RMSNorm on queries and keys, d = 64, over √d = 8",
            float(np.abs(normed[0] @ normed[1].T).max() / d**0.5 / d**0.5),
            below(1.000001),
            "By the Cauchy-Schwarz inequality the quotient is at most 1, up to rounding.",
            form=".4f",
        ),
        Finding(
            "largest logit after a training at a very large rate over the bound of that moment",
            over_seeds(largest("rms") / bound[:, -1]),
            below(1.000001),
            "The bound holds of the weights at every moment.",
            form=".2f",
        ),
        Finding(
            "largest logit of that training without a norm on queries and keys, log10",
            over_seeds(np.log10(largest("none"))),
            form=".1f",
        ),
        Finding(
            "growth of the bound in that training",
            over_seeds(bound[:, -1] / bound[:, 0]),
            form=".1f",
        ),
    ]


def _misfit(v: np.ndarray, power: int | None) -> float:
    """Root mean square of log(fitted / v), fitted: (a + bl)^power at layer l, or exp(a + bl)."""
    layer, p = np.arange(1, len(v) + 1), power or 1
    if power is None:
        line, slope = np.log(v), np.ones_like(v)
    else:
        line, slope = v ** (1 / p), p * v ** (-1 / p)
    # A straight line on the scale of the shape; the weights count relative errors.
    fitted = np.polyval(np.polyfit(layer, line, 1, w=slope), layer)
    fitted = np.exp(fitted) if power is None else np.maximum(fitted, 0) ** p
    return float(np.sqrt(np.mean(np.log(np.maximum(fitted, 1e-3 * v) / v) ** 2)))


@claim(
    "In Pre-LN the variance of the residual stream grows exponentially with depth.",
    met="the abstract of {cite:t}`sun2025`",
    place=Place(CHAPTER, "How the residual stream grows"),
    recorded="open",
    condition="Before training it does not: it grows in proportion to the depth "
    "{cite:p}`xiong2020`. Later it grows faster, in most of our runs like the square of the depth. "
    "At the smallest rate it is a higher power or an exponential, and twelve layers cannot tell "
    "which.",
)
def exponential_growth() -> Evidence:
    saved = experiments.load("variance_growth")
    steps = saved.runs[0]["records"][0]["steps"]

    def against_a_power(rate: float, step: int) -> Interval:
        """How far the best exponential misses over the best power, log2; over seeds."""
        streams = saved.values("stream", wiring="pre", depth=12, learning_rate=rate)
        return over_seeds(
            [
                np.log2(_misfit(v, None) / min(_misfit(v, p) for p in range(1, 7)))
                for v in streams[:, steps.index(step), 1:]
            ]
        )

    why = "If it grows exponentially, an exponential fits better than a power of the depth."
    return [
        *(
            Finding(
                f"12 layers, rate {rate:g}, {words}: misfit of the best exponential over that of "
                "the best power from 1 to 6, log2 (1 is twice)",
                against_a_power(rate, step),
                below(0),
                why,
                form=".2f",
            )
            for rate, words, step in (
                (0.004, "before training", 0),
                (0.004, "after training", 240),
                (0.001, "after training", 240),
            )
        ),
        Finding(
            "mean square behind 12 layers over that of the embedding, after 24 steps",
            over_seeds(
                np.divide(
                    *saved.values("stream", wiring="pre", depth=12, learning_rate=0.004)[
                        :, steps.index(24), [12, 0]
                    ].T
                )
            ),
            form=".0f",
        ),
        Unsettled(
            "Our runs are short ones of narrow models. The report is of large trained models, and "
            "its theorem leaves everything between linear and exponential growth.",
            "Take trained Pre-LN models of 30 layers and more, fit powers and exponentials to the "
            "size of the stream over the layers, and see which predicts the layers left out.",
        ),
    ]


@claim(
    "Today's language models all use Pre-LN with RMSNorm.",
    met=f"{TUTORIALS}",
    place=Place(CHAPTER, "What current models do"),
    recorded="half",
    condition="RMSNorm, yes. A third of the newest has a norm at the end of the branch, alone or "
    "beside the one in front, and one has several streams. Counted in published code, in one "
    "choice of decoders.",
)
def pre_ln_with_rms_norm() -> Evidence:
    # A test compares these numbers with the table of the chapter.
    models, with_rms, with_pre = 15, 15, 9
    why = f"All of them would be {models}."
    return [
        Finding(
            f"of {models} models of 2025 and 2026, those with RMSNorm",
            with_rms,
            near(models, 0),
            why,
            form=".0f",
            reported="wolf2020",
        ),
        Finding(
            f"of {models} models of 2025 and 2026, those wired plainly as Pre-LN",
            with_pre,
            near(models, 0),
            why,
            form=".0f",
            reported="wolf2020",
        ),
    ]


@claim(
    "Dynamic tanh replaces normalization without loss.",
    met="summaries of {cite:t}`zhu2025`",
    place=Place(CHAPTER, "Doing without: dynamic tanh"),
    recorded="half",
    condition="With little data it was better than LayerNorm, with more data worse, by a later "
    "report. The verdict rests on that report; our own models are small.",
)
def dynamic_tanh() -> Evidence:
    saved = experiments.load("tanh_against_layer")

    def difference(share: float) -> Interval:
        loss = [saved.values("loss", norm=n, share=share) for n in ("tanh", "layer")]
        return over_seeds(loss[0] - loss[1])

    why = "Without loss is at most 2% worse."
    return [
        *(
            Finding(
                f"change of the validation loss by dynamic tanh, 64 million parameters, {tokens} "
                "million tokens",
                change,
                below(0.02),
                why,
                form="+.1%",
                reported="verma2026",
            )
            for tokens, change in ((1, -0.273), (118, 0.188))
        ),
        *(
            Finding(
                f"our test loss with dynamic tanh minus LayerNorm's, {words} (nats per token)",
                difference(share),
                form=".3f",
            )
            for words, share in (("all of the text", 1.0), ("an eighth of the text", 0.125))
        ),
    ]
