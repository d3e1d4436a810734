"""Read the norms of every decoder of the pinned transformers from its modules: ``make census``.

A decoder is a class registered for causal language models, or the language model inside a class
registered for text with pictures or sound, if it has no class of its own. Each is built without
numbers from its default configuration, and read by `normtutor.norms_of`. Then its settings are
tried one by one: which change what is read, and which number is which norm's ε. The census holds
what is read under every combination of the settings that change something, and names each class
that it leaves out, with the reason. ``python -m normtutor_studies.census TYPE ...`` reads some of
them anew.
"""

import contextlib
import importlib.util
import inspect
import itertools
import json
import os
import re
import sys
import typing
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import yaml

if importlib.util.find_spec("torchvision"):  # whose operators exist only beside a GPU build
    for _name in ("nms", "qnms"):
        _schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{_name}", _schema)

import transformers
from transformers import PreTrainedConfig
from transformers.configuration_utils import (
    _LEGACY_LAYER_TYPE_REMAP,
    ALLOWED_LAYER_TYPES,
)
from transformers.models.auto import modeling_auto as auto

from normtutor import anatomy

HERE = Path(__file__).parent
OUT = HERE / "census.json"

GIVEN: dict[str, Any] = yaml.safe_load((HERE / "census.yml").read_text(encoding="utf-8"))
NEEDS, AROUND, WITH_NUMBERS, LEFT_OUT = (
    GIVEN[part] for part in ("needs", "around", "with_numbers", "left_out")
)
for _need in NEEDS.values():
    if isinstance(_need.get("layer_types"), str):
        _need["layer_types"] = _need["layer_types"].split() * 16
INPUTS = {
    "musicgen_decoder": {"input_ids": torch.zeros(4, 11, dtype=torch.long)},
    "musicgen_melody_decoder": {"input_ids": torch.zeros(4, 11, dtype=torch.long)},
    "kyutai_speech_to_text": {"input_ids": torch.zeros(1, 11, 33, dtype=torch.long)},
}
#: The names of settings that say which layers are of which kind.
RECURRENT = re.compile("mamba|rwkv|lstm|recurrent", re.I)
LAYERS = re.compile(
    "layer_types|block_type|period|interval|offset|pattern|indices|first_k|kv_shared|sparse_step|"
    "only_layers|every_n|layer_ids|moe_layers|(attn|attention|dense|source|rope)_layers|"
    "per_layer_config"
)
#: Settings with words in them that change norms, and the words.
WORDS = {"qk_norm_type": ["qwen3", "olmo"], "indexer_types": []}


class Decoder(NamedTuple):
    """The type of its text configuration, the registered class, and the type that brings it."""

    text: str
    name: str
    kind: str


def registered() -> dict[str, list[str]]:
    """Map types of configurations to the classes registered for them, causal ones first."""
    found: dict[str, list[str]] = {}
    for names in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    ):
        for kind, name in names.items():
            found.setdefault(kind, []).extend([name] if isinstance(name, str) else name)
    return found


def decoders() -> tuple[dict[str, Decoder], dict[str, str]]:
    """Map the type of each text configuration to its decoder, and every registered type to one."""
    causal = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    found: dict[str, Decoder] = {}
    texts: dict[str, str] = {}
    for kind, (name, *_) in registered().items():
        text = kind
        with contextlib.suppress(Exception):
            config = getattr(transformers, name).config_class
            text = config().get_text_config(decoder=True).model_type
        texts[kind] = text
        if text == kind or text not in causal:
            found.setdefault(text, Decoder(text, name, kind))
    return found, texts


def configuration(decoder: Decoder, settings: dict[str, Any]) -> Any:
    """Build the configuration of a decoder with some settings; the class adds its defaults."""
    settings = {**NEEDS.get(decoder.text, {}), **WITH_NUMBERS.get(decoder.text, {}), **settings}
    whole = getattr(transformers, decoder.name).config_class()
    own = whole.get_text_config(decoder=True)
    for name, value in AROUND.get(decoder.text, {}).items():
        setattr(whole, name, value)
    if type(own) is type(whole):
        return type(whole)(**AROUND.get(decoder.text, {}), **settings)
    waiting = [whole]
    while waiting:
        holder = waiting.pop()
        for name, value in vars(holder).items():
            if value is own:
                setattr(holder, name, type(own)(**settings))
            elif isinstance(value, PreTrainedConfig):
                waiting.append(value)
    return whole


