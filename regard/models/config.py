"""The `model:` section of a recipe: a family and its sizes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from regard.config import Config

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dim": 128, "heads": 8, "hidden": 256, "encoder_layers": 2, "decoder_layers": 2},
    "small": {"dim": 256, "heads": 8, "hidden": 512, "encoder_layers": 3, "decoder_layers": 3},
    "base": {"dim": 512, "heads": 8, "hidden": 2048, "encoder_layers": 6, "decoder_layers": 6,
             "norm_place": "post"},
    "big": {"dim": 1024, "heads": 16, "hidden": 4096, "encoder_layers": 6, "decoder_layers": 6,
            "norm_place": "post", "dropout": 0.3},
}  # fmt: skip
"""The paper's base and big, post-norm as published; two smaller ones for a laptop."""


class TransformerConfig(Config):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its usual variations."""

    family: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] | None = None
    """A named size gives the default of every field that is not set: tiny, small, base, big."""
    encoder_layers: int = Field(default=2, ge=1)
    decoder_layers: int = Field(default=2, ge=1)
    dim: int = Field(default=128, ge=1)
    heads: int = Field(default=8, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    """Fewer key/value heads than query heads: grouped attention. None: as many."""
    hidden: int = Field(default=256, ge=1)
    activation: Literal["relu", "gelu", "gated_gelu", "gated_silu"] = "relu"
    norm: Literal["layer", "rms", "none"] = "layer"
    norm_place: Literal["pre", "post"] = "pre"
    final_norm: bool | None = None
    """A norm on top of each stack. None: pre-norm has one, post-norm (as published) has none."""
    residual: bool = True
    """Off only to see what breaks without it."""
    bias: bool = True
    """Whether projections have a bias."""
    positions: Literal["sinusoidal", "learned", "rotary", "buckets", "none"] = "sinusoidal"
    max_length: int = Field(default=1024, ge=1)
    """The longest sequence (a bound that only `learned` positions need, and input is held to)."""
    score: Literal["scaled_dot", "dot", "additive"] = "scaled_dot"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On embedding plus position, each sub-layer's output, and the feed-forward's hidden layer."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights. The paper has it; it leaves the fused kernel, so it is off."""
    tied: Literal["all", "output", "none"] = "all"
    """`all`: one matrix for both embeddings and the output (needs a shared vocabulary);
    `output`: the target embedding is the output matrix; `none`: three matrices."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {**SIZES.get(str(values.get("size")), {}), **values}

    @model_validator(mode="after")
    def _heads_divide(self) -> TransformerConfig:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.positions == "rotary" and (self.dim // self.heads) % 2:
            raise ValueError(f"rotary needs an even head width, got {self.dim // self.heads}")
        return self
