"""Sentences that give a difference with its interval: the number is that of the saved run."""

import functools
from pathlib import Path

import nbformat
import numpy as np
import pytest
from normtutor_studies import experiments
from normtutor_studies.experiments import (
    angles_elsewhere,
    batch_composition,
    batch_composition_ends,
    batch_composition_longer,
    conditional_norms,
    conditional_norms_longer,
    deep_last_norm,
    detach_norm_longer,
    digit_batches,
    effective_rate,
    embedding_sizes,
    final_norm,
    final_norm_longer,
    fine_tuning,
    fixup_factor,
    fixup_factor_longer,
    from_start_norms,
    gradient_sizes,
    input_drift,
    last_norm_parts,
    learning_rate_sweep,
    learning_rate_sweep_longer,
    logit_remedies,
    loss_landscape_longer,
    more_tokens,
    more_tokens_last_norm,
    noisy_batch_norm,
    noisy_batch_norm_longer,
    power_statistics,
    qk_norm,
    qk_norm_embeddings,
    qk_norm_longer,
    remedies,
    rms_against_layer_longer,
    scale_and_rate,
    scale_and_rate_adam,
    scale_and_rate_longer,
    sgd_map,
    small_pre_ln,
    small_starts,
    swapped_norms_fitted,
    tanh_embeddings,
    tanh_starts,
    text_stability,
    topic_doses,
    topic_share,
    topic_share_longer,
    topic_share_pre,
    update_size_rates,
    variance_growth_embeddings,
    variance_growth_rates,
    warmed_remedies,
    wiring_longer,
)
from normtutor_studies.experiments.rates import split

from normtutor.intervals import t_interval

BOOK = Path(__file__).resolve().parents[2] / "book"


def times_batch_norm(size: int) -> str:
    """Test loss on digits without a norm as a multiple of BatchNorm's, with its interval."""
    name = f"batch of {size}, no norm"
    mean, half = t_interval(digit_batches.rows(experiments.load("digit_batches"))[name])
    middle, low, high = (f"{2**power:.2f}" for power in (mean, mean - half, mean + half))
    return f"{middle} times BatchNorm's (95% interval {low} to {high})"


def errors_with_eight() -> str:
    """Errors on digits without a norm in batches of eight: the worst seed, and the others."""
    saved = experiments.load("digit_batches")
    *others, worst = sorted(100 * saved.values("error", norm="none", batch_size=8))
    most = f"four seeds end with {others[0]:.0f} to {others[-1]:.0f}% errors"
    return f"{most}, and one, which learns slowly, with {worst:.0f}%"


def said(values, digits: int, scale: float = 1.0) -> str:
    mean, half = t_interval(values)
    return f"{abs(scale * float(mean)):.{digits}f} ± {scale * float(half):.{digits}f}"


def stability(one: str, other: str, depth: int = 12):
    losses = text_stability.losses(experiments.load("text_stability"), depth)
    return losses[one] - losses[other]


def signed(values, digits: int = 3) -> str:
    mean, _ = t_interval(values)
    return f"{'+' if mean > 0 else '−'}{said(values, digits)}"


def sizes(build: str) -> dict:
    """Test losses of twelve layers by the size of the embeddings."""
    return embedding_sizes.by_size(experiments.load("embedding_sizes"), build)


def fixup_at(size: float):
    """What a size of the embeddings costs Fixup, beside its best one."""
    losses = sizes("no norm, Fixup")
    assert min(losses, key=lambda size: losses[size].mean()) == 1 / 4
    return losses[size] - losses[1 / 4]


def layer_norm_at(size: float):
    """What a size of the embeddings costs LayerNorm, beside its best one."""
    losses = sizes("Pre-LN")
    assert min(losses, key=lambda size: losses[size].mean()) == 256.0
    return losses[size] - losses[256.0]


def without_layers() -> np.ndarray:
    return text_stability.without_layers(experiments.load("text_stability"))


def worth(depth: int) -> np.ndarray:
    """LayerNorm's test loss minus that without any layer."""
    losses = text_stability.losses(experiments.load("text_stability"), depth)
    return losses["Pre-LN"] - without_layers()


def test_without_layers_the_short_test_of_equality_is_passed_each_time():
    for depth in (2, 6, 12, 24):
        assert text_stability.within_margin(worth(depth)), depth


def by_depth(one: str, depths=(2, 6, 12)) -> list[str]:
    return [said(stability(one, "Pre-LN", depth), 3) for depth in depths]


def signed_by_depth(one: str, depths=(2, 6, 12, 24)) -> list[str]:
    return [signed(stability(one, "Pre-LN", depth)) for depth in depths]


def between(norm: str, share: float):
    return topic_doses.dose(experiments.load("topic_doses"), norm)[share]


def between_at(rate: float, norm: str):
    """A norm at a quarter of one-topic batches minus LayerNorm at another rate than its own."""
    saved = experiments.load("topic_doses")
    layer = saved.values("loss", norm="layer", share=0.25, learning_rate=rate)
    difference = topic_doses.losses(saved, norm, 0.25) - layer[len(topic_doses.TUNING) :]
    assert len(difference) == 5
    return difference


def longer_than_300(norm: str):
    """Test loss minus LayerNorm's after 900 steps at the rate 0.002."""
    return detach_norm_longer.behind(experiments.load("detach_norm_longer"), norm)


def undivided(rate: float):
    saved = experiments.load("detach_norm")
    bare, whole = (
        saved.values("loss", centre=part, scale=part, learning_rate=rate) for part in ("off", "on")
    )
    return bare - whole


def without_norm_on_sentences():
    return batch_composition.against_layer(
        experiments.load("batch_composition"), "none", "shuffled"
    )


def logit_remedy(name: str):
    return logit_remedies.rows(experiments.load("logit_remedies"))[name]


def in_larger_batches(warmup: int):
    return experiments.load("post_ln_larger_batches").values("test", warmup=warmup)


def adaln_minus_zero():
    rows = conditional_norms.rows(experiments.load("conditional_norms"))
    return rows["AdaLN"] - rows["AdaLN-Zero"]


def gained_by_the_condition():
    """What it takes off the loss at the input and through AdaLN; the text says four times."""
    rows = conditional_norms.rows(experiments.load("conditional_norms"))
    gains = rows["none"], rows["none"] - rows["AdaLN"]
    assert round(gains[1].mean() / gains[0].mean()) == 4
    return gains


def for_longer(way: str, than: str, rate: float | None = None):
    """How far a way ends above another, which is at its best rate or at this one."""
    saved = experiments.load("conditional_norms_longer")
    losses = conditional_norms_longer.losses
    return losses(saved, way, rate) - losses(saved, than)


def with_qk_norm(rate: float):
    return qk_norm.rows(experiments.load("qk_norm"))[f"rate {rate:g}"]


def with_qk_norm_longer(rate: float):
    """The same after 1,000 steps, in which the best rate of both models is 0.016."""
    saved = experiments.load("qk_norm_longer")
    for norm in ("none", "rms"):
        losses = {
            tried: saved.values("validation", qk_norm=norm, learning_rate=tried).mean()
            for tried in qk_norm_longer.RATES
        }
        assert min(losses, key=losses.__getitem__) == 0.016
    return qk_norm.rows(saved)[f"rate {rate:g}"]


def with_large_embeddings(row: str = "each at its best", longer: bool = False):
    """QK-norm's gain with large embeddings: how much lower the test loss is."""
    name = "qk_norm_embeddings_longer" if longer else "qk_norm_embeddings"
    saved = experiments.load(name)
    best = [qk_norm_embeddings.best_of(saved, norm) for norm in ("none", "rms")]
    assert best == ([(0.032, 64.0), (0.064, 64.0)] if longer else [(0.064, 256.0), (0.064, 64.0)])
    assert longer or experiments.load("qk_norm").seeds[-1] < saved.seeds[0]
    gains = -qk_norm_embeddings.rows(saved)[row]
    assert (gains > 0).all()
    return gains


def entropy_at_the_best_rate(norm: str, longer: bool) -> float:
    """With embeddings 64 times as large; the largest logit without the norm is above 300."""
    name = "qk_norm_embeddings_longer" if longer else "qk_norm_embeddings"
    rate = 0.032 if longer and norm == "none" else 0.064
    where = {"qk_norm": norm, "learning_rate": rate, "embedding_scale": 64.0}
    saved = experiments.load(name)
    assert norm == "rms" or saved.values("largest", **where).max(axis=1).min() > 300
    return float(saved.values("entropy", **where)[:, -1].mean())


def largest_in_1000_steps() -> float:
    saved = experiments.load("qk_norm_longer")
    return max(
        saved.values("largest", qk_norm="none", learning_rate=rate).max()
        for rate in qk_norm_longer.RATES
    )


def wiring(name: str):
    saved, where = experiments.load("variance_growth"), {"depth": 12, "learning_rate": 4e-3}
    return saved.values("test", wiring=name, **where) - saved.values("test", wiring="pre", **where)


def growth_at_the_end(rate: float, depth: int = 12):
    where = {"wiring": "pre", "depth": depth, "learning_rate": rate}
    return experiments.load("variance_growth").values("last_over_middle", **where)[:, -1]


def tied(norm: str):
    saved = experiments.load("rms_against_layer")
    return saved.values("loss", norm=norm) - saved.values("loss", norm="layer")


def tied_longer(norm: str = "rms"):
    """How far it ends below LayerNorm after 1,500 steps, tied, three layers."""
    return -rms_against_layer_longer.difference(experiments.load("rms_against_layer_longer"), norm)


def swapped(norm: str, key: str = "loss"):
    """Loss of a LayerNorm model that got another norm minus that of one that kept its own."""
    saved = experiments.load("swapped_norms")
    return saved.values(key, norm=norm) - saved.values(key, norm="layer")


def fitted(norm: str, key: str = "loss"):
    """The same where γ and β were fitted to LayerNorm's outputs."""
    return swapped_norms_fitted.behind(experiments.load("swapped_norms_fitted"), norm, key)


def fitted_minus(row: str, sign: int = 1) -> str:
    """Test loss with fitted γ and β minus another's, in words."""
    rows = swapped_norms_fitted.rows(experiments.load("swapped_norms_fitted"))
    return said(sign * rows[row], 3)


def errors_under_decay(
    norm: str = "batch", strength: float = 1.0, run: str = "norm_decay", key: str = "test_error"
):
    """Test error with decay on all parameters minus on matrices alone."""
    saved = experiments.load(run)
    everywhere, matrices = (
        saved.values(key, norm=norm, decay=strength, on=on) for on in ("all", "matrices")
    )
    return everywhere - matrices


