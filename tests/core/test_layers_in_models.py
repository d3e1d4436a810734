"""The layers where torch expects its own: isinstance, fusion, fx, autocast, devices, averages."""

import copy
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from layer_checks import ALL, CONDITIONAL, LAYERS, assert_same, buffers, randn, randomize, results
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from normtutor import layers

EVERY = pytest.mark.parametrize("name", ALL)


def test_no_layer_is_left_out():
    tried = {type(make()).__name__ for make in (LAYERS | CONDITIONAL).values()}
    assert tried == {n for n in layers.__all__ if n[0].isupper()}


def test_batch_and_instance_norm_are_instances_of_each_of_torchs():
    for ours, other in ((layers.BatchNorm(4), "Instance"), (layers.InstanceNorm(4), "Batch")):
        for dimensions in ("1d", "2d", "3d"):
            assert isinstance(ours, getattr(nn, f"{type(ours).__name__}{dimensions}"))
            assert not isinstance(ours, getattr(nn, f"{other}Norm{dimensions}"))


@EVERY
def test_device_and_dtype_are_arguments_of_every_constructor(name):
    layer = ALL[name](device="meta", dtype=torch.float64)
    assert layer(torch.empty(3, 5, 4, device="meta", dtype=torch.float64)).device.type == "meta"
    for key, value in layer.state_dict().items():
        assert value.device.type == "meta", key
        whole = key.endswith("num_batches_tracked")
        assert value.dtype == (torch.int64 if whole else torch.float64), key
    real = layer.to_empty(device="cpu")
    real.reset_parameters()
    fresh = ALL[name](dtype=torch.float64)
    torch.testing.assert_close(dict(real.state_dict()), dict(fresh.state_dict()))
    assert_same(*(results(m, randn(3, 5, 4), second=False) for m in (real, fresh)))


@EVERY
def test_fx_records_a_layer_as_one_node(name):
    layer = ALL[name]().double()
    randomize(layer)
    model = nn.Sequential(nn.Identity(), layer, nn.Tanh())
    traced = torch.fx.symbolic_trace(model)
    nodes = [n.target for n in traced.graph.nodes if n.op == "call_module"]
    assert nodes == ["0", "1.layer" if name in CONDITIONAL else "1", "2"]
    twin = copy.deepcopy(model)
    for training in (True, True, False):
        x = randn(3, 5, 4)
        found = results(traced.train(training), x, second=False)
        assert_same(found, results(twin.train(training), x, second=False))


def test_export():
    model = nn.Sequential(*(make() for make in ALL.values())).eval()
    randomize(model)
    x = randn(3, 5, 4).float()
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(exported(x), model(x))


@EVERY
def test_vmap_of_every_layer_in_evaluation(name):
    """And the gradient of each member by itself."""
    layer = ALL[name]().double()
    randomize(layer)
    results(layer, randn(3, 5, 4, seed=3), second=False)
    layer.eval()
    several = torch.stack([randn(3, 5, 4, seed=s) for s in (1, 2)])
    grad = torch.func.grad(lambda x: layer(x).pow(3).sum())
    for function in (layer, grad):
        expected = torch.stack([function(x) for x in several])
        torch.testing.assert_close(torch.func.vmap(function)(several), expected)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_an_ensemble_of_batch_norms_trains_under_vmap(momentum):
    members = [layers.BatchNorm(5, momentum=momentum).double() for _ in range(3)]
    parameters, stacked = torch.func.stack_module_state(members)
    x = randn(3, 6, 5, 4)
    base = copy.deepcopy(members[0])

    def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(base, (parameters, buffers), (x,))

    y = torch.func.vmap(call)(parameters, stacked, x)
    for i, member in enumerate(members):
        torch.testing.assert_close(y[i], member(x[i]))
        assert_same({n: b[i] for n, b in stacked.items()}, dict(member.named_buffers()))


UNDER_AUTOCAST = {
    "LayerNorm": (nn.LayerNorm, layers.LayerNorm, (4,)),
    "RMSNorm": (nn.RMSNorm, layers.RMSNorm, (4,)),
    "GroupNorm": (nn.GroupNorm, layers.GroupNorm, (1, 5)),
    "BatchNorm": (nn.BatchNorm1d, layers.BatchNorm, (5,)),
    "InstanceNorm": (nn.InstanceNorm1d, layers.InstanceNorm, (5, 1e-5, 0.1, True)),
}


