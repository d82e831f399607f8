"""T5, and its version 1.1."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from regard.models.config import EncoderDecoderConfig, Short, Sizes
from regard.models.families.family import BROWN, Family, PublishedModel


class T5Config(EncoderDecoderConfig):
    """T5 (Raffel et al. 2020): every task as text to text; relative positions, no biases."""

    DEFAULTS: ClassVar[Short] = {
        "norm": "rms", "bias": False, "positions": "buckets", "score": "dot",
        "scaled_embedding": False, "scaled_output": True,
    }  # fmt: skip
    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 4, "hidden": 256, "layers": 2},
        "small": {"dim": 512, "heads": 8, "hidden": 2048, "layers": 6},
        "base": {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12},
        "large": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 24},
        "small-1.1": {"dim": 512, "heads": 6, "head_dim": 64, "hidden": 1024, "layers": 8,
                      "activation": "gated_gelu_tanh", "tied": "inputs", "scaled_output": False},
        "base-1.1": {"dim": 768, "heads": 12, "hidden": 2048, "layers": 12,
                     "activation": "gated_gelu_tanh", "tied": "inputs", "scaled_output": False},
    }  # fmt: skip
    """The published sizes, and one for a laptop (tiny)."""
    family: Literal["t5"] = "t5"
    size: Literal["tiny", "small", "base", "large", "small-1.1", "base-1.1"] | None = None


_TRAINING: dict[str, Any] = {
    "vocab": 32128, "lengths": (512, 114), "step_tokens": 2048 * (512 + 114), "steps": 1_000_000,
    "source": "Raffel et al. 2020, section 3.7",
}  # fmt: skip
_FLOPS = {"small": 1.8e20, "base": 6.6e20, "large": 2.31e21}

FAMILY = Family(
    T5Config,
    "regard.models.encoder_decoder.EncoderDecoder",
    task="translate",
    named={
        "t5-tiny": PublishedModel({"family": "t5", "size": "tiny"}, lengths=(512, 114)),
        **{
            f"t5-{size}": PublishedModel(
                {"family": "t5", "size": size},
                flops=_FLOPS.get(size),
                flops_source=f"{BROWN}: 3 × parameters × source tokens",
                **_TRAINING,
            )
            for size in T5Config.SIZES
            if size != "tiny"
        },
    },
)
