"""The `model:` section of a recipe: what every family's says, and what those of a shape say.

A family's own config, with its sizes, stands in its file in `regard/models/families/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, PositiveInt, model_validator

from regard.config import Config

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu",
    "gated_relu", "gated_gelu", "gated_gelu_tanh", "gated_silu",
]  # fmt: skip
PositionKind = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "buckets", "none"]
NormKind = Literal["layer", "rms", "none"]
NormPlace = Literal["pre", "post", "inside"]
ScoreKind = Literal["scaled_dot", "dot", "additive", "cosine"]
Shape = Literal["encoder", "decoder", "encoder_decoder"]
Reads = Literal["text", "images"]
"""What a model reads: tokens of a text, or pictures of one size."""
SUBLAYERS = ("self_attention", "cross_attention", "convolution", "recurrent", "feed_forward")
"""Kinds of sub-layers; a name may have a word before it, where a block has two of a kind."""
Sizes = dict[str, dict[str, Any]]

_SUBLAYER = f"([a-z]+_)?({'|'.join(SUBLAYERS)})"

LONGEST = 2**24
"""Tokens; no model reads so many, so more of them in a config are damage, or malice."""
DEEPEST = 1000
"""Layers; the deepest published models have as many, and each takes time to set up."""


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


class ModelConfig(Config):
    """What the config of every family says."""

    SIZES: ClassVar[Sizes] = {}
    HEADS: ClassVar[tuple[str, ...]] = ()
    """Keys that say which heads it has, beside that over the vocabulary of what it writes."""
    shape: ClassVar[Shape]
    sides: ClassVar[int] = 1
    """Texts of an example: a source and a target, or one alone."""
    reads: ClassVar[Reads] = "text"
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("vocab",)
    """The names of the sizes of vocabularies that a model is built with, the source's first."""
    family: str
    size: str | None = None
    """A named size gives the default of every field that is not set."""
    dim: int = Field(default=128, ge=1)
    if TYPE_CHECKING:  # a key of every family, each with its own default and place
        max_length: int

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {**cls.SIZES.get(str(values.get("size")), {}), **values}

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of each stack, in the order in which data meets them."""
        raise NotImplementedError

    @property
    def widths(self) -> str:
        """Its widths, by their keys."""
        return f"dim {self.dim}"

    @property
    def summary(self) -> str:
        """What it is made of beside its layers, in words."""
        return f"{self.dim} wide"

    @property
    def usual_blocks(self) -> bool:
        """Whether blocks are what those of published language models are."""
        return False

    @property
    def reach(self) -> int | None:
        """How many positions away self-attention looks; None: as far as the text goes."""
        return None

    @property
    def bound(self) -> int | None:
        """The most tokens that there are positions for; None: any number."""
        return self.max_length

    def readings(self, lengths: Sequence[int]) -> list[Reading]:
        """The stacks, with what an example of these lengths brings to each.

        Args:
            lengths: Tokens of source and target, or of the only text.
        """
        below = (0, *lengths[:-1])
        stacks = zip(self.stacks.items(), lengths, below, strict=True)
        return [Reading(*stack, tokens, memory) for stack, tokens, memory in stacks]

    def kept_numbers(self, lengths: Sequence[int], targets: int) -> int | None:
        """Numbers that one example keeps from forward to backward, estimated.

        Args:
            lengths: Tokens of source and target, or of the only text.
            targets: Tokens that the loss is of.

        Returns:
            None where `regard.cost.count` has the formula: that of blocks.
        """
        del lengths, targets
        return None

    def held_numbers(self, rows: int, length: int, source: int) -> int | None:
        """Numbers that decoding one text holds, beside the weights.

        Args:
            rows: Hypotheses under way.
            length: The most tokens of each.
            source: Tokens of the source.

        Returns:
            None where `regard.cost.count` has the formula: that of keys and values.
        """
        del rows, length, source
        return None


class Reading(NamedTuple):
    """One stack and the tokens of one example that go through it."""

    stack: str
    layers: int
    tokens: int
    memory: int
    """Tokens of the other stack that it looks at; 0: none."""


class BlocksConfig(ModelConfig):
    """What the blocks of every family can be. Each combination of fields is legal."""

    heads: int = Field(default=8, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    """Fewer key/value heads than query heads: grouped attention. None: as many."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head. None: dim / heads."""
    hidden: int = Field(default=256, ge=1)
    activation: Activation = "relu"
    norm: NormKind = "layer"
    norm_place: NormPlace = "pre"
    """Before a sub-layer, after the residual sum, or inside: on the change before it is added."""
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

    sublayers: tuple[str, ...] = ("self_attention", "feed_forward")
    """What a block is made of, in order. A decoder that has a memory looks at it before its last
    feed-forward, unless `cross_attention` is named."""
    scales: dict[str, float] = Field(default_factory=dict)
    """What a sub-layer's change is multiplied by, by its name (Conformer's feed-forwards: 0.5)."""
    norm_places: dict[str, NormPlace] = Field(default_factory=dict)
    """The norm places of single sub-layers, by name, where they differ from `norm_place`."""
    block_norm: bool = False
    """One more norm at the end of each block (Conformer); then no stack has one on top."""
    drop_path: float = Field(default=0.0, ge=0, lt=1)
    """How often a text goes past the top block's sub-layers while training, less often further
    down, past the first block's never (stochastic depth)."""
    kernel: int = Field(default=31, ge=1, le=LONGEST)
    """Tokens that meet in a `convolution`; odd, but in a decoder, which sees the past alone."""
    convolution_norm: Literal["layer", "rms", "batch", "none"] = "layer"
    """The norm inside a `convolution`. The Conformer has batch norm; layer norm does not depend on
    what else is in the batch."""
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    """Of a `recurrent` sub-layer."""
    both_ways: bool = False
    """Whether half of a recurrence's width reads from the end; never in a decoder."""
    grid_window: int | None = Field(default=None, ge=1, le=LONGEST)
    """The side of the squares of a picture within which tokens look at each other; in every other
    block they are moved by half of it (Swin)."""
    grid_bias: Literal["none", "table", "net"] = "none"
    """What attention adds to its scores by the offset within a square: a learned table (Swin), or
    what a small net computes (Swin-V2)."""

    @model_validator(mode="after")
    def _sublayers_fit(self) -> BlocksConfig:
        words = [part.partition("_")[0] for part in self.sublayers]
        known = all(re.fullmatch(_SUBLAYER, part) for part in self.sublayers)
        if not (self.sublayers and known and len(set(words)) == len(words)):
            raise ValueError(
                f"sublayers [{', '.join(self.sublayers)}]: each must end in "
                f"{', '.join(SUBLAYERS)}, and begin with a word of its own, as first_feed_forward"
            )
        named = {*self.sublayers, "cross_attention"}
        strange = sorted((set(self.scales) | set(self.norm_places)) - named)
        if strange:
            raise ValueError(f"{strange[0]} is none of the sublayers {', '.join(self.sublayers)}")
        if self.both_ways and self.dim % 2:
            raise ValueError(f"both_ways needs an even dim, got {self.dim}")
        return self

    @property
    def usual_blocks(self) -> bool:
        """Whether blocks are what those of published language models are."""
        usual = BlocksConfig(family=self.family)
        fields = ("sublayers", "scales", "norm_places", "block_norm", "grid_window", "grid_bias")
        return all(getattr(self, field) == getattr(usual, field) for field in fields)

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

    @property
    def widths(self) -> str:
        """Its widths, by their keys."""
        return f"dim {self.dim}, hidden {self.hidden}"

    @property
    def summary(self) -> str:
        """What it is made of beside its layers, in words."""
        return f"{self.dim} wide, {self.heads} heads, {self.hidden} hidden"

    @property
    def reach(self) -> int | None:
        """How many positions away self-attention looks; a window counts the token itself."""
        return None if self.window is None else self.window - 1

    @property
    def bound(self) -> int | None:
        """The most tokens that there are positions for; distances in buckets are never too many."""
        return None if self.positions == "buckets" else self.max_length


