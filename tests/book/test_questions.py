"""The answers and the guide: they keep their form and lead to evidence; code runs.

The form of an answer: a bold sentence to follow, why in a few words, a link to the evidence.
Evidence and code may be folded behind it. A row of the guide also names its kind of evidence.
"""

import posixpath
import re
from collections.abc import Callable

import pytest
import torch
from book_text import PAGES, exists
from torch import nn
from torch.ao import quantization
from torch.optim.swa_utils import update_bn

from normtutor import layers, models, swap_norms

MOST_WORDS = 70
MOST_LINES = 12
HEAD = r"^% slug: ([a-z0-9-]+)\n% words: .*\n\n## "


def entries_of(page: str, mark: str = "###") -> dict[str, str]:
    """The text below each heading of a level."""
    page = re.sub(r"^% .*\n", "", page, flags=re.MULTILINE)
    return dict(re.findall(rf"^{mark} (.*?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))


def before_the_fold(answer: str) -> str:
    """An answer without what is folded, without the label of the next group."""
    shown = re.sub(r"^(`{3,})\{dropdown\}.*?^\1$", "", answer, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^\(\S+\)=$", "", shown, flags=re.MULTILINE)


def prose_of(answer: str) -> str:
    """What a reader reads before the fold: no code, no tables, of a link its words."""
    prose = re.sub(r"```.*?```", "", before_the_fold(answer), flags=re.DOTALL)
    prose = re.sub(r"^\|.*$", "", prose, flags=re.MULTILINE)
    prose = re.sub(r"\{[\w:]+\}`(?:([^`<]*) <[^`]*>|[^`]*)`", lambda m: m[1] or "link", prose)
    return re.sub(r"\]\([^)]*\)", "]", prose).strip()


def code_of(answer: str) -> list[str]:
    """The pieces of code of an answer, folded or not."""
    return re.findall(r"```python\n(.*?)```", answer, re.DOTALL)


def problems(answer: str) -> list[str]:
    """Say where an answer leaves the form."""
    prose, code = prose_of(answer), code_of(answer)
    bold = re.match(r"\*\*([^*]+[.!?])\*\*(?=\s|$)", prose)
    sentences = re.sub(r"`[^`]*`", "X", bold[1]) if bold else ""
    other_code = re.sub(r"```python\n.*?```", "", before_the_fold(answer), flags=re.DOTALL)
    longest = max((sum(map(bool, block.splitlines())) for block in code), default=0)
    cases = {
        "does not begin with a bold sentence": not bold,
        "more than one sentence is bold": re.search(r"[.!?]\s+[A-ZÀ-Þ]", sentences),
        f"more than {MOST_WORDS} words before the fold": len(prose.split()) > MOST_WORDS,
        "an interval before the fold": "±" in prose,
        f"more than {MOST_LINES} lines of code": longest > MOST_LINES,
        "more than one piece of code, or code that does not run": len(code) > 1
        or "```" in other_code,
    }
    return [words for words, holds in cases.items() if holds]


def places(answer: str, folder: str = "") -> tuple[list[str], list[str]]:
    """The places of the book to which an answer leads: those that exist, those that do not."""
    shown = re.sub(r"```.*?```", "", before_the_fold(answer), flags=re.DOTALL)
    labels = re.findall(r"\{(?:prf:ref|numref|eq|ref)\}`(?:[^`<]*<)?([\w-]+)>?`", shown)
    links = re.findall(r"\]\((?!https?:)([\w./]*)#([^)]+)\)", shown)
    labels += [anchor for page, anchor in links if not page]
    found = labels + [posixpath.join(folder, f"{page}#{anchor}") for page, anchor in links if page]
    return [name for name in found if exists(name)], [name for name in found if not exists(name)]


TOPICS = {name: text for name, text in PAGES.items() if name.startswith("answers/")}
QUESTIONS = {q: a for text in TOPICS.values() for q, a in entries_of(text, "##").items()}
GUIDE = entries_of(PAGES["which_norm.md"])
ENTRIES = QUESTIONS | GUIDE
CODE = {question: code for question, text in QUESTIONS.items() for code in code_of(text)}


SWAPS = re.findall(r"^\|.*\| `([^|]*\(.*)` \|$", PAGES["which_norm.md"], re.MULTILINE)
WITH_NORMS = {
    "tokens": lambda: nn.TransformerEncoderLayer(64, 4, 64),
    "images, BatchNorm": lambda: nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)),
    "images, GroupNorm": lambda: nn.Sequential(nn.Conv2d(3, 64, 3), nn.GroupNorm(32, 64)),
}


def runs(line: str, make: Callable[[], nn.Module]) -> bool:
    names = {"layers": layers, "models": models, "swap_norms": swap_norms, "nn": nn}
    names |= {"model": make(), "update_bn": update_bn, "loader": [torch.randn(4, 3, 8, 8)]}
    try:
        eval(line, names)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("line", SWAPS)
def test_a_line_of_the_guide_puts_its_norm_into_some_model(line):
    assert any(runs(line, make) for make in WITH_NORMS.values())


def test_the_guide_opens_with_a_table_of_lines_that_run():
    assert len(SWAPS) == 8
    assert PAGES["which_norm.md"].index(SWAPS[0]) < PAGES["which_norm.md"].index("\n## ")


def test_each_question_stands_once_below_its_slug_and_other_words():
    heads = [m for text in TOPICS.values() for m in re.findall(r"^## .*", text, re.MULTILINE)]
    slugs = [m for text in TOPICS.values() for m in re.findall(HEAD, text, re.MULTILINE)]
    assert len(QUESTIONS) == len(heads) == len(slugs) == len(set(slugs))
    assert not [text for text in TOPICS.values() if re.search(r"^###", text, re.MULTILINE)]


def test_the_title_of_a_fold_has_no_backticks():
    """One had some: the fence was none, and its end swallowed the two questions below."""
    for text in TOPICS.values():
        assert not re.findall(r"^`{3,}\{\w+\}.*`.*", text, re.MULTILINE)


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_keeps_the_form(question):
    assert problems(ENTRIES[question]) == []


def test_an_answer_of_another_form_is_noticed():
    good = "**Use `a. B`.** Because it is fine (see [there](a.md#b)).\n"
    folded = "````{dropdown} More\n" + 70 * "word " + "0.2 ± 0.1\n```python\nx = 1\n```\n````\n"
    assert problems(good + folded) == []
    assert len(problems("Use it. **Because** it is fine." + 70 * " word")) == 2
    assert len(problems(good + "0.2 ± 0.1\n```\nx = 1\n```\n")) == 2


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_leads_to_the_place_with_the_evidence(question):
    good, gone = places(ENTRIES[question], "answers" if question in QUESTIONS else "")
    assert gone == [], f"no such label or heading: {gone}"
    reported = question in GUIDE and "{cite" in GUIDE[question]
    assert good or reported, (
        "link the section with the evidence, as in "
        "[words](02_family_of_norms.ipynb#heading-of-the-section)"
    )


@pytest.mark.parametrize("row", GUIDE)
def test_a_row_of_the_guide_names_its_kind_of_evidence(row):
    assert re.search(r"\*(measured|proved|reported|opinion)\b", GUIDE[row], re.IGNORECASE)


def test_a_link_to_a_page_or_to_a_place_that_is_gone_is_no_evidence():
    assert places("[a](03_batch_norm_vs_layer_norm.ipynb), [b](https://a.org/b#c)") == ([], [])
    good, gone = places(
        "{prf:ref}`thm-rms-convert` and {ref}`so <ex-no-such>`, [see](#claim-unit-sphere), "
        "[a](notation.md#axes), [b](02_family_of_norms.ipynb#no-such-heading)"
    )
    assert good == ["thm-rms-convert", "claim-unit-sphere", "notation.md#axes"]
    assert gone == ["ex-no-such", "02_family_of_norms.ipynb#no-such-heading"]


# --- code and messages ----------------------------------------------------------------------------


@pytest.mark.parametrize("question", CODE)
def test_the_code_of_an_answer_runs(question):
    run(CODE[question])


def run(code: str) -> dict:
    """Run code as a reader would, after the two imports of the page; return its names."""
    names = {"torch": torch, "nn": nn}
    torch.manual_seed(0)
    exec(compile(code, "an answer", "exec"), names)
    return names


def code_with(words: str) -> str:
    (code,) = (block for block in CODE.values() if words in block)
    return code


def test_the_way_to_use_batch_statistics_uses_them_and_changes_nothing():
    with_batch_statistics = run(code_with("def with_batch_statistics"))["with_batch_statistics"]
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)).eval()
    x, before = torch.randn(64, 3) + 5, {k: v.clone() for k, v in model.state_dict().items()}
    assert with_batch_statistics(model, x).mean(0).abs().max() < 1e-4
    assert model(x).mean(0).abs().max() > 0.1
    assert not model[1].training
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_the_new_group_norm_keeps_mean_and_spread_of_each_channel():
    group_norm_like = run(code_with("def group_norm_like"))["group_norm_like"]
    norm, x = nn.BatchNorm2d(8), 3 + 2 * torch.randn(64, 8, 6, 6)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    norm(x)
    new = group_norm_like(norm, 2, x)
    for statistic in (torch.mean, torch.std):
        wanted, found = (statistic(layer(x), (0, 2, 3)) for layer in (norm.eval(), new))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert torch.equal(new.weight.sign(), norm.weight.sign())


