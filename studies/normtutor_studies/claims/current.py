"""Claims about what models do since 2020; chapter 8 explains them."""

import numpy as np

from normtutor import norms
from normtutor_studies import current_models, experiments
from normtutor_studies.claims.ledger import (
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
from normtutor_studies.experiments import (
    deep_last_norm,
    final_norm,
    final_norm_longer,
    fixup_factor,
    fixup_factor_longer,
    growth_shapes,
    more_tokens,
    small_starts,
    tanh_embeddings,
    text_stability,
)
from normtutor_studies.experiments.text_stability_rates import WITHOUT_FACTOR

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

    fresh = experiments.load("text_stability")
    bare = {depth: text_stability.losses(fresh, depth) for depth in (0, 12)}
    without_layers = "Not to train is to do no better than without layers."
    longer = more_tokens.losses(experiments.load("more_tokens"))
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
        Finding(
            "12 layers on text, Xavier's weights and no norm: test loss minus that without any "
            "layer (nats per token)",
            over_seeds(bare[12]["no norm"] - bare[0]["no norm"]),
            above(0),
            without_layers,
            form=".3f",
        ),
        Finding(
            "12 layers on text, Fixup's weights without its learned factor and no norm: test loss "
            "minus that without any layer (nats per token)",
            over_seeds(
                fixup_factor.losses(
                    experiments.load("fixup_factor"), WITHOUT_FACTOR, fixup_factor.WITHOUT
                )
                - bare[0]["no norm"]
            ),
            above(0),
            without_layers,
            form=".3f",
        ),
        Finding(
            "12 layers on thirteen times as many tokens, Fixup's weights without its factor: "
            "test loss minus that without any layer (nats per token)",
            over_seeds(
                fixup_factor_longer.rows(experiments.load("fixup_factor_longer"))[
                    more_tokens.NO_LAYERS
                ]
            ),
            above(0),
            without_layers,
            form=".3f",
        ),
        Finding(
            "Xavier's weights on thirteen times as many tokens: test loss minus that without any "
            "layer (nats per token)",
            over_seeds(longer["no norm"] - longer[more_tokens.NO_LAYERS]),
            above(0),
            without_layers,
            form=".3f",
        ),
        Finding(
            "on as many tokens, Fixup: test loss minus that with RMSNorm (nats per token)",
            over_seeds(longer["no norm, Fixup"] - longer["Pre-RMSNorm"]),
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
    saved = experiments.load("qk_norm")

    def largest(norm: str) -> np.ndarray:
        """The largest logit at the end of training at the largest rate, one per seed."""
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
            "the same with weights γ and without division by √d, over d times the largest product",
            float(np.abs(scaled[0] @ scaled[1].T).max() / d / np.abs(gains[0] * gains[1]).max()),
            below(1.000001),
            "The largest product of the weights is what the bound grows by.",
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


@claim(
    "In Pre-LN the variance of the residual stream grows exponentially with depth.",
    met="the abstract of {cite:t}`sun2025`",
    place=Place(CHAPTER, "How the residual stream grows"),
    recorded="open",
    answer="Not before training, where it grows in proportion; of large trained models it "
    "is undecided.",
    condition="Untrained, the variance grows about in proportion to the depth "
    "{cite:p}`xiong2020`. After training it grows faster, in our models more like a "
    "power of the depth than exponentially.",
)
def exponential_growth() -> Evidence:
    saved = experiments.load("variance_growth")
    steps = saved.runs[0]["records"][0]["steps"]

    def against_a_power(depth: int, rate: float, step: int) -> Interval:
        """How far an exponential misses layers left out, over how far a power does; log2."""
        streams = saved.values("stream", wiring="pre", depth=depth, learning_rate=rate)
        exponential, power = (
            np.array(
                [growth_shapes.held_out_error(v, shape, "between") for v in streams[:, step, 1:]]
            )
            for shape in ("exponential", "power")
        )
        return over_seeds(np.log2(exponential / power))

    why = "If it grows exponentially, an exponential predicts layers left out better than a power."
    return [
        *(
            Finding(
                f"{depth} layers, rate {rate:g}, {words}: error of an exponential on layers left "
                "out over that of a power, log2 (1 is twice)",
                against_a_power(depth, rate, steps.index(step)),
                below(0),
                why,
                form=".2f",
            )
            for depth, rate, words, step in (
                (12, 0.004, "before training", 0),
                (12, 0.004, "after training", 300),
                (12, 0.001, "after training", 300),
                (24, 0.004, "after training", 300),
                (48, 0.004, "after training", 300),
            )
        ),
        Finding(
            "mean square behind 12 layers over that of an ordinary embedding, after 30 steps",
            over_seeds(
                np.divide(
                    *saved.values("stream", wiring="pre", depth=12, learning_rate=0.004)[
                        :, steps.index(30), [12, 0]
                    ].T
                )
            ),
            form=".0f",
        ),
        Unsettled(
            "Our runs are short ones of narrow models, and the report is of large trained models; "
            "its theorem leaves everything between linear and exponential growth.",
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
    answer="Its authors report no loss, a later report finds one, and our models show both.",
    condition="Reported level or slightly better from images to language; in a later report "
    "better with little text and worse with more. In our small models it is behind "
    "in deep ones, and ahead or behind in shallow ones, as the output layer would "
    "have it.",
)
def dynamic_tanh() -> Evidence:
    tuned, deep = experiments.load("final_norm"), experiments.load("deep_last_norm")
    longer = experiments.load("final_norm_longer")

    def at_best(tied: bool) -> Interval:
        return over_seeds(
            tanh_embeddings.at_best("tanh", tied) - tanh_embeddings.at_best("layer", tied)
        )

    why = "Without loss means with no larger loss."
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
        *(
            Finding(
                "our test loss with dynamic tanh minus LayerNorm's after 300 steps, the start of "
                f"α, the rate, the embeddings and the last place chosen for each, {head} output "
                "(nats per token)",
                at_best(tied),
                below(0),
                why,
                form=".3f",
            )
            for head, tied in (("tied", True), ("untied", False))
        ),
        *(
            Finding(
                f"the same with twelve layers, {head} output (nats per token)",
                over_seeds(
                    deep_last_norm.at_best(deep, "Pre-DyT", tied)
                    - deep_last_norm.at_best(deep, "Pre-LN", tied)
                ),
                below(0),
                why,
                form=".3f",
            )
            for head, tied in (("tied", True), ("untied", False))
        ),
        *(
            Finding(
                "our test loss with dynamic tanh minus LayerNorm's after 1,000 steps, three "
                f"layers, usual embeddings, the rate chosen for each, {place} (nats per token)",
                over_seeds(change),
                below(0),
                why,
                form=".3f",
            )
            for place, change in final_norm_longer.rows(longer).items()
        ),
        Finding(
            "after 300 steps with three layers and a tied output, against LayerNorm whose gains "
            "start at 0.1, no norm at the end (nats per token)",
            over_seeds(
                final_norm.chosen(tuned, norm="tanh", tied=True)["test"]
                - small_starts.chosen(experiments.load("small_starts"), "small gains", True)["test"]
            ),
            below(0),
            why,
            form=".3f",
        ),
        Unsettled(
            "The reports contradict each other, none of them is ours to check at its size, and our "
            "own tuned runs end after 300 or 1,000 steps.",
            "Train models with the start of α, the last place, the scale of the embeddings and the "
            "learning rate tuned for each, on texts of several lengths, and compare test losses.",
        ),
    ]
