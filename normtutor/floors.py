"""On which floor each module stands: it imports from lower floors alone.

A test holds the modules to this list, and ``ARCHITECTURE.md`` draws it. The lowest floor has number
0. A package stands on one floor with all its modules. The formulas and what is below need no torch.
"""

FLOORS = {
    "floors": 0,
    "gradcheck": 0,
    "intervals": 0,
    "package_text": 0,
    "pieces": 0,
    "tracing": 0,
    "affine": 1,
    "moments": 1,
    "validation": 1,
    "masks": 2,
    "norms": 2,
    "exchange": 3,
    "data": 3,
    "layers": 3,
    "diagnosis": 4,
    "invariance": 4,
    "probes": 4,
    "swapping": 4,
    "wiring": 4,
    "anatomy": 5,
    "models": 5,
    "training": 6,
    "current_models": 7,
    "experiments": 7,
    "benchmark": 8,
    "claims": 8,
    "grading": 8,
    "plotting": 8,
    # A command line stands above what it commands.
    "experiments.__main__": 9,
    "interactive": 9,
    "tables": 9,
}

#: What stands on each floor, in a few words.
MEANING = (
    "what every other module rests on; a text to train on",
    "arithmetic that every formula uses; checks of what a user passes",
    "the formulas, forward and backward, for any arrays",
    "the same formulas as layers for torch; data; layers of other libraries",
    "what one does with a norm: audit it, probe it, swap it, wire it",
    "models; which norms a model has",
    "training",
    "experiments: run, saved, loaded",
    "what reads experiments: figures, claims, coursework, timings",
    "what stands in a page or on a command line",
)
