"""The page of questions: its answers keep their form and lead to their evidence, its code runs."""

import re

import pytest
import torch
from answers import BOOK, code_of, entries_of, headings_beside, places, problems
from torch import nn

PAGE = (BOOK / "questions.md").read_text(encoding="utf-8")
ENTRIES = entries_of(PAGE)
CODE = {question: code for question, text in ENTRIES.items() for code in code_of(text)}


def test_there_are_enough_questions_and_each_stands_once():
    assert len(ENTRIES) == PAGE.count("\n### ") >= 90
    deeper = re.findall(r"^####+ .*", PAGE, re.MULTILINE)
    assert not deeper, f"a question is a heading with ###: {deeper}"
    empty = re.findall(r"^## (.*)\n+(?!### )(?=\S)", PAGE, re.MULTILINE)
    assert not empty, f"{empty}: a question is a heading with ###, under a group with ##"


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


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_keeps_the_form(question):
    assert problems(ENTRIES[question]) == []


def test_an_answer_of_another_form_is_noticed():
    good = "**Use `a. B`.** Because it is fine (see [there](a.md#b)).\n"
    fold = "````{{dropdown}} See it run\n```python\n{}```\n````\n"
    assert problems(good) == problems(good + fold.format("x = 1\n")) == []
    assert problems(good + "```python\nx = 1\n```\n") == []
    for bad in (
        "Use it. **Because** it is fine.",
        "**Use it** because it is fine.",
        "**Use it. Then stop.** Because it is fine.",
        good + "It lost 0.20 ± 0.19.",
        good + 70 * "word ",
        good + "```python\n" + 13 * "x = 1\n" + "```\n",
        good + fold.format(13 * "x = 1\n"),
        good + fold.format(f"x = {101 * '1'}\n"),
        good + 2 * "```python\nx = 1\n```\n",
        good + "```\nx = 1\n```\n",
    ):
        assert len(problems(bad)) == 1, bad
    folded = "```{dropdown} More\n" + 70 * "word " + "0.20 ± 0.19\n```\n"
    assert problems(good + folded) == []


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_leads_to_the_place_with_the_evidence(question):
    good, gone = places(ENTRIES[question])
    assert gone == [], f"no such label or heading; the headings are {headings_beside(gone)}"
    assert good != [], (
        "link the section with the evidence, as in "
        "[words](02_family_of_norms.ipynb#heading-of-the-section)"
    )


def test_a_link_to_a_page_or_to_a_place_that_is_gone_is_no_evidence():
    assert places("See [chapter 3](03_batch_norm_vs_layer_norm.ipynb).") == ([], [])
    assert places("(Asked at [a](https://a.org/b#c).)") == ([], [])
    assert places("```{dropdown} More\n[a](#claim-unit-sphere)\n```\n") == ([], [])
    good, gone = places(
        "{prf:ref}`thm-rms-convert` and {ref}`so <ex-no-such>`, [see](#claim-unit-sphere), "
        "[a](questions.md#theory), [b](02_family_of_norms.ipynb#no-such-heading)"
    )
    assert good == ["thm-rms-convert", "claim-unit-sphere", "questions.md#theory"]
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


NOT_FUSED = (
    "Mismatch dtype between input and weight: input dtype = c10::BFloat16, weight dtype = float, "
    "Cannot dispatch to fused implementation."
)


def test_the_warning_of_rms_norm_stands_on_the_page_as_torch_writes_it():
    assert f'### "UserWarning: {NOT_FUSED}"' in PAGE
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # otherwise once per process
    try:
        with pytest.warns(UserWarning, match=re.escape(NOT_FUSED)):
            nn.RMSNorm(4)(torch.randn(2, 4).bfloat16())
    finally:
        torch.set_warn_always(before)
