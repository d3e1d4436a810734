"""The page of questions: its code runs, its answers are short, and there are enough of them."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

PAGE = (Path(__file__).resolve().parents[2] / "book" / "questions.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
CODE = {
    question: block
    for question, text in ENTRIES.items()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
}


def test_there_are_enough_questions_and_each_stands_once():
    assert len(ENTRIES) == PAGE.count("\n### ") >= 90


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


@pytest.mark.parametrize("question", ENTRIES)
def test_an_answer_is_short(question):
    prose = re.sub(r"```.*?```", "", ENTRIES[question], flags=re.DOTALL)
    assert 15 <= len(prose.split()) <= 170
    for block in re.findall(r"```python\n(.*?)```", ENTRIES[question], re.DOTALL):
        assert len([line for line in block.splitlines() if line.strip()]) <= 12
        assert max(map(len, block.splitlines())) <= 100
    assert "```" not in prose


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
    assert message in PAGE
    with pytest.raises((ValueError, RuntimeError)) as caught:
        MESSAGES[message]()
    assert message in str(caught.value)
