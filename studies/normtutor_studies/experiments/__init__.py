"""Experiments that take longer than a page may: run beforehand, saved and loaded.

The command line lists and runs them, and shows what came out as a table:

.. code-block:: sh

    python -m normtutor_studies.experiments                      # what there is, and what it costs
    python -m normtutor_studies.experiments run company                               # into ./runs
    python -m normtutor_studies.experiments show company --directory runs

An interrupted run continues where it stopped. ``show`` without ``--directory`` shows the book's own
record in ``studies/normtutor_studies/results``.

**To write an experiment.** Each is one module, recognized by its ``SEEDS``. It has

- a docstring with one paragraph that begins with "Control:": what else could explain the result,
  what was checked and what was not;
- ``CHAPTER`` and ``SEEDS``, and the ``CONFIG`` that the book reports;
- ``measure(config, seed, **cell)``, called for each of ``CONFIG.conditions``, or
  ``run(config, seed)``, which returns a list of records;
- ``rows(saved)``, the numbers that its figure is about, one per seed.

Where it needs them: ``TEXT``, options of the corpus that it reads; ``TUNING``, the seeds on which
``best_rates(saved)`` chooses learning rates; ``REDUCED``, settings for a run of seconds.
"""

from normtutor_studies.experiments.records import (
    Saved,
    control,
    load,
    module_of,
    names,
    run_experiment,
)

__all__ = ["Saved", "control", "load", "module_of", "names", "run_experiment"]