@pytest.mark.filterwarnings("ignore:Mismatch dtype:UserWarning")  # a slow path of torch's
@pytest.mark.parametrize(
    "kind, dtype",
    [("cpu", torch.bfloat16), ("cuda", torch.bfloat16), ("cuda", torch.float32)],
    ids=str,
)
@pytest.mark.parametrize("name", UNDER_AUTOCAST)
def test_autocast_gives_the_dtype_that_it_gives_to_torchs(name, kind, dtype):
    """For a GPU on tensors without data, which go through autocast's own dispatch all the same."""
    with FakeTensorMode(), torch.no_grad():  # autograd would ask for the device
        found = []
        *both, arguments = UNDER_AUTOCAST[name]
        for make in both:
            layer = make(*arguments, device=kind).eval()
            x = torch.empty(3, 5, 4, device=kind, dtype=dtype)
            before = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            torch.set_autocast_enabled(kind, True)
            torch.set_autocast_dtype(kind, torch.bfloat16)
            try:
                found.append(layer(x).dtype)
            finally:
                torch.set_autocast_enabled(kind, before[0])
                torch.set_autocast_dtype(kind, before[1])
                torch.clear_autocast_cache()
    assert found[1] == found[0]
    if kind == "cuda" and name in ("LayerNorm", "GroupNorm"):
        assert found[0] == torch.float32


# --- running statistics, computed anew ------------------------------------------------------------


def loader() -> list[Tensor]:
    return [1 + 2 * randn(4, 5, 4, seed=s) for s in range(3)]


@pytest.mark.parametrize("variant", ["pn", "pn-v", "authors-code"])
def test_statistics_are_updated_in_one_pass_over_the_data(variant):
    """As torch's update_bn: the plain average over the batches, and nothing else moves."""
    norm = layers.PowerNorm(4, variant=variant, warmup_steps=2).double()
    model = nn.Sequential(norm, layers.BatchNorm(5).double())
    results(model, randn(4, 5, 4, seed=9), second=False)
    nu, step = norm.nu.clone(), norm.num_batches_tracked.clone()
    layers.update_statistics(loader(), model.eval())
    assert not model.training
    squares = []
    for x in loader():
        if variant == "authors-code":
            x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        squares.append(x.square().mean((0, 1)))
    torch.testing.assert_close(norm.running_mean_square, torch.stack(squares).mean(0))
    assert norm.nu.equal(nu)
    assert norm.num_batches_tracked == step
    assert (norm.warmup_steps, norm.alpha_forward, model[1].momentum) == (2, 0.9, 0.1)
    reference = nn.Sequential(
        layers.PowerNorm(4, 1e-5, 1.0, variant=variant, warmup_steps=100), nn.BatchNorm1d(5)
    ).double()
    torch.optim.swa_utils.update_bn(loader(), reference)
    assert_same(buffers(model[1]), buffers(reference[1]))


def test_an_averaged_model_with_power_norm_is_evaluated_with_its_own_statistics():
    model = nn.Sequential(nn.Linear(4, 4), layers.PowerNorm(4)).double()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    randomize(model)
    averaged.update_parameters(model)
    pairs = [(x, torch.zeros(4)) for x in loader()]
    layers.update_statistics(pairs, averaged, "cpu")  # from pairs, the first entry, as update_bn
    with torch.no_grad():
        hidden = [averaged.module[0](x) for x in loader()]
    expected = torch.stack([h.square().mean((0, 1)) for h in hidden]).mean(0)
    torch.testing.assert_close(averaged.module[1].running_mean_square, expected)


def test_statistics_of_a_model_without_any():
    with pytest.raises(ValueError, match="no norm with running statistics"):
        layers.update_statistics(loader(), nn.Linear(4, 4))


# --- two processes --------------------------------------------------------------------------------

