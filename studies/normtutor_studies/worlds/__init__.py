"""The worlds: tasks small enough for one core, in which layers pay."""

from normtutor_studies.store import World
from normtutor_studies.worlds.code import CODE
from normtutor_studies.worlds.digits import DIGITS
from normtutor_studies.worlds.formulas import FORMULAS
from normtutor_studies.worlds.signals import CONVOLUTIONS, PERCEPTRON
from normtutor_studies.worlds.sorting import SORTING

WORLDS: dict[str, World] = {
    w.name: w for w in (CODE, FORMULAS, SORTING, PERCEPTRON, CONVOLUTIONS, DIGITS)
}
SEQUENCES = (FORMULAS, CODE)  # in the order in which they are run: the quicker one first
SIGNALS = (PERCEPTRON, CONVOLUTIONS)
