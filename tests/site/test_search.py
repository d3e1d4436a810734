"""The search: what its words are, what its records are, and what comes first."""

import json
import subprocess
import sys

import pytest
from site_pages import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import site_search

TERMS = ROOT / "book" / "_static" / "search" / "terms.js"


def node(script: str) -> object:
    """Run a script that has the page's functions as `terms`, and give back what it returns."""
    code = (
        "const page = {}; const fs = require('fs');"
        f"new Function('window', fs.readFileSync({json.dumps(str(TERMS))}, 'utf8'))(page);"
        f"const {{ terms }} = page; console.log(JSON.stringify((() => {{ {script} }})()))"
    )
    answer = subprocess.run(
        [site_search.NODE, "-e", code], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def tokens(*texts: str) -> list[list[str]]:
    return node(f"return {json.dumps(texts)}.map((text) => terms.tokens(text))")


@pytest.mark.parametrize(
    "words",
    [
        ("BatchNorm", "batch norm", "batch-norm", "Batch Normalization", "nn.BatchNorm2d", "BN"),
        ("layer norm", "LayerNorm", "nn.LayerNorm", "layer_norm", "Layer Normalisation"),
        ("pytorch", "torch", "PyTorch"),
        ("fp16", "float16", "half precision", "half-precision"),
        ("LSTM", "RNN", "GRU"),
        ("DDP", "distributed"),
        ("eval", "evaluation", "inference", "eval()"),
        ("pre-LN", "pre LN", "Pre-Norm", "prenorm"),
        ("running mean", "running_mean", "moving average"),
        ("freeze", "frozen", "freezing"),
        ("fine-tuning", "finetune", "fine tuned"),
        ("norms", "norm", "normalization"),
        ("gradients", "gradient"),
        ("learning rate", "learning rates".removesuffix("s"), "lr"),
    ],
)
def test_one_thing_has_one_term(words):
    found = [tuple(token for token in one if token != "nn") for one in tokens(*words)]
    assert len(set(found)) == 1
    assert len(found[0]) == 1


def test_different_things_have_different_terms():
    found = tokens(
        "BatchNorm", "LayerNorm", "RMSNorm", "pre-LN", "post-LN", "evaluation", "training"
    )
    assert len({tuple(one) for one in found}) == 7


def test_words_that_say_nothing_are_left_out():
    assert tokens("why does my model do this") == [tokens("model")[0]]


PAGE = """
<article class="bd-article"><section id="top"><h1>1. The page<a class="headerlink">#</a></h1>
<p>At first.</p><section id="inner"><h2>Inside</h2><p>Then <span class="math"><span class="katex">
<span class="katex-mathml"><math>x<annotation>\\frac</annotation></math></span>
<span class="katex-html">x</span></span></span> more.</p>
<div class="proof"><section id="proof-content"><p>Proved.</p></section></div></section></section>
</article>
"""


def test_a_section_is_a_record_with_its_own_text():
    top, inner = site_search.records_of("book/01_page", PAGE)
    assert (top["address"], top["heading"], top["text"]) == (
        "book/01_page.html#top",
        "1. The page",
        "At first.",
    )
    assert top["kind"] == "top"
    assert inner["address"] == "book/01_page.html#inner"
    assert inner["page"] == "1. The page"
    assert inner["kind"] == "chapter"
    assert inner["text"].split() == ["Then", "x", "more.", "Proved."]


def test_code_stands_in_a_line_of_its_own_and_tables_of_runs_are_a_kind():
    page = """<article class="bd-article"><section id="top"><h1>Page</h1><section id="all">
    <h2>Speed, all numbers</h2><p>Before.</p><pre>x = 1\ny = 2</pre><p>After.</p></section>
    <section id="code"><h2>Code</h2><pre>z = 3</pre></section></section></article>"""
    _, numbers, code = site_search.records_of("book/in_depth/01_page", page)
    assert numbers["text"] == "Before. After.\nx = 1 y = 2"
    assert code["text"] == "\nz = 3"
    assert [numbers["kind"], code["kind"]] == ["numbers", "depth"]


def ranked(records: list[dict[str, str]], question: str) -> list[str]:
    """Search a few records as the page does."""
    library = json.dumps(str(site_search.FOR_NODE))
    return node(
        f"const MiniSearch = require({library}); const index = new MiniSearch(terms.OPTIONS);"
        f"index.addAll({json.dumps(records)});"
        f"return terms.search(index, {json.dumps(question)}).map((one) => one.address)"
    )


def record(number: int, heading: str, text: str, kind: str = "chapter") -> dict[str, object]:
    return {
        "id": number,
        "address": heading,
        "heading": heading,
        "page": "",
        "title": heading,
        "above": "",
        "text": text,
        "kind": kind,
    }


def test_headings_and_questions_come_first_and_not_every_word_must_match():
    records = [
        record(0, "Speed", "How LayerNorm and eval differ, and the momentum of BatchNorm."),
        record(1, "Momentum of BatchNorm", "A weight of the new value."),
        record(2, "What momentum should BatchNorm have?", "Smaller for small batches.", "question"),
    ]
    found = ranked(records, "which batch normalization momentum zebra")
    assert found == ["What momentum should BatchNorm have?", "Momentum of BatchNorm", "Speed"]


def test_all_numbers_of_a_run_come_after_the_answer_of_the_guide():
    batch = "Fine-tuning with batches of 2: the statistics, batches of 2 and of 16."
    records = [
        record(0, "Fine-tuning, all numbers", batch, "numbers"),
        record(1, "I fine-tune, and my batches hold 2 images", "Freeze: call eval().", "guide"),
    ]
    assert ranked(records, "fine-tuning batch size 2")[0] == records[1]["address"]


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("invarience", "Invariance"),
        ("rmsnrom", "RMSNorm"),
        ("epslion", "What is ε for?"),
        ("layer nrom", "LayerNorm"),
        ("bach norm", "BatchNorm"),
        ("quantizaton", "Quantization"),
    ],
)
def test_a_slip_of_the_finger_is_forgiven(slip, meant):
    """Letters that changed places once found nothing, nor did a slip in half of a name."""
    titles = ("Quantization", "Invariance", "RMSNorm", "LayerNorm", "BatchNorm", "What is ε for?")
    records = [record(number, title, "") for number, title in enumerate(titles)]
    assert ranked(records, slip) == [meant]