def errors_under_long_decay() -> str:
    """After 1,500 steps, where no difference of loss or errors leaves out zero."""
    for norm in ("layer", "batch"):
        for strength in (0.1, 1.0):
            for key in ("test_loss", "test_error"):
                mean, half = t_interval(
                    errors_under_decay(norm, strength, "norm_decay_longer", key)
                )
                assert abs(mean) < half
    return said(errors_under_decay(run="norm_decay_longer"), 1, 100)


def gain_after_long_decay(norm: str):
    saved = experiments.load("norm_decay_longer")
    return saved.values("gain", norm=norm, decay=1.0, on="all")


def of_gru(norm: str, other: str = "layer"):
    saved = experiments.load("gru_statistics")
    return saved.values("loss", norm=norm) - saved.values("loss", norm=other)


def dip_of_the_gradient():
    """Untrained Post-LN: the smallest gradient at a layer's output over the first layer's."""
    saved = experiments.load("depth_profiles")
    gradient = saved.values("gradient", wiring="post", when="untrained")[:, 1:]
    return gradient.min(axis=1) / gradient[:, 0]


def spread_of_gru_moves(norm: str) -> float:
    """The largest spread over the smallest from position 2 on, minus 1; mean over the seeds."""
    spread = experiments.load("gru_statistics").values("after_spread", norm=norm)[:, 1:]
    return float(np.mean(spread.max(axis=1) / spread.min(axis=1) - 1))


def wiring_at_best(name: str):
    """Its test loss minus Pre-LN's, each at its best of three rates."""
    saved = experiments.load("variance_growth_rates")
    own, plain = (variance_growth_rates.at_its_best(saved, w)["test"] for w in (name, "pre"))
    assert variance_growth_rates.best_rate(saved, "peri") == max(variance_growth_rates.RATES)
    assert text_stability.without_layers(experiments.load("text_stability")).max() < own.min()
    return own - plain


def peri_with_large_embeddings():
    """Peri-LN minus Pre-RMSNorm, twelve layers; clipping acts on no step of either."""
    saved, plain = (
        experiments.load(name) for name in ("variance_growth_embeddings", "text_stability")
    )
    assert not saved.values("clipped", wiring="peri").any()
    assert not plain.values("clipped", build="Pre-RMSNorm", depth=12).any()
    return variance_growth_embeddings.rows(saved)["Peri-LN"]


def mean_over_spread_of_gru(norm: str) -> float:
    """From position 2 on, over the seeds."""
    saved = experiments.load("gru_statistics")
    mean, spread = (saved.values(key, norm=norm)[:, 1:] for key in ("after_mean", "after_spread"))
    return float(np.abs(mean / spread).mean())


def parts(key: str, norm: str) -> np.ndarray:
    """Means over the seeds, (looks, norms of the network)."""
    return experiments.load("gradient_parts").values(key, norm=norm).mean(axis=0)


def below_over_above(place: int) -> str:
    """Squared length of the gradient below a norm over that above it, after 300 steps."""
    one, two, three = (
        f"{parts('ratio', norm)[-1, place]:.2f}" for norm in ("batch", "layer", "rms")
    )
    return f"{one}, {two} and {three}"


def times_chance() -> np.ndarray:
    """BatchNorm's two shares over that of chance, (parts, looks, norms)."""
    shares = [parts(key, "batch") for key in ("along_mean", "along_x")]
    return np.array(shares) / parts("chance", "batch")


def end_marks():
    """BatchNorm's loss with the batch's statistics minus LayerNorm's, on the same batches."""
    rows = batch_composition_ends.rows(experiments.load("batch_composition_ends"))
    mean, half = t_interval(rows["shuffled, batch statistics"])
    assert mean + half > 0 and (rows["equal length, batch statistics"] < 0).all()
    return rows["equal length, batch statistics"]


def composed(norm: str, other: str, kind: str):
    saved = experiments.load("batch_composition")
    return saved.values("all", norm=norm, kind=kind) - saved.values("all", norm=other, kind=kind)


def of_equal_length(statistics: str):
    """Masked BatchNorm minus LayerNorm on batches of equal length, with other statistics."""
    saved = experiments.load("batch_composition")
    if statistics == "without_gap":
        return batch_composition.without_gap(saved, "masked batch", "length")
    return batch_composition.against_layer(saved, "masked batch", "length", f"{statistics}_all")


def after_1500(norm: str, kind: str, key: str = "all"):
    """A norm minus LayerNorm after 1,500 steps, at the rate that was chosen for them."""
    saved = experiments.load("batch_composition_longer")
    if key == "training mode":
        return batch_composition_longer.without_gap(saved, norm, kind)
    return batch_composition_longer.against_layer(saved, norm, kind, key)


def after_1500_at(rate: float, key: str):
    saved = experiments.load("batch_composition_longer")
    where = {"norm": "masked batch", "kind": "length", "learning_rate": rate}
    return saved.values(key, **where)


def at_the_rate_of_300(key: str = "all"):
    layer = experiments.load("batch_composition_longer").values("all", norm="layer", kind="length")
    return after_1500_at(0.016, key) - layer


def lost_in_training_mode():
    """What the larger rate costs BatchNorm on batches of equal length, in training mode."""
    return after_1500_at(0.064, "batch_all") - after_1500_at(0.016, "batch_all")


def power_beside_batch(kind: str):
    return after_1500("power", kind) - after_1500("masked batch", kind)


def one_language(norm: str, key: str = "loss", rate: float = topic_share_longer.RATE):
    """A norm minus LayerNorm after 1,500 steps with nothing but one-language batches."""
    saved = experiments.load("topic_share_longer")
    return topic_share_longer.against_layer(saved, norm, key, rate)


def above_entropy() -> bool:
    saved = experiments.load("topic_share_longer")
    entropy = topic_share.languages(topic_share_longer.CONFIG).entropy
    return bool(saved.values("loss", norm="layer").mean() - entropy < 0.07)


def one_language_by_mode() -> str:
    training = one_language("batch", "own_batch")
    evaluation = one_language("batch", "own") - training
    assert above_entropy()
    return (
        f"BatchNorm is {said(training, 2)} behind in training mode, and evaluation costs it "
        f"another {said(evaluation, 2)}"
    )


def one_language_pre(norm: str, key: str = "loss", share: float = 1.0):
    """A norm minus LayerNorm with Pre-LN, an untied output, and one-language batches alone."""
    return topic_share_pre.against_layer(experiments.load("topic_share_pre"), norm, share, key)


def evaluation_costs_pre():
    """What the switch to evaluation costs BatchNorm with Pre-LN on one-language batches."""
    return one_language_pre("batch", "own") - one_language_pre("batch", "own_batch")


def one_language_pre_in_depth() -> str:
    saved = experiments.load("topic_share_pre")
    floor = topic_share.languages(topic_share_pre.CONFIG).entropy
    above = [saved.values("loss", norm="layer", share=s).mean() - floor for s in (0.0, 1.0)]
    assert above[0] < 0.09 and 0.1 < above[1] < 0.15
    post = experiments.load("topic_share").values("loss", norm="layer", share=1.0).mean() - floor
    for norm in ("batch", "power"):
        mean, half = t_interval(one_language_pre(norm, share=0.0))
        assert abs(mean) + half < 0.006
    return (
        f"where it was {post:.2f} above it. BatchNorm ends {said(one_language_pre('batch'), 3)} "
        f"behind it there, the norm that takes only its mean "
        f"{said(one_language_pre('batch mean, rms'), 3)}, PN-V "
        f"{said(one_language_pre('power-v'), 3)} and PN {said(one_language_pre('power'), 3)}."
    )


def gained_by_pooling(beside: str = "recalibrated") -> str:
    """What averages over shuffled batches gain beside others: least and most."""
    saved = experiments.load("batch_composition")
    running = batch_composition.against_layer(saved, "masked batch", "length")
    alike = of_equal_length("recalibrated")
    assert (alike > running).sum() == 3  # averages over like batches: three of five
    gained = (running if beside == "running" else alike) - of_equal_length("pooled")
    assert gained.min() > 0
    return f"{gained.min():.2f} to {gained.max():.2f}"


def gap_of_end_marks():
    """What end marks add to the gap between the modes, in nats per token of any kind."""
    saved = experiments.load("batch_composition")

    def of(key: str):
        return saved.values(key, norm="masked batch", kind="length")

    assert f"{(of('kept_all') - of('batch_all')).mean():.2f}" == "0.19"
    share = (of("kept_all") - of("kept_other")) / (of("kept_end") - of("kept_other"))
    return share * (of("kept_end") - of("batch_end"))


def times_of_rms_norm(way: str) -> tuple[float, float]:
    """Time of RMSNorm, forward and backward, over LayerNorm's computed alike: median per shape."""
    saved = experiments.load("norm_speed")
    rows = experiments.module_of("norm_speed").rows(saved)
    ratios = [np.median(row) for name, row in rows.items() if name.startswith(way)]
    assert len(ratios) == 3
    return float(np.min(ratios)), float(np.max(ratios))


def share_of_the_mean():
    """Along the ones after the last layer, times d, by seed; models with RMSNorm."""
    saved = experiments.load("rms_against_layer")
    return saved.config["size"]["width"] * saved.values("end_ones", norm="rms")[:, -1]


def hardly(way: str) -> str:
    """Less than a tenth, the least difference that the bars let one trust, at every shape."""
    least, most = times_of_rms_norm(way)
    assert 0.9 < least <= most < 1
    return "hardly"


def text_over_pixels(norm: int):
    """How far the batch mean of shuffled text moves in a norm, over that of digits as pixels."""
    saved = experiments.load("power_statistics")
    text, pixels = (power_statistics.effect(saved, c, "mean") for c in ("shuffled", "pixels"))
    return np.sqrt(text / pixels)[:, norm]


def decay_at_a_large_rate():
    saved = experiments.load("logit_remedies")
    return saved.values("loss", remedy="decay", learning_rate=0.128) - saved.values(
        "loss", remedy="none", learning_rate=0.016
    )


def without_last_norm(tied: bool, build: str = "Pre-LN"):
    """Test loss of twelve layers, without the last norm minus with it."""
    losses = deep_last_norm.losses(experiments.load("deep_last_norm"))
    return losses[build, False, tied] - losses[build, True, tied]