def test_torch_ao_fuses_as_the_answers_on_folding_and_quantization_say():
    def model(norm):
        return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU())

    names, bn, text = ["0", "1", "2"], nn.BatchNorm2d(4), TOPICS["answers/precision.md"]
    folded = quantization.fuse_modules(model(bn).eval(), names)[0]
    kept = quantization.fuse_modules_qat(model(bn).train(), names)[0]
    assert [type(folded).__name__, type(kept).__name__] == ["ConvReLU2d", "ConvBnReLU2d"]
    half = model(nn.BatchNorm2d(4).eval())
    cases = {
        "Fusion only for eval!": (quantization.fuse_modules, model(bn).train()),
        "Conv and BN both must be in the same mode": (quantization.fuse_modules_qat, half),
    }
    for message, (fuse, of) in cases.items():
        assert message in text
        with pytest.raises(AssertionError, match=message):
            fuse(of, names)
    for norm in (nn.SyncBatchNorm(4), nn.InstanceNorm2d(4)):
        with pytest.raises(AssertionError, match="did not find fuser method"):
            quantization.fuse_modules_qat(model(norm).train(), names)


def test_autocast_keeps_what_batch_norm_stores_in_float32():
    norm = nn.BatchNorm1d(4)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(nn.Linear(4, 4)(torch.randn(8, 4)))
    assert y.dtype == torch.bfloat16
    assert {norm.weight.dtype, norm.running_mean.dtype} == {torch.float32}


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


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_stands_on_the_page_as_torch_writes_it(message):
    assert message in TOPICS["answers/errors.md"]
    with pytest.raises((ValueError, RuntimeError)) as caught:
        MESSAGES[message]()
    assert message in str(caught.value)


WARNINGS = {
    "UserWarning: Mismatch dtype between input and weight: input dtype = c10::BFloat16, "
    "weight dtype = float, Cannot dispatch to fused implementation.": lambda: nn.RMSNorm(4)(
        torch.randn(2, 4).bfloat16()
    ),
}


@pytest.mark.parametrize("warning", WARNINGS)
def test_a_warning_stands_on_the_page_as_torch_writes_it(warning):
    assert f'## "{warning}"' in TOPICS["answers/errors.md"]
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # otherwise once per process
    try:
        with pytest.warns(Warning) as caught:
            WARNINGS[warning]()
    finally:
        torch.set_warn_always(before)
    kind, words = warning.split(": ", 1)
    said = caught[0]
    assert type(said.message).__name__ == kind and words in str(said.message).replace("`", "")
