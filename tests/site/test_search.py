"""The search: what its records are, and which slips it forgives.

What comes first is asked of the whole site in test_queries.py.
"""

import json
import subprocess

import pytest
import site_search
from chinese import chinese_words
from from_npm import NODE, package
from site_pages import ROOT

TERMS = ROOT / "book" / "_static" / "search" / "terms.js"
LIBRARY = package("minisearch") / "dist" / "cjs" / "index.cjs"


PAGES = {
    # A box is no section, and its equations have one text.
    "book/01_page": (
        """<section id="top"><h1>1. The page<a class="headerlink">#</a></h1><p>At first.</p>
        <section id="inner"><h2>Inside</h2><p>Then <span class="katex"><span class="katex-mathml">
        <math>x<annotation>frac</annotation></math></span><span class="katex-html">x</span></span>
        more.</p><div><section id="proof-content"><p>Proved.</p></section></div></section>
        </section>""",
        [("top", "1. The page", "At first."), ("chapter", "Inside", "Then x more. Proved.")],
    ),
    # The title of a fold, and where a question was read, say nothing.
    "book/answers/why": (
        """<section id="top"><h1>Questions</h1><section id="one"><h2>Why?</h2><p><b>Because.</b>
        (Asked at <a>a forum</a>, <a>another</a>.)</p><details><summary>See it run</summary>
        <p>It runs.</p></details></section></section>""",
        [("question", "Questions", ""), ("question", "Why?", "Because. It runs.")],
    ),
    # Code stands in a line of its own, and tables of runs are a kind.
    "book/in_depth/01_page": (
        """<section id="top"><h1>Page</h1><section id="all"><h2>Speed, all numbers</h2>
        <p>Before.</p><pre>x = 1\ny = 2</pre><p>After.</p></section></section>""",
        [("top", "Page", ""), ("numbers", "Speed, all numbers", "Before. After.\nx = 1 y = 2")],
    ),
    # A claim is found by its words and not by its verdict.
    "book/claim-norms-help": (
        """<section id="claim"><h1>“Norms help.”</h1><p class="claim"><b>half</b></p>
        <p>Some do.</p></section>""",
        [("claim", "“Norms help.”", "Some do.")],
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_section_is_a_record_with_its_own_text(name):
    html, expected = PAGES[name]
    page = f'<article class="bd-article">{html}</article>'
    found = [*site_search.records_of(name, f"{name}.html", page)]
    assert [(one["kind"], one["title"], one["text"]) for one in found] == expected
    assert found[-1]["address"].startswith(f"{name}.html#")


SLIPS = {
    "invarience": "Invariance",
    "inva": "Invariance",  # the beginning of a word is no slip for "Inside"
    "rmsnrom": "RMSNorm",
    "epslion": "What is ε for?",
    "layer nrom": "LayerNorm",
    "bach norm": "BatchNorm",
    "quantizaton": "Quantization",
}


def searched(titles: list[str], questions: list[str]) -> list[tuple[str, list[str]]]:
    """How each question is read, and what it finds among chapters of these titles."""
    empty = dict.fromkeys(("page", "above", "text"), "") | {"kind": "chapter"}
    records = [
        empty | {"id": number, "address": title, "heading": title, "title": title}
        for number, title in enumerate(titles)
    ]
    script = (
        f"const MiniSearch = require({json.dumps(str(LIBRARY))}), page = {{}};"
        f"const text = require('fs').readFileSync({json.dumps(str(TERMS))}, 'utf8');"
        "new Function('window', text)(page);"
        "const { terms } = page, index = new MiniSearch(terms.OPTIONS);"
        f"index.addAll({json.dumps(records)});"
        f"console.log(JSON.stringify({json.dumps(questions)}.map((question) => ["
        "terms.mended(index, question),"
        " terms.search(index, question).map((one) => one.address)])));"
    )
    answer = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    return [(read, found) for read, found in json.loads(answer.stdout)]


def test_a_slip_of_the_finger_is_forgiven():
    """Letters that changed places once found nothing, nor did a slip in half of a name."""
    answers = searched(["Inside", *sorted(set(SLIPS.values()))], list(SLIPS))
    found = {slip: places for slip, (_, places) in zip(SLIPS, answers, strict=True)}
    assert found == {slip: [meant] for slip, meant in SLIPS.items()}


def test_covariance_shift_is_read_as_covariate_shift():
    """Many write so; it once led to whitening."""
    titles = ["A covariance matrix", "Covariate shift", "The shift of a gradient"]
    [(_, found)] = searched(titles, ["covariance shift"])
    assert found[0] == "Covariate shift"


def test_a_name_with_a_digit_is_read_as_it_is_written():
    """bfloat16 was once read as float16: "bfloat" stands nowhere, and "float" is a word."""
    names = ["bfloat16", "batchnorm1d", "conv3d bfloat16 float"]
    assert [read for read, _ in searched(["float", "A float"], names)] == names


def test_a_chinese_word_is_read_as_its_english_one():
    """The longest word that is known is read, so that no name is cut into its parts."""
    meant = {word: name for name, words in chinese_words().items() for word in words}
    assert len(meant) > 50
    answers = searched(list(chinese_words()), list(meant))
    read = {word: english for word, (english, _) in zip(meant, answers, strict=True)}
    assert read == {word: name.lower() for word, name in meant.items()}


def test_a_question_in_chinese_is_read_word_by_word():
    question = "为什么 Transformer用层归一化，而不用批归一化？"
    [(read, _)] = searched(["Transformer", "layer batch"], [question])
    assert read == "why transformer layer normalization batch normalization"


def test_a_first_sentence_comes_with_the_index():
    assert site_search.first_sentence("Only this.\nx = 1") == "Only this."
    assert site_search.first_sentence("First this. Then that.") == "First this. …"
    long = site_search.first_sentence("word " * 100)
    assert len(long) <= site_search.LONGEST + 2 and long.endswith("word …")
