"""diagnose finds each planted bug, and nothing in healthy models."""

import copy
import functools
import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import normtutor
from normtutor import data, layers
from normtutor.diagnosis import CAUSES, diagnose
from normtutor.diagnosis.bench import Sums

SEEDS = (0, 1, 2)
IMAGES = 512


@functools.cache
def digits():
    return data.load_digits()


def training_set(scale=1.0, shift=0.0, count=IMAGES, by_class=False):
    split = digits().train
    images, labels = split.images[:count] * scale + shift, split.labels[:count]
    if by_class:
        order = torch.argsort(labels)
        images, labels = images[order], labels[order]
    return TensorDataset(images, labels)


def loader(dataset=None, batch_size=32, shuffle=True, **options):
    dataset = training_set() if dataset is None else dataset
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, **options)


def held_out(scale=1.0, shift=0.0):
    split = digits().test
    return DataLoader(TensorDataset(split.images * scale + shift, split.labels), batch_size=100)


def network(norm=nn.BatchNorm2d, dropout=0.0):
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1, bias=False), norm(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(16, 10)),
    )


def perceptron(norm=nn.BatchNorm1d):
    hidden = (nn.Linear(64, 32), norm(32), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(32, 10))


def batch_norms(model):
    return [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def fit(model, batches, steps=80, rate=0.05):
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=rate, momentum=0.9
    )
    model.train()
    step = 0
    while step < steps:
        for x, labels in batches:
            loss = nn.functional.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == steps:
                break
    return model


@functools.cache
def _trained(seed):
    torch.manual_seed(seed)
    return fit(network(), loader())


def trained():
    """A network that has learnt, from this test's seed."""
    return copy.deepcopy(_trained(torch.initial_seed()))


class TwoUses(nn.Module):
    """One norm behind two convolutions, whose outputs differ or not."""

    def __init__(self, offset):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.second = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.offset = nn.BatchNorm2d(8), offset
        self.classify = nn.Linear(8, 10)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        x = self.norm(self.offset + self.second(x)).relu()
        return self.classify(x.mean((2, 3)))


class GroupNorm4(nn.GroupNorm):
    def __init__(self, channels):
        super().__init__(4, channels)


class NormBlock(nn.Sequential):
    """It has a norm, and no weight of its own."""


class Siamese(nn.Module):
    """One network on two views of the same kind: its norms are called twice, and rightly so."""

    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, x):
        return self.network(x) + self.network(x + 0.1 * torch.randn_like(x))


# --- healthy models -------------------------------------------------------------------------------


def sgd(make):
    return lambda: (fit(make(), loader()), loader(), held_out())


def frozen_rightly():
    model = fit(network(), loader(), steps=150, rate=0.01).train()
    for norm in batch_norms(model):
        norm.eval().requires_grad_(False)
    return model, loader(), held_out()


def in_half():
    return trained().bfloat16(), loader(), held_out()


def with_odd_last_batch():
    batches = loader(training_set(count=IMAGES - 12))
    return fit(network(), batches), batches, held_out()


