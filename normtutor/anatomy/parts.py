"""What is said of the norms of a model, as a table and as a drawing.

The drawing is text in boxes, so that it needs no coordinates. The inspector on the site draws the
same boxes by a script, with the same style sheet.
"""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from normtutor.colours import COLOURS, NO_NORM


class Norm(NamedTuple):
    """One norm of a block, or of the model's ends.

    Attributes
    ----------
    name : str
        The module, within its layer or within the model; with "()" the module that computes a norm
        without a module of its own.
    place : str
        - "in", "out": at the start or the end of a branch;
        - "stream": on the residual stream itself;
        - "q", "k", "v": on queries, keys or values, with no weights in between;
        - "latent": in attention, on what queries, keys or values are made from;
        - "inner": elsewhere inside a branch;
        - "embedding", "final": on the stream before the first layer and behind the last one;
        - "beside": with no way to the stream inside the layers, as in what chooses the keys of
          sparse attention; outside of them, not on the stream.
    branch : str
        The sublayers that it belongs to, reads for ("in") or ends ("out").
    kind : str
        "RMSNorm", "LayerNorm", "L2 norm", "function" (no module computes it), the name of a norm of
        ``torch.nn``, or "other".
    eps : float or None
        As it acts; None where that could not be told.
    over : str
        What shares a statistic: "token" (all its features), "head", "heads" (all heads of a token),
        "group" (a part of the features), "tokens" (several tokens), or "?".
    gamma : str
        "γ", "1+γ" where the module stores the difference from 1, "γ first" or "1+γ first" where it
        comes before the statistic, or "" for none.
    bias : bool
        Whether there is a β.
    gate : bool
        Whether it takes a second input, which gates the result.
    half : bool
        Whether float16 inputs get their statistic in float16.
    dimensions : int
        Of γ: 2 where each head has its own. What spares vectors from weight decay does not spare
        such a γ.
    """

    name: str
    place: str
    branch: str
    kind: str
    eps: float | None = None
    over: str = "?"
    gamma: str = ""
    bias: bool = False
    gate: bool = False
    half: bool = False
    dimensions: int = 0


class Step(NamedTuple):
    """What happens between two places of the stream.

    Attributes
    ----------
    branches : tuple of (str, str, tuple of int)
        The sublayers in the order of their calls, each with "attention", "mixer" (of tokens, by
        other means) or "feed-forward", and with the numbers of those whose results it reads.
    skip : bool
        Whether the stream goes on beside them.
    norms : tuple of Norm
        A norm on the stream is a step of its own.
    """

    branches: tuple[tuple[str, str, tuple[int, ...]], ...]
    skip: bool
    norms: tuple[Norm, ...]

    def beside(self, *kinds: str) -> bool:
        """Whether two sublayers run beside each other, neither reading the other's result.

        The kinds are those of the two.
        """
        return any(
            {kind, self.branches[j][1]} == {*kinds}
            for i, (_, kind, reads) in enumerate(self.branches)
            for j in range(i)
            if j not in reads
        )

    @property
    def parallel(self) -> bool:
        """Whether attention or a mixer and a feed-forward network run beside each other."""
        return self.beside("attention", "feed-forward") or self.beside("mixer", "feed-forward")


class Block(NamedTuple):
    """Layers that are alike: the list that holds them, their numbers from 0, and their steps."""

    where: str
    layers: tuple[int, ...]
    steps: tuple[Step, ...]


