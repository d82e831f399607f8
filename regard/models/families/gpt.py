"""GPT, and its successors Llama, Mistral and Qwen."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from regard.models.config import DecoderConfig, Short, Sizes
from regard.models.families.family import BROWN, Family, PublishedModel

_LLAMA: dict[str, Any] = {"positions": "rotary", "norm": "rms", "activation": "gated_silu",
                          "bias": False, "tied": False, "norm_epsilon": 1e-5}  # fmt: skip
"""The differences of Llama models from GPT-2."""


class GPTConfig(DecoderConfig):
    """GPT, a decoder-only model (Radford et al. 2019); also Llama and its relatives."""

    DEFAULTS: ClassVar[Short] = {
        "layers": 4, "heads": 4, "hidden": 512, "activation": "gelu_tanh", "positions": "learned",
        "scaled_embedding": False,
    }  # fmt: skip
    SIZES: ClassVar[Sizes] = {
        "nano": {"dim": 128, "heads": 4, "hidden": 512, "layers": 4, "max_length": 256},
        "mini": {"dim": 256, "heads": 8, "hidden": 1024, "layers": 6, "max_length": 512},
        "gpt2": {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12},
        "gpt2-medium": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 24},
        "gpt2-large": {"dim": 1280, "heads": 20, "hidden": 5120, "layers": 36},
        "gpt2-xl": {"dim": 1600, "heads": 25, "hidden": 6400, "layers": 48},
        "gpt3": {"dim": 12288, "heads": 96, "hidden": 49152, "layers": 96, "max_length": 2048},
        "nano-llama": {**_LLAMA, "dim": 128, "heads": 4, "kv_heads": 2, "hidden": 344, "layers": 4,
                       "max_length": 256},
        "mini-llama": {**_LLAMA, "dim": 256, "heads": 8, "kv_heads": 4, "hidden": 688, "layers": 6,
                       "max_length": 512},
        "llama-7b": {**_LLAMA, "dim": 4096, "heads": 32, "hidden": 11008, "layers": 32,
                     "max_length": 4096},
    }  # fmt: skip
    """OpenAI's sizes, and two for a laptop (nano, mini); names with `llama` are Llama models."""
    family: Literal["gpt"] = "gpt"
    size: Literal[
        "nano", "mini", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3",
        "nano-llama", "mini-llama", "llama-7b",
    ] | None = None  # fmt: skip


def _published_model(size: str, **training: Any) -> PublishedModel:
    """The entry of a size in the list of models that `regard plan` knows by name."""
    length = GPTConfig(size=size).max_length
    return PublishedModel({"family": "gpt", "size": size}, lengths=(length,), **training)


_MEGATRON: dict[str, Any] = {
    "vocab": 51200, "lengths": (1024,), "step_tokens": 512 * 1024, "steps": 300_000,
}  # fmt: skip

FAMILY = Family(
    GPTConfig,
    "regard.models.decoder.Decoder",
    task="generate",
    named={
        "nano": _published_model("nano"),
        "mini": _published_model("mini"),
        "gpt2": _published_model("gpt2", vocab=50257),
        "gpt2-medium": _published_model("gpt2-medium", vocab=50257),
        "gpt2-large": _published_model("gpt2-large", vocab=50257),
        "gpt2-xl": _published_model("gpt2-xl", vocab=50257),
        "gpt3": _published_model(
            "gpt3",
            vocab=50257,
            step_tokens=1536 * 2048,
            steps=95_367,
            source="Brown et al. 2020: 300 G tokens",
            flops=3.14e23,
            flops_source=f"{BROWN}: 6 × parameters × tokens",
        ),
        "nano-llama": _published_model("nano-llama"),
        "mini-llama": _published_model("mini-llama"),
        "llama-7b": _published_model(
            "llama-7b",
            vocab=32000,
            step_tokens=1024 * 4096,
            steps=476_837,
            source="Touvron et al. 2023 (Llama 2): 2 T tokens",
        ),
        "megatron-lm": PublishedModel(
            {"family": "gpt", "dim": 3072, "heads": 32, "hidden": 12288, "layers": 72},
            source="Shoeybi et al. 2019",
            **_MEGATRON,
        ),
        "turing-nlg": PublishedModel(
            {"family": "gpt", "dim": 4256, "heads": 28, "hidden": 17024, "layers": 78},
            source="Rosset 2020",
            **_MEGATRON,
        ),
    },
)