HEALTHY = {
    "BatchNorm": lambda: (trained(), loader(), held_out()),
    "ours": sgd(lambda: network(layers.BatchNorm)),
    "PowerNorm": sgd(lambda: network(lambda c: layers.PowerNorm(c, feature_axis=1))),
    "GroupNorm": sgd(lambda: network(lambda c: nn.GroupNorm(4, c))),
    "LayerNorm": sgd(lambda: perceptron(nn.LayerNorm)),
    "perceptron": sgd(perceptron),
    "dropout at the end": sgd(lambda: network(dropout=0.5)),
    "one norm, two uses alike": sgd(Siamese),
    "frozen rightly": frozen_rightly,
    "bfloat16": in_half,
    "a last batch of twenty": with_odd_last_batch,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_raises_no_alarm(name, seed):
    torch.manual_seed(seed)
    found = diagnose(*HEALTHY[name]())
    assert found.causes == [], found
    assert "no cause found" in str(found)


# --- planted bugs ---------------------------------------------------------------------------------


def few_steps():
    batches = loader(training_set(scale=3, shift=5))
    return fit(network(), batches, steps=10), batches, held_out(scale=3, shift=5)


def small_variances(batches_seen):
    """Statistics begun anew under small weights: what is left of the initial 1 outweighs them."""
    model, batches = trained(), loader()
    with torch.no_grad():
        for before, norm in itertools.pairwise(list(model)):
            if isinstance(norm, nn.BatchNorm2d):
                before.weight.mul_(0.1)
                norm.reset_running_stats()
        for _, (images, _) in zip(range(batches_seen), itertools.cycle(batches), strict=False):
            model.train()(images)
    return model, batches, held_out()


def never_updated(norm=nn.BatchNorm2d):
    model = fit(network(norm), loader())
    for module in batch_norms(model):
        module.reset_running_stats()
    for module in model.modules():
        if isinstance(module, layers.PowerNorm):
            module.running_mean_square.fill_(30)  # as if loaded from elsewhere
    return model, loader(), held_out()


def momentum(value):
    model = network()
    for norm in batch_norms(model):
        norm.momentum = value
    batches = loader(batch_size=16)
    return fit(model, batches), batches, held_out()


def sorted_batches():
    batches = loader(training_set(by_class=True), shuffle=False)
    return trained(), batches, held_out()


def last_batch_of_one():
    batches = loader(training_set(count=IMAGES - 31))
    return fit(network(), batches), batches, held_out()


def last_batch_that_raises():
    batches = loader(training_set(count=IMAGES - 31))
    return fit(perceptron(), loader()), batches, held_out()


def no_statistics(norm=nn.BatchNorm2d):
    return sgd(lambda: network(lambda c: norm(c, track_running_stats=False)))()


def no_statistics_and_small_batches():
    model, train, evaluation = no_statistics()
    return model, train, DataLoader(evaluation.dataset, batch_size=2)


def shared_layer():
    return sgd(lambda: TwoUses(offset=3.0))()


def two_domains():
    return trained(), loader(), held_out(scale=0.5, shift=1)


def half_precision():
    """Averages that stop short of what they should be: further updates round to nothing."""
    batches = loader(training_set(shift=60))
    model = fit(network(), batches)
    for norm in batch_norms(model):
        norm.momentum = 0.01
        norm.reset_running_stats()
    model.bfloat16()
    with torch.no_grad():
        small = loader(training_set(shift=60), batch_size=8)
        for _, (images, _) in zip(range(800), itertools.cycle(small), strict=False):
            model(images.bfloat16())
    return model, batches, held_out(shift=60)


def overflow():
    model = network().half()
    model[1].running_var.mul_(math.inf)
    return model, loader(), held_out()


def not_finite():
    model = trained()
    model[5].running_mean[3] = math.nan
    return model, loader(), held_out()


def gradients_frozen_only():
    model, batches = trained(), loader(training_set(scale=0.4, shift=1))
    model[:-1].requires_grad_(False)
    return fit(model, batches, steps=8), batches, held_out(scale=0.4, shift=1)


def frozen_with_other_statistics():
    model, batches = trained().train(), loader(training_set(scale=0.4, shift=1))
    for norm in batch_norms(model):
        norm.eval().requires_grad_(False)
    return model, batches, held_out(scale=0.4, shift=1)


def dropout_before():
    conv, norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm1d(1024)
    early = (nn.ReLU(), nn.Flatten(), nn.Dropout(0.7))
    model = nn.Sequential(conv, *early, norm, nn.Linear(1024, 10))
    return fit(model, loader(), rate=0.005), loader(), held_out()


def batches_of_two():
    batches = loader(batch_size=2)
    return fit(network(), batches, rate=0.005), batches, held_out()


def another_epsilon():
    model = network()
    for norm in batch_norms(model):
        norm.eps = 1.0
    fit(model, loader(), steps=200)
    for norm in batch_norms(model):
        norm.eps = 1e-5
    return model, loader(), held_out()


def dead(norm=nn.BatchNorm2d):
    model = fit(network(norm), loader())
    for module in model:
        if isinstance(module, norm):
            module.weight.data.fill_(1e-10)
            module.bias.data.zero_()
    return model, loader(), held_out()


def dead_block():
    model, train, evaluation = dead()
    return nn.Sequential(NormBlock(*model[:3]), *model[3:]), train, evaluation


def features_last(*between):
    """As many positions as features, so that BatchNorm1d does not notice."""
    x = torch.randn(512, 8, 8)
    batches = loader(TensorDataset(x, (x[:, 0, 0] > 0).long()))
    layers = (nn.Linear(8, 8), *between, nn.BatchNorm1d(8), nn.Flatten(), nn.Linear(64, 2))
    return fit(nn.Sequential(*layers), batches), batches, batches


def other_weights():
    model = trained()
    with torch.no_grad():  # as after an average over the weights of training
        model[4].weight.mul_(3)
    return model, loader(), held_out()


PLANTED = {
    few_steps: "not converged",
    functools.partial(small_variances, 30): "not converged",
    functools.partial(small_variances, 45): "not converged",
    never_updated: "not converged",
    functools.partial(never_updated, layers.BatchNorm): "not converged",
    functools.partial(
        never_updated, lambda c: layers.PowerNorm(c, feature_axis=1)
    ): "other statistics",
    functools.partial(momentum, 0.001): "momentum",
    functools.partial(momentum, 0.99): "momentum",
    functools.partial(momentum, 0.0): "momentum",
    sorted_batches: "batches composed differently",
    last_batch_of_one: "small last batch",
    last_batch_that_raises: "small last batch",
    no_statistics: "no running statistics",
    functools.partial(no_statistics, layers.BatchNorm): "no running statistics",
    no_statistics_and_small_batches: "no running statistics",
    shared_layer: "shared layer",
    two_domains: "two domains",
    half_precision: "half precision",
    overflow: "half precision",
    not_finite: "not finite",
    gradients_frozen_only: "frozen incorrectly",
    frozen_with_other_statistics: "frozen incorrectly",
    dropout_before: "dropout before a norm",
    batches_of_two: "small batches",
    other_weights: "other statistics",
    another_epsilon: "another epsilon",
    dead: "dead network",
    functools.partial(dead, GroupNorm4): "dead network",
    dead_block: "dead network",
    features_last: "features on another axis",
    functools.partial(features_last, nn.Dropout(0.1), nn.ReLU()): "features on another axis",
}


@pytest.mark.parametrize("seed", SEEDS[:2])
@pytest.mark.parametrize(
    "plant", PLANTED, ids=[f"{i}-{cause}" for i, cause in enumerate(PLANTED.values())]
)
def test_a_planted_bug_is_named_and_nothing_else(plant, seed):
    torch.manual_seed(seed)
    found = diagnose(*plant())
    assert found.causes == [PLANTED[plant]], found
    (finding,) = found.findings
    assert finding.where and finding.remedy == CAUSES[finding.cause]
    words = " ".join(str(found).split())
    assert finding.cause in words and finding.remedy in words


def test_every_cause_has_a_planted_bug():
    assert set(PLANTED.values()) == set(CAUSES)


# --- remedies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", [few_steps, functools.partial(momentum, 0.001), other_weights])
def test_recomputing_is_a_remedy(plant):
    torch.manual_seed(0)
    model, train, evaluation = plant()
    worse = diagnose(model, train, evaluation).losses["evaluation data, running statistics"]
    torch.optim.swa_utils.update_bn(train, model)
    for norm in batch_norms(model):
        norm.momentum = 0.1
        norm.num_batches_tracked.fill_(1000)
    after = diagnose(model, train, evaluation)
    assert after.causes == []
    assert after.losses["evaluation data, running statistics"] < worse
    assert after.losses["evaluation data, running statistics"] == pytest.approx(
        after.losses["evaluation data, statistics recomputed"], rel=0.02
    )


def test_the_right_way_to_freeze_is_a_remedy():
    torch.manual_seed(0)
    model = trained()
    model[:-1].requires_grad_(False)
    before = model[1].running_mean.clone()
    model.train()
    for norm in batch_norms(model):
        norm.eval()
    assert diagnose(model, loader(), held_out()).causes == []
    model(next(iter(loader()))[0])
    assert torch.equal(model[1].running_mean, before)


def test_drop_last_is_a_remedy():
    torch.manual_seed(0)
    model, _, evaluation = last_batch_of_one()
    train = loader(training_set(count=IMAGES - 31), drop_last=True)
    assert diagnose(fit(model, train), train, evaluation).causes == []


def test_statistics_that_do_better_than_recomputed_ones_are_kept():
    """The labels are what the model says with its running statistics."""
    torch.manual_seed(0)
    model, train, _ = other_weights()
    images, _ = training_set().tensors
    labels = model.eval()(images).argmax(1).detach()
    train = loader(TensorDataset(images, labels))
    found = diagnose(model.train(), train, train)
    assert found.causes == ["other statistics"]
    running, recomputed = (
        found.losses[f"training data, {which}"]
        for which in ("running statistics", "statistics recomputed")
    )
    assert f"rises from {running:.2g} to {recomputed:.2g}" in found.findings[0].remedy
    assert "Keep the running statistics" in found.findings[0].remedy


def test_statistics_with_which_a_model_was_trained_are_kept():
    """Norms in evaluation mode all along: 0 and 1 are right, although no batch made them."""
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(10):
        for x, labels in loader():
            loss = nn.functional.cross_entropy(model.eval()(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    found = diagnose(model.train(), loader(), held_out())
    assert found.causes == ["not converged"]
    assert "Keep the running statistics" in found.findings[0].remedy
    assert "or recompute" not in str(found)


def test_the_right_epsilon_is_named_and_is_a_remedy():
    torch.manual_seed(0)
    model, train, evaluation = another_epsilon()
    (finding,) = diagnose(model, train, evaluation).findings
    assert "with ε = 1 instead of 1e-05" in finding.evidence and not math.isinf(finding.effect)
    for norm in batch_norms(model):
        norm.eps = 1.0
    assert diagnose(model, train, evaluation).causes == []


def test_axes_that_cannot_be_told_apart_are_a_note():
    torch.manual_seed(0)
    found = diagnose(*features_last(nn.Conv1d(8, 8, 1)))
    assert found.causes == [] and "axes 1 and 2 of the input of 2 are equally long" in str(found)


# --- the function itself --------------------------------------------------------------------------


def test_the_model_and_the_random_numbers_stay_as_they_are():
    torch.manual_seed(3)
    model = fit(network(dropout=0.3), loader())
    before = copy.deepcopy(model.state_dict())
    modes = [m.training for m in model.modules()]
    random = torch.random.get_rng_state()
    diagnose(model, loader(shuffle=False), held_out())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert [m.training for m in model.modules()] == modes
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())


def test_the_same_call_gives_the_same_words():
    torch.manual_seed(4)
    case = few_steps()
    assert str(diagnose(*case)) == str(diagnose(*case))


def test_tokens_masks_and_outputs_of_other_kinds():
    class Output:
        def __init__(self, logits):
            self.logits = logits

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.tags = nn.Embedding(20, 8), nn.Linear(8, 5)
            self.norm = layers.BatchNorm(8, feature_axis=-1)

        def forward(self, tokens):
            return Output(self.tags(self.norm(self.embed(tokens), tokens > 0)))

    torch.manual_seed(0)
    tokens = torch.randint(0, 20, (256, 7))
    batches = DataLoader(TensorDataset(tokens, tokens % 5), batch_size=32)
    found = diagnose(Tagger(), batches, batches)
    assert found.causes == ["not converged"]
    assert found.losses
    longer = [tokens[:, : 4 + i % 3][32 * i : 32 * i + 32] for i in range(8)]
    found = diagnose(Tagger(), longer, longer)
    assert found.causes == ["not converged"] and not found.losses
    assert "several shapes" in str(found)


def test_a_forward_function_and_a_loss_of_ones_own():
    torch.manual_seed(0)
    model = nn.ModuleDict({"body": network()})
    found = diagnose(
        model,
        loader(),
        held_out(),
        forward=lambda m, x: m["body"](x),
        loss=lambda y, target: (y.argmax(1) != target).float().mean(),
    )
    assert found.causes == ["not converged"]
    assert all(0 <= value <= 1 for value in found.losses.values())


def test_wrong_arguments_are_explained():
    with pytest.raises(ValueError, match="train_loader must give at least one batch"):
        diagnose(network(), [], [])
    with pytest.raises(TypeError, match="tensors x"):
        diagnose(network(), [{"x": torch.zeros(1)}], [torch.zeros(1)])
    ones = [torch.randn(1, 64)]
    with pytest.raises(ValueError, match="more than one value per channel"):
        diagnose(perceptron(), ones, ones)


def test_a_model_in_evaluation_mode_says_what_cannot_be_seen():
    torch.manual_seed(0)
    found = diagnose(trained().eval(), loader(), held_out())
    assert found.causes == [] and "evaluation mode" in str(found)


def test_it_is_found_at_the_top_of_the_package():
    assert normtutor.diagnose is diagnose


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))


