"""A resolved page as plain Markdown, which every notebook program shows.

Sphinx has resolved all numbers and references before; what is written here is what stands on the
site. A page becomes a list of blocks: Markdown, and code cells by their place in the notebook.

Everything that belongs together stands on one line: programs agree on little else once mathematics
stands inside a quote or a list.
"""

import html
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from docutils import nodes


@dataclass(frozen=True)
class Code:
    """A code cell of the page: its place among all cells, and what the page adds to it."""

    index: int
    caption: str = ""  # of the figure that it draws
    interactive: bool = False
    folded: bool = False  # it belongs to a solution
    output: str = ""  # what it puts out, if that is text in MyST


@dataclass(frozen=True)
class Text:
    """A block of Markdown; a heading begins a cell."""

    markdown: str
    heading: bool = False


Block = Code | Text
Numbers = dict[str, dict[str, tuple[int, ...]]]

# Words that show nothing on a page of the site, or that Sphinx has used up.
SILENT = (nodes.comment, nodes.meta, nodes.substitution_definition, nodes.target, nodes.pending)
SPECIAL = re.compile(r"([\\`*_~$])")
ENTITY = re.compile(r"&(?=#?\w+;)")
# What would begin a list, a heading or a quote.
OPENING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+#>])")
MARKS_OF_A_LINE = re.compile(r"(?<!\\)((?:\\\\)*)%.*")
# What a page says to readers without scripts; it needs no saying beside a link.
NEEDS = re.compile(r"^This figure needs [^.]*\.\s*")
ADDRESS = re.compile(r'\b(href|src)="([^"]*)"')
# What JupyterLab would part from an equation: it may break the line on both sides of one.
BEFORE_EQUATION = re.compile(r"[(\[“‘]+$")
# Of a longer word the hyphen alone: the word would be set in the equation's letters.
AFTER_EQUATION = re.compile(r"[.,;:!?)\]]+(?!\w)|[-’]\w{1,2}\b[.,;:!?)]*|-(?=\w)|[”’]+[.,;:!?)]*")
# What the site draws or runs and a notebook does not: icons, and the settings of a page's scripts.
DECORATION = re.compile(r"<svg [^>]*aria-hidden.*?</svg>|<script\b.*?</script>", re.DOTALL)
ENVIRONMENT = re.compile(r"\\begin\{(\w+\*?)\}(?:(?!\\begin\{).)*?\\end\{\1\}", re.DOTALL)


class UnknownNode(ValueError):
    """The page has something that this module cannot write."""


def escaped(text: str) -> str:
    """Write text so that Markdown shows the same characters, on one line."""
    text = SPECIAL.sub(r"\\\1", ENTITY.sub("&amp;", text)).replace("<", "&lt;")
    return re.sub(r"\s+", " ", text)


def one_line(latex: str) -> str:
    """Write an equation on one line; notebook programs take < for the beginning of a tag."""
    latex = " ".join(MARKS_OF_A_LINE.sub(r"\1", latex).split())
    parts = re.split(r"(\\text\w*\{[^{}]*\})", latex)
    parts[::2] = [re.sub(r"<\s*", r"\\lt ", re.sub(r">\s*", r"\\gt ", p)) for p in parts[::2]]
    return "".join(parts)


def display(latex: str, number: str) -> str:
    """Write an equation that stands alone; MathJax breaks lines inside of environments only."""
    latex = one_line(latex)
    outside = latex
    while ENVIRONMENT.search(outside):
        outside = ENVIRONMENT.sub("", outside)
    if "\\\\" in outside:
        name = "aligned" if "&" in outside else "gathered"
        latex = rf"\begin{{{name}}} {latex} \end{{{name}}}"
    tag = rf" \tag{{{number}}}" if number else ""
    return f"$${latex}{tag}$$"


def code_span(text: str) -> str:
    """Write code between as many marks as it needs."""
    text = re.sub(r"\s+", " ", text)
    marks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{pad}{text}{pad}{marks}"


