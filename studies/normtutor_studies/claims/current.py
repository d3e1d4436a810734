"""Claims about what models do since 2020; chapter 8 explains them."""

import numpy as np
import torch

from normtutor import norms
from normtutor.models import TransformerLM
from normtutor.training import start
from normtutor_studies import current_models, experiments
from normtutor_studies.claims.ledger import (
    ASSISTANT,
    TUTORIALS,
    Evidence,
    Finding,
    Place,
    Unsettled,
    above,
    below,
    claim,
    near,
    over_seeds,
)

CHAPTER = "08_after_2020"


@claim(
    "A Transformer does not train without normalization.",
    met=f"{ASSISTANT}, and {TUTORIALS}",
    place=Place("07_pre_ln_and_post_ln", "What helps"),
    recorded="partly",
    scope="at our scale",
    answer="True of models merely stripped of it; with initial weights made for it they train.",
    condition="With Fixup, initial weights made for it and a learned factor per branch, a "
    "deep Transformer trains without a norm.",
)
def without_normalization() -> Evidence:
    remedies = experiments.load("remedies")

    def best(wiring: str) -> np.ndarray:
        """The smallest mean loss over the rates, one per seed at that rate."""
        rates = remedies.config["rates"]
        losses = [remedies.values("loss", wiring=wiring, learning_rate=rate) for rate in rates]
        return np.array(min(losses, key=np.mean))

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
            "loss of 12 layers without a norm, Fixup",
            over_seeds(best("fixup")),
            above(1.15),
            why,
            form=".2f",
        ),
    ]


@claim(
    "Query-key normalization bounds the attention logits.",
    met="reports on large models, for instance {cite:t}`dehghani2023`",
    place=Place(CHAPTER, "QK-norm: a bound on the logits"),
    recorded="true",
    answer="True, and the bound grows with the learned weights γ.",
    condition="With a norm per head the bound is s·d times the largest product of the two "
    "learned weights γ, or, with rotary positions in between, the product of the "
    "largest of each; s is the scale of the logits, usually 1/√d "
    "({prf:ref}`thm-after-qk`).",
)
def bounded_logits() -> Evidence:
    rng = np.random.default_rng(0)
    d = 64
    query, key = 1000 * rng.normal(size=(2, 200, d))
    direction = rng.normal(size=d)
    query[0] = key[0] = 1e4 * direction  # as aligned as two tokens can be
    normed = [norms.rms_norm(x)[0] for x in (query, key)]
    gains = rng.uniform(0.2, 3, size=(2, d))
    scaled = [norms.rms_norm(x, gain)[0] for x, gain in zip((query, key), gains, strict=True)]
    return [
        Finding(
            "largest logit with RMSNorm on queries and keys, d = 64, over √d = 8",
            float(np.abs(normed[0] @ normed[1].T).max() / d**0.5 / d**0.5),
            below(1.000001),
            "By the Cauchy-Schwarz inequality the quotient is at most 1, up to rounding.",
            form=".4f",
        ),
        Finding(
            "the same with weights γ and without division by √d, over d times the largest product",
            float(np.abs(scaled[0] @ scaled[1].T).max() / d / np.abs(gains[0] * gains[1]).max()),
            below(1.000001),
            "The largest product of the weights is what the bound grows by.",
            form=".4f",
        ),
    ]


@claim(
    "In Pre-LN the variance of the residual stream grows exponentially with depth.",
    met="the abstract of {cite:t}`sun2025`",
    place=Place(CHAPTER, "How the residual stream grows"),
    recorded="open",
    answer="Not before training, where it grows in proportion; of large trained models it "
    "is undecided.",
    condition="Untrained, the variance grows about in proportion to the depth "
    "{cite:p}`xiong2020`. The theorem behind the report leaves everything between linear "
    "and exponential growth.",
)
def exponential_growth() -> Evidence:
    start(0)
    tokens = torch.randint(50, (16, 32))
    model = TransformerLM(50, width=32, depth=32, max_length=32, wiring="pre", norm="layer")
    sizes = []
    with torch.no_grad():
        x = model.embed(tokens)
        for layer in model.layers:
            x = layer(x)
            sizes.append(float(x.square().mean()))
    return [
        Finding(
            "mean square of the stream behind 32 layers over that behind 16, before training",
            sizes[31] / sizes[15],
            form=".1f",
        ),
        Finding(
            "the same behind 16 layers over 8: growth in proportion doubles, and exponential "
            "growth would give the square root of the number above",
            sizes[15] / sizes[7],
            form=".1f",
        ),
        Unsettled(
            "The report is of large trained models.",
            "Take trained Pre-LN models of 30 layers and more, fit powers and exponentials to the "
            "size of the stream over the layers, and see which predicts the layers left out.",
        ),
    ]


@claim(
    "Today's language models all use Pre-LN with RMSNorm.",
    met=f"{TUTORIALS}",
    place=Place(CHAPTER, "What current models do"),
    recorded="false",
    answer="Nearly all have RMSNorm; about a quarter are not wired plainly as Pre-LN.",
    condition="The others have a norm at the end of the branch, parallel branches or several "
    "streams. Counted over every decoder class of one release of transformers, by its "
    "defaults, copies included.",
)
def pre_ln_with_rms_norm() -> Evidence:
    newest = [model for model in current_models.decoders() if model.year and model.year >= 2025]
    with_rms = sum(map(current_models.PROPERTIES["RMSNorm"], newest))
    with_pre = sum(model.placement == "pre" for model in newest)
    why = f"All of them would be {len(newest)}."
    return [
        Finding(
            f"of {len(newest)} decoder classes of 2025 and 2026, those with {words}",
            count,
            near(len(newest), 0),
            why,
            form=".0f",
            reported="wolf2020",
        )
        for words, count in (("RMSNorm", with_rms), ("a plain Pre-LN wiring", with_pre))
    ]


@claim(
    "Dynamic tanh replaces normalization without loss.",
    met="summaries of {cite:t}`zhu2025`",
    place=Place(CHAPTER, "Doing without: dynamic tanh"),
    recorded="open",
    answer="Its authors report no loss and a later report finds one; it is undecided.",
    condition="Reported level or slightly better from images to language; in a later report "
    "better with little text and worse with more.",
)
def dynamic_tanh() -> Evidence:
    return [
        *(
            Finding(
                f"dynamic tanh minus the norm it replaces, {what}",
                change,
                form=form,
                reported="zhu2025",
            )
            for what, change, form in (
                ("top-1 accuracy of ViT-B on ImageNet, 82.5 against 82.3 (points)", 0.2, "+.1f"),
                ("top-1 accuracy of ConvNeXt-B on ImageNet, 83.7 both (points)", 0.0, "+.1f"),
                (
                    "training loss of a LLaMA with 7 billion parameters, 1.60 against 1.59",
                    0.01,
                    "+.2f",
                ),
                ("training loss of a LLaMA with 70 billion parameters, 1.45 both", 0.0, "+.2f"),
            )
        ),
        *(
            Finding(
                f"change of the validation loss by dynamic tanh, 64 million parameters, {tokens} "
                "million tokens",
                change,
                form="+.1%",
                reported="verma2026",
            )
            for tokens, change in ((1, -0.273), (118, 0.188))
        ),
        Unsettled(
            "The reports contradict each other, and none of them is ours to check at its size.",
            "Train models with the start of α, the last place, the scale of the embeddings and the "
            "learning rate tuned for each, on texts of several lengths, and compare test losses.",
        ),
    ]