def test_a_last_batch_of_one_beyond_those_looked_at_stops_training():
    images = TensorDataset(torch.randn(33, 4), torch.zeros(33, dtype=torch.long))
    batches = DataLoader(images, batch_size=8)
    found = diagnose(small_model(), batches, batches, max_batches=3).findings
    (last,) = [finding for finding in found if finding.cause == "small last batch"]
    assert math.isinf(last.effect) and "stops training with an error" in last.evidence


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.randn(4), 0)] * 33)


def test_what_was_not_looked_at_is_said():
    def note(batches, most):
        notes = diagnose(small_model(), batches, batches, max_batches=most).notes
        return any(f"only the first {most} batches" in note for note in notes)

    batches = [torch.randn(8, 4) for _ in range(4)]
    assert note(batches, 3) and not note(batches, 4)
    assert note(DataLoader(Stream(), batch_size=8), 3)
    assert not note(DataLoader(TensorDataset(torch.randn(33, 4)), batch_size=8), 3)


def test_a_dropout_that_drops_nothing_differs_in_nothing():
    batches = [torch.randn(8, 4)]
    for p in (0.0, 0.5):
        model = nn.Sequential(nn.LayerNorm(4), nn.Dropout(p))
        assert ("Dropout does not" in str(diagnose(model, batches, batches))) == (p > 0)


def test_a_variance_is_not_below_zero_for_rounding():
    x = torch.full((1, 3), 0.1, dtype=torch.float64)
    sums = Sums(torch.full((1, 1), 3.0, dtype=torch.float64), 3 * x, 3 * x.square() * (1 - 1e-15))
    assert sums.moments()[1].min() == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_one_domain_is_one_in_small_batches_too(seed):
    torch.manual_seed(seed)
    x = torch.randn(512, 8)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    train, evaluation = (loader(Subset(data, range(*e)), 4) for e in ((0, 256), (256, 512)))
    layers = [nn.Linear(8, 32)]
    for _ in range(5):
        layers += [nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32)]
    model = fit(nn.Sequential(*layers), train, steps=300, rate=0.01)
    assert "two domains" not in diagnose(model, train, evaluation).causes