class Writer:
    """Writes one page.

    Parameters
    ----------
    page : str
        The page's address on the site, from which relative addresses count.
    numbers : dict
        The numbers of the page's figures, theorems and so on, as Sphinx has counted them.
    figure_format : str
        How a figure is called, such as ``Fig. %s``.
    in_myst : collection of int
        The places of the code cells whose outputs are text in MyST.
    """

    def __init__(
        self,
        page: str,
        numbers: Numbers,
        figure_format: str = "Fig. %s",
        in_myst: Collection[int] = (),
    ) -> None:
        self.page, self.numbers, self.figure_format = page, numbers, figure_format
        self.in_myst = in_myst
        self.wanted: set[str] = set()  # anchors that a link on this page leads to
        self.written: set[str] = set()

    # --- a page ---------------------------------------------------------------------------------

    def write(self, document: nodes.document) -> list[Block]:
        """Write the whole page. What a link leads to gets an anchor, where it can have one."""
        self.wanted = {target for link in document.findall(is_link) if (target := self.here(link))}
        self.written = set()
        self.blocks(document.children, 0)
        self.wanted, self.written = set(self.written), set()
        return self.blocks(document.children, 0)

    def here(self, link: nodes.Element) -> str:
        """The anchor that a link leads to, if it is on this page."""
        address = f"#{link['refid']}" if link.get("refid") else link.get("refuri", "")
        page, _, anchor = urljoin(self.page, address).partition("#")
        return anchor if page == self.page else ""

    def anchors(self, node: nodes.Element) -> str:
        """The anchors of what begins here."""
        names = [name for name in node.get("ids", []) if name in self.wanted - self.written]
        self.written |= set(names)
        return "".join(f'<a id="{name}"></a>' for name in names)

    def number(self, kind: str, node: nodes.Element) -> str:
        counted = self.numbers.get(kind, {})
        found = next((counted[name] for name in node["ids"] if name in counted), ())
        return ".".join(map(str, found))

    # --- blocks ---------------------------------------------------------------------------------

    def blocks(self, children: Iterable[nodes.Node], level: int) -> list[Block]:
        return [block for child in children for block in self.block(child, level)]

    def block(self, node: nodes.Node, level: int) -> list[Block]:
        """Write what stands on lines of its own."""
        for kind in type(node).__mro__:
            if method := getattr(self, f"block_{kind.__name__}", None):
                return method(node, level)
        if isinstance(node, SILENT):
            return []
        raise UnknownNode(f"{type(node).__name__}: {node.astext()[:80]!r}")

    def block_section(self, node: nodes.Element, level: int) -> list[Block]:
        title, *rest = node.children
        if not isinstance(title, nodes.title):
            return self.blocks(node.children, level)  # the body of a theorem or of an exercise
        text = f"{'#' * (level + 1)} {self.inlines(title)}{self.anchors(node)}"
        return [Text(text, heading=True), *self.blocks(rest, level + 1)]

    def block_paragraph(self, node: nodes.Element, level: int) -> list[Block]:
        rest = [child for child in node.children if not is_space(child)]
        if len(rest) > 1 and all(isinstance(child, nodes.reference) for child in rest):
            # The site shows links alone as buttons.
            return [Text(self.anchors(node) + " · ".join(map(self.inline, rest)))]
        text = OPENING.sub(opening_escaped, self.inlines(node).strip())
        return [Text(self.anchors(node) + text)] if text else []

    def block_math_block(self, node: nodes.Element, level: int) -> list[Block]:
        number = self.number("displaymath", node)
        anchors = self.anchors(node)
        before = [Text(anchors)] if anchors else []
        return [*before, Text(display(node.astext(), number))]

    def block_literal_block(self, node: nodes.Element, level: int) -> list[Block]:
        language = str(node.get("language", "")).replace("ipython3", "python")
        language = "" if language in ("default", "none") else language
        return [Text(f"```{language}\n{node.astext()}\n```")]

    def block_bullet_list(self, node: nodes.Element, level: int) -> list[Block]:
        return self.listed(node, level, lambda place: "- ")

    def block_enumerated_list(self, node: nodes.Element, level: int) -> list[Block]:
        start = node.get("start", 1)
        return self.listed(node, level, lambda place: f"{start + place}. ")

    def listed(self, node: nodes.Element, level: int, mark: Callable[[int], str]) -> list[Block]:
        items, code = [], []
        for place, item in enumerate(node.children):
            blocks, own = self.blocks(item.children, level), mark(place)
            code += [block for block in blocks if isinstance(block, Code)]
            text = textwrap.indent("\n\n".join(texts_of(blocks)), " " * len(own))
            items.append(own + text.lstrip(" "))
        tight = all("\n" not in item for item in items)
        return [Text(("\n" if tight else "\n\n").join(items)), *code]

    def block_block_quote(self, node: nodes.Element, level: int) -> list[Block]:
        return quoted(self.blocks(node.children, level))

    def block_compound(self, node: nodes.Element, level: int) -> list[Block]:
        return [] if "toctree-wrapper" in node["classes"] else self.blocks(node.children, level)

    def block_raw(self, node: nodes.Element, level: int) -> list[Block]:
        text = self.inline_raw(node).strip()
        if "<nt-" in text:
            said = " ".join(re.findall(r"<p>.*?</p>", text, re.DOTALL))
            words = html.unescape(re.sub(r"<[^>]+>", "", said)).strip()
            link = f"*The [interactive figure]({self.page}) is on the site.*"
            return [Text(f"{link} {escaped(NEEDS.sub('', words))}".strip())]
        return [Text(text)] if text else []

    def block_table(self, node: nodes.Element, level: int) -> list[Block]:
        rows = [list(self.row(row)) for row in node.findall(nodes.row)]
        first = next(node.findall(nodes.row))
        rules = [rule_of(entry) for entry in first.children]
        lines = [rows[0], rules, *rows[1:]]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        titles = [self.inlines(child) for child in node.children if isinstance(child, nodes.title)]
        return [*(Text(f"**{title}**") for title in titles), Text(self.anchors(node) + table)]

    def row(self, row: nodes.Element) -> Iterator[str]:
        for entry in row.children:
            yield "<br>".join(in_table(text) for text in texts_of(self.blocks(entry.children, 0)))

    # --- boxes ----------------------------------------------------------------------------------

    def block_Admonition(self, node: nodes.Element, level: int) -> list[Block]:
        """Write a box: a theorem, a note, an exercise."""
        words, rest = self.inlines(node.children[0]).strip(), node.children[1:]
        kind = self.kind_of(node)
        title = f"**{kind}** {words}".strip() if kind else f"**{words}**"
        body = self.blocks(rest, level)
        title = self.anchors(node) + title
        if "dropdown" in node["classes"]:
            return folded(title, body)
        return quoted([Text(title), *body])

    def kind_of(self, node: nodes.Element) -> str:
        """Say what a box is, with its number: "Theorem 4.1"."""
        kind = str(node.get("realtype") or "")
        if kind:
            number = self.number(str(node["countertype"]), node)
        elif type(node).__name__ == "exercise_enumerable_node":
            kind, number = "exercise", self.number("exercise", node)
        else:
            return ""
        return f"{kind.title()} {number}".strip()

    def block_proof_node(self, node: nodes.Element, level: int) -> list[Block]:
        """Write a proof, whose first word is its title."""
        (box,) = node.children
        assert isinstance(box, nodes.Element)
        first, *rest = self.blocks(box.children, level)
        assert isinstance(first, Text)
        start = re.sub(r"^Proof\.?\s*", "**Proof.** ", first.markdown)
        return quoted([Text(self.anchors(box) + start), *rest])

    def block_solution_node(self, node: nodes.Element, level: int) -> list[Block]:
        """Write a solution, or a dropdown of sphinx-design: a title, then what it hides."""
        title, *rest = node.children
        assert isinstance(title, nodes.Element)
        words = re.sub(r"\s+", " ", self.inlines(title).strip())
        return folded(self.anchors(node) + words, self.blocks(rest, level))

    block_dropdown_main = block_solution_node

    # --- code -----------------------------------------------------------------------------------

    def block_container(self, node: nodes.Element, level: int) -> list[Block]:
        if node.get("nb_element") != "cell_code":
            return self.blocks(node.children, level)
        found = list(node.findall(nodes.figure))
        captions = [self.caption(figure) for figure in found]
        interactive = any("<nt-" in raw.astext() for raw in node.findall(nodes.raw))
        caption = "\n\n".join(filter(None, captions))
        place, output = int(node["cell_index"]), ""
        if place in self.in_myst:
            boxes = [box for box in node.children if box.get("nb_element") == "cell_code_output"]
            output = "\n\n".join(
                text for box in boxes for text in texts_of(self.blocks(box.children, level))
            )
        return [Code(place, caption, interactive, output=output)]

    def caption(self, figure: nodes.Element) -> str:
        words = "".join(self.inlines(node) for node in figure.findall(nodes.caption))
        number = self.number("figure", figure)
        head = f"**{self.figure_format % number}.** " if number else ""
        return self.anchors(figure) + head + words.strip()

    # --- inline ---------------------------------------------------------------------------------

    def inlines(self, node: nodes.Element) -> str:
        """Write what stands in a line, each equation with the marks that belong to it."""
        children = list(loose(node.children))
        before = after = ""
        texts = []
        for place, child in enumerate(children):
            if isinstance(child, nodes.math):
                following = children[place + 1] if place + 1 < len(children) else None
                found = isinstance(following, str) and AFTER_EQUATION.match(following)
                after = found[0] if found else ""
                texts.append(self.equation(child, before, after))
                before = ""
            elif isinstance(child, str):
                words = child[len(after) :]
                ends = place + 1 == len(children)
                opens = None if ends else BEFORE_EQUATION.search(words)
                before = opens[0] if opens and isinstance(children[place + 1], nodes.math) else ""
                texts.append(escaped(words[: len(words) - len(before)]))
                after = ""
            else:
                texts.append(self.inline(child))
        return "".join(texts)

    def equation(self, node: nodes.Element, before: str, after: str) -> str:
        latex = one_line(node.astext()).strip()
        return f"${in_mathematics(before)}{latex}{in_mathematics(after)}$"

    def inline(self, node: nodes.Node) -> str:
        """Write what stands inside a line."""
        for kind in type(node).__mro__:
            if method := getattr(self, f"inline_{kind.__name__}", None):
                return method(node)
        raise UnknownNode(f"{type(node).__name__} in a line: {node.astext()[:80]!r}")

    def inline_inline(self, node: nodes.Element) -> str:
        return self.anchors(node) + self.inlines(node)

    def inline_literal(self, node: nodes.Element) -> str:
        return code_span(node.astext())

    def inline_emphasis(self, node: nodes.Element) -> str:
        return marked(self.inlines(node), "*")

    def inline_strong(self, node: nodes.Element) -> str:
        return marked(self.inlines(node), "**")

    def inline_raw(self, node: nodes.Element) -> str:
        text = DECORATION.sub("", node.astext())
        return ADDRESS.sub(lambda m: f'{m[1]}="{urljoin(self.page, m[2])}"', text)

    def inline_reference(self, node: nodes.Element) -> str:
        anchor = self.here(node)
        if anchor in self.wanted:
            address = f"#{anchor}"
        else:
            own = f"#{node['refid']}" if node.get("refid") else node.get("refuri", "")
            address = urljoin(self.page, own)
        words = self.inlines(node)
        lead = " " if words.startswith(" ") else ""
        return f"{lead}[{words.strip()}]({address.replace(' ', '%20')})" if words.strip() else ""