def built(decoder: Decoder, settings: dict[str, Any]) -> torch.nn.Module:
    config = configuration(decoder, settings)
    device = "cpu" if decoder.text in WITH_NUMBERS else "meta"
    with contextlib.suppress(ValueError):
        return anatomy.model_of(config, device)
    # transformers registers the class for another type of configuration than its own.
    return anatomy.model_of(config, device, getattr(transformers, decoder.name))


def text_of(config: Any) -> Any:
    own = config.get_text_config(decoder=True)
    return config if type(own) is type(config) else own


def year_of(model: type) -> int | None:
    """Read the copyright line of a class's file; some have it in the file beside it alone."""
    home = Path(inspect.getfile(model))
    beside = home.with_name(home.name.replace("modeling_", "configuration_"))
    for path in (home, beside, home.with_name("__init__.py")):
        head = path.read_text(encoding="utf-8")[:3000] if path.exists() else ""
        if year := re.search(r"Copyright (?:\(c\) )?(\d{4})", head, re.I):
            return int(year[1])
    return None


# --- which settings change what is read -----------------------------------------------------------

Table = dict[str, Any]


def table_of(found: anatomy.Norms, marks: dict[float, str]) -> Table:
    """Write what was read without the numbers of layers; an ε that was set says by which name."""

    def norm(one: anatomy.Norm) -> list[Any]:
        row: list[Any] = [*one]
        place = one._fields.index("eps")
        if one.eps in marks:
            row[place] = marks[one.eps]
        while row and row[-1] == [*anatomy.Norm._field_defaults.values()][len(row) - 5]:
            row.pop()
        return row

    return {
        "streams": found.streams,
        "blocks": [
            [b.where, [[s.branches, s.skip, [*map(norm, s.norms)]] for s in b.steps]]
            for b in found.blocks
        ],
        "ends": [*map(norm, found.ends)],
    }


def alternatives(name: str, value: Any, hint: Any) -> list[Any]:
    """List other values of a setting that might change norms or biases."""
    options = [*typing.get_args(hint)]
    if name.startswith("output_"):  # what the model puts out beside its logits
        return []
    if isinstance(value, bool):
        return [not value]
    if typing.get_origin(hint) is typing.Literal:
        return [one for one in options if one != value]
    if name in WORDS:
        return [one for one in WORDS[name] if one != value]
    if re.search("per_layer_input$|kv_shared", name) and value:
        return [0]
    if type(None) in options and isinstance(value, int) and "rank" in name:
        return [None]
    if value is None and bool in options:
        return [True]
    if value is None and int in options and "rank" in name:
        return [64]
    if value is None and int in options and re.search(r"(^|_)(ln|norm)(_|$)", name):
        return [1, 2]
    return []