def deep_tanh(tied: bool, against: str = "Pre-LN"):
    """Test loss of twelve layers of dynamic tanh minus a norm's, each at its best."""
    saved = experiments.load("deep_last_norm")
    return deep_last_norm.at_best(saved, "Pre-DyT", tied) - deep_last_norm.at_best(
        saved, against, tied
    )


def without_last_norm_at_three(tied: bool):
    """LayerNorm's test loss without the last norm minus with it, each at its best."""
    saved = experiments.load("final_norm")
    without, with_it = (
        final_norm.chosen(saved, norm="layer", final=final, tied=tied)["test"]
        for final in (False, True)
    )
    return without - with_it


def behind_tanh(build: str, tied: bool) -> str:
    """Test loss of three layers with a quiet start minus dynamic tanh's at its best."""
    tanh = final_norm.chosen(experiments.load("final_norm"), norm="tanh", tied=tied)["test"]
    quiet = small_starts.chosen(experiments.load("small_starts"), build, tied)["test"]
    return said(quiet - tanh, 3)


def large_embeddings(tied: bool) -> str:
    """Test loss of Fixup minus LayerNorm's at its best, three layers."""
    layer = final_norm.chosen(experiments.load("final_norm"), norm="layer", tied=tied)["test"]
    quiet = small_starts.chosen(experiments.load("small_starts"), "Fixup", tied)["test"]
    return said(quiet - layer, 3)


def tanh_at_three(tied: bool) -> str:
    """Test loss of dynamic tanh minus LayerNorm's, each at its best, three layers."""
    tanh, layer = (tanh_embeddings.at_best(norm, tied) for norm in ("tanh", "layer"))
    return said(tanh - layer, 3)


def tanh_with_larger_embeddings() -> str:
    """Test loss of dynamic tanh, untied, with larger embeddings minus that of its best model."""
    larger = experiments.load("tanh_embeddings").values("test", norm="tanh")
    return said(larger - tanh_embeddings.at_best("tanh", False), 3)


def from_start(row: str, sign: int = 1) -> str:
    """A norm from the start minus LayerNorm's test loss, or a swapped one minus it, in words."""
    rows = from_start_norms.rows(experiments.load("from_start_norms"))
    return said(sign * rows[row], 3)


def tanh_for_longer(place: str, sign: int = 1) -> str:
    """Dynamic tanh's test loss minus LayerNorm's after 1,000 steps, in words."""
    rows = final_norm_longer.rows(experiments.load("final_norm_longer"))
    return said(sign * rows[place], 3)


def without_factor(row: str):
    """Fixup's weights without its learned factor: test loss minus Fixup's."""
    return fixup_factor.rows(experiments.load("fixup_factor"))[row]


def without_factor_longer():
    """The same on a million tokens."""
    rows = fixup_factor_longer.rows(experiments.load("fixup_factor_longer"))
    return rows["no norm, Fixup"]


def with_more_tokens(build: str, against: str = "Pre-LN"):
    """Test loss of twelve layers on thirteen times the tokens minus another network's."""
    losses = more_tokens.losses(experiments.load("more_tokens"))
    return losses[build] - losses[against]


def gained_by_last_norm(build: str):
    return more_tokens_last_norm.gained(experiments.load("more_tokens_last_norm"), build)


def last_place(name: str, against: str | None = None):
    """What a last place costs a tied model of three layers, or how much more than another one."""
    rows = last_norm_parts.rows(experiments.load("last_norm_parts"))
    return rows[name] - rows[against] if against else rows[name]


def small_gains(tied: bool, final: bool = False):
    """LayerNorm without the last norm and with small gains minus LayerNorm, with it or without."""
    losses = deep_last_norm.losses(experiments.load("deep_last_norm"))
    return losses["Pre-LN, small gains", False, tied] - losses["Pre-LN", final, tied]


def against_small_gains(tied: bool):
    losses = deep_last_norm.losses(experiments.load("deep_last_norm"))
    return losses["Pre-DyT", False, tied] - losses["Pre-LN, small gains", False, tied]


def behind_fixup(final: bool, build: str = "Pre-LN"):
    losses = deep_last_norm.losses(experiments.load("deep_last_norm"))
    return losses[build, final, True] - losses["no norm, Fixup", False, True]


def batch_norm_against_no_layers():
    saved = experiments.load("text_stability")
    twelve = text_stability.losses(saved, 12)["Pre-BatchNorm"]
    return twelve - text_stability.losses(saved, 0)["no norm"]


def without_warmup(wiring: str):
    """Test loss without warm-up minus with 300 steps of it, twelve layers on text."""
    saved = experiments.load("depth_on_text")
    cold, warm = (saved.values("test", wiring=wiring, warmup=steps) for steps in (0, 300))
    return cold - warm


def behind_pre_ln():
    saved = experiments.load("depth_on_text")
    post, pre = (saved.values("test", wiring=wiring, warmup=300) for wiring in ("post", "pre"))
    return post - pre


def in_fifty_epochs(way: str):
    """The same of each way, after 150 steps of 16."""
    return fine_tuning.rows(experiments.load("fine_tuning_longer"))[f"batches of 16, {way}"]


def taken_off_by_fifty_epochs():
    """What training after recomputing takes off, in points; no rate is best at an end."""
    saved, way = experiments.load("fine_tuning_longer"), "eval(), recomputed"
    rates = saved.config["learning_rates"]
    chosen = {record["learning_rate"] for run in saved.runs for record in run["records"]}
    assert not chosen & {min(rates), max(rates)}
    return 100 * (saved.values("before_recomputed", way=way) - saved.values("error", way=way))


def rougher(
    key: str, hidden: int, rate: float, beside: float | None = None, norm: str = "none"
) -> float:
    """How many times as large a measure of roughness is with ``norm`` as with BatchNorm.

    BatchNorm's is taken at the same rate, or at the rate ``beside``.
    """
    saved = experiments.load("loss_landscape")

    def medians(norm: str, rate: float) -> np.ndarray:
        where = {"hidden": hidden, "norm": norm, "rate": rate}
        values = (
            saved.values("high", **where) - saved.values("low", **where)
            if key == "range"
            else saved.values(key, **where)
        )
        return np.log(np.median(values, axis=1))

    return float(np.exp(np.mean(medians(norm, rate) - medians("batch", beside or rate))))


def under_sgd(depth: int) -> str:
    return said(sgd_map.rows(experiments.load("sgd_map"))[f"{depth} layers"], 3)


def warmed_under_sgd(wiring: str) -> str:
    saved = experiments.load("sgd_map")
    best = [
        remedies.at_best_rate(
            remedies.losses_by_rate(saved, wiring=wiring, depth=12, warmup=warmup)
        )[0]
        for warmup in (0, 60)
    ]
    return said(best[0] - best[1], 2)


def noisy_at_the_end(norm: str):
    """Training loss at the last five looks, each network at its best rate."""
    saved = experiments.load("noisy_batch_norm")
    rate = noisy_batch_norm.best_rates(saved)[norm]
    fresh = np.array([seed not in noisy_batch_norm.TUNING for seed in saved.seeds])
    return saved.values("curve", norm=norm, rate=rate)[fresh, -5:].mean(1)


def gain_left_at_the_end() -> str:
    """Share of BatchNorm's gain over the last steps that noise behind it leaves."""
    none, batch, noisy = map(noisy_at_the_end, ("none", "batch", "noisy batch"))
    mean, half = t_interval(100 * (none - noisy) / (none - batch))
    return f"{mean:.0f}% ± {half:.0f}%"


def noisy_loss(norm: str, rate: float) -> np.ndarray:
    """Training loss over the run."""
    _, reported = split(experiments.load("noisy_batch_norm"), noisy_batch_norm.TUNING)
    return reported.values("mean_loss", norm=norm, rate=rate)


def errors_with_two() -> str:
    """By how many points BatchNorm makes fewer errors than GroupNorm with two digits a batch."""
    saved = experiments.load("digit_batches")
    group, batch = (saved.values("error", norm=n, batch_size=2) for n in ("group", "batch"))
    return said(group - batch, 1, 100)


def noisy_errors(norm: str, other: str) -> str:
    """Test error in points minus another network's, each at its best rate."""
    saved = experiments.load("noisy_batch_norm")
    rates = noisy_batch_norm.best_rates(saved)
    _, reported = split(saved, noisy_batch_norm.TUNING)
    one, two = (reported.values("test_error", norm=n, rate=rates[n]) for n in (norm, other))
    return said(one - two, 1, 100)


def too_far(where: str) -> str:
    """By how much AdamW turns the weights further than predicted, in percent."""
    rows = angles_elsewhere.rows(experiments.load("angles_elsewhere"))
    (ratios,) = (values for name, values in rows.items() if "adamw" in name and where in name)
    return said(ratios - 1, 1, 100)


def shorter_than_predicted() -> str:
    """By how much the weights are shorter at equilibrium, in percent: alike for both optimizers."""
    saved = experiments.load("effective_rate")
    conditions = [c for c in effective_rate.EQUILIBRIUM if c.optimizer != "sgd"]
    found = {
        f"{100 * (1 - (saved.values('late_length', name=c.name) / length).mean()):.0f}"
        for c in conditions
        for length in [effective_rate.predicted_length(saved, c)]
    }
    assert len(conditions) == 2 and len(found) == 1
    return found.pop()


def sigmoid_errors(norm: str, scale: float, rate: float | None = None) -> np.ndarray:
    """Test errors in percent under SGD, at a rate or at the best one."""
    saved = experiments.load("learning_rate_sweep")
    rate = rate or learning_rate_sweep.best_rates(saved)["sigmoid", norm, scale, "sgd"]
    where = {"activation": "sigmoid", "norm": norm, "scale": scale, "optimizer": "sgd"}
    _, reported = split(saved, learning_rate_sweep.TUNING)
    return 100 * reported.values("test_error", rate=rate, **where)


def seeds_of_sigmoid(rate: float) -> str:
    """How many seeds come below 10% of errors under SGD, without a norm, from weights 4×."""
    where = {"activation": "sigmoid", "norm": "none", "scale": 4.0, "optimizer": "sgd"}
    saved = experiments.load("learning_rate_sweep")
    _, reported = split(saved, learning_rate_sweep.TUNING)
    errors = reported.values("validation_error", rate=rate, **where)
    words = {4: "four", 6: "six"}
    return f"{words[int((errors < 0.1).sum())]} of {words[len(errors)]}"


