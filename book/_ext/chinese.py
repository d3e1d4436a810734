"""The Chinese words of the field, as a table of two columns.

    ```{chinese-words}
    ```

The words are those by which the search reads a question in Chinese: the list ``CHINESE`` of
``_static/search/terms.js``, each line with the English word first.
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

TERMS = Path(__file__).resolve().parents[1] / "_static" / "search" / "terms.js"


def chinese_words() -> dict[str, list[str]]:
    """The Chinese words for each English one."""
    found = re.search(r"const CHINESE = (\[.*?\n  \]);", TERMS.read_text("utf-8"), re.DOTALL)
    assert found, "terms.js has the Chinese words"
    lines = json.loads(re.sub(r",(\s*\])", r"\1", found[1]))
    return {english: chinese for english, *chinese in lines}


class ChineseWords(SphinxDirective):
    """The table: a word in English, and what it is called in Chinese."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(TERMS))
        lines = ["| English | Chinese |", "| --- | --- |"]
        for english, chinese in chinese_words().items():
            # Which form of a letter is shown depends on the language.
            lines.append(f'| {english} | <span lang="zh-Hans">{"、".join(chinese)}</span> |')
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chinese-words", ChineseWords)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
