"""The studies behind the book's findings: worlds, arms, records.

>>> from normtutor_studies import study
>>> study("rms_against_layer").question
'Does a model end worse without the mean?'
"""

from normtutor_studies.engine import STUDIES, Effect, Study, grid
from normtutor_studies.tables import study

__all__ = ["STUDIES", "Effect", "Study", "grid", "study"]
