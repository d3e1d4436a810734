"""The loop does what an oracle does by hand, and a run repeats itself bit for bit."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from normtutor import data, models, training

SENTENCES = [np.array([2, 5, 6, 7, 8, 2]), np.array([2, 8, 9, 2]), np.array([2, 9, 5, 2])]


def language_model(norm="batch"):
    return models.TransformerLM(12, width=8, heads=2, max_length=16, norm=norm)


def test_start_seeds_weights_and_order_apart():
    def drawn(init, order):
        rng = training.start(init, order_seed=order)
        return nn.Linear(3, 3).weight.tolist(), rng.permutation(20).tolist()

    (weights, order), other_order, other_weights = drawn(0, 0), drawn(0, 1), drawn(1, 0)
    assert other_order[0] == weights and other_order[1] != order
    assert other_weights[0] != weights and other_weights[1] == order
    assert torch.get_num_threads() == 1


def test_warmup_cosine():
    factors = [training.warmup_cosine(step, steps=10, warmup=4) for step in range(11)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[7] == pytest.approx(0.5) and factors[10] == pytest.approx(0)
    assert np.all(np.diff(factors[4:]) < 0)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_loop_equals_the_optimizer_by_hand(optimizer):
    model = nn.Linear(3, 1).double()
    by_hand = copy.deepcopy(model)
    batches = [(torch.randn(4, 3).double(), torch.randn(4, 1).double()) for _ in range(5)]
    decay = 0.3

    def loss(net, batch):
        return ((net(batch[0]) - batch[1]) ** 2).mean()

    settings = {"steps": 5, "learning_rate": 0.1, "warmup": 2, "weight_decay": decay}
    history = training.train(model, batches, loss, optimizer=optimizer, **settings)
    first, second = ([torch.zeros_like(p) for p in by_hand.parameters()] for _ in range(2))
    for step, batch in enumerate(batches):
        value, rate = loss(by_hand, batch), history.learning_rate[step]
        assert value.item() == pytest.approx(history.loss[step])
        grads = torch.autograd.grad(value, list(by_hand.parameters()))
        with torch.no_grad():
            for p, m, v, g in zip(by_hand.parameters(), first, second, grads, strict=True):
                if optimizer == "sgd":
                    p.sub_(rate * m.mul_(0.9).add_(g + decay * p))
                    continue
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.98).add_(0.02 * g * g)
                scale = (v / (1 - 0.98 ** (step + 1))).sqrt() + 1e-8
                p.sub_(rate * (decay * p + m / (1 - 0.9 ** (step + 1)) / scale))
    for a, b in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_run_repeats_itself():
    def run():
        order = training.start(3)
        model = language_model()
        batches = data.epochs(lambda: data.sentence_stream([SENTENCES], 2, "shuffled", order))
        return training.train(
            model, batches, training.language_model_loss, steps=6, learning_rate=1e-2
        ).loss

    assert run() == run()


def mean_square(net, x):
    return net(x).square().mean()


@pytest.mark.parametrize(
    "value, steps, every, evaluated, made",
    [
        (1.0, 5, 2, [2, 4, 5], 5),
        (math.inf, 5, 2, [], 1),
        (1.0, 20, 20 / 8, [3, 5, 8, 10, 13, 15, 18, 20], 20),
    ],
)
def test_evaluations_come_when_due_and_a_diverged_run_stops(value, steps, every, evaluated, made):
    history = training.train(
        nn.Linear(1, 1),
        [torch.full((1, 1), value)] * steps,
        mean_square,
        steps=steps,
        learning_rate=0.1,
        evaluate=lambda net: {"score": 1.0},
        evaluate_every=every,
    )
    assert [entry["step"] for entry in history.evaluations] == evaluated
    assert len(history.loss) == made and history.diverged == math.isinf(value)


def test_token_losses_ignore_padding():
    model = language_model("layer").eval()
    tight, wide = data.pad(SENTENCES), data.pad(SENTENCES, length=12)
    a, b = training.token_losses(model, tight), training.token_losses(model, wide)
    assert a.shape == (5 + 3 + 3,)
    torch.testing.assert_close(a, b)
    scores = model(tight.inputs, tight.mask).log_softmax(-1)
    assert a[0].item() == pytest.approx(-scores[0, 0, 5].item(), rel=1e-5)
    apart = training.mean_token_loss(model, [data.pad([s]) for s in SENTENCES])
    assert apart == pytest.approx(a.mean().item(), rel=1e-6)


def test_evaluation_mode_changes_nothing_and_restores_everything():
    model, batch = language_model("batch").train(), data.pad(SENTENCES)
    model(batch.inputs, batch.mask)
    before = copy.deepcopy(model.state_dict())
    for batch_statistics in (False, True):
        with training.evaluation_mode(model, batch_statistics=batch_statistics):
            assert not model.dropout.training
            assert model.layers[0].attention_step.norm_stream.training == batch_statistics
            model(batch.inputs, batch.mask)
        assert all(module.training for module in model.modules())
        torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_image_scores_count_errors():
    class Constant(nn.Module):
        def forward(self, images):
            return torch.tensor([[2.0, 0.0]]).expand(len(images), 2)

    batches = [(torch.zeros(3, 1), torch.tensor([0, 0, 1])), (torch.zeros(1, 1), torch.tensor([0]))]
    scores = training.image_scores(Constant(), batches)
    assert scores["error"] == 0.25
    right = math.log(1 + math.exp(-2))
    assert scores["loss"] == pytest.approx((3 * right + 2 + right) / 4)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer must be"):
        training.train(nn.Linear(1, 1), [], mean_square, steps=1, learning_rate=1, optimizer="lion")


def test_clipping_bounds_the_step():
    """One step of SGD without momentum's history moves by the rate times the clipped gradient."""
    model, settings = nn.Linear(4, 2), {"learning_rate": 0.1, "optimizer": "sgd", "clip": 1e-3}
    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    training.train(model, [torch.randn(8, 4) + 1], mean_square, steps=1, **settings)
    moved = (nn.utils.parameters_to_vector(model.parameters()).detach() - before).norm()
    assert moved.item() == pytest.approx(0.1 * 1e-3, rel=1e-2)
