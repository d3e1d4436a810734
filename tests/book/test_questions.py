"""The page of questions: its code runs, its answers are short and lead to their evidence."""

import posixpath
import re
from pathlib import Path

import nbformat
import pytest
import torch
from myst_parser.mdit_to_docutils.base import default_slugify
from normtutor_studies import claims
from torch import nn

BOOK = Path(__file__).resolve().parents[2] / "book"
PAGE = (BOOK / "questions.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
CODE = {
    question: block
    for question, text in ENTRIES.items()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
}


def test_there_are_enough_questions_and_each_stands_once():
    assert len(ENTRIES) == PAGE.count("\n### ") >= 90
    deeper = re.findall(r"^####+ .*", PAGE, re.MULTILINE)
    assert not deeper, f"a question is a heading with ###: {deeper}"
    empty = re.findall(r"^## (.*)\n+(?!### )(?=\S)", PAGE, re.MULTILINE)
    assert not empty, f"{empty}: a question is a heading with ###, under a group with ##"


@pytest.mark.parametrize("question", CODE)
def test_the_code_of_an_answer_runs(question):
    torch.manual_seed(0)
    exec(compile(CODE[question], question, "exec"), {"torch": torch, "nn": nn})


def test_the_way_to_use_batch_statistics_uses_them_and_changes_nothing():
    (code,) = (block for block in CODE.values() if "def with_batch_statistics" in block)
    names = {"torch": torch, "nn": nn}
    torch.manual_seed(0)
    exec(code, names)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)).eval()
    x, before = torch.randn(64, 3) + 5, {k: v.clone() for k, v in model.state_dict().items()}
    assert names["with_batch_statistics"](model, x).mean(0).abs().max() < 1e-4
    assert model(x).mean(0).abs().max() > 0.1
    assert not model[1].training
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def prose_of(answer: str) -> str:
    """An answer without its code, and without the line that says where the question was asked."""
    prose = re.sub(r"```.*?```", "", answer, flags=re.DOTALL)
    return re.sub(r"\(Asked in .*?\.\)(?=\s|$)", "", prose, flags=re.DOTALL).strip()


def sentences(prose: str) -> int:
    """Count what ends with a full stop, a question mark or an exclamation mark."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "X", prose)
    return len(re.findall(r"[.!?][)\"*]*(?=\s+[^a-z\s]|\s*$)", plain))


def shape_problems(answer: str) -> list[str]:
    """Say what is wrong with the length of an answer."""
    problems = []
    blocks = re.findall(r"```python\n(.*?)```", answer, re.DOTALL)
    prose = prose_of(answer)
    if not blocks and not 3 <= sentences(prose) <= 8:
        problems.append(f"{sentences(prose)} sentences and no code")
    if not 15 <= len(prose.split()) <= 170:
        problems.append(f"{len(prose.split())} words")
    for block in blocks:
        if len([line for line in block.splitlines() if line.strip()]) > 12:
            problems.append("more than 12 lines of code")
        if max(map(len, block.splitlines())) > 100:
            problems.append("a line of code is too long")
    if len(blocks) > 1 or "```" in prose:
        problems.append("more than one piece of code, or code that does not run")
    return problems


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_has_three_to_eight_sentences_or_a_short_piece_of_code(question):
    assert shape_problems(ENTRIES[question]) == []


def test_an_answer_of_another_length_is_noticed():
    words = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen. "
    assert shape_problems(words + words + "Fine. (Asked in [a#1](https://a.org/b.c).)") == []
    assert shape_problems(words + "Only two. (Asked in [a#1](https://a.org/b.c).)") != []
    assert shape_problems(9 * (words[:40] + ". ")) != []
    code = "```python\n{}```\n"
    assert shape_problems(words + "Two, with code.\n" + code.format(12 * "x = 1\n")) == []
    assert shape_problems(words + "Two, with code.\n" + code.format(13 * "x = 1\n")) != []


def sources() -> dict[str, str]:
    """The words of each page of the book, and of its figures' names, by path."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in BOOK.glob("*.md")}
    for path in [*BOOK.glob("*.ipynb"), *BOOK.glob("in_depth/*.ipynb")]:
        cells = nbformat.read(path, as_version=4).cells
        words = [cell.source for cell in cells if cell.cell_type == "markdown"]
        figures = [cell.metadata.get("mystnb", {}).get("figure", {}) for cell in cells]
        words += [f":name: {figure['name']}" for figure in figures if "name" in figure]
        texts[path.relative_to(BOOK).as_posix()] = "\n\n".join(words)
    return texts


