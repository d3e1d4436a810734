"""Which norm open language models use, where it stands, and where we read it.

Every row was read in published code: a class of transformers 5.23.0, unless `Model.code` names
another source. A class's defaults are not a model's configuration, so a row also says whether a
configuration of the published model was read, and what it sets differently.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd


@dataclass(frozen=True)
class Model:
    """One open language model.

    Norm, placement, QK-norm and bias are those of the published model where `config` names the
    place at which its configuration was read, and the class's defaults where `config` is empty.
    """

    name: str
    year: int
    kind: str  # "dense", "MoE", "hybrid" or "hybrid MoE"
    norm: str
    placement: str  # "pre", "parallel", "peri", "out" or "streams"
    qk_norm: str  # "head", "all", "latent", "cap ..." or "" for none
    bias: str  # of the projections of attention and feed-forward network: "none", "all", "q, k, v"
    eps_class: float
    eps_published: float | None
    code: str  # the folder under transformers/models, or a repository
    config: str = ""


# name | year | kind | norm | placement | QK-norm | bias | ε, class | ε, published | code | config
_ROWS = """
GPT-2 | 2019 | dense | LayerNorm | pre | | all | 1e-5 | | gpt2
OPT | 2022 | dense | LayerNorm | pre | | all | 1e-5 | | opt
GPT-NeoX-20B | 2022 | dense | LayerNorm | parallel | | all | 1e-5 | | gpt_neox
BLOOM | 2022 | dense | LayerNorm | pre | | all | 1e-5 | | bloom
LLaMA | 2023 | dense | RMSNorm | pre | | none | 1e-6 | | llama
Falcon 7B | 2023 | dense | LayerNorm | parallel | | none | 1e-5 | | falcon | LitGPT
MPT | 2023 | dense | LayerNorm, no β | pre | | none | 1e-5 | | mpt
Mistral 7B | 2023 | dense | RMSNorm | pre | | none | 1e-6 | 1e-5 | mistral | LitGPT
Phi-2 | 2023 | dense | LayerNorm | parallel | | all | 1e-5 | | phi | LitGPT
OLMo | 2024 | dense | LayerNorm, no γ, β | pre | | none | 1e-5 | | olmo | LitGPT
Gemma | 2024 | dense | RMSNorm (1+γ) | pre | | none | 1e-6 | 1e-6 | gemma | its own code
Nemotron-4 | 2024 | dense | LayerNorm (1+γ) | pre | | none | 1e-5 | | nemotron
Command R | 2024 | dense | LayerNorm, no β | parallel | | none | 1e-5 | | cohere
Grok-1 | 2024 | MoE | RMSNorm | peri | cap 30 | none | 1e-5 | 1e-5 | xai-org/grok-1 | its own code
StableLM 2 1.6B | 2024 | dense | LayerNorm | pre | | none | 1e-5 | | stablelm
StableLM 2 12B | 2024 | dense | LayerNorm | parallel | head | none | 1e-5 | | stablelm | llama.cpp
Chameleon 7B | 2024 | dense | RMSNorm | pre | head | none | 1e-5 | | chameleon
Chameleon 34B | 2024 | dense | RMSNorm | out | head | none | 1e-5 | | chameleon
Gemma 2 | 2024 | dense | RMSNorm (1+γ) | peri | cap 50 | none | 1e-6 | 1e-6 | gemma2 | its own code
Qwen2.5 7B | 2024 | dense | RMSNorm | pre | | q, k, v | 1e-6 | 1e-6 | qwen2 | LitGPT
Granite 3 | 2024 | dense | RMSNorm | pre | | none | 1e-6 | | granite
OLMo 2 7B | 2024 | dense | RMSNorm | out | all | none | 1e-5 | 1e-6 | olmo2 | its own code
DeepSeek-V3 | 2024 | MoE | RMSNorm | pre | latent | none | 1e-6 | 1e-6 | deepseek_v3 | its own code
Gemma 3 | 2025 | dense | RMSNorm (1+γ) | peri | head | none | 1e-6 | 1e-6 | gemma3 | its own code
Llama 4 | 2025 | MoE | RMSNorm | pre | head | none | 1e-5 | | llama4
Qwen3 8B | 2025 | dense | RMSNorm | pre | head | none | 1e-6 | 1e-6 | qwen3 | LitGPT
Qwen3-Next | 2025 | hybrid MoE | RMSNorm (1+γ) | pre | head | none | 1e-6 | | qwen3_next
Qwen3.5 | 2025 | hybrid | RMSNorm (1+γ) | pre | head | none | 1e-6 | | qwen3_5
GLM-4-0414 | 2025 | dense | RMSNorm | peri | | q, k, v | 1.5625e-7 | | glm4
SmolLM3 | 2025 | dense | RMSNorm | pre | | none | 1e-6 | | smollm3
EXAONE 4.0 | 2025 | dense | RMSNorm | out | head | none | 1e-5 | | exaone4
GLM-4.5 355B | 2025 | MoE | RMSNorm | pre | head | q, k, v | 1e-5 | | glm4_moe | Megatron
GLM-4.5 Air | 2025 | MoE | RMSNorm | pre | | q, k, v | 1e-5 | 1e-5 | glm4_moe | Megatron
gpt-oss | 2025 | MoE | RMSNorm | pre | | all | 1e-5 | 1e-5 | gpt_oss | its own code
Apertus | 2025 | dense | RMSNorm | pre | head | none | 1e-5 | | apertus
MiniMax-M2 | 2025 | MoE | RMSNorm | pre | all | none | 1e-6 | 1e-6 | minimax_m2 | Megatron
nanochat | 2025 | dense | RMSNorm, no γ | pre | head | none | 1e-6 | | nanochat | its own code
OLMo 3 | 2025 | dense | RMSNorm | out | all | none | 1e-5 | | olmo3
LFM2 | 2025 | hybrid | RMSNorm | pre | head | none | 1e-5 | | lfm2
Falcon-H1 | 2025 | hybrid | RMSNorm | pre | | none | 1e-5 | 1e-5 | falcon_h1 | Megatron
Kimi Linear | 2025 | hybrid MoE | RMSNorm | pre | latent | none | 1e-5 | | kimi_linear
Ministral 3 | 2025 | dense | RMSNorm | pre | | none | 1e-5 | 1e-5 | ministral3 | Megatron
Nemotron 3 Nano | 2025 | hybrid MoE | RMSNorm | pre | | none | 1e-5 | | nemotron_h
Trinity Mini | 2025 | MoE | RMSNorm | peri | head | none | 1e-5 | | afmoe
A.X K1 | 2026 | MoE | RMSNorm | pre | latent | none | 1e-6 | | axk1
Command A+ | 2026 | MoE | LayerNorm, no β | parallel | | none | 1e-5 | | cohere2_moe
DeepSeek-V4 | 2026 | MoE | RMSNorm | streams | head | none | 1e-6 | | deepseek_v4
Gemma 4 | 2026 | dense | RMSNorm | peri | head | none | 1e-6 | | gemma4
GLM-5 | 2026 | MoE | RMSNorm | pre | latent | none | 1e-5 | 1e-5 | glm_moe_dsa | Megatron
GLM-5.3-Flash | 2026 | hybrid MoE | RMSNorm | streams | latent | none | 1e-5 | | glm5_next
Granite Swash 2B | 2026 | dense | RMSNorm | pre | | none | 1e-5 | | granite_swa
Hy3 | 2026 | MoE | RMSNorm | pre | head | none | 1e-5 | | hy_v3
Hy4 | 2026 | MoE | RMSNorm | streams | latent | none | 1e-5 | | hy_v4
Inkling | 2026 | MoE | RMSNorm | pre | head | none | 1e-6 | | inkling
K-EXAONE | 2026 | MoE | RMSNorm | pre | head | none | 1e-5 | 1e-5 | exaone_moe | Megatron
Laguna XS.2 | 2026 | MoE | RMSNorm | pre | head | none | 1e-6 | | laguna
Ling 3.0 Flash | 2026 | hybrid MoE | RMSNorm | pre | latent | none | 1e-6 | | bailing_hybrid
MiMo-V2-Flash | 2026 | MoE | RMSNorm | pre | | none | 1e-5 | 1e-5 | mimo_v2_flash | Megatron
MiniMax-M3 | 2026 | MoE | RMSNorm (1+γ) | pre | head | none | 1e-6 | 1e-6 | minimax_m3_vl | Megatron
Mistral Large 4 | 2026 | MoE | RMSNorm | pre | latent | none | 1e-5 | | mistral_large4
Mistral Small 4 | 2026 | MoE | RMSNorm | pre | latent | none | 1e-6 | | mistral4
Muse Spark | 2026 | MoE | RMSNorm (1+γ) | peri | head | none | 1e-5 | | muse_spark
OLMo Hybrid 7B | 2026 | hybrid | RMSNorm | out | all | none | 1e-6 | | olmo_hybrid
Qwen4-Exp | 2026 | hybrid MoE | RMSNorm (1+γ) | streams | head | none | 1e-6 | | qwen4_exp
Solar Open | 2026 | MoE | RMSNorm | pre | | none | 1e-5 | | solar_open
Step 3.7 Flash | 2026 | MoE | RMSNorm (1+γ) | pre | head | none | 1e-5 | | step3p7
ZAYA1-8B | 2026 | MoE | RMSNorm | pre | head | none | 1e-5 | | zaya
"""


def _model(row: str) -> Model:
    fields = [field.strip() for field in row.split("|")]
    fields += [""] * (11 - len(fields))
    name, year, kind, norm, placement, qk_norm, bias, eps, published, code, config = fields
    own = float(published) if published else None
    return Model(
        name, int(year), kind, norm, placement, qk_norm, bias, float(eps), own, code, config
    )


#: By year. OPT's 350M model is the exception to its row: it has Post-LN.
MODELS: tuple[Model, ...] = tuple(map(_model, _ROWS.strip().splitlines()))

#: The years that the chapter counts together.
PERIODS: Mapping[str, tuple[int, int]] = {
    "2019–22": (2019, 2022),
    "2023": (2023, 2023),
    "2024": (2024, 2024),
    "2025": (2025, 2025),
    "2026": (2026, 2026),
}

#: What the chapter counts. "latent" norms the vectors before queries and keys, not these.
PROPERTIES: Mapping[str, Callable[[Model], bool]] = {
    "RMSNorm": lambda model: model.norm.startswith("RMSNorm"),
    "no bias": lambda model: model.bias == "none",
    "QK-norm": lambda model: model.qk_norm in ("head", "all"),
    "norm at the branch's end": lambda model: model.placement in ("peri", "out"),
}


def counts(
    models: Sequence[Model] = MODELS, periods: Mapping[str, tuple[int, int]] = PERIODS
) -> dict[str, dict[str, int]]:
    """Count, for each period, the models and those with each property of `PROPERTIES`."""
    found = {}
    for name, (first, last) in periods.items():
        group = [model for model in models if first <= model.year <= last]
        found[name] = {"models": len(group)} | {
            what: sum(map(has, group)) for what, has in PROPERTIES.items()
        }
    return found


def number(eps: float | None) -> str:
    """Write ε as 10⁻⁵ where it is such a power."""
    if eps is None:
        return "–"
    text = f"{eps:.0e}" if f"{eps:.0e}" in ("1e-05", "1e-06") else f"{eps:.1e}"
    return text.replace("e-0", "e−")


HEAD = {
    "model": "Model",
    "year": "Year",
    "kind": "Kind",
    "norm": "Norm",
    "placement": "Placement",
    "qk": "QK-norm",
    "bias": "Bias",
    "class": "ε, class",
    "published": "ε, published",
    "read": "Read in",
}


def cells(model: Model) -> dict[str, str]:
    """Write a model as one row of the chapter's table."""
    return {
        "model": model.name,
        "year": str(model.year),
        "kind": model.kind,
        "norm": model.norm,
        "placement": model.placement,
        "qk": model.qk_norm or "–",
        "bias": model.bias,
        "class": number(model.eps_class),
        "published": number(model.eps_published),
        "read": f"{model.code}; {model.config}" if model.config else model.code,
    }