# Each trains on numbers of its own, at a rate of 0, so only the buffers move.
TWO = """
import sys, torch, torch._dynamo, torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from normtutor import layers

WAYS = ["DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"]


def train(rank, folder):
    dist.init_process_group(
        "gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2
    )
    found = {}
    for how in WAYS:
        torch.manual_seed(0)
        norms = [layers.BatchNorm(4, feature_axis=-1), layers.PowerNorm(4), layers.LayerNorm(4)]
        model = inner = nn.Sequential(*norms, layers.RMSNorm(4)).double()
        if how == "DistributedDataParallel":
            model = DistributedDataParallel(inner)
        elif how == "FullyShardedDataParallel":
            cpu = torch.device("cpu")
            model = FullyShardedDataParallel(inner, device_id=cpu, use_orig_params=True)
        else:
            for module in [*inner, inner]:
                fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
        sharded, seen = sum(p.numel() for p in model.parameters()), []
        if how == "fully_shard":
            sharded = sum(p.to_local().numel() for p in model.parameters())
        for x in torch.load(f"{folder}/x{rank}.pt"):
            model.zero_grad()
            model(x).square().sum().backward()
            seen.append({n: b.clone() for n, b in inner.named_buffers()})
        if how == "FullyShardedDataParallel":
            with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
                grads = [p.grad.clone() for p in inner.parameters()]
        else:
            grads = [p.grad for p in inner.parameters()]
            grads = [getattr(grad, "full_tensor", lambda grad=grad: grad)() for grad in grads]
        found[how] = (seen, grads, sharded)
    torch.save(found, f"{folder}/found{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    # On Linux both may be copies of this process, which has imported torch.
    how = "fork" if sys.platform == "linux" else "spawn"
    multiprocessing.start_processes(train, (sys.argv[1],), nprocs=2, start_method=how)
"""
X_OF = [[randn(3, 5, 4, seed=10 * rank + step) for step in range(3)] for rank in (0, 1)]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Callable[[str], list[tuple[Any, ...]]]:
    """What each process saw: its buffers after each step, the last gradients, its share.

    To start processes takes most of the time, so one pair trains in every way.
    """
    folder: Path = tmp_path_factory.mktemp("two")
    for rank in (0, 1):
        torch.save(X_OF[rank], folder / f"x{rank}.pt")
    # gloo would ask for the machine's own name.
    loopback = next(name for _, name in socket.if_nameindex() if name in ("lo", "lo0"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
    (folder / "two.py").write_text(TWO, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, folder / "two.py", folder],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    found = [torch.load(folder / f"found{rank}.pt") for rank in (0, 1)]
    return lambda how: [seen[how] for seen in found]


def alone(*batches: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The buffers and the last gradients of one process that sees these batches."""
    norms = [layers.BatchNorm(4, feature_axis=-1), layers.PowerNorm(4), layers.LayerNorm(4)]
    model = nn.Sequential(*norms, layers.RMSNorm(4)).double()
    for x in batches:
        model.zero_grad()
        model(x).square().sum().backward()
    return dict(model.named_buffers()), [p.grad for p in model.parameters()]


def without_nu(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    """ν moves in the backward pass, so a process still has its own when the step ends."""
    return {n: b for n, b in buffers.items() if not n.endswith("nu")}


@pytest.mark.slow
def test_under_ddp_the_buffers_are_those_of_the_first_process(two):
    """It copies them to the others before each forward pass, and averages the gradients."""
    (first, grads, _), (second, same, _) = two("DistributedDataParallel")
    torch.testing.assert_close(grads, same)
    assert not any(name.startswith("2.") for name in first[0])  # LayerNorm has none
    assert_same(without_nu(first[2]), without_nu(alone(*X_OF[0])[0]))
    assert_same(without_nu(second[2]), without_nu(alone(*X_OF[0][:2], X_OF[1][2])[0]))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fully_shard", "FullyShardedDataParallel"])
def test_under_fsdp_each_process_keeps_its_own_buffers(two, how):
    """It copies none; the gradients are averaged, and each process stores half of the numbers."""
    processes, separate = two(how), [alone(*batches) for batches in X_OF]
    for (seen, _, sharded), (expected, grads) in zip(processes, separate, strict=True):
        assert_same(seen[2], expected)
        assert 2 * sharded == sum(g.numel() for g in grads)
    mean = [(a + b) / 2 for a, b in zip(*[grads for _, grads in separate], strict=True)]
    for _, grads, _ in processes:
        torch.testing.assert_close(grads, mean)
