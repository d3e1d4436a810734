"""Experiments that take longer than a page may: run beforehand, saved, loaded and drawn.

The command line lists, runs and draws them:

.. code-block:: sh

    python -m normtutor_studies.experiments                      # what there is, and what it costs
    python -m normtutor_studies.experiments run company                               # into ./runs
    python -m normtutor_studies.experiments show company --directory runs

An interrupted run continues where it stopped. ``show`` without ``--directory`` draws the book's own
record in ``studies/normtutor_studies/results``.

**Controls.** :func:`~normtutor_studies.experiments.records.control` gives, for each
experiment, what else could explain its result, what was checked and what was not; ``show NAME``
prints it.

**To write an experiment.** Each is one module, recognized by its ``FINDING``. It has

- a docstring with one paragraph that begins with "Control:", for
  :func:`~normtutor_studies.experiments.records.control`;
- ``CHAPTER``, ``FIGURE``, ``FINDING`` and ``SEEDS``;
- a frozen dataclass ``Config``, and the one ``CONFIG`` that the book reports;
- ``run(config, seed)``, which returns a list of records;
- ``rows(saved)`` with ``XLABEL``, what its figure shows.

Where it needs them: ``fingerprint(config)``, which identifies data that differ between machines;
``REDUCED``, values of fields for a run of seconds in the tests;
``TUNING``, the seeds on which ``best_rates(saved)`` chooses learning rates; ``ALONE = True`` for what measures time; ``REFERENCE``, where the line of "no difference" stands.
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
