"""The `model:` section of a recipe: a family and its sizes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from regard.config import Config

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu",
    "gated_relu", "gated_gelu", "gated_gelu_tanh", "gated_silu",
]  # fmt: skip
PositionKind = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "buckets", "none"]
NormKind = Literal["layer", "rms", "none"]
ScoreKind = Literal["scaled_dot", "dot", "additive"]
Sizes = dict[str, dict[str, Any]]

LONGEST = 2**24
"""Tokens; no model reads so many, so more of them in a config are damage, or malice."""
DEEPEST = 1000
"""Layers; the deepest published models have as many, and each takes time to set up."""

_LLAMA: dict[str, Any] = {"positions": "rotary", "norm": "rms", "activation": "gated_silu",
                          "bias": False, "tied": False, "norm_epsilon": 1e-5}  # fmt: skip
"""What has changed since GPT-2, in the models of the Llama kind."""


class RotaryScaling(Config):
    """How a model that was trained on short texts turns q and k of longer ones."""

    kind: Literal["linear", "llama3"]
    factor: float = Field(gt=0)
    """How many times longer the text is."""
    low: float = 1.0
    """llama3: waves with fewer turns than this in the original length are slowed by the factor."""
    high: float = 4.0
    """llama3: waves with more turns than this stay as they are; between the two it is gradual."""
    original: int = Field(default=8192, ge=1, le=LONGEST)
    """llama3: the length the model was first trained on."""


class BlocksConfig(Config):
    """What the blocks of every family can be. Each combination of fields is legal."""

    SIZES: ClassVar[Sizes] = {}
    family: str
    size: str | None = None
    """A named size gives the default of every field that is not set."""
    dim: int = Field(default=128, ge=1)
    heads: int = Field(default=8, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    """Fewer key/value heads than query heads: grouped attention. None: as many."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head. None: dim / heads."""
    hidden: int = Field(default=256, ge=1)
    activation: Activation = "relu"
    norm: NormKind = "layer"
    norm_place: Literal["pre", "post"] = "pre"
    norm_epsilon: float | None = Field(default=None, gt=0)
    """Added under the root. None: 1e-5 for layer norm, 1e-6 for RMS norm."""
    final_norm: bool | None = None
    """A norm on top of each stack. None: pre-norm has one, post-norm (as published) has none."""
    embedding_norm: bool = False
    """A norm on the sum of embedding and position (BERT, BART)."""
    residual: bool = True
    """Off only to see what breaks without it."""
    bias: bool = True
    """Whether projections have a bias."""
    attention_bias: Literal["all", "qkv", "none"] | None = None
    """Which of attention's projections have one. None: all or none of them, by `bias`."""
    query_key_norm: bool = False
    """An RMS norm on each head's queries and keys, before they are turned (Qwen3)."""
    positions: PositionKind = "sinusoidal"
    positions_from: int = Field(default=0, ge=0, le=LONGEST)
    """The row of the first of learned positions; those before it are not used (RoBERTa, BART)."""
    rotary_base: float = Field(default=10_000.0, gt=0)
    rotary_scaling: RotaryScaling | None = None
    buckets: int = Field(default=32, ge=4, le=LONGEST)
    """Of relative positions (T5)."""
    farthest: int = Field(default=128, ge=1, le=LONGEST)
    """The distance from which on all share the last bucket."""
    window: int | None = Field(default=None, ge=1, le=LONGEST)
    """In self-attention a token looks at this many tokens, itself included (Mistral). None: all."""
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """The longest sequence (a bound that only `learned` positions need, and input is held to)."""
    score: ScoreKind = "scaled_dot"
    scaled_embedding: bool = True
    """Whether embeddings are multiplied by √dim."""
    scaled_output: bool = False
    """Whether what the output matrix multiplies is divided by √dim (T5, where it is tied)."""
    output_bias: bool = False
    """Whether logits have a bias (BERT, Marian)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On embedding plus position, and each sub-layer's output."""
    hidden_dropout: float | None = Field(default=None, ge=0, lt=1)
    """On the feed-forward's hidden layer. None: as `dropout`."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights. The paper has it; it leaves the fused kernel, so it is off."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {**cls.SIZES.get(str(values.get("size")), {}), **values}

    @model_validator(mode="after")
    def _heads_divide(self) -> BlocksConfig:
        if self.head_dim is None and self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"rotary needs an even head width, got {self.head_width}")
        if self.farthest <= self.buckets // 4:
            raise ValueError(f"farthest {self.farthest} must be more than a quarter of the buckets")
        return self

    @property
    def head_width(self) -> int:
        """Width of a head, given or dim / heads."""
        return self.head_dim or self.dim // self.heads


class TransformerConfig(BlocksConfig):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its usual variations."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 8, "hidden": 256, "encoder_layers": 2, "decoder_layers": 2},
        "small": {"dim": 256, "heads": 8, "hidden": 512, "encoder_layers": 3, "decoder_layers": 3},
        "base": {"dim": 512, "heads": 8, "hidden": 2048, "encoder_layers": 6, "decoder_layers": 6,
                 "norm_place": "post"},
        "big": {"dim": 1024, "heads": 16, "hidden": 4096, "encoder_layers": 6, "decoder_layers": 6,
                "norm_place": "post", "dropout": 0.3},
    }  # fmt: skip
    """The paper's base and big, post-norm as published; two smaller ones for a laptop."""
    family: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] | None = None
    encoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    """`all`: one matrix for both embeddings and the output (needs a shared vocabulary);
    `output`: the target embedding is the output matrix; `inputs`: the two embeddings are one;
    `none`: three matrices."""


