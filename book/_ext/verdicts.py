"""Verdicts of the ledger on other pages, in the ledger's own words.

    ```{verdicts} padding-shifts fails-on-text
    ```

becomes a table of these claims: the sentence as it is heard, its verdict, what to believe; with
`:list:` a list, which fits into a fold. Each sentence links to its evidence. A name that the ledger
does not have is a warning, which fails the build.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

logger = getLogger(__name__)
HEAD = "| people say | verdict | what to believe |\n| --- | --- | --- |\n"


def depend(env: Any) -> None:
    """Have a page read again when the ledger changes."""
    from normtutor_studies import claims

    for path in Path(claims.__file__).parent.glob("*.py"):
        env.note_dependency(str(path))


class Verdicts(SphinxDirective):
    """A list of claims with their verdicts."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"list": directives.flag}  # noqa: RUF012, docutils has it so

    def run(self) -> list[nodes.Node]:
        from normtutor_studies import claims  # brings torch, which most builds do not need

        depend(self.env)
        line = "- {}: **{}**. {}" if "list" in self.options else "| {} | **{}** | {} |"
        lines = []
        for name in self.arguments[0].split():
            try:
                one = claims.named(name)
            except ValueError as error:
                logger.warning(str(error), location=self.get_location())
                continue
            words = f"[{one.words}](#claim-{one.name})"
            lines.append(line.format(words, claims.label(one), one.answer))
        head = "" if "list" in self.options else HEAD
        return self.parse_text_to_nodes(head + "\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("verdicts", Verdicts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