def nested(settings: dict[str, Any], needs: dict[str, Any]) -> dict[str, Any]:
    """Put settings with a dot in their name into the dict that holds them."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        outer, _, inner = name.partition(".")
        if inner:
            found.setdefault(outer, {**needs.get(outer, {})})[inner] = value
        else:
            found[name] = value
    return found


class Reader:
    """Reads one decoder under many settings, with as few layers as show all kinds of layers."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.needs = {**NEEDS.get(decoder.text, {}), **WITH_NUMBERS.get(decoder.text, {})}
        self.model = built(decoder, {})
        self.text = text_of(configuration(decoder, {}))
        self.whole = anatomy.norms_of(self.model, INPUTS.get(decoder.text))
        self.values = {
            name: value
            for name, value in self.text.to_dict().items()
            if name not in PreTrainedConfig().to_dict()
        }
        for name, value in [*self.values.items()]:
            if isinstance(value, dict) and isinstance(getattr(self.text, name), PreTrainedConfig):
                inner = {f"{name}.{k}": v for k, v in value.items() if isinstance(v, bool)}
                self.values |= {
                    k: v for k, v in inner.items() if not k.endswith("output_attentions")
                }
        eps = [k for k, v in self.values.items() if isinstance(v, float) and re.search("eps", k)]
        self.marks = {float(f"{1.1 + 0.2 * i:.1f}e-4"): name for i, name in enumerate(eps)}
        self.short: dict[str, Any] = {}
        self.layers = self.text.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        plain = json.loads(json.dumps(table_of(self.whole, {})))
        wanted = [plain, [[*self.whole.biases], [*self.whole.weights]]]
        depth, whole = 1, max(max(block.layers) for block in self.whole.blocks) + 1
        while True:
            if depth < whole and decoder.text not in WITH_NUMBERS:
                lists = {k: v[:depth] for k, v in self.needs.items() if isinstance(v, list)}
                self.short = {**lists, self.layers: depth}
            found = self.table({})
            if found and [self.with_numbers(found[0]), found[1]] == wanted:
                break
            assert self.short, decoder
            self.short, depth = {}, 2 * depth
        self.base = found

    def with_numbers(self, table: Table) -> Table:
        """Put the class's own numbers where a table names a setting for an ε."""
        text = json.dumps(table)
        for name in self.marks.values():
            text = text.replace(f'"{name}"', json.dumps(self.values[name]))
        return json.loads(text)

    def table(self, settings: dict[str, Any]) -> tuple[Table, list[Any]] | None:
        """Read under some settings; None where no model can be built or called with them."""
        marks = {name: value for value, name in self.marks.items()}
        given = nested({**self.short, **marks, **settings}, self.needs)
        with contextlib.suppress(Exception):
            model = built(self.decoder, given)
            found = anatomy.norms_of(model, INPUTS.get(self.decoder.text))
            read = [table_of(found, self.marks), [found.biases, found.weights]]
            return tuple(json.loads(json.dumps(read)))
        return None

    def switches(self) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Find the settings that change norms, and those that change biases, with their values."""
        hints = inspect.get_annotations(type(self.text))
        found: tuple[dict[str, list[Any]], dict[str, list[Any]]] = ({}, {})
        tried = {k: alternatives(k, v, hints.get(k)) for k, v in self.values.items()}

        def try_all(under: dict[str, Any], base: Any, names: Iterable[str]) -> None:
            for name in names:
                for other in tried[name]:
                    if base and name not in under and (read := self.table({**under, name: other})):
                        for one, before, after in zip(found, base, read, strict=True):
                            if before != after:
                                values = one.setdefault(name, [self.values[name]])
                                values += [other] * (other not in values)

        try_all({}, self.base, tried)
        # Some do something only beside another one.
        words = [
            n for n in tried if re.search(r"norm|(^|_)ln|residual|parallel|per_layer_input", n)
        ]
        for name in [*found[0]]:
            for other in found[0][name][1:]:
                try_all({name: other}, self.table({name: other}), words)
        return found

    def types(self, layers: str) -> dict[str, dict[str, str | None]]:
        """Map the types of layers, in each list that names them, to kinds of blocks.

        None stands for a type that does not decide by itself.
        """
        found: dict[str, dict[str, str | None]] = {}
        home = type(self.text).__module__.replace(".configuration_", ".modeling_")
        source = Path(inspect.getfile(importlib.import_module(home))).read_text("utf-8")
        named = {*re.findall(r'"([a-z_]+)"', source)} & {*ALLOWED_LAYER_TYPES}
        for name, value in vars(self.text).items():
            if "type" not in name or not isinstance(value, list) or len(value) != len(layers):
                continue
            at = dict(zip(value, layers, strict=True))
            decides = "".join(at[one] for one in value) == layers
            found[name] = at if decides else dict.fromkeys(at)
            short = value[: self.short.get(self.layers, len(value))]
            for other in sorted(named - {*value}) if re.search("layer|block", name) else []:
                read = self.table({name: [*short[:-1], other]}) or self.table(
                    {name: [other] * len(short)}
                )
                if read and self.has_known_blocks(read):
                    blocks = [self.base[0]["blocks"].index(b) for b in read[0]["blocks"]]
                    found[name][other] = (
                        f"{max(blocks):x}" if len(short) == 1 or len(blocks) == 1 else None
                    )
        return found

    def has_known_blocks(self, read: tuple[Table, list[Any]]) -> bool:
        return all(block in self.base[0]["blocks"] for block in read[0]["blocks"])

    def settings_of_layers(self, types: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
        """Give the settings that say which layers are of which kind, and those not understood.

        A setting is understood if the values that were tried bring no kind of layer that others
        do not have. The lists of types are not among them.
        """
        found = {k: v for k, v in self.values.items() if LAYERS.search(k) and k not in types}
        found = {k: v for k, v in found.items() if "layer_types" not in k}
        unsettled = []
        some = {self.layers: 4} if self.short else {}
        lists = {k: v[:4] for k, v in self.needs.items() if isinstance(v, list)} if some else {}
        for name, value in found.items():
            others = [[], [0], [1]] if isinstance(value, list) else [0, 1, 2, 3]
            tried = [self.table({**lists, **some, name: o}) for o in others if o != value]
            read = [one for one in tried if one]
            if not read or not all(map(self.has_known_blocks, read)):
                unsettled.append(name)
        return found, unsettled

    def setting_of_streams(self) -> str | None:
        """Find the setting that says how many streams there are."""
        for name, value in self.values.items():
            if type(value) is int and value == self.whole.streams:
                read = self.table({name: value + 1})
                if read and read[0]["streams"] == value + 1:
                    return name
        return None

    def entry(self) -> dict[str, Any]:
        """What the census says of this decoder."""
        entry: dict[str, Any] = {"class": type(self.model).__name__}
        entry["year"] = year_of(type(self.model))
        sparse = (re.search("moe|experts", type(m).__name__, re.I) for m in self.model.modules())
        mixed = [{k for s in b.steps for _, k, _ in s.branches} for b in self.whole.blocks]
        beside = any(s.beside("attention", "mixer") for b in self.whole.blocks for s in b.steps)
        attends = any("attention" in kinds for kinds in mixed)
        hybrid = beside or (attends and any("attention" not in m and "mixer" in m for m in mixed))
        words = ["hybrid"] * hybrid + ["MoE"] * any(sparse)
        # Attention with terms of its own, as in XLNet, is not recognized.
        recurrent = not attends and RECURRENT.search(entry["class"])
        entry["kind"] = " ".join(words) or ("recurrent" if recurrent else "dense")
        kinds = sorted((i, k) for k, b in enumerate(self.whole.blocks) for i in b.layers)
        entry["layers"] = "".join(f"{k:x}" for _, k in kinds)
        if self.decoder.text in WITH_NUMBERS:
            entry["small"] = True
        entry["types"] = self.types(entry["layers"])
        entry["places"], entry["unsettled"] = self.settings_of_layers(entry["types"])
        if chosen := [name for name in NEEDS.get(self.decoder.text, {}) if LAYERS.search(name)]:
            entry["chosen"] = chosen
        entry["depth"] = getattr(type(self.text)(), self.layers, None)
        entry["eps"] = {name: self.values[name] for name in self.marks.values()}
        if self.whole.streams > 1:
            entry["streams"] = self.setting_of_streams()
        norms, biases = self.switches()
        for key, part, switches in (("norms", 0, norms), ("biases", 1, biases)):
            ways = itertools.product(*switches.values())
            tables = [self.table(dict(zip(switches, way, strict=True))) for way in ways]
            distinct = list(dict.fromkeys(json.dumps(t[part]) for t in tables if t))
            at = [distinct.index(json.dumps(t[part])) if t else -1 for t in tables]
            entry[key] = {"switches": switches, "at": at, "tables": [*map(json.loads, distinct)]}
        common = {*PreTrainedConfig().to_dict()}
        aliases = {a: b for a, b in self.text.attribute_map.items() if a != b}
        used = {*entry["eps"], *norms, *biases, "num_hidden_layers", self.layers}
        used |= {*entry["types"], *entry["places"]}
        entry["aliases"] = {a: b for a, b in aliases.items() if b in used}
        names = {*self.values, *aliases} - common
        entry["keys"] = " ".join(sorted(n for n in names if "." not in n))
        return entry


def main() -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    found, texts = decoders()
    wanted = sys.argv[1:] or [text for text in found if found[text].name not in LEFT_OUT]
    census = json.loads(OUT.read_text(encoding="utf-8")) if sys.argv[1:] else {"decoders": {}}
    for text in sorted(wanted):
        census["decoders"][text] = Reader(found[text]).entry()
        print(text, census["decoders"][text]["class"], flush=True)
    read = {entry["class"] for entry in census["decoders"].values()}
    left_out = {
        name: LEFT_OUT.get(name, f"its language model is that of {texts[kind]}")
        for kind, names in registered().items()
        for name in names
        if name not in read
    }
    common = {*PreTrainedConfig().to_dict(), "model_type", "torch_dtype", "rope_theta"}
    census = {
        "release": transformers.__version__,
        "common": " ".join(
            sorted({*common, "rope_scaling", "partial_rotary_factor", "text_config"})
        ),
        "renamed": _LEGACY_LAYER_TYPE_REMAP,
        "left_out": dict(sorted(left_out.items())),
        "kinds": {kind: text for kind, text in texts.items() if kind != text},
        "decoders": dict(sorted(census["decoders"].items())),
    }
    written = json.dumps(census, ensure_ascii=False, separators=(",", ":"))
    lines = re.sub(r'(?<=[{,])(?="[\w.-]+":\{"class")', "\n", written)
    OUT.write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