class EncoderDecoderConfig(BlocksConfig):
    """What families say whose decoder looks at an encoder's output."""

    shape: ClassVar[Shape] = "encoder_decoder"
    sides: ClassVar[int] = 2
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    encoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    """`all`: one matrix for both embeddings and the output (needs a shared vocabulary);
    `output`: the target embedding is the output matrix; `inputs`: the two embeddings are one;
    `none`: three matrices."""

    @property
    def stacks(self) -> dict[str, int]:
        """Both."""
        return {"encoder": self.encoder_layers, "decoder": self.decoder_layers}


class DecoderConfig(BlocksConfig):
    """What families say that are a decoder alone."""

    shape: ClassVar[Shape] = "decoder"
    layers: int = Field(default=4, ge=1, le=DEEPEST)
    feed_forward: bool = True
    """Off for a model of attention alone, as in the study of induction heads."""
    tied: bool = True
    """Whether the output matrix is the embedding."""

    @property
    def stacks(self) -> dict[str, int]:
        """The only one."""
        return {"decoder": self.layers}


class EncoderConfig(BlocksConfig):
    """What families say that are an encoder alone, with the heads on it."""

    HEADS: ClassVar[tuple[str, ...]] = ("masked", "next_sentence", "classes", "tags", "spans")
    shape: ClassVar[Shape] = "encoder"
    layers: int = Field(default=2, ge=1, le=DEEPEST)
    token_types: int = Field(default=2, ge=0, le=LONGEST)
    """Kinds of sentence (first and second) that have a vector of their own; 0: none."""
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

    @property
    def stacks(self) -> dict[str, int]:
        """The only one."""
        return {"encoder": self.layers}


