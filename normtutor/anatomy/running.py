"""Run a model without values, and list its operations and the calls of its modules."""

import contextlib
import copy
import importlib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

MULTIMODAL = ("ForImageTextToText", "ForMultimodalLM")
# Through these no gradient passes, so they lead nowhere.
CUT = re.compile("detach|new_|zeros|ones|empty|full|rand")
PARAMETER = -1


class Operation(NamedTuple):
    """One operation of torch: of each operand the number of what made it, and all shapes.

    Of a parameter that number is ``PARAMETER``, of what depends on no parameter or input None.
    """

    name: str
    parents: tuple[int | None, ...]
    shapes: tuple[torch.Size, ...]
    shape: torch.Size


class Record(TorchDispatchMode):
    """Writes down the operations on parameters and inputs, numbered in the order of running."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        # By the tensor's id; the tensors are kept, so that no other one gets their id.
        self._made = {id(p): (p, PARAMETER) for p in parameters}
        self._views: dict[int, tuple[Tensor, Tensor]] = {}  # each with what it is a view of

    def _base(self, tensor: Tensor) -> Tensor:
        return self._views.get(id(tensor), (tensor, tensor))[1]

    def maker(self, tensor: Tensor) -> int | None:
        """The number of the operation that a tensor comes from, or that changed it last."""
        both = {id(tensor), id(self._base(tensor))} & self._made.keys()
        return max((self._made[one][1] for one in both), default=None)

    def traced(self, values: Any) -> tuple[Tensor, int]:
        """The first tensor that an operation made, and its number."""
        for tensor in _tensors(values):
            if (number := self.maker(tensor)) is not None and number != PARAMETER:
                return tensor, number
        raise ValueError("the model's output must depend on its parameters or on its input.")

    def enter(self, tensor: Tensor) -> None:
        """Take a tensor for an input."""
        self._write("input", (), (), [tensor])

    def _write(self, name: str, parents: Any, shapes: Any, results: Sequence[Tensor]) -> None:
        number = len(self.operations)
        self.operations.append(Operation(name, parents, shapes, results[0].shape))
        for result in results:  # what is written into a view is in the whole, too
            self._made |= {id(t): (t, number) for t in (result, self._base(result))}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operands = [*_tensors((args, kwargs or {}))]
        parents = tuple(self.maker(t) for t in operands)
        result = func(*args, **kwargs or {})
        # Inside of a function with its own backward pass autograd sees nothing.
        name = func.__name__.partition(".")[0] if torch.is_grad_enabled() else "hidden"
        results = [t for t in _tensors(result) if t.is_floating_point() or t.is_complex()]
        if not results or CUT.match(func.__name__):
            return result
        if parents.count(None) < len(parents):
            self._write(name, parents, tuple(t.shape for t in operands), results)
        if func.is_view:
            self._views |= {id(t): (t, self._base(operands[0])) for t in results}
        return result


class Call(NamedTuple):
    """One call of a module: the operations numbered from ``start`` up to ``stop`` are its own.

    It is ``hidden`` inside of a function with its own backward pass.
    """

    name: str
    module: nn.Module
    start: int
    stop: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    hidden: bool = False

    def holds(self, other: "Call") -> bool:
        around = self.name.startswith(other.name)
        return self.start <= other.start and other.stop <= self.stop and not around


def _without_values(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """Copy the modules; parameters and buffers keep their shapes alone, and want gradients."""
    memo: dict[int, Any] = {}
    with mode:
        for tensor in [*model.parameters(), *model.buffers()]:
            empty: Any = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, nn.Parameter):
                empty = nn.Parameter(empty, requires_grad=tensor.is_floating_point())
            memo[id(tensor)] = empty
    twin = copy.deepcopy(model, memo)
    for module in twin.modules():
        _in_plain_operations(getattr(module, "config", None))
    return twin


def _in_plain_operations(config: Any) -> None:
    """Let a model of transformers compute attention and experts in operations that can be seen.

    Its kernels for experts refuse float32 without values.
    """
    if hasattr(config, "_attn_implementation"):
        config._attn_implementation = "eager"
        config._experts_implementation = "batched_mm"  # as all experts, whatever the router says


def _tensors(values: Any) -> Iterator[Tensor]:
    """Find the tensors among arguments or results, however they are packed."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, Sequence) and not isinstance(values, str):
        for value in values:
            yield from _tensors(value)