def kept_in_1000() -> np.ndarray:
    """Percent of BatchNorm's gain that noise behind it leaves over 1,000 steps."""
    return noisy_batch_norm_longer.kept(experiments.load("noisy_batch_norm_longer"))


def noisy_in_1000() -> str:
    saved = experiments.load("noisy_batch_norm_longer")
    mean, half = t_interval(kept_in_1000())
    shift = saved.values("shift", norm="noisy batch") / saved.values("shift", norm="none")
    end = {norm: saved.values("curve", norm=norm).mean(axis=1) for norm in ("none", "noisy batch")}
    assert max(values.max() for values in end.values()) < 0.005 and round(shift.mean()) == 10
    return (
        f"keeps {mean:.0f}% ± {half:.0f}% of the gain, averaged over the run, while its inputs "
        "move ten times as far per step as without a norm. At the end all three losses are below "
        "0.005; the noisy network's minus that without a norm is "
        f"{said(end['noisy batch'] - end['none'], 4)}"
    )


def sigmoids_in_1000(norm: str, scale: float, optimizer: str) -> np.ndarray:
    """Percent of errors after 1,000 steps, at the best rate."""
    optimizers = {"sgd": "SGD", "adamw": "Adam"}
    what = "BatchNorm" if norm == "batch" else f"no norm, weights {scale:g}×"
    rows = learning_rate_sweep_longer.rows(experiments.load("learning_rate_sweep_longer"))
    return rows[f"{what}, {optimizers[optimizer]}"]


def curvature_after_400(words: str) -> str:
    """The words, if ηλ without a norm is below 1 at every look from step 400 on, on every seed."""
    saved = experiments.load("loss_landscape_longer")
    assert all(
        (rate * loss_landscape_longer.curvature(saved, "none", rate)).max() < 1
        for rate in loss_landscape_longer.RATES
    )
    return words


def curvature_at_equal_rates() -> str:
    rows = loss_landscape_longer.rows(experiments.load("loss_landscape_longer"))
    times = " and ".join(f"{10 ** values.mean():.1f}" for values in rows.values())
    return curvature_after_400(
        "from step 400 to 1,000 $\\eta\\lambda$ is below 1 on all five seeds, and at equal rates "
        f"$\\lambda$ {times} times as large without a norm"
    )


def ended_lower(rate: float) -> str:
    saved = experiments.load("loss_landscape_longer")
    return signed(loss_landscape_longer.ended_lower(saved, rate), 1)


def right_in_1500(norm: str, scale: float) -> np.ndarray:
    """Percent of the test images right after 1,500 steps, at the best rate."""
    return scale_and_rate_longer.best(experiments.load("scale_and_rate_longer"), norm, scale)


def under_adam(norm: str, when: str, scale: float = scale_and_rate.TORCH) -> np.ndarray:
    """Percent of the test images right, at the best rate; ``when``: "early" after 150 steps."""
    saved = experiments.load("scale_and_rate_adam")
    return scale_and_rate_adam.best(saved, norm, scale, when)


def in_1500_steps() -> str:
    """The same in the control, with the least and the most of the seeds."""
    less, more = (right_in_1500("none", scale) for scale in (0.7071, 1.4142))
    return (
        f"gets {less.mean():.0f} % right ({less.min():.0f} to {less.max():.0f}), 1.4 times "
        f"{more.mean():.0f} % ({more.min():.0f} to {more.max():.0f}, at a rate of 0.0003)"
    )


def farthest_from_pre_ln() -> float:
    """The farthest end of an interval beside Pre-LN, all with 60 steps of warm-up, but ReZero."""
    wirings = set(warmed_remedies.rows(experiments.load("warmed_remedies"))) - {"rezero"}
    return max(abs(mean) + half for mean, half in map(t_interval, map(warmed, wirings)))


def upper_increments(wiring: str) -> float:
    saved = experiments.load("wide_and_shallow")
    return float(saved.values("end_increments", wiring=wiring)[:, 4:].mean())


def frozen_in_small_batches() -> np.ndarray:
    """Error with recomputed and frozen statistics minus that of training mode, batches of 2."""
    saved = experiments.load("fine_tuning")
    frozen, moving = (
        saved.values("error", way=way, batch_size=2)
        for way in ("eval(), recomputed", "training mode")
    )
    return frozen - moving


def attention_entropy(remedy: str) -> np.ndarray:
    """Entropy of the attention weights at the end, at the large rate."""
    saved = experiments.load("logit_remedies")
    return saved.values("entropy", remedy=remedy, learning_rate=128e-3)[:, -1]


def likeness_of_post_ln(rate: float) -> np.ndarray:
    where = {"part": "trace", "wiring": "post", "warmup": 0, "learning_rate": rate}
    return experiments.load("update_size").values("likeness", **where)


def drift_of(norm: str, rate: float, place: str, key: str) -> np.ndarray:
    """How far the mean moves there, from row to row or from start to end."""
    saved = experiments.load("input_drift")
    assert input_drift.best_rates(saved)[norm, 1.0] == 1.0
    _, reported = split(saved, input_drift.TUNING)
    records = input_drift.chosen_records(reported, norm, 1.0, rate)
    return np.array([record[place][key] for record in records])


def way_behind_batch_norm(rate: float) -> float:
    """How far the mean of a sigmoid's input travels, in final standard deviations."""
    return float(drift_of("batch", rate, "sigmoid", "path_end").mean())


def ends_before_batch_norm() -> str:
    """How far from its start the mean ends where BatchNorm receives it, and without a norm."""
    ends = [drift_of("batch", 1.0, "before", "moved"), drift_of("none", 1.0, "sigmoid", "moved")]
    return (
        f"ends {ends[0].mean():.2f} final ones from its start, without a norm "
        f"{ends[1].mean():.2f} (difference −{said(ends[0] - ends[1], 2)})"
    )


def upper_layers_left_out(wiring: str):
    saved = experiments.load("wide_and_shallow")
    return saved.values("without_accuracy", wiring=wiring)[:, 4:].mean(1)


def digits_of_a_layer() -> list[float]:
    """Percent that Pre-LN loses without a layer: least and most of the upper four, of the lower."""
    saved = experiments.load("wide_and_shallow")
    whole, without = (saved.values(f"{key}_accuracy", wiring="pre") for key in ("whole", "without"))
    lost = 100 * (whole.mean() - without.mean(0))
    return [lost[4:].min(), lost[4:].max(), lost[:4].min(), lost[:4].max()]


def sorted_best(wiring: str, *warmups: int):
    """Test loss at the best rate and warm-up, chosen for each seed on the others; twelve layers."""
    runs = [experiments.load(name) for name in ("warmup_map", "remedies", "warmed_remedies")]
    cells = []
    for saved in runs:
        for warmup in warmups:
            try:
                where = {"wiring": wiring, "depth": 12, "warmup": warmup}
                cells.append(remedies.losses_by_rate(saved, **where))
            except ValueError:
                continue  # another of the runs has this cell
    return remedies.at_best_rate(np.concatenate(cells, axis=1))[0]


def small_pre(*warmups: int):
    """Test loss of Pre-LN with small weights, at the best rate of these warm-ups."""
    saved = experiments.load("small_pre_ln")
    return remedies.at_best_rate(small_pre_ln.losses(saved, *warmups))[0]


def warmed(wiring: str):
    return sorted_best(wiring, 60) - sorted_best("pre", 60)


def either(wiring: str):
    return sorted_best(wiring, 0, 60) - sorted_best("pre", 60)


def longer(wiring: str):
    return sorted_best(wiring, 120) - sorted_best(wiring, 60)


def after_800(wiring: str) -> float:
    """Twelve layers' mean loss on sorting after 800 steps, at the best rate."""
    saved = experiments.load("wiring_longer")
    return wiring_longer.ends(saved, wiring).mean()


def behind_after_800() -> np.ndarray:
    """By how much Post-LN is behind Pre-LN then; both have learned, at their best rates."""
    saved = experiments.load("wiring_longer")
    for wiring, rates in (("post", (4e-3,)), ("pre", (8e-3, 16e-3))):
        for rate in rates:
            assert saved.values("accuracy", wiring=wiring, learning_rate=rate).mean() > 0.999
    behind = wiring_longer.ends(saved, "post") - wiring_longer.ends(saved, "pre")
    assert behind.min() > 0
    return behind


def warmup_of_six(wiring: str = "pre") -> str:
    """What 60 steps of warm-up change in the best loss of six layers on sorting."""
    saved = experiments.load("warmup_map")
    cold, warm = (
        remedies.at_best_rate(
            remedies.losses_by_rate(saved, wiring=wiring, depth=6, warmup=warmup)
        )[0]
        for warmup in (0, 60)
    )
    return signed(warm - cold)


def warmup_of_six_at(position: int) -> np.ndarray:
    """What 60 steps of warm-up take off the loss of six layers of Pre-LN at one rate."""
    saved = experiments.load("warmup_map")
    cold, warm = (
        remedies.losses_by_rate(saved, wiring="pre", depth=6, warmup=warmup) for warmup in (0, 60)
    )
    return (cold - warm)[:, position]


def as_far_as_pre_ln(rate: float | None = None) -> list[str]:
    """How many times as far as Pre-LN's Post-LN's first step goes at 32 layers, with interval."""
    if rate is None:
        saved = experiments.load("update_size")
        post, pre = (
            saved.values("change", part="first step", wiring=wiring, depth=32)
            for wiring in ("post", "pre")
        )
        ratio = post / pre
    else:
        ratio = update_size_rates.farther(experiments.load("update_size_rates"), rate)
    mean, half = t_interval(np.log(ratio))
    return [f"{np.exp(value):.1f}" for value in (mean, mean - half, mean + half)]


def followed(key: str, rate: float) -> np.ndarray:
    """A trace of Post-LN through all 200 steps, (seeds, looks)."""
    return experiments.load("update_size_rates").values(key, part="trace", learning_rate=rate)


def losses_apart() -> list[float]:
    """The least and the largest loss of those that come apart; the others have learned little."""
    loss, apart = followed("loss", 2e-3)[:, -1], followed("likeness", 2e-3)[:, -1] < 0.5
    assert apart.sum() == 3
    assert loss[~apart].min() > 2.2
    assert followed("loss", 4e-3)[:, -1].min() > 2.3
    return [loss[apart].min(), loss[apart].max()]


def failures() -> np.ndarray:
    """Losses of the map's runs that end above half of chance."""
    saved = experiments.load("warmup_map")
    losses = [remedies.losses_by_rate(saved, **c).ravel() for c in saved.config["conditions"]]
    return (found := np.concatenate(losses))[found > np.log(10) / 2]