class ModelTable:
    """The table of all models: plain HTML, which a script makes sortable and filterable."""

    def __init__(self, models: Sequence[Model] = MODELS) -> None:
        # The newest first; a sort in Python keeps the order within a year.
        self.models = tuple(sorted(models, key=lambda model: -model.year))

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" data-key="{key}">{escape(word)}</th>' for key, word in HEAD.items()
        )
        rows = []
        for model in self.models:
            row = cells(model)
            # Numbers sort by size; the words of a column that holds some read the same.
            first = f'<th scope="row">{escape(row.pop("model"))}</th>'
            numbers = {"class": model.eps_class, "published": model.eps_published or 0}
            others = "".join(
                f'<td data-key="{key}"'
                + (f' data-sort="{numbers[key]:.3e}"' if key in numbers else "")
                + f">{escape(text)}</td>"
                for key, text in row.items()
            )
            basis = "config" if model.config else "class"
            rows.append(f'<tr data-basis="{basis}">{first}{others}</tr>')
        return (
            # JupyterLab would set all that stands in a table to the right.
            "<style>.models-box table.models :is(th, td) { text-align: left; }</style>"
            '<nt-models><div class="models-box" tabindex="0" role="region" '
            'aria-label="Table of open language models">'
            f'<table class="models"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div></nt-models>"
        )

    def __repr__(self) -> str:
        frame = pd.DataFrame([cells(model) for model in self.models]).rename(columns=HEAD)
        return frame.to_string()
