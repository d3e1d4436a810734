"""Numbers and tables of the studies on pages: the build puts them in, so that none is typed.

In Markdown: {measured}`study / row / digits` becomes a number (see normtutor_studies.numbers), and

    ```{study} name
    ```

becomes what a study asked, what was expected, how it was controlled, and all that it found; of
several names, one question asked in several worlds, all in one table. A mark that names nothing on
record is a warning, which fails the build.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.logging import getLogger

logger = getLogger(__name__)


def depend(env: Any, name: str) -> None:
    """Have a page read again when a record changes that it shows."""
    from normtutor_studies.tables import study

    for store in study(name).stores.values():
        env.note_dependency(str(store.path))


class Measured(SphinxRole):
    """A number of a study."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        from normtutor_studies import numbers  # brings torch, which most builds do not need

        try:
            text = numbers.said(self.text)
            depend(self.env, self.text.split("/")[0].strip())
        except (ValueError, LookupError) as error:
            logger.warning(str(error), location=self.get_location())
            text = "?"
        return [nodes.Text(text)], []


class StudyBox(SphinxDirective):
    """All of a study, or of several that ask the same in different worlds."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from normtutor_studies import numbers
        from normtutor_studies.tables import study

        try:
            studies = [study(name) for name in self.arguments[0].split()]
            table = numbers.table(*studies)
        except LookupError as error:
            logger.warning(str(error), location=self.get_location())
            return []
        one = studies[0]
        for each in studies:
            depend(self.env, each.name)
        expected = "\n".join(f"- If {who}: {what}." for who, what in one.predicts.items())
        parts = (f"**{one.question}**", expected, one.control, table)
        return self.parse_text_to_nodes("\n\n".join(part for part in parts if part))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("measured", Measured())
    app.add_directive("study", StudyBox)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