def late_start(tied: bool) -> str:
    """What a start of α at 2 after the last layer costs, beside the best start there."""
    saved, losses = experiments.load("tanh_starts"), {}
    for start in tanh_starts.AT_THE_END:
        best = final_norm.chosen(saved, norm="tanh", final=True, tied=tied, last=start)
        del best["test"]
        losses[start] = saved.values("validation", **best).mean()
    return f"{losses[2.0] - min(losses.values()):.2f}"


SENTENCES = {
    "Post-LN's first step at 32 layers, in depth": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "moves {} times as far as Pre-LN for the same rate (95% interval {} to {})"
        ).format(*as_far_as_pre_ln()),
    ),
    "Post-LN's first step at larger rates, in depth": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "moves {} times as far ({} to {}) at 0.001 and {} times ({} to {}) at 0.004"
        ).format(*as_far_as_pre_ln(1e-3), *as_far_as_pre_ln(4e-3)),
    ),
    "alike and apart again, in depth": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "at 0.002 all five seeds pass it, and after 200 steps three have come apart again, "
            "with losses of {:.1f} to {:.1f}, while at 0.004 none has"
        ).format(*losses_apart()),
    ),
    "warm-up of six layers of Pre-LN": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"With six it changes the best loss by {warmup_of_six()}.",
    ),
    "warm-up of six layers of Pre-LN at the largest rate": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"At the largest rate six gain, too, by {said(warmup_of_six_at(-1), 3)}.",
    ),
    "failing is stalling": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"Of the {len(failures())} that end above half of chance "
            f"{(abs(failures() - np.log(10)) < 0.02).sum()} end near 2.30"
        ),
    ),
    "a large start of α after the last layer": (
        "in_depth/08_after_2020",
        lambda: (
            f"at 2 it ends {late_start(True)} nats (tied) and {late_start(False)} (untied) behind"
        ),
    ),
    "remedies with warm-up": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "only ReZero is clearly apart from Pre-LN** with warm-up "
            f"(+{said(warmed('rezero'), 3)}); the other intervals lie within "
            f"{farthest_from_pre_ln():.2f}. Ahead of it, by little, are *small below* "
            f"({said(warmed('post-small'), 3)}) and B2T ({said(warmed('b2t'), 3)})"
        ),
    ),
    "remedies, with and without": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"*small below* is {said(either('post-small'), 3)} ahead of Pre-LN, Fixup "
            f"{said(either('fixup'), 3)}, B2T {said(either('b2t'), 3)}"
        ),
    ),
    "Pre-LN with small weights, in depth": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"it ends at {said(small_pre(0), 3)} without warm-up and {said(small_pre(60), 3)} with "
            f"it: at its best {said(small_pre(0, 60) - sorted_best('pre', 0, 60), 3)} behind "
            "Pre-LN with usual weights, and "
            f"{said(small_pre(0, 60) - sorted_best('post-small', 0, 60), 3)} behind *small below*"
        ),
    ),
    "twice the warm-up": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"Post-LN's best loss by −{said(longer('post'), 3)} and Pre-LN's by "
            f"+{said(longer('pre'), 3)}"
        ),
    ),
    "twelve layers of both wirings for longer, in depth": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "After 800 steps, 240 of them warm-up, both wirings with twelve layers get more than "
            f"99.9% of the digits right at their best rates, and Post-LN ends "
            f"{said(behind_after_800(), 3)} nats behind ({after_800('post'):.4f} against "
            f"{after_800('pre'):.4f}; behind on all five seeds; `wiring_longer`)"
        ),
    ),
    "how sharp attention is with a cap": (
        "in_depth/08_after_2020",
        lambda: (
            f"(entropy {attention_entropy('cap').mean():.2f} and "
            f"{attention_entropy('none').mean():.2f}, difference "
            f"{said(attention_entropy('cap') - attention_entropy('none'), 2)[5:]})"
        ),
    ),
    "how alike the tokens of Post-LN come without failing": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"At 0.001 Post-LN comes to at most {likeness_of_post_ln(1e-3).max():.4f},",
    ),
    "effective β without a norm at a larger rate": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "close to BatchNorm's at 0.1; the loss range is still "
            f"{rougher('range', 5, 0.3, 0.1):.0f} times as large, the gradient's change "
            f"{rougher('change', 5, 0.3, 0.1):.0f} times"
        ),
    ),
    "how smooth noisy BatchNorm is": (
        "in_depth/01_internal_covariate_shift",
        lambda: "(its loss range is {} as large, $\\lambda$ {:.1f} times)".format(
            {2: "twice"}[round(rougher("range", 5, 0.1, norm="noisy batch"))],
            rougher("fixed_curvature", 5, 0.1, norm="noisy batch"),
        ),
    ),
    "smoothing with two hidden layers": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"(factors of {rougher('fixed_curvature', 2, 0.1):.0f} and "
            f"{rougher('fixed_curvature', 5, 0.1):.0f}), the loss range much less "
            f"({rougher('range', 2, 0.1):.1f} and {rougher('range', 5, 0.1):.0f})"
        ),
    ),
    "the mean part, where RMSNorm leaves it in": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "is {:.1f}% and {:.1f}% in the first two places, below chance, and {:.1f}% in the "
            "last".format(*100 * parts("along_mean", "rms")[-1])
        ),
    ),
    "mean over spread in the GRU": (
        "in_depth/05_rms_norm",
        lambda: (
            "the mean is about "
            + " or ".join({f"{mean_over_spread_of_gru(n):.1f}" for n in ("none", "layer", "rms")})
            + " of it in all three networks"
        ),
    ),
    "the upper increments": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"({upper_increments('post'):.2f}, against {upper_increments('deepnorm'):.2f} to "
            f"{max(upper_increments(w) for w in ('pre', 'peri', 'deepnorm')):.2f})"
        ),
    ),
    "frozen statistics in small batches": (
        "in_depth/09_norms_at_work",
        lambda: f"that ended {said(frozen_in_small_batches(), 1, 100)} points behind training mode",
    ),
    "sigmoid at rate 0.3": (
        "in_depth/01_internal_covariate_shift",
        lambda: f"by how one counts 0.3, where {seeds_of_sigmoid(0.3)} seeds train",
    ),
    "noise behind BatchNorm, at the end": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"the noisy network's loss is {said(noisy_at_the_end('noisy batch'), 3)}, that without "
            f"a norm {said(noisy_at_the_end('none'), 3)} (difference "
            f"−{said(noisy_at_the_end('noisy batch') - noisy_at_the_end('none'), 3)}), "
            f"BatchNorm's {said(noisy_at_the_end('batch'), 3)}: {gain_left_at_the_end()} of the "
            "gain is left"
        ),
    ),
    "noise behind BatchNorm, at the largest rate of all three": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"is behind BatchNorm by {said(noisy_loss('none', 0.3) - noisy_loss('batch', 0.3), 3)} "
            "and behind the noisy network by "
            f"{said(noisy_loss('none', 0.3) - noisy_loss('noisy batch', 0.3), 3)}"
        ),
    ),
    "test errors with noise behind BatchNorm": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"The noisy network's is {noisy_errors('noisy batch', 'batch')} points above "
            f"BatchNorm's and {noisy_errors('noisy batch', 'none')} above that of the network "
            "without a norm"
        ),
    ),
    "lengths under momentum and AdamW": (
        "in_depth/04_invariance",
        lambda: f"Under momentum and AdamW the weights are {shorter_than_predicted()}% shorter",
    ),
    "AdamW's angle with two hidden layers and with other decays": (
        "in_depth/04_invariance",
        lambda: (
            f"{too_far('layer 1 of 2')}% above in the first and {too_far('layer 2 of 2')}% in the "
            f"second, with one layer at ten times the decay {too_far('0.05,')}% and at a tenth "
            f"{too_far('0.0005,')}%"
        ),
    ),
    "sigmoids without a norm at the other rate": (
        "in_depth/01_internal_covariate_shift",
        lambda: f"at 0.1 the test error is {said(sigmoid_errors('none', 4.0, 0.1), 1)}%",
    ),
    "how far β moves, by rate": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"in units of $|\\gamma|$: {way_behind_batch_norm(1.0):.2f} final ones at the best "
            f"rate, {way_behind_batch_norm(3.0):.1f} at three times that rate"
        ),
    ),
    "how far what BatchNorm receives ends from its start": (
        "in_depth/01_internal_covariate_shift",
        ends_before_batch_norm,
    ),
    "how far the mean moves in evaluation mode": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "It goes to and fro: from step 60 to the end it moves "
            f"{drift_of('batch', 1.0, 'evaluation', 'moved').mean():.2f}."
        ),
    ),
    "a larger gain in the last norm": (
        "in_depth/05_rms_norm",
        lambda: (
            "With a gain that starts at 3 the last norm costs "
            f"{said(last_place('LayerNorm, gain from 3'), 3)}"
        ),
    ),
    "Pre-LN without a layer": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "leaving out one of the upper four costs a Pre-LN model {:.0f} to {:.0f}% of the "
            "digits, a lower one {:.0f} to {:.0f}%".format(*digits_of_a_layer())
        ),
    ),
    "DeepNorm without an upper layer": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            "left out, one costs it on average "
            f"{said(upper_layers_left_out('pre') - upper_layers_left_out('deepnorm'), 3)} more"
        ),
    ),
    "Post-LN and Pre-LN under SGD": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"Post-LN minus Pre-LN is −{under_sgd(6)}, with twelve +{under_sgd(12)}",
    ),
    "warm-up under SGD": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"at twelve layers by {warmed_under_sgd('post')}, and Pre-LN's by "
            f"{warmed_under_sgd('pre')}"
        ),
    ),
    "what the last norm takes out of the gradient": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"BatchNorm removes {times_chance()[..., 2].min():.1f} to "
            f"{times_chance()[..., 2].max():.1f} times what chance would, at every look"
        ),
    ),
    "what the lower norms take out before training": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"before training it is up to {times_chance()[1, 0, :2].max():.1f} times as much along"
        ),
    ),
    "the gradient below a norm": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"all three kinds ({below_over_above(0)} of the squared length), and longer below the "
            f"last ({below_over_above(2)})"
        ),
    ),
    "swapped norms with fitted gain and shift, in depth": (
        "in_depth/05_rms_norm",
        lambda: (
            f"begins {said(fitted('batch', 'before'), 2)} behind and ends "
            f"{said(fitted('batch'), 3)} behind, {fitted_minus('BatchNorm, minus copied', -1)} "
            "lower than with copied ones and where BatchNorm from the start does "
            f"({fitted_minus('BatchNorm, minus from the start')} apart); PowerNorm begins "
            f"{said(fitted('power', 'before'), 2)} behind and ends {said(fitted('power'), 3)} "
            f"behind, {fitted_minus('PN, minus copied')} higher than with copied ones"
        ),
    ),
    "norms from the start, in depth": (
        "in_depth/05_rms_norm",
        lambda: (
            f"BatchNorm ends {from_start('BatchNorm from the start, minus LN')} behind LayerNorm, "
            f"{from_start('BatchNorm, swapped minus from the start')} lower than after this swap, "
            f"and PowerNorm {from_start('PN from the start, minus LN')} behind, "
            f"{from_start('PN, swapped minus from the start', -1)} higher than after this swap"
        ),
    ),
    "swapped norms, in depth": (
        "in_depth/05_rms_norm",
        lambda: (
            f"level with it ({said(swapped('rms'), 3)} apart), PowerNorm "
            f"{said(swapped('power'), 3)} and BatchNorm {said(swapped('batch'), 3)} behind; before "
            f"the first of these steps they were {said(swapped('rms', 'before'), 4)}, "
            f"{said(swapped('power', 'before'), 1)} and {said(swapped('batch', 'before'), 1)} "
        ),
    ),
    "scale-aware smoothness": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"at rate 0.1 it is {rougher('relative_smoothness', 5, 0.1):.1f} times as large "
            f"without a norm, with two hidden layers {rougher('relative_smoothness', 2, 0.1):.1f} "
            "times, at rate 0.3 twice"
        ),
    ),
    "Xavier's weights by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "They end behind LayerNorm by {} nats per token with two layers, {} with six and {} "
            "with twelve".format(*by_depth("no norm"))
        ),
    ),
    "scaled weights by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: "by {}, {} and {}. With six".format(*by_depth("no norm, scaled weights")),
    ),
    "Fixup by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: "Fixup minus LayerNorm is {}, {}, {} and {} with two,".format(
            *signed_by_depth("no norm, Fixup")
        ),
    ),
    "RMSNorm against LayerNorm by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: "RMSNorm minus LayerNorm is {}, {}, {} and {}: within".format(
            *signed_by_depth("Pre-RMSNorm")
        ),
    ),
    "BatchNorm by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: "*ahead* of LayerNorm, by {}, {} and {} with two, six and twelve layers".format(
            *by_depth("Pre-BatchNorm")
        ),
    ),
    "PowerNorm by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: "PowerNorm's loss minus LayerNorm's is {}, {} and {}.".format(
            *signed_by_depth("Pre-PowerNorm", (2, 6, 12))
        ),
    ),
    "no layers": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"ends at {said(without_layers(), 3)}, and LayerNorm with two to twenty-four layers "
            f"cannot be told from it (with two layers the difference is {said(worth(2), 3)})"
        ),
    ),
    "LayerNorm by the size of its embeddings": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "Best at 256 times the usual one, LayerNorm loses "
            f"{said(layer_norm_at(64.0), 3)} nats at 64 times, {said(layer_norm_at(16.0), 3)} at "
            f"16 and {said(layer_norm_at(1.0), 2)} at the usual one."
        ),
    ),
    "Fixup by the size of its embeddings": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"Fixup, best at a quarter, loses {said(fixup_at(1 / 16), 3)} at a sixteenth and "
            f"{said(fixup_at(1.0), 3)} at the usual size, where it is "
            f"{said(sizes('Pre-LN')[1.0] - sizes('no norm, Fixup')[1.0], 2)} *ahead*"
        ),
    ),
    "sigmoids, for longer, in depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"in 1,000 Adam brings it to {said(sigmoids_in_1000('none', 1.0, 'adamw'), 1)}% and "
            "SGD, at 0.3 and 1, still not to train (`learning_rate_sweep_longer`, five seeds; from "
            "weights four times as large SGD comes to "
            f"{said(sigmoids_in_1000('none', 4.0, 'sgd'), 1)}%, BatchNorm to "
            f"{said(sigmoids_in_1000('batch', 1.0, 'sgd'), 1)}%)"
        ),
    ),
    "curvature after 400 steps, in depth": (
        "in_depth/01_internal_covariate_shift",
        curvature_at_equal_rates,
    ),
    "smoother and slower, for longer, in depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: f"after 1,000 a quarter ({ended_lower(0.1)}; at rate 0.3 {ended_lower(0.3)})",
    ),
    "noise, for longer, in depth": ("in_depth/01_internal_covariate_shift", noisy_in_1000),
    "the first network under Adam, in the control": (
        "in_depth/01_internal_covariate_shift",
        lambda: ("Adam takes torch's scale to {:.0f} % ({:.0f} to {:.0f}) in 1,000 steps").format(
            *(f(under_adam("none", "test")) for f in (np.mean, np.min, np.max))
        ),
    ),
    "other scales, for longer, in depth": (
        "in_depth/01_internal_covariate_shift",
        in_1500_steps,
    ),
    "He's scale, for longer, in depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "no norm then comes to {:.0f} %, LayerNorm to {:.0f} and BatchNorm to {:.0f}.".format(
                *(right_in_1500(norm, 1.0).mean() for norm in ("none", "layer", "batch"))
            )
        ),
    ),
    "Fixup without its factor": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "twelve layers end "
            f"{said(without_factor('best rate of each'), 3)} higher (both at 0.016: "
            f"{said(without_factor('both at 0.016'), 3)})"
        ),
    ),
    "Fixup without its factor where layers pay": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            "Without the learned factor Fixup ends "
            f"{said(without_factor_longer(), 3)} higher than with it"
        ),
    ),
    "errors with two images": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"its errors cannot be told from GroupNorm's ({errors_with_two()} points fewer)",
    ),
    "Post-LN by depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"ends {said(stability('Post-LN', 'Pre-LN', 2), 2)} behind Pre-LN with two layers and "
            f"{said(stability('Post-LN', 'Pre-LN', 6), 2)} with six"
        ),
    ),
    "fine-tuning in fifty epochs, in depth": (
        "in_depth/09_norms_at_work",
        lambda: (
            f"not behind ({said(in_fifty_epochs('training mode, then recomputed'), 1)} points "
            f"ahead). There training after recomputing has taken "
            f"{said(taken_off_by_fifty_epochs(), 1)}"
        ),
    ),
    "Post-LN's warm-up on text": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"the loss is lower by {said(without_warmup('post'), 3)} nats, "
            f"{said(behind_pre_ln(), 3)} behind Pre-LN's"
        ),
    ),
    "Pre-LN's warm-up on text": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"Warm-up changes the loss by {said(without_warmup('pre'), 3)} nats",
    ),
    "end marks on the same batches": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"than LayerNorm does, by {said(end_marks(), 2)} on the same test batches",
    ),
    "equal lengths with pooled averages, in depth": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: (
            f"helps the masked model on every seed, by {gained_by_pooling('running')} (by "
            f"{gained_by_pooling()} beside *recalibrated*), and leaves it "
            f"{said(of_equal_length('pooled'), 2)} behind"
        ),
    ),
    "text and pixels in the last norm": (
        "in_depth/06_power_norm",
        lambda: f"text moves {said(text_over_pixels(-1), 1)} times as far as pixels",
    ),
    "digits without a norm, one image": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"test loss is {times_batch_norm(1)} with one image",
    ),
    "digits without a norm, two images": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"and {times_batch_norm(2)} with two",
    ),
    "digits without a norm, eight images": (
        "in_depth/03_batch_norm_vs_layer_norm",
        errors_with_eight,
    ),
    "no norm on shuffled batches": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"any norm ends {said(composed('none', 'layer', 'shuffled'), 3)} *ahead*",
    ),
    "RMSNorm in a tied model after 1,500 steps, in depth": (
        "in_depth/05_rms_norm",
        lambda: (
            f"RMSNorm ends {said(tied_longer(), 3)} below LayerNorm (`rms_against_layer_longer`, "
            "five seeds, one of them above), and the 90% interval, −0.014 to 0.006, lies within "
            f"the margin. No norm is ahead by {said(tied_longer('none'), 3)} there"
        ),
    ),
    "RMSNorm in a GRU": (
        "in_depth/05_rms_norm",
        lambda: f"RMSNorm ends *below* LayerNorm, by {said(of_gru('rms'), 3)}",
    ),
    "no norm in a GRU": (
        "in_depth/05_rms_norm",
        lambda: f"without one the loss is higher than LayerNorm's by {said(of_gru('none'), 3)}",
    ),
    "pRMSNorm in a GRU": (
        "in_depth/05_rms_norm",
        lambda: (
            f"loss is {said(of_gru('partial', 'rms'), 3)} above RMSNorm's and "
            f"{said(of_gru('partial'), 3)} below LayerNorm's"
        ),
    ),
    "the spread in a GRU": (
        "in_depth/05_rms_norm",
        lambda: f"holds the spread less well: it moves by {spread_of_gru_moves('partial'):.0%}",
    ),
    "the spread in a GRU with a norm": (
        "in_depth/05_rms_norm",
        lambda: (
            "LayerNorm and RMSNorm hold the spread** within "
            f"{max(map(spread_of_gru_moves, ('layer', 'rms'))):.0%}"
        ),
    ),
    "the gradient of Post-LN before training": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: f"in Post-LN the gradient dips to {said(dip_of_the_gradient(), 2)} of the first",
    ),
    "the doses between": (
        "in_depth/06_power_norm",
        lambda: (
            f"BatchNorm is {said(between('batch', 0.25), 3)} behind LayerNorm and PN "
            f"{said(between('power', 0.25), 3)} (LayerNorm at half that rate: "
            f"{said(between_at(0.012, 'batch'), 3)} and {said(between_at(0.012, 'power'), 3)}), "
            "with three quarters "
            f"{said(between('batch', 0.75), 3)} and {said(between('power', 0.75), 3)}"
        ),
    ),
    "shuffled, for longer, in depth": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: (
            "shuffled batches leave masked BatchNorm "
            f"{said(after_1500('masked batch', 'shuffled'), 3)} behind LayerNorm and PowerNorm "
            f"{said(after_1500('power', 'shuffled'), 3)}."
        ),
    ),
    "equal lengths, for longer, in depth": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: (
            f"PowerNorm ends {said(after_1500('power', 'length'), 3)} behind, and BatchNorm "
            f"{said(after_1500('masked batch', 'length'), 2)}, of which "
            f"{said(after_1500('masked batch', 'length', 'training mode'), 2)} is there in training"
        ),
    ),
    "equal lengths at the rate of 300 steps, for longer": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: (
            f"it ends {said(at_the_rate_of_300(), 1)} behind, by {at_the_rate_of_300().min():.1f} "
            f"to {at_the_rate_of_300().max():.1f} (a sixth seed, run "
            "afterwards, by 0.8); in training mode it is there better than at "
            f"0.064, by {said(lost_in_training_mode(), 2)}, and averages over shuffled batches "
            f"leave a deficit of {said(at_the_rate_of_300('pooled_all'), 2)}"
        ),
    ),
    "no norm, for longer": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"it ends {said(after_1500('none', 'shuffled'), 3)} behind",
    ),
    "PowerNorm against BatchNorm, for longer, in depth": (
        "in_depth/06_power_norm",
        lambda: (
            f"PN is {said(-power_beside_batch('length'), 2)} ahead there, and with shuffled "
            f"sentences {said(-power_beside_batch('shuffled'), 3)}"
        ),
    ),
    "one-language batches, for longer, in depth": (
        "in_depth/06_power_norm",
        lambda: (
            f"PN ends {said(one_language('power'), 3)} behind it, BatchNorm "
            f"{said(one_language('batch'), 2)}, at its rate of 300 steps "
            f"{said(one_language('batch', rate=topic_share_longer.OF_300_STEPS), 2)}"
        ),
    ),
    "one-language batches, Pre-LN, in depth": (
        "in_depth/06_power_norm",
        one_language_pre_in_depth,
    ),
    "one-language batches by mode, Pre-LN, in depth": (
        "in_depth/06_power_norm",
        lambda: (
            f"BatchNorm is {said(one_language_pre('batch', 'own_batch'), 3)} behind in training "
            f"mode, and evaluation costs it another {said(evaluation_costs_pre(), 3)}; PN-V is not "
            "ahead in training mode, but "
            f"{said(one_language_pre('power-v', 'own_batch'), 3)} behind"
        ),
    ),
    "one-language batches by mode, for longer": ("in_depth/06_power_norm", one_language_by_mode),
    "what end marks carry of the gap, in depth": (
        "in_depth/03_batch_norm_vs_layer_norm",
        lambda: f"explain only {said(gap_of_end_marks(), 2)} of the gap of 0.19",
    ),
    "PN-V's gap": (
        "in_depth/06_power_norm",
        lambda: (
            "PN-V has a gap of "
            + said(
                batch_composition.gap(experiments.load("batch_composition"), "power-v", "length"), 3
            )
        ),
    ),
    "Post-LN on text in larger batches": (
        "in_depth/07_pre_ln_and_post_ln",
        lambda: (
            f"at {said(in_larger_batches(300), 3)} with warm-up 300 and at "
            f"{said(in_larger_batches(0), 3)} without"
        ),
    ),
    "γ after 1,500 steps of decay, in depth": (
        "in_depth/09_norms_at_work",
        lambda: (
            f"|γ| of {said(gain_after_long_decay('layer'), 3)} with LayerNorm and "
            f"{said(gain_after_long_decay('batch'), 3)} with BatchNorm. No difference leaves out "
            "zero there, of loss or of errors; BatchNorm's errors at λ = 1 differ by "
            f"{errors_under_long_decay()} points"
        ),
    ),
    "AdaLN-Zero": (
        "in_depth/09_norms_at_work",
        lambda: (
            "the condition gains {}, through AdaLN {}. ".format(
                *(said(gain, 3) for gain in gained_by_the_condition())
            )
            + f"AdaLN and AdaLN-Zero five seeds cannot tell apart ({said(adaln_minus_zero(), 3)})"
        ),
    ),
    "a condition at the input, for longer": (
        "in_depth/09_norms_at_work",
        lambda: (
            f"the condition gains {said(for_longer('none', 'at the input'), 3)}, through AdaLN "
            f"{said(for_longer('none', 'AdaLN'), 3)}. AdaLN-Zero ends"
        ),
    ),
    "AdaLN-Zero, for longer": (
        "in_depth/09_norms_at_work",
        lambda: (
            f"AdaLN-Zero ends {said(for_longer('AdaLN-Zero', 'AdaLN'), 3)} *above* AdaLN, and "
            f"{said(for_longer('AdaLN-Zero', 'AdaLN-Zero, gates from one'), 3)} above itself"
        ),
    ),
    "AdaLN-Zero, for longer, at the rate of the others": (
        "in_depth/09_norms_at_work",
        lambda: (
            "at 0.01, the rate of the others, the distances are "
            f"{said(for_longer('AdaLN-Zero', 'AdaLN', 0.01), 3)} and "
            f"{said(for_longer('AdaLN-Zero', 'AdaLN-Zero, gates from one', 0.01), 3)}"
        ),
    ),
    "Peri-LN with large embeddings, in depth": (
        "in_depth/08_after_2020",
        lambda: f"Peri-LN ends {said(peri_with_large_embeddings(), 3)} above Pre-RMSNorm",
    ),
    "detached and no norm in 900 steps": (
        "in_depth/05_rms_norm",
        lambda: (
            f"still ends {said(longer_than_300('scale detached'), 2)} behind LayerNorm. No norm is "
            f"{said(longer_than_300('no norm'), 4)} behind, of {said(undivided(0.002), 3)} in 300"
        ),
    ),
    "QK-norm in 1,000 steps": (
        "in_depth/08_after_2020",
        lambda: (
            f"QK-norm minus none is {signed(with_qk_norm_longer(0.016), 4)} there, "
            f"{signed(with_qk_norm_longer(0.008))} at 0.008 and "
            f"{signed(with_qk_norm_longer(0.032))} at 0.032; no logit passes "
            f"{np.ceil(largest_in_1000_steps()):.0f} without the norm"
        ),
    ),
    "QK-norm with large embeddings, in depth": (
        "in_depth/08_after_2020",
        lambda: (
            "QK-norm is ahead by "
            f"{said(with_large_embeddings('64 times, rate 0.064'), 3)} at 0.064, by "
            f"{said(with_large_embeddings('64 times, rate 0.032'), 3)} at half and by "
            f"{said(with_large_embeddings('64 times, rate 0.128'), 3)} at twice that rate; if each "
            f"has its best size, 64 times with it and 256 without, by "
            f"{said(with_large_embeddings(), 3)}. In 1,000 steps at 64 times "
            "(`qk_norm_embeddings_longer`) it is ahead by "
            f"{said(with_large_embeddings('64 times, rate 0.016', True), 3)} at 0.016, by "
            f"{said(with_large_embeddings('64 times, rate 0.032', True), 3)} at 0.032, and by "
            f"{said(with_large_embeddings(longer=True), 3)} if each has its best rate"
        ),
    ),
    "attention with large embeddings, in depth": (
        "in_depth/08_after_2020",
        lambda: (
            "Without the norm the largest logit passes 300 on every seed at the best rate, and "
            "attention ends almost on one token (entropy {:.2f} and {:.2f}; {:.2f} and {:.2f} with "
            "it)".format(
                *(
                    entropy_at_the_best_rate(norm, longer)
                    for norm in ("none", "rms")
                    for longer in (False, True)
                )
            )
        ),
    ),
    "QK-norm on five seeds and on ten": (
        "in_depth/08_after_2020",
        lambda: (
            f"gain at 0.128 is −{said(logit_remedy('QK-norm, rate 0.128'), 2)} on these five seeds "
            f"and −{said(with_qk_norm(0.128), 2)} on the ten above"
        ),
    ),
    "three wirings at their best": (
        "in_depth/08_after_2020",
        lambda: (
            f"Peri-LN ends {said(wiring_at_best('peri'), 3)} and LN scaling "
            f"{said(wiring_at_best('ln-scaling'), 3)} ahead of Pre-LN"
        ),
    ),
    "two wirings": (
        "in_depth/08_after_2020",
        lambda: (
            f"LN scaling ends ahead of Pre-LN, by {said(wiring('ln-scaling'), 3)}, and Peri-LN "
            f"behind it, by {said(wiring('peri'), 3)}"
        ),
    ),
    "the mean's share with RMSNorm": (
        "in_depth/05_rms_norm",
        lambda: (
            f"the mean holds {said(share_of_the_mean(), 2)} times $1/d$ of the energy: "
            "{:.2f} to {:.2f} in six, {:.2f} and {:.2f} in two".format(
                *np.sort(share_of_the_mean())[[0, 5, 6, 7]]
            )
        ),
    ),
    "growth over rates": (
        "in_depth/08_after_2020",
        lambda: (
            f"{said(growth_at_the_end(1e-3), 2)}, {said(growth_at_the_end(4e-3), 2)} and "
            f"{said(growth_at_the_end(16e-3), 2)} for Pre-LN"
        ),
    ),
    "growth over depth": (
        "in_depth/08_after_2020",
        lambda: (
            f"{said(growth_at_the_end(4e-3), 2)}, {said(growth_at_the_end(4e-3, 24), 2)} and "
            f"{said(growth_at_the_end(4e-3, 48), 2)} for 12, 24 and 48 layers"
        ),
    ),
    "no last norm at twelve layers": (
        "in_depth/05_rms_norm",
        lambda: (
            f"the loss is higher by {said(without_last_norm(False), 3)} nats with LayerNorm and by "
            f"{said(without_last_norm(False, 'Pre-RMSNorm'), 3)} with RMSNorm if the model has an "
            f"output matrix of its own, and by {said(without_last_norm(True), 3)} and "
            f"{said(without_last_norm(True, 'Pre-RMSNorm'), 3)} if it is tied"
        ),
    ),
    "no last norm at three layers, each at its best": (
        "in_depth/05_rms_norm",
        lambda: (
            f"ends {said(without_last_norm_at_three(True), 3)} *lower* with the last norm than "
            f"one of the usual size without it, each at its best rate, and the untied one "
            f"{said(without_last_norm_at_three(False), 3)}"
        ),
    ),
    "dynamic tanh without a last place": (
        "in_depth/05_rms_norm",
        lambda: (
            f"ends {said(without_last_norm(False, 'Pre-DyT'), 3)} and "
            f"{said(without_last_norm(True, 'Pre-DyT'), 3)} lower without it"
        ),
    ),
    "dynamic tanh at twelve layers": (
        "in_depth/05_rms_norm",
        lambda: (
            f"it is {said(deep_tanh(False), 3)} behind LayerNorm untied and "
            f"{said(deep_tanh(True), 3)} tied"
        ),
    ),
    "dynamic tanh after 1,000 steps, in depth": (
        "in_depth/08_after_2020",
        lambda: (
            f"DyT is {tanh_for_longer('no final norm, tied', -1)} ahead tied and "
            f"{tanh_for_longer('no final norm, untied', -1)} untied without the last place, and "
            f"with it, tied, {tanh_for_longer('final norm, tied')} behind"
        ),
    ),
    "quiet starts at three layers": (
        "in_depth/08_after_2020",
        lambda: (
            f"ends {behind_tanh('small gains', True)} behind DyT, and without any norm Fixup "
            f"ends {behind_tanh('Fixup', True)} behind it"
        ),
    ),
    "Fixup beside large embeddings": (
        "in_depth/05_rms_norm",
        lambda: (
            f"64 times as large (by {large_embeddings(False)}; tied it is "
            f"{large_embeddings(True)} behind;"
        ),
    ),
    "dynamic tanh at three layers": (
        "in_depth/08_after_2020",
        lambda: (
            f"untied model is {tanh_at_three(False)} ahead of DyT's best, its tied one "
            f"{tanh_at_three(True)} behind"
        ),
    ),
    "dynamic tanh with larger embeddings": (
        "in_depth/08_after_2020",
        lambda: f"level with that ({tanh_with_larger_embeddings()} higher)",
    ),
    "the low start at twelve layers, in depth": (
        "in_depth/08_after_2020",
        lambda: f"small gains LayerNorm is {said(against_small_gains(True), 3)} behind it",
    ),
    "small gains at twelve layers": (
        "in_depth/05_rms_norm",
        lambda: (
            f"ends {said(small_gains(False), 3)} lower untied and {said(small_gains(True), 3)} "
            "lower tied"
        ),
    ),
    "the last norm beside small gains": (
        "in_depth/05_rms_norm",
        lambda: (
            f"leaves {said(small_gains(False, True), 3)} and {said(small_gains(True, True), 3)} "
            "of what"
        ),
    ),
    "dynamic tanh at twelve layers, in depth": (
        "in_depth/08_after_2020",
        lambda: (
            f"by {said(deep_tanh(True), 3)} nats of LayerNorm and "
            f"{said(deep_tanh(True, 'Pre-RMSNorm'), 3)} of RMSNorm, with an untied one by "
            f"{said(deep_tanh(False), 3)} and {said(deep_tanh(False, 'Pre-RMSNorm'), 3)}"
        ),
    ),
    "BatchNorm at its best, in depth": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"a deep network gains {said(batch_norm_against_no_layers(), 3)} nats at best "
            "(BatchNorm, twelve layers)"
        ),
    ),
    "the last norm on more tokens, in depth": (
        "in_depth/05_rms_norm",
        lambda: (
            f"the last norm gains at most {said(gained_by_last_norm('Pre-LN'), 3)} with LayerNorm "
            f"and {said(gained_by_last_norm('Pre-RMSNorm'), 3)} with RMSNorm"
        ),
    ),
    "more tokens": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"end {said(with_more_tokens('Pre-LN', 'no layers'), 3)} nats below a model without "
            "layers"
        ),
    ),
    "more tokens, the others": (
        "in_depth/01_internal_covariate_shift",
        lambda: (
            f"RMSNorm minus LayerNorm is {signed(with_more_tokens('Pre-RMSNorm'))}, Fixup minus "
            f"LayerNorm {signed(with_more_tokens('no norm, Fixup'))}, and Xavier's weights without "
            "a norm end "
            f"{said(with_more_tokens('no norm'), 3)} behind LayerNorm"
        ),
    ),
    "one length for all tokens": (
        "in_depth/05_rms_norm",
        lambda: (
            "costs "
            + said(last_place("one length for all tokens", "LayerNorm"), 3)
            + " nats more than LayerNorm"
        ),
    ),
    "the last norm with constants in the backward pass": (
        "in_depth/05_rms_norm",
        lambda: (
            said(last_place("LayerNorm, constant backward"), 3) + " nats of the "
            f"{said(last_place('LayerNorm'), 3)} remain"
        ),
    ),
    "the last norm before a copied output": (
        "in_depth/05_rms_norm",
        lambda: "the last norm costs " + said(last_place("LayerNorm, output a copy"), 3),
    ),
    "tied LayerNorm behind Fixup": (
        "in_depth/05_rms_norm",
        lambda: (
            f"by {said(behind_fixup(True), 3)} of LayerNorm and "
            f"{said(behind_fixup(True, 'Pre-RMSNorm'), 3)} of RMSNorm"
        ),
    ),
    "two layers on text without a norm": (
        "in_depth/01_internal_covariate_shift",
        lambda: f"end {said(without_norm_on_sentences(), 3)} *ahead* of LayerNorm",
    ),
    "decay at a large rate": (
        "in_depth/08_after_2020",
        lambda: f"decay (+{said(decay_at_a_large_rate(), 3)}) is undecided",
    ),
    "errors under decay, in depth": (
        "in_depth/09_norms_at_work",
        lambda: (
            f"−{said(errors_under_decay(), 1, 100)} points for BatchNorm at λ = 1, "
            f"−{said(errors_under_decay('layer', 0.1), 1, 100)} for LayerNorm at 0.1"
        ),
    ),
}


