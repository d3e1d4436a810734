"""The search: what its words are, what its records are, and which slips it forgives.

What comes first is asked of the whole site in test_queries.py.
"""

import json
import subprocess
import sys

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


SAME = [
    ("BatchNorm", "batch norm", "batch-norm", "Batch Normalization", "nn.BatchNorm2d", "BN"),
    ("layer norm", "LayerNorm", "nn.LayerNorm", "layer_norm", "Layer Normalisation"),
    ("RMSNorm", "RMS norm"),
    ("pytorch", "torch", "PyTorch"),
    ("fp16", "float16", "half precision", "half-precision"),
    ("fp32", "float32"),
    ("half",),  # a verdict, and no precision
    ("LSTM", "RNN", "GRU"),
    ("DDP", "distributed"),
    ("eval", "evaluation", "inference", "eval()"),
    ("training", "train"),
    ("pre-LN", "pre LN", "Pre-Norm", "prenorm"),
    ("post-LN", "postnorm"),
    ("running mean", "running_mean", "moving average"),
    ("freeze", "frozen", "freezing"),
    ("fine-tuning", "finetune", "fine tuned"),
    ("norms", "norm", "normalization"),
    ("gradients", "gradient"),
    ("learning rate", "lr"),
]


def test_one_thing_has_one_term_and_another_has_another():
    found = iter(tokens(*(word for words in SAME for word in words)))
    terms = {
        words: {tuple(token for token in next(found) if token != "nn") for _ in words}
        for words in SAME
    }
    assert {words: kinds for words, kinds in terms.items() if len(kinds) != 1} == {}
    assert {words for words, (one, *_) in terms.items() if len(one) != 1} == set()
    assert len({one for (one, *_) in terms.values()}) == len(SAME)
    assert tokens("why does my model do this") == tokens("model")  # words that say nothing


PAGE = """
<article class="bd-article"><section id="top"><h1>1. The page<a class="headerlink">#</a></h1>
<p>At first.</p><section id="inner"><h2>Inside</h2><p>Then <span class="math"><span class="katex">
<span class="katex-mathml"><math>x<annotation>\\frac</annotation></math></span>
<span class="katex-html">x</span></span></span> more.</p>
<div class="proof"><section id="proof-content"><p>Proved.</p></section></div></section></section>
</article>
"""


CODE = """
<article class="bd-article"><section id="top"><h1>Page</h1><section id="all">
<h2>Speed, all numbers</h2><p>Before.</p><pre>x = 1\ny = 2</pre><p>After.</p></section>
<section id="code"><h2>Code</h2><pre>z = 3</pre></section></section></article>
"""
CLAIM = """
<article class="bd-article"><section id="claim"><h1>“Norms help.”</h1>
<p class="claim"><b>half</b></p><p>Some do.</p></section></article>
"""


def test_a_section_is_a_record_with_its_own_text():
    top, inner = site_search.records_of("book/01_page", PAGE)
    assert [top["address"], inner["address"]] == [
        "book/01_page.html#top",
        "book/01_page.html#inner",
    ]
    assert [top["heading"], inner["page"]] == ["1. The page"] * 2
    assert [top["kind"], inner["kind"]] == ["top", "chapter"]
    assert top["text"] == "At first."
    assert inner["text"].split() == ["Then", "x", "more.", "Proved."]
    # Code stands in a line of its own, and tables of runs are a kind.
    _, numbers, code = site_search.records_of("book/in_depth/01_page", CODE)
    assert numbers["text"] == "Before. After.\nx = 1 y = 2"
    assert code["text"] == "\nz = 3"
    assert [numbers["kind"], code["kind"]] == ["numbers", "depth"]
    # A claim is found by its words and not by its verdict.
    (found,) = site_search.records_of("book/claim-norms-help", CLAIM)
    assert (found["title"], found["text"], found["kind"]) == ("“Norms help.”", "Some do.", "claim")


SLIPS = {
    "invarience": "Invariance",
    "inva": "Invariance",  # the beginning of a word is no slip for "Inside"
    "rmsnrom": "RMSNorm",
    "epslion": "What is ε for?",
    "layer nrom": "LayerNorm",
    "bach norm": "BatchNorm",
    "quantizaton": "Quantization",
}


def test_a_slip_of_the_finger_is_forgiven():
    """Letters that changed places once found nothing, nor did a slip in half of a name."""
    empty = dict.fromkeys(("page", "above", "text"), "") | {"kind": "chapter"}
    records = [
        empty | {"id": number, "address": title, "heading": title, "title": title}
        for number, title in enumerate(["Inside", *sorted(set(SLIPS.values()))])
    ]
    found = node(
        f"const MiniSearch = require({json.dumps(str(site_search.FOR_NODE))});"
        f"const index = new MiniSearch(terms.OPTIONS); index.addAll({json.dumps(records)});"
        f"return {json.dumps(list(SLIPS))}.map((slip) =>"
        " terms.search(index, slip).map((one) => one.address));"
    )
    assert dict(zip(SLIPS, found, strict=True)) == {slip: [meant] for slip, meant in SLIPS.items()}
