"""Experiments that take longer than a page may: run beforehand, saved, loaded and drawn.

The command line lists, runs and draws them:

.. code-block:: sh

    python -m normtutor_studies.experiments                      # what there is, and what it costs
    python -m normtutor_studies.experiments run company                               # into ./runs
    python -m normtutor_studies.experiments show company --directory runs

An interrupted run continues where it stopped. ``show`` without ``--directory`` draws the book's own
record in ``studies/normtutor_studies/results``.

**On a text of your own, on a GPU.** The experiments with language models take any UTF-8 text and a
CUDA device:

.. code-block:: sh

    python -m normtutor_studies.experiments run power_statistics --text-file corpus.txt --device cuda \\
        --directory my_results

The learning rates remain those of the book.

**On a cluster.** Seeds run in parallel through joblib, so that its configuration says where. One
line moves them onto a Dask cluster:

.. code-block:: python

    import joblib
    from dask.distributed import Client
    from normtutor_studies import experiments

    client = Client("scheduler:8786")
    with joblib.parallel_config(backend="dask"):
        experiments.run_experiment("company")

All machines need the same Python and the same normtutor. Ray registers a backend of its own with
joblib (``ray.util.joblib.register_ray()``, then ``backend="ray"``); the tests cover Dask alone.

**Controls.** :func:`~normtutor_studies.experiments.records.control` gives, for each
experiment, what else could explain its result, what was checked and what was not; ``show NAME``
prints it.

**To write an experiment.** Each is one module, recognized by its ``FINDING``. It has

- a docstring with one paragraph that begins with "Control:", for
  :func:`~normtutor_studies.experiments.records.control`;
- ``CHAPTER``, ``FIGURE``, ``FINDING`` and ``SEEDS``;
- a frozen dataclass ``Config``, and the one ``CONFIG`` that the book reports;
- ``run(config, seed)``, which returns a list of records;
- ``fingerprint(config)``, which identifies the data;
- ``rows(saved)`` with ``XLABEL``, what its figure shows, or ``best_rates(saved)``.

Where it needs them: ``run_seeds(config, seeds)``, which trains several seeds at once and returns a
list of records for each; ``REDUCED``, values of fields for a run of seconds in the tests;
``ALONE = True`` for what measures time; ``REFERENCE``, where the line of "no difference" stands.
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
