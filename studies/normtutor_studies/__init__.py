"""The studies behind the book's findings: worlds, arms, records.

>>> from normtutor_studies import study
>>> study("rms_against_layer").question
'Does a model end worse without the mean?'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normtutor_studies.engine import STUDIES, Effect, Study, grid
    from normtutor_studies.tables import study

__all__ = ["STUDIES", "Effect", "Study", "grid", "study"]


def __getattr__(name: str) -> Any:
    # The figures and the ledger's pages, which need no torch, must not wait for it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from normtutor_studies import engine, tables

    return getattr(tables if name == "study" else engine, name)
