"""diagnose finds each planted bug, and nothing in healthy models."""

import copy
import functools
import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import normtutor
from normtutor import data, layers
from normtutor.diagnosis import CAUSES, diagnose

pytestmark = pytest.mark.slow

# --- networks, data, training ---------------------------------------------------------------------

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


def fit(model, batches, steps=80, rate=0.05, training=True):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=rate, momentum=0.9)
    model.train(training)
    for x, labels in itertools.islice(data.epochs(lambda: batches), steps):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.train()


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


class Siamese(nn.Module):
    """One network on two views of the same kind: its norms are called twice, and rightly so."""

    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, x):
        return self.network(x) + self.network(x + 0.1 * torch.randn_like(x))


def case(made):
    """A model with what diagnose is given beside it: digits, unless the maker says otherwise."""
    return made if isinstance(made, tuple) else (made, loader(), held_out())


# --- healthy models -------------------------------------------------------------------------------


def fitted(make, *arguments):
    return lambda: fit(make(*arguments), loader())


def power_norm(channels):
    return layers.PowerNorm(channels, feature_axis=1)


def frozen_rightly():
    model = fit(network(), loader(), steps=150, rate=0.01)
    for norm in batch_norms(model):
        norm.eval().requires_grad_(False)
    return model


def with_odd_last_batch():
    batches = loader(training_set(count=IMAGES - 12))
    return fit(network(), batches), batches, held_out()


