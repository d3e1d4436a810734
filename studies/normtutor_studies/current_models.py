"""Which norms language models have: every decoder of transformers, and the models one reads about.

``census.json`` holds what ``make census`` has read from the modules of each class.
``published.tsv`` names published models: the class of each, what its configuration sets
differently, and where we read that configuration. Without such a place a row describes the class.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from normtutor.anatomy import Block, Norm, Norms, Step
from normtutor.anatomy.parts import number
from normtutor_studies.html_tables import Table, table

HERE = Path(__file__).parent


@cache
def census() -> dict[str, Any]:
    """Load the census: its release of transformers, its decoders, and the classes left out."""
    return json.loads((HERE / "census.json").read_text(encoding="utf-8"))


def norms_from_census(kind: str, settings: Mapping[str, Any] = {}) -> Norms:
    """Look up what :func:`normtutor.norms_of` reads for a type of configuration.

    Parameters
    ----------
    kind : str
        The ``model_type`` of a text configuration.
    settings : dict
        What the configuration sets; the defaults of the class stand for the rest.

    Returns
    -------
    Norms
        With the layers of the class's own depth.

    Raises
    ------
    KeyError
        If the census has no such type.
    ValueError
        If nobody has tried one of the settings, or no model can be built with them.
    """
    entry = census()["decoders"][kind]
    eps = {**entry["eps"], **{k: v for k, v in settings.items() if k in entry["eps"]}}

    def look_up(part: dict[str, Any]) -> Any:
        switches = part["switches"]
        ways = [*product(*(range(len(values)) for values in switches.values()))]
        way = tuple(v.index(settings.get(name, v[0])) for name, v in switches.items())
        if (at := part["at"][ways.index(way)]) < 0:
            raise ValueError(f"{entry['class']} cannot be built with {dict(settings)}.")
        return part["tables"][at]

    def norm(row: Sequence[Any]) -> Norm:
        found = Norm(*row)
        return found._replace(eps=eps.get(found.eps, found.eps))

    def layers(i: int, n: int) -> tuple[int, ...]:
        text = entry["layers"] if n > 1 else "0" * len(entry["layers"])
        return tuple(at for at, one in enumerate(text) if one == f"{i:x}")

    table = look_up(entry["norms"])
    blocks = [
        Block(
            where,
            layers(i, len(table["blocks"])),
            tuple(
                Step(tuple((a, b, tuple(c)) for a, b, c in branches), skip, tuple(map(norm, rows)))
                for branches, skip, rows in steps
            ),
        )
        for i, (where, steps) in enumerate(table["blocks"])
    ]
    biases, weights = map(tuple, look_up(entry["biases"]))
    ends = tuple(map(norm, table["ends"]))
    streams = settings.get(entry.get("streams"), table["streams"])
    return Norms(entry["class"], streams, tuple(blocks), ends, biases, weights)


# --- what the table says of a model ---------------------------------------------------------------


def _main_block(norms: Norms) -> Block:
    """The kind of layer that most layers with attention are; of all, if none has attention."""

    def attends(block: Block) -> bool:
        return any(kind == "attention" for step in block.steps for _, kind, _ in step.branches)

    chosen = [block for block in norms.blocks if attends(block)] or [*norms.blocks]
    return max(chosen, key=lambda block: len(block.layers))


def _on_branches(block: Block) -> list[Norm]:
    places = ("in", "out", "stream")
    return [norm for step in block.steps for norm in step.norms if norm.place in places]


def norm_in_words(norms: Norms) -> str:
    """Name the norm that most branches have, or the stream, with what is special about it."""

    def words(norm: Norm) -> str:
        lacks = [sign for sign, has in (("γ", norm.gamma), ("β", norm.bias)) if not has]
        expected = ["β"] if norm.kind == "RMSNorm" else []
        missing = f", no {', '.join(lacks)}" if lacks != expected else ""
        if norm.kind == "RMSNorm":
            missing = missing.replace(", β", "")
        return norm.kind + (" (1+γ)" if norm.gamma.startswith("1+") else "") + missing

    counted = Counter(map(words, _on_branches(_main_block(norms))))
    # Where streams are mixed, as many norms without γ weigh them.
    return max(counted, key=lambda w: (counted[w], "no γ" not in w)) if counted else "none"


def placement(norms: Norms) -> str:
    """Say where the norms of the main kind of layer stand, in one word of the chapter."""
    block = _main_block(norms)
    places = {norm.place for norm in _on_branches(block)}
    if norms.streams > 1:
        return "several"
    if "stream" in places:
        return "stream"
    if any(step.parallel for step in block.steps):
        return "parallel"
    return {("in",): "pre", ("in", "out"): "peri", ("out",): "out"}.get(
        tuple(sorted(places)), "none"
    )


def qk_norm(norms: Norms) -> str:
    """Say whether queries or keys get a norm: "head", "all", "latent", or "" for none."""
    found = [n for block in norms.blocks for step in block.steps for n in step.norms]
    direct = [norm for norm in found if norm.place in ("q", "k")]
    if direct:
        return "all" if all(norm.over == "heads" for norm in direct) else "head"
    return "latent" if any(norm.place == "latent" for norm in found) else ""


def bias_in_words(norms: Norms) -> str:
    """Say which of the projections have a bias; convolutions do not count."""

    def counted(names: Sequence[str]) -> list[str]:
        return [n for n in names if not re.search(r"conv|dt_", n)]

    biases, weights = counted(norms.biases), counted(norms.weights)
    shown = ", ".join(name.removesuffix("_proj") for name in biases)
    return "none" if not biases else "all" if biases == weights else shown


class Model(NamedTuple):
    """One row: a published model, or a class as it is by default.

    ``basis`` is "config" where a published configuration was read, at the place that ``read``
    names, "model" for another published model, and "class" for a class.
    """

    name: str
    year: int | None
    kind: str  # "dense", "MoE", "hybrid", "hybrid MoE" or "recurrent"
    norm: str
    placement: str  # "pre", "parallel", "peri", "out", "stream", "several" or "none"
    qk_norm: str  # "head", "all", "latent" or "" for none
    bias: str
    eps_class: float | None
    eps_published: float | None
    read: str
    basis: str


def _model(name: str, year: int | None, kind: str, settings: dict[str, Any], place: str) -> Model:
    entry, norms = census()["decoders"][kind], norms_from_census(kind, settings)
    own = _on_branches(_main_block(norms_from_census(kind)))
    published = [settings[key] for key in entry["eps"] if key in settings]
    return Model(
        name,
        year,
        entry["kind"],
        norm_in_words(norms),
        placement(norms),
        qk_norm(norms),
        bias_in_words(norms),
        own[0].eps if own else None,
        published[0] if published else None,
        f"{kind}; {place}" if place else kind,
        "config" if place else "model",
    )


@cache
def published() -> tuple[Model, ...]:
    """Give the published models that one reads about, by year."""
    _, *rows = (HERE / "published.tsv").read_text(encoding="utf-8").splitlines()
    fields = (row.split("\t") for row in rows)
    return tuple(
        _model(name, int(year), kind, json.loads(settings or "{}"), place)
        for name, year, kind, settings, place in fields
    )


@cache
def decoders() -> tuple[Model, ...]:
    """Give every decoder of the census as it is by default, by year; some classes name none.

    The year is that of the copyright line in the class's file.
    """
    found = [
        _model(entry["class"], entry["year"], kind, {}, "")._replace(basis="class")
        for kind, entry in census()["decoders"].items()
    ]
    return tuple(sorted(found, key=lambda model: model.year or 0))


#: The years that the chapter counts together.
PERIODS: Mapping[str, tuple[int, int]] = {
    "2018–22": (2018, 2022),
    "2023": (2023, 2023),
    "2024": (2024, 2024),
    "2025": (2025, 2025),
    "2026": (2026, 2026),
}

#: What the chapter counts. "latent" norms the vectors before queries and keys, not these.
PROPERTIES: Mapping[str, Callable[[Model], bool]] = {
    "RMSNorm": lambda model: model.norm.startswith("RMSNorm"),
    "no bias": lambda model: model.bias == "none",
    "QK-norm": lambda model: model.qk_norm in ("head", "all"),
    "norm at the branch's end": lambda model: model.placement in ("peri", "out"),
}


def counts() -> dict[str, dict[str, int]]:
    """Count, for each period, the decoders and those with each property of `PROPERTIES`."""
    found = {}
    for name, (first, last) in PERIODS.items():
        group = [m for m in decoders() if m.year and first <= m.year <= last]
        found[name] = {"models": len(group)} | {
            what: sum(map(has, group)) for what, has in PROPERTIES.items()
        }
    return found


#: The columns of the table of all models: key, head, and what stands in a cell.
COLUMNS: Mapping[str, tuple[str, Callable[[Model], str]]] = {
    "model": ("Model", lambda model: model.name),
    "year": ("Year", lambda model: str(model.year or "–")),
    "kind": ("Kind", lambda model: model.kind),
    "norm": ("Norm", lambda model: model.norm),
    "placement": ("Placement", lambda model: model.placement),
    "qk": ("QK-norm", lambda model: model.qk_norm or "–"),
    "bias": ("Bias", lambda model: model.bias),
    "class": ("ε, class", lambda model: number(model.eps_class)),
    "published": (
        "ε, published",
        lambda model: "–" if model.eps_published is None else number(model.eps_published),
    ),
    "read": ("Read in", lambda model: model.read),
}


def cells(model: Model) -> dict[str, str]:
    """Write a model as one row of the table."""
    return {key: cell(model) for key, (_, cell) in COLUMNS.items()}


#: The models that the chapter shows, one or two of each kind that one meets.
WELL_KNOWN = (
    *("BERT", "GPT-2", "BLOOM", "LLaMA", "Mistral 7B", "Command R", "Gemma 2", "OLMo 2 7B"),
    *("DeepSeek-V3", "MiniMax-Text-01", "Gemma 3", "Qwen3 8B", "gpt-oss", "Kimi Linear"),
    "DeepSeek-V4",
)


def known_models() -> Table:
    """Make the chapter's table: what the well-known models have, the oldest first."""
    shown = {"year": "Year", "norm": "Norm", "placement": "Place", "qk": "QK-norm"}
    rows = {}
    for model in published():
        if model.name in WELL_KNOWN:
            texts = cells(model)
            eps = number(model.eps_published or model.eps_class)
            rows[model.name] = {head: texts[key] for key, head in shown.items()} | {"ε": eps}
    return table(pd.DataFrame(rows).T)


