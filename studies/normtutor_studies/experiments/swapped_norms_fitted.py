"""BatchNorm and PowerNorm fitted to LayerNorm's outputs, where swapped_norms copies γ and β.

In :mod:`normtutor_studies.experiments.swapped_norms` they take over LayerNorm's γ and β and begin far
behind. But LayerNorm's output has a mean and a standard deviation of its own in each feature; those
of BatchNorm's output are β and γ. Here the new γ and β give each feature the mean and standard
deviation that LayerNorm put out, on the batches that also give the running statistics, without a
step.

Control: a difference could come from a rate of fine-tuning that suits copied γ and β, so it is
chosen anew on two other seeds (:mod:`normtutor_studies.experiments.swapped_norms_fitted_rates`), and is the
same again. It could come from the new text, which the fit sees; but the running statistics of the
copied norms see the same 50 batches. Models, order of the text and test modules are those of
swapped_norms, where LayerNorm's losses are on record. BatchNorm's γ and β are set once;
PowerNorm's, whose output has no fixed size, in four rounds, each of which reads the batches once
more for its statistics. Not checked: γ alone or β alone, whether those rounds are why PowerNorm
ends further behind, more steps, larger batches than 256 tokens, and Post-LN.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normtutor import layers
from normtutor.models import TransformerLM
from normtutor_studies.experiments import swapped_norms
from normtutor_studies.experiments.package_chunks import fingerprint
from normtutor_studies.experiments.records import Saved, load
from normtutor_studies.experiments.swapped_norms import Condition, Config, text_of

__all__ = ["CONFIG", "SEEDS", "Condition", "Config", "fingerprint", "fitted", "rows", "run_seeds"]

CHAPTER = swapped_norms.CHAPTER
FIGURE = "none: a control of swapped_norms, which the ledger cites"
FINDING = (
    "with γ and β fitted to LayerNorm's outputs BatchNorm and PowerNorm begin level; BatchNorm "
    "ends about half as far behind LayerNorm as with copied ones, PowerNorm a little further"
)
XLABEL = "test loss minus another's (nats/token)"
SEEDS = swapped_norms.SEEDS
NAMES = {"batch": "BatchNorm", "power": "PN"}
ROUNDS = 4  # of fitting PowerNorm, whose outputs depend on the layers before it
# The rates that swapped_norms_fitted_rates chose; a test compares them with its saved run.
CONFIG = Config(conditions=(Condition("batch", 16e-3), Condition("power", 16e-3)))
REDUCED = swapped_norms.REDUCED


def outputs(
    config: Config, model: TransformerLM, kind: type[nn.Module], seed: int
) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean and standard deviation of each feature that each norm puts out, in evaluation mode."""
    found: dict[str, list[Tensor]] = {}

    def keep(name: str, module: nn.Module, args: Any, output: Tensor) -> None:
        found.setdefault(name, []).append(output.reshape(-1, output.shape[-1]))

    handles = [
        module.register_forward_hook(partial(keep, name))
        for name, module in model.named_modules()
        if isinstance(module, kind)
    ]
    training = model.training
    model.eval()
    _read(config, model, seed)
    model.train(training)
    for handle in handles:
        handle.remove()
    return {name: (torch.cat(x).mean(0), torch.cat(x).std(0)) for name, x in found.items()}


def _read(config: Config, model: TransformerLM, seed: int) -> None:
    """Let the model read the batches from which statistics come, without a step."""
    with torch.no_grad():
        for batch in islice(text_of(config, seed, first=1), config.statistics_batches):
            model.hidden(batch.inputs, batch.mask)


def fitted(config: Config, model: TransformerLM, norm: str, seed: int) -> TransformerLM:
    """A copy with ``norm`` in each place, its γ and β fitted, its running statistics measured."""
    new = swapped_norms.swapped(config, model, norm, seed)
    wanted = outputs(config, model, layers.LayerNorm, seed)
    if norm == "batch":
        for name, (mean, spread) in wanted.items():
            module: Any = new.get_submodule(name)
            with torch.no_grad():
                module.weight.copy_(spread)
                module.bias.copy_(mean)
            module.reset_running_stats()
        _read(config, new.train(), seed)
        return new
    for _ in range(ROUNDS):
        for name, (mean, spread) in outputs(config, new, layers.PowerNorm, seed).items():
            module = new.get_submodule(name)
            factor = wanted[name][1] / spread.clamp_min(1e-6)
            with torch.no_grad():
                module.bias.copy_(wanted[name][0] - factor * (mean - module.bias))
                module.weight.mul_(factor)
        _read(config, new.train(), seed)
    return new


def run_seeds(config: Config, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Train with all seeds at once, then fine-tune every condition; a list of records per seed."""
    return swapped_norms.run_seeds(config, seeds, fitted)


def run(config: Config, seed: int) -> list[dict[str, Any]]:
    """Train and fine-tune with this seed."""
    return run_seeds(config, [seed])[0]


def behind(saved: Saved, norm: str, key: str = "loss") -> np.ndarray:
    """A fitted norm's test loss minus that of the model that kept LayerNorm, paired by seed."""
    return saved.values(key, norm=norm) - load("swapped_norms").values(key, norm="layer")


def rows(saved: Saved) -> dict[str, np.ndarray]:
    """After fine-tuning: minus LayerNorm's, minus the copied, minus that from the start."""
    copied, from_start = load("swapped_norms"), load("from_start_norms")
    found = {}
    for norm, name in NAMES.items():
        loss = saved.values("loss", norm=norm)
        found[f"{name}, minus LN"] = behind(saved, norm)
        found[f"{name}, minus copied"] = loss - copied.values("loss", norm=norm)
        found[f"{name}, minus from the start"] = loss - from_start.values("loss", norm=norm)
    return found
