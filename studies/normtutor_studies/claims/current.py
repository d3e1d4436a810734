"""Claims about what models do since 2020; chapter 8 explains them."""

import numpy as np
import torch

from normtutor import norms
from normtutor.models import TransformerLM
from normtutor.training import start
from normtutor_studies import current_models, study
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
from normtutor_studies.claims.residual_wiring import FAILED

CHAPTER = "08_after_2020"


@claim(
    "A Transformer does not train without normalization.",
    met=f"{sources.ASSISTANT}, and {sources.TUTORIALS}",
    place=Place("07_pre_ln_and_post_ln", "What helps"),
    recorded="partly",
    scope="at our scale",
    answer="True of models merely stripped of it; with initial weights made for it they train.",
    condition="Fixup does it, with initial weights made for it and a learned factor per branch.",
)
def without_normalization() -> Findings:
    def best(wiring: str) -> np.ndarray:
        """The smallest mean loss over the rates, one per seed at that rate."""
        losses = study("warmup_map").across("rate", wiring=wiring)
        return losses[:, losses.mean(axis=0).argmin()]

    yield Finding(
        "BLEU of a Transformer of usual size whose LayerNorms were taken out",
        0,
        below(1, "A model that does not train translates nothing."),
        reported="zhang2019rms",
    )
    yield Finding(
        "loss of 12 layers without a norm and without anything in its place over that of chance, "
        "best of five rates, log10",
        np.log10(best("none") / np.log(10)),
        above(0, "Not to train is to end at chance or worse."),
    )
    yield Finding("loss of 12 layers without a norm, Fixup", best("fixup"), FAILED)


@claim(
    "Query-key normalization bounds the attention logits.",
    met="reports on large models, for instance {cite:t}`dehghani2023`",
    place=Place(CHAPTER, "QK-norm: a bound on the logits"),
    recorded="true",
    answer="True, and the bound grows with the learned weights γ.",
    condition="With a norm per head of d features the bound is √d times the largest product of the "
    "two learned weights γ, or, with rotary positions in between, the product of the largest of "
    "each ({prf:ref}`thm-after-qk`).",
)
def bounded_logits() -> Findings:
    rng, d = np.random.default_rng(0), 64
    query, key = 1000 * rng.normal(size=(2, 200, d))
    query[0] = key[0] = 1e4 * rng.normal(size=d)  # as aligned as two tokens can be
    gains = rng.uniform(0.2, 3, size=(2, d))

    def largest(gain_q: np.ndarray | None, gain_k: np.ndarray | None) -> float:
        """The largest logit over √d."""
        logits = norms.rms_norm(query, gain_q)[0] @ norms.rms_norm(key, gain_k)[0].T / d**0.5
        return float(np.abs(logits).max()) / d**0.5

    cauchy = "By the Cauchy-Schwarz inequality the quotient is at most 1, up to rounding."
    yield Finding(
        "largest logit with RMSNorm on queries and keys, d = 64, over √d = 8",
        largest(None, None),
        below(1.000001, cauchy),
    )
    yield Finding(
        "the same with weights γ, over their largest product, too",
        largest(*gains) / float(gains.prod(axis=0).max()),
        below(1.000001, "The largest product of the weights is what the bound grows by."),
    )


@claim(
    "In Pre-LN the variance of the residual stream grows exponentially with depth.",
    met="the abstract of {cite:t}`sun2025`",
    place=Place(CHAPTER, "How the residual stream grows"),
    recorded="open",
    answer="Not before training, where it grows in proportion; of large models it is undecided.",
    condition="The theorem behind the report leaves everything between linear and exponential "
    "growth.",
)
def exponential_growth() -> Findings:
    growth = []
    for seed in range(5):
        start(seed)
        model = TransformerLM(50, width=32, depth=32, max_length=32, wiring="pre")
        sizes = []
        with torch.no_grad():
            x = model.embed(torch.randint(50, (16, 32)))
            for layer in model.layers:
                x = layer(x)
                sizes.append(float(x.square().mean()))
        growth.append(sizes[31] / sizes[15])
    yield Finding(
        "mean square of the stream behind 32 layers over that behind 16, before training: in "
        "proportion it doubles",
        growth,
    )
    yield Unsettled(
        "The report is of large trained models.",
        "Take trained Pre-LN models of 30 layers and more, fit powers and exponentials to the size "
        "of the stream over the layers, and see which predicts the layers left out.",
    )


@claim(
    "Today's language models all use Pre-LN with RMSNorm.",
    met=sources.TUTORIALS,
    place=Place(CHAPTER, "What current models do"),
    recorded="false",
    answer="Nearly all have RMSNorm; about a quarter are not wired plainly as Pre-LN.",
    condition="Counted over every decoder class of one release of transformers, by its defaults, "
    "copies included.",
)
def pre_ln_with_rms_norm() -> Findings:
    newest = [model for model in current_models.decoders() if model.year and model.year >= 2025]
    counts = {
        "RMSNorm": sum(map(current_models.PROPERTIES["RMSNorm"], newest)),
        "a plain Pre-LN wiring": sum(model.placement == "pre" for model in newest),
    }
    for words, count in counts.items():
        yield Finding(
            f"of {len(newest)} decoder classes with a copyright line of 2025 or 2026, those with "
            f"{words}",
            count,
            near(len(newest), 0, f"All of them would be {len(newest)}."),
            reported="wolf2020",
        )


@claim(
    "Dynamic tanh replaces normalization without loss.",
    met="summaries of {cite:t}`zhu2025`",
    place=Place(CHAPTER, "Doing without: dynamic tanh"),
    recorded="open",
    answer="Its authors report no loss and a later report finds one; it is undecided.",
)
def dynamic_tanh() -> Findings:
    yield Finding(
        "dynamic tanh minus the norm it replaces, training loss of a LLaMA with 7 billion "
        "parameters, 1.60 against 1.59",
        0.01,
        form="+.2f",
        reported="zhu2025",
    )
    for tokens, change in ((1, -0.273), (118, 0.188)):
        yield Finding(
            f"change of the validation loss by dynamic tanh, 64 million parameters, {tokens} "
            "million tokens",
            change,
            form="+.1%",
            reported="verma2026",
        )
    yield Unsettled(
        "The reports contradict each other, and none of them is ours to check at its size.",
        "Train models with the start of α, the last place, the scale of the embeddings and the "
        "learning rate tuned for each, on texts of several lengths, and compare test losses.",
    )