class ImageEncoderConfig(BlocksConfig):
    """What families say that are an encoder of images cut into patches."""

    HEADS: ClassVar[tuple[str, ...]] = ("classes",)
    VOCABULARIES: ClassVar[tuple[str, ...]] = ()
    shape: ClassVar[Shape] = "encoder"
    reads: ClassVar[Reads] = "images"
    layers: int = Field(default=4, ge=1, le=DEEPEST)
    image: tuple[PositiveInt, PositiveInt] = (224, 224)
    """Height and width of the images, in pixels; readers scale to it."""
    patch: int = Field(default=16, ge=1, le=LONGEST)
    """The side of a patch, in pixels; height and width divide by it. A patch is a token."""
    channels: Literal[1, 3] = 3
    """Of a pixel: 1 for grey, 3 for red, green and blue."""
    class_token: bool = True
    """Whether a learned token, [CLS], stands before the patches."""
    pool: Literal["first", "mean"] = "first"
    """What the class is told from: the first token's vector, or the mean of all patches'."""
    classes: tuple[str, ...] = ()
    """Names of the classes of an image, for a head on the pooled vector; none: no such head."""
    max_length: int = Field(default=0, ge=0, le=LONGEST)
    """Tokens of an image, which `image`, `patch` and `class_token` decide: leave it out."""
    embedding_norm: Literal[False] = False
    scaled_embedding: Literal[False] = False
    scaled_output: Literal[False] = False
    output_bias: Literal[True] = True
    """Its head always has one."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch, self.image[1] // self.patch

    @property
    def tokens(self) -> int:
        """Of an image: its patches, and [CLS]."""
        return self.grid[0] * self.grid[1] + int(self.class_token)

    @model_validator(mode="after")
    def _patches_fit(self) -> ImageEncoderConfig:
        height, width = self.image
        if height % self.patch or width % self.patch:
            raise ValueError(f"an image of {height} x {width} has no whole patches of {self.patch}")
        if self.tokens > LONGEST:
            raise ValueError(f"{self.tokens} patches are more than any model reads")
        if self.pool == "first" and not self.class_token:
            raise ValueError("pool: first needs class_token: true")
        if self.max_length not in (0, self.tokens):
            raise ValueError(
                f"max_length {self.max_length}: an image of {height} x {width} in patches of "
                f"{self.patch} has {self.tokens} tokens; leave max_length out"
            )
        object.__setattr__(self, "max_length", self.tokens)  # frozen, but not yet handed out
        return self

    @property
    def stacks(self) -> dict[str, int]:
        """The only one."""
        return {"encoder": self.layers}
