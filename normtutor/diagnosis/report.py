"""What a diagnosis says: the causes with their remedies, and the report."""

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

#: What :func:`diagnose` can find, and what to do about it.
CAUSES = {
    "dead network": "Look where the signal ends: at a γ or at weights that have become 0, or at "
    "units whose input is always negative.",
    "features on another axis": "Transpose before and after the norm, or take "
    "normtutor.layers.BatchNorm with feature_axis=-1.",
    "another epsilon": "Give the norms the ε with which the model was trained, and leave the "
    "running statistics as they are.",
    "not finite": "Reset the running statistics, find the batch that holds inf or nan, recompute.",
    "not converged": "Train for more batches before you evaluate, or recompute the statistics: "
    "torch.optim.swa_utils.update_bn(train_loader, model).",
    "momentum": "Set torch's momentum, the weight of the new batch, to 0.01 to 0.1 and recompute "
    "the statistics.",
    "half precision": "Keep the norms and their buffers in float32 (cast the model under "
    "torch.autocast instead of with .half()) and recompute the statistics.",
    "frozen incorrectly": "After each model.train() call eval() on these norms: "
    "requires_grad_(False) stops gradients alone. Freeze statistics that fit your data.",
    "small last batch": "DataLoader(..., drop_last=True).",
    "batches composed differently": "Shuffle the examples. If the order must stay, take a norm "
    "that does not look at the batch.",
    "shared layer": "Give each use a norm of its own; they may share weight and bias.",
    "no running statistics": "Build the norms with track_running_stats=True and recompute the "
    "statistics over the training data.",
    "two domains": "Give evaluation the preprocessing of training; if the data really differ, "
    "recompute the statistics on the new domain.",
    "dropout before a norm": "Move dropout behind the last norm, or recompute the statistics with "
    "dropout off.",
    "small batches": "Larger batches, or a norm that does not look at the batch.",
    "other statistics": "The running statistics belong to other weights or other data: recompute "
    "them with torch.optim.swa_utils.update_bn(train_loader, model).",
}


class Finding(NamedTuple):
    """One cause: where it is, how far it moves the outputs, the evidence, and the remedy.

    Attributes
    ----------
    cause : str
        One of :data:`CAUSES`.
    where : tuple of str
        The names of the norms.
    effect : float
        How far the outputs move when the cause is taken away, over their spread; inf if that
        cannot be measured.
    evidence : str
    remedy : str
    """

    cause: str
    where: tuple[str, ...]
    effect: float
    evidence: str
    remedy: str

    def __str__(self) -> str:
        where, evidence = self.where, self.evidence
        shown = ", ".join(where[:3]) + (f" and {len(where) - 3} more" if where[3:] else "")
        if math.isfinite(self.effect):
            evidence = f"the outputs move by {self.effect:.2g} standard deviations; {evidence}"
        head = self.cause + (f" ({shown})" if shown else "")
        lines = [head]
        for label, text in (("   why:    ", evidence), ("   remedy: ", self.remedy)):
            lines += textwrap.wrap(
                text, 90, initial_indent=label, subsequent_indent=" " * len(label)
            )
        return "\n".join(lines)


@dataclass
class Diagnosis:
    """What :func:`diagnose` found. It prints as a report.

    Attributes
    ----------
    findings : list of Finding
        The strongest first; empty for a model whose modes agree.
    losses : dict
        Mean losses, each under a description; empty if the loaders have no targets.
    notes : list of str
        What could not be checked, and why.
    """

    findings: list[Finding] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def causes(self) -> list[str]:
        """The names of the causes, the strongest first."""
        return [finding.cause for finding in self.findings]

    def __str__(self) -> str:
        lines = [f"{name:<48}{value:9.3g}" for name, value in self.losses.items()]
        if not self.findings:
            lines.append("no cause found: the norms do in evaluation what they did in training")
        lines += [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    __repr__ = __str__


def finding_of(cause: str, where: Iterable[str], effect: float, evidence: str) -> Finding:
    return Finding(cause, tuple(where), effect, evidence, CAUSES[cause])