HEALTHY = {
    "BatchNorm": trained,
    "PowerNorm": fitted(network, power_norm),
    "GroupNorm": fitted(network, GroupNorm4),
    "dropout at the end": fitted(network, nn.BatchNorm2d, 0.5),
    "one norm, two uses alike": fitted(Siamese),
    "frozen rightly": frozen_rightly,
    "bfloat16": lambda: trained().bfloat16(),
    "a last batch of twenty": with_odd_last_batch,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_raises_no_alarm(name):
    found = normtutor.diagnose(*case(HEALTHY[name]()))
    assert found.causes == [], found
    assert "no cause found" in str(found)


# --- planted bugs ---------------------------------------------------------------------------------

PLANTED = {}


def planted(cause, *arguments):
    """Enter a maker of models that have this bug, called with these arguments."""

    def enter(make):
        PLANTED[f"{make.__name__}, {len(PLANTED)}"] = cause, lambda: case(make(*arguments))
        return make

    return enter


@planted("not converged")
def few_steps():
    batches = loader(training_set(scale=3, shift=5))
    return fit(network(), batches, steps=10), batches, held_out(scale=3, shift=5)


@planted("not converged")
def small_variances():
    """Statistics begun anew under small weights: what is left of the initial 1 outweighs them."""
    model, batches = trained(), loader()
    for before, norm in ((model[0], model[1]), (model[4], model[5])):
        before.weight.data.mul_(0.1)
        norm.reset_running_stats()
    for images, _ in itertools.islice(itertools.cycle(batches), 45):
        model.train()(images)
    return model


@planted("not converged")
def never_updated():
    model = fit(network(layers.BatchNorm), loader())
    for module in batch_norms(model):
        module.reset_running_stats()
    return model


@planted("other statistics")
def loaded_from_elsewhere():
    model = fit(network(power_norm), loader())
    for module in (model[1], model[5]):
        module.running_mean_square.fill_(30)
    return model


@planted("other statistics")
def other_weights():
    model = trained()
    model[4].weight.data.mul_(3)  # as after an average over the weights of training
    return model


@planted("momentum", 0.001)
@planted("momentum", 0.99)
@planted("momentum", 0.0)
def momentum(value):
    model = network()
    for norm in batch_norms(model):
        norm.momentum = value
    batches = loader(batch_size=16)
    return fit(model, batches), batches, held_out()


@planted("batches composed differently")
def sorted_batches():
    return trained(), loader(training_set(by_class=True), shuffle=False), held_out()


@planted("small last batch", network, IMAGES - 31)
@planted("small last batch", perceptron, IMAGES)  # its own training would raise
def last_batch_of_one(make, trained_on):
    model = fit(make(), loader(training_set(count=trained_on)))
    return model, loader(training_set(count=IMAGES - 31)), held_out()


@planted("no running statistics", 100)
@planted("no running statistics", 2)
def no_statistics(batch_size):
    model = fit(network(lambda c: nn.BatchNorm2d(c, track_running_stats=False)), loader())
    return model, loader(), DataLoader(held_out().dataset, batch_size)


@planted("shared layer")
def shared_layer():
    return fit(TwoUses(offset=3.0), loader())


@planted("two domains")
def two_domains():
    return trained(), loader(), held_out(scale=0.5, shift=1)


@planted("half precision")
def half_precision():
    """Averages that stop short of what they should be: further updates round to nothing."""
    batches = loader(training_set(shift=60))
    model = fit(network(), batches)
    for norm in batch_norms(model):
        norm.momentum = 0.01
        norm.reset_running_stats()
    model.bfloat16()
    small = itertools.cycle(loader(training_set(shift=60), batch_size=8))
    with torch.no_grad():
        for images, _ in itertools.islice(small, 800):
            model(images.bfloat16())
    return model, batches, held_out(shift=60)


@planted("half precision")
def overflow():
    model = network().half()
    model[1].running_var.mul_(math.inf)
    return model


@planted("not finite")
def not_finite():
    model = trained()
    model[5].running_mean[3] = math.nan
    return model


@planted("frozen incorrectly")
def gradients_frozen_only():
    model, batches = trained(), loader(training_set(scale=0.4, shift=1))
    model[:-1].requires_grad_(False)
    return fit(model, batches, steps=8), batches, held_out(scale=0.4, shift=1)


@planted("frozen incorrectly")
def frozen_with_other_statistics():
    model = trained().train()
    for norm in batch_norms(model):
        norm.eval().requires_grad_(False)
    return model, loader(training_set(scale=0.4, shift=1)), held_out(scale=0.4, shift=1)


@planted("dropout before a norm")
def dropout_before():
    conv, norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm1d(1024)
    early = (nn.ReLU(), nn.Flatten(), nn.Dropout(0.7))
    return fit(nn.Sequential(conv, *early, norm, nn.Linear(1024, 10)), loader(), rate=0.005)


@planted("small batches")
def batches_of_two():
    batches = loader(batch_size=2)
    return fit(network(), batches, rate=0.005), batches, held_out()


@planted("another epsilon")
def another_epsilon():
    model = network()
    for norm in batch_norms(model):
        norm.eps = 1.0
    fit(model, loader(), steps=200)
    for norm in batch_norms(model):
        norm.eps = 1e-5
    return model


@planted("dead network", nn.BatchNorm2d)
@planted("dead network", GroupNorm4)
def dead(norm):
    model = fit(network(norm), loader())
    for module in (model[1], model[5]):
        module.weight.data.fill_(1e-10)
        module.bias.data.zero_()
    return model


@planted("features on another axis")
@planted("features on another axis", nn.Dropout(0.1), nn.ReLU())
def features_last(*between):
    """As many positions as features, so that BatchNorm1d does not notice."""
    x = torch.randn(512, 8, 8)
    batches = loader(TensorDataset(x, (x[:, 0, 0] > 0).long()))
    layers = (nn.Linear(8, 8), *between, nn.BatchNorm1d(8), nn.Flatten(), nn.Linear(64, 2))
    return fit(nn.Sequential(*layers), batches), batches, batches


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_named_and_nothing_else(name):
    cause, plant = PLANTED[name]
    found = diagnose(*plant())
    assert found.causes == [cause], found
    (finding,) = found.findings
    assert finding.where and finding.remedy == CAUSES[cause]
    words = " ".join(str(found).split())
    assert cause in words and finding.remedy in words


def test_every_cause_has_a_planted_bug():
    assert {cause for cause, _ in PLANTED.values()} == set(CAUSES)


# --- remedies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", [lambda: momentum(0.001), other_weights])
def test_recomputing_is_a_remedy(plant):
    model, train, evaluation = case(plant())
    before = diagnose(model, train, evaluation).losses
    torch.optim.swa_utils.update_bn(train, model)
    for norm in batch_norms(model):
        norm.momentum = 0.1
        norm.num_batches_tracked.fill_(1000)
    after = diagnose(model, train, evaluation)
    assert after.causes == []
    running = "evaluation data, running statistics"
    assert after.losses[running] < before[running]
    recomputed = after.losses["evaluation data, statistics recomputed"]
    assert after.losses[running] == pytest.approx(recomputed, rel=0.02)


def test_statistics_that_do_better_than_recomputed_ones_are_kept():
    """The labels are what the model says with its running statistics."""
    model, (images, _) = other_weights(), training_set().tensors
    train = loader(TensorDataset(images, model.eval()(images).argmax(1).detach()))
    found = diagnose(model.train(), train, train)
    assert found.causes == ["other statistics"]
    assert "Keep the running statistics" in found.findings[0].remedy


def test_statistics_with_which_a_model_was_trained_are_kept():
    """Norms in evaluation mode all along: 0 and 1 are right, although no batch made them."""
    found = diagnose(*case(fit(network(), loader(), steps=160, training=False)))
    assert found.causes == ["not converged"]
    assert "Keep the running statistics" in found.findings[0].remedy
    assert "or recompute" not in str(found)


def test_the_right_epsilon_is_named_and_is_a_remedy():
    model, train, evaluation = case(another_epsilon())
    (finding,) = diagnose(model, train, evaluation).findings
    assert "with ε = 1 instead of 1e-05" in finding.evidence and not math.isinf(finding.effect)
    for norm in batch_norms(model):
        norm.eps = 1.0
    assert diagnose(model, train, evaluation).causes == []


def test_axes_that_cannot_be_told_apart_are_a_note():
    found = diagnose(*features_last(nn.Conv1d(8, 8, 1)))
    assert found.causes == [] and "axes 1 and 2 of the input of 2 are equally long" in str(found)


# --- the function itself --------------------------------------------------------------------------


def test_the_model_and_the_random_numbers_stay_as_they_are():
    torch.manual_seed(3)
    model = fit(network(dropout=0.3), loader())
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    random = torch.random.get_rng_state()
    first, again = (str(diagnose(model, loader(shuffle=False), held_out())) for _ in range(2))
    assert first == again
    assert torch.equal(torch.random.get_rng_state(), random)
    assert [m.training for m in model.modules()] == modes
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())