def is_link(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Element) and bool(node.get("refid") or node.get("refuri"))


def is_space(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Text) and not node.astext().strip()


def loose(children: Iterable[nodes.Node]) -> Iterator[nodes.Node | str]:
    """Yield nodes and, in one piece, the text between them."""
    for is_text, run in itertools.groupby(children, lambda child: isinstance(child, nodes.Text)):
        if is_text:
            yield "".join(part.astext() for part in run)
        else:
            yield from run


def in_mathematics(marks: str) -> str:
    """Write what touches an equation as a part of it: a colon as a mark, words as text."""
    return re.sub(r"[-“”‘’]\w*", r"\\text{\g<0>}", marks.replace(":", "{:}"))


def opening_escaped(match: re.Match[str]) -> str:
    return f"{match[1]}\\{match[2]}" if match[1] else f"\\{match[3]}"


def marked(text: str, mark: str) -> str:
    """Put marks of emphasis around text: none of them may touch a space."""
    words = text.strip()
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}{mark}{words}{mark}{after}"


def in_table(text: str) -> str:
    """A bar would end the cell of a table, in mathematics too."""
    parts = re.split(r"(\$[^$]*\$)", text.replace("\n", " "))
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = part.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
        else:
            parts[place] = part.replace("|", r"\|")
    return "".join(parts)