def test_the_beginning_of_a_word_is_no_slip():
    titles = ("Norm", "Invariance", "Inside")
    records = [record(number, title, "") for number, title in enumerate(titles)]
    assert ranked(records, "inva") == ["Invariance"]


def test_the_section_of_just_this_title_comes_first():
    """The guide once came eighth for its own title, all of whose words but one say nothing."""
    records = [
        record(0, "Where the norm goes", "The norm, and the norm again.", "guide"),
        record(1, "LSTM and GRU: which norm?", "A norm.", "question"),
        record(2, "8. Which norm should I use?", "Tables.", "exercise"),
        record(3, "LayerNorm", "The layer.", "api"),
        record(4, "Does LayerNorm center?", "LayerNorm does.", "question"),
    ]
    assert ranked(records, "which norm should i use")[0] == "8. Which norm should I use?"
    assert ranked(records, "layernorm")[0] == "Does LayerNorm center?"  # a name, and no title


def test_a_title_of_words_that_say_nothing_is_found():
    titles = ("What to do", "What BatchNorm does", "Norms")
    records = [record(number, title, "") for number, title in enumerate(titles)]
    assert ranked(records, "what to do") == ["What to do"]
    assert ranked(records, "what to be") == ranked(records, "  ") == []


def test_a_verdict_is_no_low_precision():
    """Ten of twelve results for "fp32 mixed precision" were claims with the verdict "half"."""
    half, precision, single = tokens("half", "half precision", "fp32")
    assert half == ["half"] and precision == ["float16"] and single == ["float32"]


def test_a_claim_is_found_by_its_words_and_not_by_its_verdict():
    page = """<article class="bd-article"><section id="claim"><h1>“Norms help.”</h1>
    <p class="claim"><b>half</b></p><p>Some do.</p></section></article>"""
    (found,) = site_search.records_of("book/claim-norms-help", page)
    assert (found["title"], found["text"], found["kind"]) == ("“Norms help.”", "Some do.", "claim")
