"""Gradients over the layers of an encoder and a decoder, while the model learns to sort.

The models are those of :mod:`normtutor_studies.experiments.encoder_decoder`, twelve layers each, trained
with and without warm-up at a small and a large learning rate. Every run is reported, none chosen.
Three seeds were all that time allowed.

Control: where training fails, the gradient that vanishes beforehand could be the reason. So the
same weights, with the same gradients at the start, are also trained at a smaller rate, where they
learn, and with a warm-up, which at the large rate lets one seed of three learn; Pre-LN runs
alongside at both rates. Not checked: SGD, which does not rescale small gradients as Adam does.
Three seeds are few.
"""

from dataclasses import replace

from normtutor_studies.experiments import encoder_decoder
from normtutor_studies.experiments.encoder_decoder import Trained, fingerprint, run, run_seeds

__all__ = ["CONFIG", "REDUCED", "SEEDS", "fingerprint", "run", "run_seeds"]

CHAPTER = "07_pre_ln_and_post_ln"
FIGURE = "none: the ledger reads it, on gradients that vanish in Post-LN"
FINDING = "from gradients that vanish in the decoder Post-LN trains at the smaller of two rates"
SEEDS = tuple(range(10, 13))

CONFIG = replace(
    encoder_decoder.CONFIG,
    untrained=(),
    trained=(Trained("post", 0), Trained("post", 100), Trained("pre", 0)),
)
REDUCED = {"depth": 2, "kept": (2,)}