@functools.cache
def text_of(page: str) -> str:
    """The words of a notebook's cells, or of a page in Markdown, with single spaces."""
    if (BOOK / f"{page}.md").exists():
        return " ".join((BOOK / f"{page}.md").read_text(encoding="utf-8").split())
    notebook = nbformat.read(BOOK / f"{page}.ipynb", as_version=4)
    return " ".join("\n".join(cell.source for cell in notebook.cells).split())


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_says_what_the_record_says(name):
    page, words = SENTENCES[name]
    assert words() in text_of(page)


def test_swaps_cost_most_in_post_ln_and_show_no_order_among_the_other_wirings():
    saved = experiments.load("wide_and_shallow")
    swapped = {
        wiring: saved.values("swapped_accuracy", wiring=wiring)[:, 4:].mean(axis=1)
        for wiring in ("post", "pre", "peri", "deepnorm")
    }
    for wiring in ("pre", "peri", "deepnorm"):
        mean, half = t_interval(swapped[wiring] - swapped["post"])
        assert mean > half, wiring
        mean, half = t_interval(swapped[wiring] - swapped["pre"])
        assert wiring == "pre" or abs(mean) < half, wiring
    mean, half = t_interval(swapped["peri"] - swapped["deepnorm"])
    assert abs(mean) < half