def test_tokens_masks_and_outputs_of_other_kinds():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.tags = nn.Embedding(20, 8), nn.Linear(8, 5)
            self.norm = layers.BatchNorm(8, feature_axis=-1)

        def forward(self, tokens):
            return SimpleNamespace(logits=self.tags(self.norm(self.embed(tokens), tokens > 0)))

    tokens = torch.randint(0, 20, (256, 7))
    batches = DataLoader(TensorDataset(tokens, tokens % 5), batch_size=32)
    found = diagnose(Tagger(), batches, batches)
    assert found.causes == ["not converged"] and found.losses
    longer = [tokens[:, : 4 + i % 3][32 * i : 32 * i + 32] for i in range(8)]
    found = diagnose(Tagger(), longer, longer)
    assert found.causes == ["not converged"] and not found.losses
    assert "several shapes" in str(found)


def test_a_forward_function_and_a_loss_of_ones_own():
    own = {
        "forward": lambda m, x: m["body"](x),
        "loss": lambda y, target: (y.argmax(1) != target).float().mean(),
    }
    found = diagnose(*case(nn.ModuleDict({"body": network()})), **own)
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
    found = diagnose(*case(trained().eval()))
    assert found.causes == [] and "evaluation mode" in str(found)


def test_what_was_not_looked_at_is_said_and_a_last_batch_of_one_found_all_the_same():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    stream = [torch.ones(8, 4)] * 4  # which is no dead network: there is nothing to tell apart
    images = TensorDataset(torch.randn(33, 4), torch.zeros(33, dtype=torch.long))
    listed = DataLoader(images, batch_size=8)
    for batches, most, said in ((stream, 3, True), (stream, 4, False), (listed, 3, False)):
        found = diagnose(model, batches, batches, max_batches=most)
        assert any(f"only the first {most} batches" in note for note in found.notes) == said
        assert "dead network" not in found.causes
    (last,) = [finding for finding in found.findings if finding.cause == "small last batch"]
    assert math.isinf(last.effect) and "stops training with an error" in last.evidence


def test_one_domain_is_one_in_small_batches_too():
    x = torch.randn(512, 8)
    data = TensorDataset(x, (x[:, 0] > 0).long())
    train, evaluation = (loader(Subset(data, range(*e)), 4) for e in ((0, 256), (256, 512)))
    layers = [nn.Linear(8, 32)]
    for _ in range(5):
        layers += [nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32)]
    model = fit(nn.Sequential(*layers), train, steps=300, rate=0.01)
    assert "two domains" not in diagnose(model, train, evaluation).causes
