"""The answers and the guide: their code runs, and torch says what they quote."""

import re
from collections.abc import Callable

import pytest
import torch
from book_text import PAGES
from torch import distributed, nn
from torch.ao import quantization
from torch.nn.parallel import DistributedDataParallel

from normtutor import layers, models, swap_norms

TOPICS = {name: text for name, text in PAGES.items() if name.startswith("answers/")}
ANSWERS = {
    question: answer
    for text in TOPICS.values()
    for question, answer in re.findall(
        r"^## (.*?)\n(.*?)(?=^% slug|\Z)", text, re.MULTILINE | re.DOTALL
    )
}
CODE = {q: code for q, a in ANSWERS.items() for code in re.findall(r"```python\n(.*?)```", a, re.S)}


SWAPS = re.findall(r"^\|.*\| `([^|]*\(.*)` \|$", PAGES["which_norm.md"], re.MULTILINE)
WITH_NORMS = {
    "tokens": lambda: nn.TransformerEncoderLayer(64, 4, 64),
    "images, BatchNorm": lambda: nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)),
    "images, GroupNorm": lambda: nn.Sequential(nn.Conv2d(3, 64, 3), nn.GroupNorm(32, 64)),
}


def runs(line: str, make: Callable[[], nn.Module]) -> bool:
    names = {"layers": layers, "models": models, "swap_norms": swap_norms, "nn": nn}
    names |= {"model": make(), "torch": torch, "loader": [torch.randn(4, 3, 8, 8)]}
    try:
        eval(line, names)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("line", SWAPS)
def test_a_line_of_the_guide_puts_its_norm_into_some_model(line):
    assert any(runs(line, make) for make in WITH_NORMS.values())


def test_the_title_of_a_fold_has_no_backticks():
    """One had some: the fence was none, and its end swallowed the two questions below."""
    for text in TOPICS.values():
        assert not re.findall(r"^`{3,}\{\w+\}.*`.*", text, re.MULTILINE)


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


def test_the_norms_from_scratch_are_those_of_torch():
    answer = ANSWERS["How do I implement BatchNorm, LayerNorm or RMSNorm from scratch?"]
    (code,) = re.findall(r"```text\n(def layer_norm.*?)```", answer, re.DOTALL)
    names = run(code)
    x, gamma, beta = torch.randn(3, 5, 8), torch.randn(8), torch.randn(8)
    expected = nn.functional.layer_norm(x, (8,), gamma, beta)
    torch.testing.assert_close(names["layer_norm"](x, gamma, beta), expected)
    expected = nn.functional.rms_norm(x, (8,), gamma, eps=1e-6)
    torch.testing.assert_close(names["rms_norm"](x, gamma), expected)


def test_what_enters_the_running_averages_must_be_detached():
    code = CODE["How do I implement BatchNorm, LayerNorm or RMSNorm from scratch?"]
    undetached = code.split("\n\n\nx, mine")[0].replace(".detach()", "")
    assert undetached != code
    norm, x = run(undetached)["BatchNorm"](3), torch.randn(8, 3, requires_grad=True)
    for _ in range(2):
        norm(x).square().sum().backward()
    assert norm.running_mean.requires_grad  # a graph that grows with each step
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        norm.eval()(x).square().sum().backward()


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


def test_distributed_layers_do_as_the_answers_on_errors_say():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
        (model(torch.randn(8, 3)) + model(torch.randn(8, 3))).sum().backward()
        norm, message = nn.SyncBatchNorm(4), "expected input tensor to be on GPU"
        assert message in TOPICS["answers/errors.md"]
        with pytest.raises(ValueError, match=message):
            norm(torch.randn(8, 4))
        norm.eval()(torch.randn(8, 4))
    finally:
        distributed.destroy_process_group()
    norm.train()(torch.randn(8, 4))  # without a process group


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(4), nn.LayerNorm(6), nn.GroupNorm(2, 4)])
def test_a_float32_norm_takes_a_half_input(norm):
    assert norm(torch.randn(3, 4, 6).half()).dtype == torch.float16


def test_group_norm_with_a_channel_per_group_refuses_one_image_of_one_pixel():
    norm = nn.GroupNorm(3, 3)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        norm(torch.randn(1, 3, 1, 1))
    assert norm(torch.randn(2, 3, 1, 1)).abs().max() < 1e-3


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
