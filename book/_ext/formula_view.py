"""The view "One formula, three choices": the directive ``formula-view`` puts it on a page.

Its pieces of the formula, and what each choice makes of them, come from the table of norms
(``normtutor_studies.formula_table``), and are typeset here, so that the page's script only shows
and hides them. Without scripts the formula and the table of nine norms remain.
"""

import html
import json
from pathlib import Path
from typing import Any

import equations
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WORDS = (
    "Means run over the values that share a statistic. Each norm has its own c and r, and "
    "dx = r · (g + shift + stretch) has both terms, one, or neither, as its three choices say."
)


def pieces(choices: list[dict[str, Any]], field: str) -> list[str]:
    """The different texts of a field, the one of most norms first."""
    texts = [choice["row"][field] for choice in choices if choice["row"][field] != "–"]
    return sorted(set(texts), key=texts.index)


def view() -> str:
    """The element with its formula, its data, and what stands there without scripts."""
    from normtutor_studies.formula_table import SHAPE, all_choices, formula_table, latex

    choices = all_choices()
    fixed = (r"c =\;", r"r =\;", r"\hat x = c \, r", r"dx = r \, ( g", ")")
    fields = {field: pieces(choices, field) for field in ("c", "r", "shift", "stretch")}
    # A term is a binary operation: something stands before it.
    written = {
        one: ("{} " if one[0] == "−" else "") + latex(one) for f in fields.values() for one in f
    }
    equations.typeset([(text, False) for text in (*fixed, *written.values())])

    def typeset(text: str) -> str:
        return equations.equations[written.get(text, text), False]

    def choice_of(field: str) -> str:
        return "".join(
            f'<span data-field="{field}" data-text="{html.escape(text)}"{" hidden" if i else ""}>'
            f"{typeset(text)}</span>"
            for i, text in enumerate(fields[field])
        )

    lines = [
        [r"c =\;", choice_of("c")],
        [r"r =\;", choice_of("r")],
        [r"\hat x = c \, r"],
        [r"dx = r \, ( g", choice_of("shift"), choice_of("stretch"), ")"],
    ]
    formula = "".join(
        f"<div>{''.join(typeset(one) if one in fixed else one for one in line)}</div>"
        for line in lines
    )
    data = json.dumps({"shape": SHAPE, "choices": choices}).replace("</", "<\\/")
    return (
        f'<nt-formula><script type="application/json">{data}</script>'
        f'<div slot="formula">{formula}</div><p>{WORDS}</p>{formula_table().html}</nt-formula>'
    )


class FormulaView(SphinxDirective):
    """The view, on a page."""

    def run(self) -> list[nodes.Node]:
        from normtutor_studies import formula_table

        from normtutor import norms

        for module in (norms.choices, formula_table):
            self.env.note_dependency(str(Path(module.__file__ or "")))
        return [nodes.raw("", view(), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("formula-view", FormulaView)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
