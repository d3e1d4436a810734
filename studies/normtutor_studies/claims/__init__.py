"""The claims ledger: what readers have heard, each sentence decided by something that runs.

``CLAIMS`` holds every :class:`~normtutor_studies.claims.ledger.Claim` in the order of the chapters
that explain them. Calling the function ``evidence`` of a claim returns its findings, and
:func:`~normtutor_studies.claims.ledger.verdict_of` the verdict that follows from them:

>>> from normtutor_studies import claims
>>> claims.verdict_of(claims.named("standard-normal").evidence())
'false'
"""

from normtutor_studies.claims import (
    covariate_shift,
    current,
    family,
    invariances,
    power,
    residual_wiring,
    root_mean_square,
    sequences,
)
from normtutor_studies.claims.ledger import Claim, tally, verdict_of
from normtutor_studies.claims.page import CHAPTERS, LABELS, Page, label

__all__ = [
    "CHAPTERS",
    "CLAIMS",
    "LABELS",
    "Claim",
    "Page",
    "label",
    "named",
    "show",
    "tally",
    "verdict_of",
]

_MODULES = (
    covariate_shift,
    family,
    sequences,
    invariances,
    root_mean_square,
    power,
    residual_wiring,
    current,
)

#: Every claim, by the chapter that explains it, and within a chapter as written.
CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (entry for module in _MODULES for entry in vars(module).values() if type(entry) is Claim),
        key=lambda claim: claim.place.number,
    )
)


def named(name: str) -> Claim:
    """Look up a claim by its name."""
    for entry in CLAIMS:
        if entry.name == name:
            return entry
    raise ValueError(f"no claim is called {name!r}; the anchors of the page are the names.")


def show(name: str) -> Page:
    """Gather the evidence of one claim, by its name, and show it with the verdict that follows."""
    return Page([named(name)])