class Norms(NamedTuple):
    """Which norms a model has. It prints as a table, and is drawn in a notebook.

    Attributes
    ----------
    model : str
        The class of the model.
    streams : int
        How many residual streams run beside each other.
    blocks : tuple of Block
    ends : tuple of Norm
        Those outside of the layers.
    biases : tuple of str
        The matrices in the layers that have a bias, by their last name.
    weights : tuple of str
        All matrices in the layers.
    """

    model: str
    streams: int
    blocks: tuple[Block, ...]
    ends: tuple[Norm, ...]
    biases: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, Norm]]:
        """List the norms in the order of the model, each with the layers that have it."""
        before = [("", norm) for norm in self.ends if norm.place == "embedding"]
        inside = [
            (f"{block.where} {spans(block.layers)}".strip(), norm)
            for block in self.blocks
            for step in block.steps
            for norm in step.norms
        ]
        return before + inside + [("", norm) for norm in self.ends if norm.place != "embedding"]

    def __str__(self) -> str:
        rows = [HEAD, *((layers, *cells(norm)) for layers, norm in self.rows())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join([self.model + (f", {self.streams} streams" * (self.streams > 1)), *lines])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return _page(self)


#: The columns of the table, and how it says what is read.
HEAD = ("layers", "place", "norm", "ε", "over", "γ", "β", "module")
PLACES = {
    "in": "start of the branch",
    "out": "end of the branch",
    "stream": "on the stream",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "latent": "compressed",
    "inner": "inside",
    "embedding": "after the embedding",
    "final": "after the last layer",
    "beside": "beside",
}
OVER = {
    "token": "each token",
    "head": "each head",
    "heads": "all heads together",
    "group": "a part of the token",
    "tokens": "several tokens or positions",
    "?": "?",
}


def spans(layers: Sequence[int]) -> str:
    """Write numbers as spans.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0–2, 5, 7–8'
    """
    starts = [n for n in layers if n - 1 not in layers]
    ends = [n for n in layers if n + 1 not in layers]
    return ", ".join(f"{a}–{b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True))


def number(value: float | None) -> str:
    """Write ε short.

    >>> number(1e-5), number(1.5625e-7), number(0.0), number(None)
    ('1e−5', '1.5625e−7', '0', '?')
    """
    if value is None:
        return "?"
    if not value:
        return "0"
    digits, power = f"{value:.6e}".split("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", "−")


def cells(norm: Norm) -> tuple[str, ...]:
    """Say a norm as a row of the table, without its layers."""
    where = f"{PLACES[norm.place]}, {norm.branch}" if norm.branch else PLACES[norm.place]
    kind = f"{norm.kind}, gated" if norm.gate else norm.kind
    beta = "yes" if norm.bias else "no"
    return (where, kind, number(norm.eps), OVER[norm.over], norm.gamma or "none", beta, norm.name)


# --- the drawing ----------------------------------------------------------------------------------


def box(norm: Norm, short: bool = False) -> str:
    """Draw a norm: its kind, and what is not as usual."""
    known = norm.kind in COLOURS
    name = norm.kind.lower() if known else "none"
    colour, _ = COLOURS[norm.kind] if known else NO_NORM
    words = [
        f"ε {number(norm.eps)}",
        norm.gamma if norm.gamma else "no γ",
        "β" if norm.bias else "",
        "" if norm.over in ("token", "?") else OVER[norm.over],
        "gated" if norm.gate else "",
    ]
    where = f"{PLACES[norm.place]}: " if short else ""
    return (
        f'<div class="norm" style="--kind: var(--norm-{name}, {colour})" data-place="{norm.place}" '
        f'data-name="{escape(norm.name)}">{where}<b>{escape(norm.kind)}</b> '
        f"{escape(', '.join(filter(None, words)))}<br><code>{escape(norm.name)}</code></div>"
    )


def levels(step: Step) -> list[list[int]]:
    """Arrange the branches of a step in levels: those of one level do not read each other."""
    level: list[int] = []
    for _, _, reads in step.branches:
        level.append(1 + max((level[i] for i in reads), default=-1))
    return [[i for i, at in enumerate(level) if at == n] for n in sorted(set(level))]


def columns(step: Step) -> Iterator[list[list[Any]]]:
    """Give the rows of a step from below, each as columns of norms and of numbers of branches.

    A norm that stands before or behind several branches of a level has a row of its own.
    """
    names = [name for name, _, _ in step.branches]
    owners = {n: [names.index(b) for b in n.branch.split(", ") if b in names] for n in step.norms}
    for number, level in enumerate(arranged := levels(step)):
        later = {i for other in arranged[number + 1 :] for i in other}
        earlier = {i for other in arranged[:number] for i in other}
        here = {n: [i for i in of if i in level] for n, of in owners.items()}
        first = [n for n in here if n.place == "in" and here[n] and earlier.isdisjoint(owners[n])]
        last = [n for n in here if n.place == "out" and here[n] and later.isdisjoint(owners[n])]
        for norm in first:
            if len(here[norm]) > 1:
                yield [[norm]]
        yield [
            [n for n in first if here[n] == [i]] + [i] + [n for n in last if here[n] == [i]]
            for i in level
        ]
        for norm in last:
            if len(here[norm]) > 1:
                yield [[norm]]


def draw_step(step: Step) -> str:
    """Draw one step as an item of the stream's list."""
    names = [name for name, _, _ in step.branches]

    def sublayer(i: int) -> str:
        name, kind, _ = step.branches[i]
        inner = [
            n
            for n in step.norms
            if n.place not in ("in", "out") and n.branch.split(", ")[0] == name
        ]
        listed = "".join(f"<li>{box(norm, True)}</li>" for norm in inner)
        return (
            f'<div class="layer"><b>{kind}</b> <code>{escape(name)}</code>'
            + (f"<ul>{listed}</ul>" if listed else "")
            + "</div>"
        )

    if not step.skip and step.branches:
        return f'<li class="on">{sublayer(0)}</li>'
    if not step.branches:
        kind = "aside" if any(n.place == "beside" for n in step.norms) else "on"
        return "".join(
            f'<li class="{kind}">{box(norm, norm.place == "beside")}</li>' for norm in step.norms
        )
    drawn = []
    for row in (arranged := [*columns(step)]):
        cells = "".join(
            '<ol class="up cell">'
            + "".join(
                f"<li>{sublayer(one) if isinstance(one, int) else box(one)}</li>" for one in column
            )
            + "</ol>"
            for column in row
        )
        many = " many" if len(row) > 1 else ""
        drawn.append(f'<li class="row{many}" style="--columns: {len(row)}">{cells}</li>')
    ends = [len(arranged[i]) for i in (0, -1)]
    lost = [
        n for n in step.norms if not set(n.branch.split(", ")) & {*names} and n.place != "beside"
    ]
    drawn += [f'<li class="aside">{box(norm, True)}</li>' for norm in lost]
    return (
        f'<li class="step" style="--below: {ends[0]}; --above: {ends[1]}">'
        f'<span class="plus">+</span><ol class="up">{"".join(drawn)}</ol></li>'
    )


def draw(norms: Norms) -> str:
    """Draw a model: the stream runs upwards, and branches leave and rejoin it."""

    def ends(place: str) -> str:
        aside = place == "beside"
        kind = "aside" if aside else "on"
        return "".join(
            f'<li class="{kind}">{box(norm, aside)}</li>'
            for norm in norms.ends
            if norm.place == place
        )

    total = sum(len(block.layers) for block in norms.blocks)
    blocks = ""
    for block in norms.blocks:
        which = f": {block.where} {spans(block.layers)}" if len(block.layers) < total else ""
        count = f"{len(block.layers)} layer{'s' * (len(block.layers) > 1)}"
        steps = f'<ol class="up stream">{"".join(map(draw_step, block.steps))}</ol>'
        blocks += f'<li class="block"><p>{count}{escape(which)}</p>{steps}</li>'
    streams = f"{norms.streams} streams" if norms.streams > 1 else "stream"
    return (
        f'<div class="na" style="--streams: {norms.streams}"><ol class="up stream">'
        f'<li class="end">embedding, {streams}</li>{ends("embedding")}{blocks}'
        f'{ends("final")}{ends("beside")}<li class="end">output</li></ol></div>'
    )


def _table(norms: Norms) -> str:
    """Write the table as HTML."""
    head = "".join(f'<th scope="col">{word}</th>' for word in HEAD)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in (layers, *cells(norm)))}</tr>"
        for layers, norm in norms.rows()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _page(norms: Norms) -> str:
    """Draw a model for a notebook, with its table below."""
    style = Path(__file__).with_name("drawing.css").read_text(encoding="utf-8")
    return f"<style>{style}</style><b>{escape(norms.model)}</b>{draw(norms)}{_table(norms)}"