class T5Config(BlocksConfig):
    """T5 (Raffel et al. 2020): every task as text to text; relative positions, no biases."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 4, "hidden": 256, "encoder_layers": 2, "decoder_layers": 2},
        "small": {"dim": 512, "heads": 8, "hidden": 2048, "encoder_layers": 6,
                  "decoder_layers": 6},
        "base": {"dim": 768, "heads": 12, "hidden": 3072, "encoder_layers": 12,
                 "decoder_layers": 12},
        "large": {"dim": 1024, "heads": 16, "hidden": 4096, "encoder_layers": 24,
                  "decoder_layers": 24},
        "small-1.1": {"dim": 512, "heads": 6, "head_dim": 64, "hidden": 1024, "encoder_layers": 8,
                      "decoder_layers": 8, "activation": "gated_gelu_tanh", "tied": "inputs",
                      "scaled_output": False},
        "base-1.1": {"dim": 768, "heads": 12, "hidden": 2048, "encoder_layers": 12,
                     "decoder_layers": 12, "activation": "gated_gelu_tanh", "tied": "inputs",
                     "scaled_output": False},
    }  # fmt: skip
    """As published, and one for a laptop."""
    family: Literal["t5"] = "t5"
    size: Literal["tiny", "small", "base", "large", "small-1.1", "base-1.1"] | None = None
    encoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    norm: NormKind = "rms"
    bias: bool = False
    positions: PositionKind = "buckets"
    score: ScoreKind = "dot"
    scaled_embedding: bool = False
    scaled_output: bool = True


class GPTConfig(BlocksConfig):
    """GPT: a decoder alone (Radford et al. 2019), and today's dialect of it (Llama)."""

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
    """OpenAI's, and two for a laptop; with `llama`, those of today's dialect."""
    family: Literal["gpt"] = "gpt"
    size: Literal[
        "nano", "mini", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt3",
        "nano-llama", "mini-llama", "llama-7b",
    ] | None = None  # fmt: skip
    layers: int = Field(default=4, ge=1, le=DEEPEST)
    heads: int = Field(default=4, ge=1)
    hidden: int = Field(default=512, ge=1)
    activation: Activation = "gelu_tanh"
    positions: PositionKind = "learned"
    scaled_embedding: bool = False
    feed_forward: bool = True
    """Off for a model of attention alone, as in the study of induction heads."""
    tied: bool = True
    """Whether the output matrix is the embedding."""


class BertConfig(BlocksConfig):
    """BERT: an encoder alone (Devlin et al. 2019), and RoBERTa's and DistilBERT's variants."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 2, "hidden": 512, "layers": 2, "max_length": 256},
        "mini": {"dim": 256, "heads": 4, "hidden": 1024, "layers": 4},
        "base": {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12},
        "large": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 24},
    }  # fmt: skip
    family: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "base", "large"] | None = None
    layers: int = Field(default=2, ge=1, le=DEEPEST)
    token_types: int = Field(default=2, ge=0, le=LONGEST)
    """Kinds of sentence (first and second) that have a vector of their own; 0: none."""
    heads: int = Field(default=2, ge=1)
    hidden: int = Field(default=512, ge=1)
    activation: Activation = "gelu"
    norm_place: Literal["pre", "post"] = "post"
    norm_epsilon: float | None = 1e-12
    embedding_norm: bool = True
    positions: PositionKind = "learned"
    max_length: int = Field(default=512, ge=1, le=LONGEST)
    scaled_embedding: bool = False
    scaled_output: Literal[False] = False
    output_bias: Literal[True] = True
    """Its masked head always has one."""
    pooler: Literal["tanh", "relu", "none"] = "tanh"
    """What f(W x) of the first token, which stands for the whole text, has as f; or no W at all."""
    masked: bool = True
    """Whether it has a head that fills masked tokens, with the embedding as its matrix."""
    next_sentence: bool = False
    """Whether it has a head that tells if the second sentence follows the first."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a text, for a head on the pooled vector; none: no such head."""
    tags: tuple[str, ...] = ()
    """Names of the tags of a token, for a head on every token; none: no such head."""
    spans: bool = False
    """Whether it has a head that finds where an answer begins and ends."""


ModelConfig = Annotated[
    TransformerConfig | T5Config | GPTConfig | BertConfig, Field(discriminator="family")
]
SIZES = TransformerConfig.SIZES
