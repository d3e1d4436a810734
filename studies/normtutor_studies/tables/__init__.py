"""The studies, one table per chapter."""

from importlib import import_module

from normtutor_studies.engine import STUDIES, Study

for _chapter in ("bench", "ch01", "ch03", "ch04", "ch05", "ch06", "ch07", "ch08", "ch09"):
    import_module(f"normtutor_studies.tables.{_chapter}")


def study(name: str) -> Study:
    """The study called ``name``.

    Raises
    ------
    KeyError
        If there is none.
    """
    if name not in STUDIES:
        raise KeyError(f"there is no study {name!r}; there are {', '.join(sorted(STUDIES))}.")
    return STUDIES[name]
