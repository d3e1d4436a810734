"""Parts of a page as Markdown: what the whole book's notebooks would show late."""

import pytest
from docutils import nodes
from readers_markdown import Text, Writer, as_html, display, in_table, one_line

PAGE = "https://example.org/book/a.html"


def block(*words: nodes.Node) -> list:
    return Writer(PAGE, {}).blocks(words, 0)


def paragraph(*words: nodes.Node) -> str:
    (written,) = block(nodes.paragraph("", "", *words))
    return written.markdown


def test_an_equation_stands_on_one_line():
    assert one_line("a % comment\n  < b") == r"a \lt b"
    assert one_line(r"50\% \text{if } a > 0") == r"50\% \text{if } a \gt 0"
    assert one_line(r"\text{a < b}") == r"\text{a < b}"
    gathered = r"$$\begin{gathered} a = b \\ c = d \end{gathered} \tag{4.1}$$"
    assert display(r"a = b \\ c = d", "4.1") == gathered
    assert display(r"a &= b \\ c &= d", "").startswith(r"$$\begin{aligned}")
    inside = r"\begin{pmatrix} a \\ b \end{pmatrix}"
    assert display(inside, "") == f"$${inside}$$"


X = nodes.math("", "x")
LINKS = [nodes.reference("", name, refuri=name) for name in "ab"]
BASE = PAGE.removesuffix("a.html")


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        # Marks of Markdown are escaped.
        (["2 * 3 * 4, a_b_c, <b>, 5$, &amp;"], r"2 \* 3 \* 4, a\_b\_c, &lt;b>, 5\$, &amp;amp;"),
        (["1. no list"], r"1\. no list"),
        (["# no heading"], r"\# no heading"),
        # JupyterLab may break a line on both sides of an equation.
        ([X, "), so"], "$x),$ so"),
        (["It is ", X, ": so"], "It is $x{:}$ so"),
        (["a (", X, " of ", X, ")."], "a $(x$ of $x).$"),
        (["“", X, "”."], r"$\text{“}x\text{”}.$"),
        ([X, "-th, and ", X, "’s"], r"$x\text{-th},$ and $x\text{’s}$"),
        ([X, "-intervals"], r"$x\text{-}$intervals"),
        ([X, " (", nodes.emphasis("", "so"), ")"], "$x$ (*so*)"),
        # Links alone do not run into each other.
        ([LINKS[0], "\n", LINKS[1]], f"[a]({BASE}a) · [b]({BASE}b)"),
        (["See ", LINKS[0]], f"See [a]({BASE}a)"),
    ],
)
def test_a_line(parts, written):
    words = [nodes.Text(one) if isinstance(one, str) else one.deepcopy() for one in parts]
    assert paragraph(*words) == written


def test_bars_in_tables_are_no_borders():
    assert in_table(r"a | b, $\|x\| = |x|$") == r"a \| b, $\Vert x\Vert  = \vert x\vert $"


def test_headings_of_a_table_stand_over_their_columns():
    """JupyterLab centres a heading whose column has no side, and sets what is below to the left."""

    def row(*words: str, side: str = "") -> nodes.row:
        classes = [f"text-{side}"] if side else []
        return nodes.row(
            "", *(nodes.entry("", nodes.paragraph("", word), classes=classes) for word in words)
        )

    plain = nodes.table("", nodes.tgroup("", nodes.tbody("", row("a", "b"), row("c", "d"))))
    assert block(plain) == [Text("| a | b |\n| :-- | :-- |\n| c | d |")]
    right = nodes.table("", nodes.tgroup("", nodes.tbody("", row("a", side="right"))))
    assert block(right) == [Text("| a |\n| --: |")]


def test_an_interactive_figure_in_the_text_becomes_a_link():
    raw = nodes.raw(
        "",
        "<nt-cells><b>1</b>\n<p>This figure needs JavaScript. A &amp; B.</p>\n</nt-cells>",
        format="html",
    )
    (text,) = block(raw)
    assert text.markdown == f"*The [interactive figure]({PAGE}) is on the site.* A & B."


def test_titles_of_folds_are_html():
    line = r"**Exercise 1.1** (*Blind* `a<b` [2016](x.html)) 5\$"
    assert as_html(line) == "Exercise 1.1 (<em>Blind</em> <code>a&lt;b</code> 2016) 5$"