def _recorded(model: nn.Module, inputs: Any) -> tuple[Any, list[Call], Record]:
    """Run the model once and list the calls of its modules, in the order of their starts."""
    record = Record(model.parameters())
    calls: list[Call | None] = []
    running: list[tuple[int, int, bool]] = []
    for tensor in _tensors(inputs):
        if tensor.is_floating_point():
            record.enter(tensor)

    def begin(*_: Any) -> None:
        running.append((len(calls), len(record.operations), not torch.is_grad_enabled()))
        calls.append(None)

    def end(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            place, start, hidden = running.pop()
            stop = len(record.operations)
            calls[place] = Call(name, module, start, stop, args, kwargs, output, hidden)

        return hook

    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(begin))
        handles.append(module.register_forward_hook(end(name), with_kwargs=True))
    try:
        with warnings.catch_warnings(), record:
            warnings.simplefilter("ignore")
            output = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return output, [call for call in calls if call is not None], record


def _run(model: nn.Module, inputs: Any) -> tuple[Any, list[Call], Record]:
    """Run a copy without values; where the model asks for values, the model itself."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def given(value: Any, fake: bool) -> Any:
        """Copy inputs; some modules compute otherwise where nothing wants a gradient."""
        if isinstance(value, Tensor):
            value = mode.from_tensor(value.detach().cpu()) if fake else value.detach()
            return value.requires_grad_().clone() if value.is_floating_point() else value
        if isinstance(value, Mapping):
            return {key: given(one, fake) for key, one in value.items()}
        return [given(one, fake) for one in value] if isinstance(value, list | tuple) else value

    try:
        twin = _without_values(model, mode).eval()
        with mode, torch.enable_grad():
            return _recorded(twin, given(inputs, True))
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        if any(p.is_meta for p in model.parameters()):
            raise ValueError(
                "the model must have numbers, because what it computes depends on them "
                f"({error}): build it on the CPU, small."
            ) from error
    flags = [(m, m.training) for m in model.modules()]
    requires_grad = [(p, p.requires_grad) for p in model.parameters()]
    try:
        model.eval()
        for p, _ in requires_grad:
            p.requires_grad_(p.is_floating_point())
        with torch.enable_grad():
            return _recorded(model, given(inputs, False))
    finally:
        for m, flag in flags:
            m.training = flag
        for p, flag in requires_grad:
            p.requires_grad_(flag)


def model_of(config: Any, device: str = "meta", own_class: Any = None) -> nn.Module:
    """Build the language model of a configuration, by default without numbers.

    Parameters
    ----------
    config : configuration of transformers, dict, str or Path
        A dict is a ``config.json`` that was read, a path is such a file's.
    device : str
        "meta" for no numbers.
    own_class : class, optional
        The model's class, where transformers registers none for the configuration.
    """
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "a configuration becomes a model by transformers: pip install transformers, or pass "
            "the model."
        ) from error
    if isinstance(config, str | Path):
        config = json.loads(Path(config).read_text(encoding="utf-8"))
    if isinstance(config, Mapping):
        if "model_type" not in config:
            raise ValueError("the configuration must have a model_type; it has none.")
        settings = {key: value for key, value in config.items() if key != "model_type"}
        config = transformers.AutoConfig.for_model(config["model_type"], **settings)
    config = copy.deepcopy(config)  # a model may be using it
    text = config.get_text_config(decoder=True)
    if type(text) is type(config):
        text = config  # and no copy that lacks what begins with "decoder_"
    if hasattr(text, "is_decoder"):
        text.is_decoder = True
    _in_plain_operations(text)
    with torch.device(device):
        if own_class is not None:
            return own_class(text if type(text) is own_class.config_class else config)
        for chosen, kinds in ((text, ("ForCausalLM", "")), (config, ("ForCausalLM", *MULTIMODAL))):
            for kind in kinds:
                auto = getattr(transformers, f"AutoModel{kind}")
                with contextlib.suppress(ValueError):
                    if type(chosen) in auto._model_mapping:
                        return auto.from_config(chosen)
            home = type(chosen).__module__.replace(".configuration_", ".modeling_")
            stem = type(chosen).__name__.removesuffix("Config")
            for kind in ("ForCausalLM", "LMHeadModel", "Model"):
                if model_class := getattr(importlib.import_module(home), f"{stem}{kind}", None):
                    return model_class(chosen)
    raise ValueError(f"transformers has no language model for {type(text).__name__}.")
