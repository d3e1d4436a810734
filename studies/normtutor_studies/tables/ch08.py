"""Chapter 8: what came after."""

from functools import partial

import numpy as np

from normtutor_studies.engine import Study
from normtutor_studies.store import Cell
from normtutor_studies.worlds import SEQUENCES
from normtutor_studies.worlds.formulas import FORMULAS

STREAMS = {"Pre-LN": "pre", "Peri-LN": "peri", "scaled": "ln-scaling"}


def grown(study: Study, world: str, wiring: str) -> np.ndarray:
    """The stream's mean square behind the last layer over that before the first, after training."""
    streams = np.square([run["after"]["stream"] for run in study.runs(world, wiring)])
    return np.asarray(streams[:, -1] / streams[:, 0])


Study(
    name="growth",
    chapter=8,
    question="How does the residual stream grow with depth, and which wiring holds it?",
    predicts={"a norm at the end of the branch holds it": "less growth in Peri-LN than in Pre-LN"},
    arms={label: {"wiring": wiring} for label, wiring in STREAMS.items()},
    pairs=[("Peri-LN", "Pre-LN"), ("scaled", "Pre-LN")],
    rows={
        f"{world.name}: growth, {wiring}": partial(grown, world=world.name, wiring=wiring)
        for world in SEQUENCES
        for wiring in STREAMS
    },
    finding="The stream grows less where a norm ends each branch.",
    holds=lambda of: all(
        (grown(of, world.name, "Peri-LN") < grown(of, world.name, "Pre-LN")).all()
        for world in SEQUENCES
    ),
    worlds=SEQUENCES,
    control="Each at its own rate; the stream is measured on test sequences.",
)

Study(
    name="query_and_key_norm",
    chapter=8,
    question="Does QK-norm bound the logits, and what does it buy?",
    predicts={
        "stability": "trains at larger rates",
        "nothing at this scale": "the loss is as without it",
    },
    arms={
        "without": {"qk_norm": "none"},
        "with": {"qk_norm": "rms"},
        "without, 0.064": {"qk_norm": "none", "rate": 64e-3},
        "with, 0.064": {"qk_norm": "rms", "rate": 64e-3},
    },
    pairs=[("with", "without"), ("without, 0.064", "with, 0.064")],
    worlds=SEQUENCES,
    control="Each at its own rate, and both at one rate that is too large.",
)

Study(
    name="dynamic_tanh",
    chapter=8,
    question="Can dynamic tanh take LayerNorm's place?",
    predicts={"a norm is a squashing function": "it ends level with LayerNorm"},
    arms={
        "LayerNorm": {"norm": "layer"},
        "LayerNorm, learned scale": {"norm": "layer", "learned_scale": True},
        "0.5": {"norm": "tanh", "learned_scale": True},
        "0.8": {"norm": "tanh", "alpha": 0.8, "learned_scale": True},
        "2": {"norm": "tanh", "alpha": 2.0, "learned_scale": True},
    },
    pairs=[(start, "LayerNorm, learned scale") for start in ("0.5", "0.8")],
    worlds=SEQUENCES,
    control="Its authors' recipe: a learned factor on the embeddings, and α's start chosen; 2 is "
    "too large, and no comparison is asked of it. LayerNorm gets the factor, too.",
)

Study(
    name="embeddings_and_last_norm",
    chapter=8,
    question="What do tied embeddings, their size and the last norm change?",
    predicts={"hidden knobs": "the order of norms depends on them"},
    arms={
        "usual": {},
        "tied": {"tied": True},
        "four times larger": {"embedding_scale": 4.0},
        "no last norm": {"final_norm": False},
    },
    pairs=[(label, "usual") for label in ("tied", "four times larger", "no last norm")],
    worlds=SEQUENCES,
    control="One thing is changed at a time; each at its own rate.",
)


def recovered(of: Study) -> np.ndarray:
    """The share of what dropping the last norm gains that one scale for all tokens gains."""
    shared = of.row("formulas: one scale for all tokens - usual")
    return np.asarray(shared / of.row("formulas: no last norm - usual"))


AT_ONE_RATE: Cell = {"rate": 16e-3, "steps": 400}

Study(
    name="what_the_last_norm_costs",
    chapter=8,
    question="Why do these models end lower without the last norm?",
    predicts={
        "a token's length says how sure the model is": "one scale for all tokens, which keeps "
        "their lengths apart, ends as no last norm",
        "the norm's gradient": "one scale for all tokens, which divides by the same size, ends as "
        "the usual",
    },
    arms={
        "usual": AT_ONE_RATE,
        "no last norm": {"final_norm": False, **AT_ONE_RATE},
        "one scale for all tokens": {"final_norm": "shared", **AT_ONE_RATE},
    },
    pairs=[(label, "usual") for label in ("no last norm", "one scale for all tokens")],
    rows={"recovered": recovered},
    finding="One scale for all tokens, which leaves them their lengths, gains some half of what "
    "dropping the last norm gains.",
    holds=lambda of: bool((abs(of.row("recovered") - 0.5) < 0.2).all()),
    worlds=[FORMULAS],
    seeds=(0, 1, 2),
    control="One rate for all, the best one without the last norm. The usual model's own rate, "
    "half of it, closes little of the difference (embeddings_and_last_norm). One world, that in "
    "which the difference is largest, and two fifths of the usual steps. What else the last norm "
    "changes, the size of the scores at the start, was not varied.",
)