def test_post_ln_without_warm_up_is_stuck_and_not_slow():
    losses = experiments.load("warmup_map_longer").values("loss", learning_rate=4e-3)
    assert abs(losses - np.log(10)).max() < 0.02
    assert "at 0.004 it still is after 800 steps" in text_of("in_depth/07_pre_ln_and_post_ln")


def factor_of_a_random_feature(one_in: int, batches: int = 200_000) -> float:
    """Mean logarithm of the size of ν's factor, over the batches in which a feature is active."""
    alpha, square, logarithms = 0.9, 1 / one_in, []
    for active in np.random.default_rng(one_in).random(batches) < 1 / one_in:
        if active:
            logarithms.append(np.log(abs(1 - (1 - alpha) / square)))
        square = alpha * square + (1 - alpha) * active
    return float(np.mean(logarithms))


def by_rule(key: str, steps: int, rule: str, wiring: str = "post") -> np.ndarray:
    """What becomes of twelve layers under a rule for their gradients, one value per seed."""
    return gradient_sizes.at(experiments.load("gradient_sizes"), key, steps, wiring, rule)


def test_only_rules_for_each_gradient_or_without_memory_part_the_tokens():
    saved = experiments.load("gradient_sizes")
    rules = [c["rule"] for c in saved.config["conditions"] if c["wiring"] == "post"]
    assert min(by_rule("likeness", 10, rule).min() for rule in rules) > 0.99
    likeness = {rule: by_rule("likeness", 200, rule) for rule in rules}
    parted = {rule: int((values < 0.5).sum()) for rule, values in likeness.items()}
    assert {rule: seeds for rule, seeds in parted.items() if seeds} == {
        "no memory": 5,
        "length 1": 4,
        "late length 1": 1,
    }
    assert likeness["length 1"].max() > 0.995
    losses = [by_rule("loss", 200, rule) for rule in ("no memory", "length 1")]
    parted_losses = np.concatenate(losses)[np.concatenate(losses) < 2]
    assert len(parted_losses) == 9
    assert abs(losses[0].mean() - 1) < 0.1
    assert abs(losses[1][losses[1] < 2].mean() - 1.1) < 0.1
    for rule in ("hundredth", "no epsilon", "as is"):
        assert abs(by_rule("loss", 200, rule) - by_rule("loss", 200, "as is")).max() < 0.001
    fallen = saved.values("bottom", wiring="post", rule="first hundredth").min(1)
    assert fallen.max() < 1e-6
    assert (by_rule("bottom", 200, "joint length 1") < by_rule("top", 200, "joint length 1")).all()
    assert (by_rule("bottom step", 100, "late length 1") > 0.15).all()
    assert (by_rule("bottom step", 100, "as is") < 0.001).all()
    depth = text_of("in_depth/07_pre_ln_and_post_ln")
    low, high = f"{parted_losses.min():.2f}", f"{parted_losses.max():.2f}"
    assert f"under these two rules, losses end between {low} and {high}" in depth
    as_is, scaled, forgetful = (
        said(by_rule("loss", 200, rule, "pre"), 2) for rule in ("as is", "length 1", "no memory")
    )
    assert (
        f"Pre-LN ends at {as_is}, with each gradient at length 1 at {scaled}, without memory at "
        f"{forgetful}"
    ) in depth


def test_a_feature_that_is_rare_at_random_needs_to_be_rarer():
    assert factor_of_a_random_feature(12) < factor_of_a_random_feature(13) < -0.1
    assert factor_of_a_random_feature(15) > 0.1
    assert "between one in thirteen and one in fifteen (simulated" in text_of(
        "in_depth/06_power_norm"
    )


def test_a_wrong_number_is_found():
    assert said([1.0, 1.0, 1.0], 2) == "1.00 ± 0.00" != said([1.01, 1.01, 1.01], 2)
