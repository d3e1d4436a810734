"""Experiments that take longer than a page may: run beforehand, saved, loaded and drawn.

One file an experiment. Each holds a frozen dataclass ``Config`` and the one ``CONFIG`` that the
book reports, the ``SEEDS``, and ``run(config, seed)``, which returns a list of records. Saving,
resuming and loading are the business of :mod:`normtutor.experiments.records`; the command line is

.. code-block:: sh

    python -m normtutor.experiments                          # what there is
    python -m normtutor.experiments run text_batches --jobs 2
    python -m normtutor.experiments show text_batches
"""

from normtutor.experiments.records import NAMES, Saved, load, module_of, run_experiment

__all__ = ["NAMES", "Saved", "load", "module_of", "run_experiment"]