class ModelTable:
    """The table of all models: plain HTML, which a script makes sortable and filterable."""

    def __init__(self, models: Sequence[Model] | None = None) -> None:
        # The newest first; a sort in Python keeps the order within a year.
        rows = (*published(), *decoders()) if models is None else models
        self.models = tuple(sorted(rows, key=lambda model: -(model.year or 0)))

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" data-key="{key}">{escape(word)}</th>'
            for key, (word, _) in COLUMNS.items()
        )
        rows = []
        for model in self.models:
            row = cells(model)
            # Numbers sort by size; the words of a column that holds some read the same.
            first = f'<th scope="row">{escape(row.pop("model"))}</th>'
            numbers = {"class": model.eps_class or 0, "published": model.eps_published or 0}
            others = "".join(
                f'<td data-key="{key}"'
                + (f' data-sort="{numbers[key]:.3e}"' if key in numbers else "")
                + f">{escape(text)}</td>"
                for key, text in row.items()
            )
            rows.append(f'<tr data-basis="{model.basis}">{first}{others}</tr>')
        return (
            # JupyterLab would set all that stands in a table to the right.
            "<style>.models-box table.models :is(th, td) { text-align: left; }</style>"
            '<nt-models><div class="models-box" tabindex="0" role="region" '
            'aria-label="Table of open language models">'
            f'<table class="models"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div></nt-models>"
        )

    def __repr__(self) -> str:
        frame = pd.DataFrame([cells(model) for model in self.models])
        return frame.rename(columns=lambda key: COLUMNS[key][0]).to_string()