def rule_of(entry: nodes.Node) -> str:
    assert isinstance(entry, nodes.Element)
    sides = {"text-right": "--:", "text-center": ":-:", "text-left": ":--"}
    # Left, as on the site: without a side, JupyterLab centres the headings alone.
    return next((rule for name, rule in sides.items() if name in entry["classes"]), ":--")


def texts_of(blocks: Iterable[Block]) -> list[str]:
    return [block.markdown for block in blocks if isinstance(block, Text)]


def runs_of_text(blocks: Iterable[Block]) -> Iterator[list[str] | Code]:
    """Yield the texts that follow one another, and the code between them."""
    for is_text, run in itertools.groupby(blocks, lambda block: isinstance(block, Text)):
        found = list(run)
        yield from [texts_of(found)] if is_text else found  # type: ignore[misc]


def quoted(blocks: list[Block]) -> list[Block]:
    """Put text into a quote; code stands below."""
    lines = "\n\n".join(texts_of(blocks)).split("\n")
    code = [block for block in blocks if isinstance(block, Code)]
    return [Text("\n".join(f"> {line}".rstrip() for line in lines)), *code]


def folded(title: str, blocks: Iterable[Block]) -> list[Block]:
    """Fold text under its title; what a code cell parts goes on under the same title."""
    result: list[Block] = []
    times = 0
    for run in runs_of_text(blocks):
        if isinstance(run, Code):
            result.append(replace(run, folded=True))
            continue
        summary = as_html(title) + (", continued" if times else "")
        summary = re.sub(r'<a id="[^"]*"></a>', "", summary) if times else summary
        body = "\n\n".join(run)
        result.append(
            Text(f"<details>\n<summary><b>{summary}</b></summary>\n\n{body}\n\n</details>")
        )
        times += 1
    return result


def as_html(line: str) -> str:
    """Write a line of Markdown as HTML: there is no Markdown in the title of a fold."""
    line = re.sub(r"\[((?:[^\[\]])+)\]\(([^)]*)\)", r"\1", line)
    line = re.sub(r"`([^`]+)`", lambda code: f"<code>{html.escape(code[1])}</code>", line)
    line = re.sub(r"\*\*([^*]+)\*\*", r"\1", line)
    line = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", line)
    return re.sub(r"\\([\\`*_~$])", r"\1", line)