SOURCES = sources()
LABELS = {
    label
    for text in SOURCES.values()
    for label in re.findall(r"^ *:(?:label|name): *(\S+)|^\((\S+)\)=$", text, re.MULTILINE)
    for label in label
    if label
} | {f"claim-{claim.name}" for claim in claims.CLAIMS}
HEADINGS = {
    page: {default_slugify(head) for head in re.findall(r"^##+ (.*)$", text, re.MULTILINE)}
    for page, text in SOURCES.items()
}


def places(answer: str) -> tuple[list[str], list[str]]:
    """The places in the book that an answer leads to: those that exist, and those that do not."""
    prose = prose_of(answer)
    labels = re.findall(r"\{(?:prf:ref|numref|eq|ref)\}`(?:[^`<]*<)?([\w-]+)>?`", prose)
    links = re.findall(r"\]\(([\w./]*)#([^)]+)\)", prose)
    labels += [anchor for page, anchor in links if not page]
    found = [(label, label in LABELS) for label in labels]
    found += [
        (f"{page}#{anchor}", anchor in HEADINGS.get(posixpath.normpath(page), ()))
        for page, anchor in links
        if page
    ]
    return [name for name, good in found if good], [name for name, good in found if not good]


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_leads_to_the_place_with_the_evidence(question):
    good, gone = places(ENTRIES[question])
    pages = {link.split("#")[0] for link in gone if "#" in link}
    known = {page: sorted(HEADINGS.get(posixpath.normpath(page), ())) for page in pages}
    assert gone == [], f"no such label or heading; the headings are {known}"
    assert good != [], (
        "link the section with the evidence, as in "
        "[words](02_family_of_norms.ipynb#heading-of-the-section)"
    )


def test_a_link_to_a_page_or_to_a_place_that_is_gone_is_no_evidence():
    assert places("See [chapter 3](03_batch_norm_vs_layer_norm.ipynb).") == ([], [])
    assert places("(Asked in [a#1](https://a.org/b#c).)") == ([], [])
    good, gone = places(
        "{prf:ref}`thm-rms-convert` and {ref}`so <ex-no-such>`, [see](#claim-unit-sphere), "
        "[a](02_family_of_norms.ipynb#what-to-do), [b](02_family_of_norms.ipynb#no-such-heading)"
    )
    assert good == ["thm-rms-convert", "claim-unit-sphere", "02_family_of_norms.ipynb#what-to-do"]
    assert gone == ["ex-no-such", "02_family_of_norms.ipynb#no-such-heading"]


MESSAGES = {
    "Expected more than 1 value per channel when training, got input size torch.Size([1, 64])": (
        lambda: nn.BatchNorm1d(64)(torch.randn(1, 64))
    ),
    "Expected more than 1 spatial element when training": (
        lambda: nn.InstanceNorm2d(4)(torch.randn(2, 4, 1, 1))
    ),
    "Given normalized_shape=[64], expected input with shape [*, 64], but got input of "
    "size[8, 64, 32, 32]": lambda: nn.LayerNorm(64)(torch.randn(8, 64, 32, 32)),
    "running_mean should contain 16 elements not 64": (
        lambda: nn.BatchNorm1d(64)(torch.randn(8, 16, 64))
    ),
    "expected 4D input (got 3D input)": lambda: nn.BatchNorm2d(4)(torch.randn(2, 4, 4)),
    "expected 2D or 3D input (got 4D input)": lambda: nn.BatchNorm1d(4)(torch.randn(2, 4, 4, 4)),
    "must be divisible by num_groups": lambda: nn.GroupNorm(4, 6),
    "mixed dtype (CPU): expect parameter to have scalar type of Float": (
        lambda: nn.LayerNorm(4).half()(torch.randn(2, 4))
    ),
}


DEPRECATED = (
    "torch.nn.utils.weight_norm is deprecated in favor of "
    "torch.nn.utils.parametrizations.weight_norm"
)


def test_the_warning_stands_on_the_page_as_torch_writes_it():
    assert f'### "FutureWarning: {DEPRECATED}"' in PAGE
    with pytest.warns(FutureWarning) as caught:
        nn.utils.weight_norm(nn.Linear(2, 2))
    assert str(caught[0].message).replace("`", "") == f"{DEPRECATED}."


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_stands_on_the_page_as_torch_writes_it(message):
    assert message in PAGE
    with pytest.raises((ValueError, RuntimeError)) as caught:
        MESSAGES[message]()
    assert message in str(caught.value)


def test_how_many_intervals_the_page_has():
    said = len(re.findall(r"\d ± \d", PAGE))
    assert "there are more than forty, uncorrected, so two or three miss by chance" in PAGE
    assert 40 < said < 60, said
