"""The `model:` section of a recipe: the settings of all families, and those of each model shape.

The config of a single family, with its named sizes, is in its file in `regard/models/families/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from regard.config import Config

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu",
    "gated_relu", "gated_gelu", "gated_gelu_tanh", "gated_silu",
]  # fmt: skip
PositionKind = Literal[
    "sinusoidal", "sinusoidal_halves", "sinusoidal_2d", "learned", "rotary", "buckets", "none",
]  # fmt: skip
NormKind = Literal["layer", "rms", "none"]
NormPlace = Literal["pre", "post", "inside"]
ScoreKind = Literal["scaled_dot", "dot", "additive", "cosine"]
Shape = Literal["encoder", "decoder", "encoder_decoder"]
SUBLAYERS = ("self_attention", "cross_attention", "convolution", "recurrent", "feed_forward")
"""Kinds of sub-layers; a name may be prefixed by a word if a block has two of a kind."""
Sizes = dict[str, dict[str, Any]]

_SUBLAYER = f"([a-z]+_)?({'|'.join(SUBLAYERS)})"

LONGEST = 2**24
"""Upper bound on lengths, in tokens; a config with more is corrupt or malicious."""
DEEPEST = 1000
"""Upper bound on layers: the deepest published models have this many, and building takes time."""


class RotaryScaling(Config):
    """Scaling of rotary frequencies, for texts longer than those a model was trained on."""

    kind: Literal["linear", "llama3"]
    factor: float = Field(gt=0)
    """How many times longer the texts are."""
    low: float = 1.0
    """llama3: frequencies with fewer turns in the original length are divided by the factor."""
    high: float = 4.0
    """llama3: frequencies with more turns in the original length stay; interpolated in between."""
    original: int = Field(default=8192, ge=1, le=LONGEST)
    """llama3: the length that the model was first trained on, in tokens."""


class ModelConfig(Config):
    """The settings that all families share."""

    SIZES: ClassVar[Sizes] = {}
    HEADS: ClassVar[tuple[str, ...]] = ()
    """Keys that name the model's heads, apart from the language-model head."""
    shape: ClassVar[Shape]
    has_target: ClassVar[bool] = False
    """Whether an example is a source and a target, not one text."""
    reads: ClassVar[str] = "text"
    """What the model reads: the name of its reader in `regard.inputs.reader.READERS`."""
    has_grid: ClassVar[bool] = False
    """Whether its tokens are the cells of a grid, as the patches of an image are."""
    COMPUTED: ClassVar[tuple[str, ...]] = ()
    """Keys that follow from others, and are left out of a recipe."""
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("vocab",)
    """Names of the vocabulary sizes that a model is built with, the source's first."""
    family: str
    size: str | None = None
    """A named size, which gives the defaults of all fields that are not set."""
    dim: int = Field(default=128, ge=1)
    if TYPE_CHECKING:  # every family declares this field, with its own default and field order
        max_length: int

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, values: Any) -> Any:
        """Adds the values of the named size, where the recipe does not set its own."""
        if not isinstance(values, dict):
            return values
        return {**cls.SIZES.get(str(values.get("size")), {}), **values}

    @property
    def least_examples(self) -> int:
        """The fewest examples of a batch that the model can learn from."""
        return 1

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that a model can take if a task adds its head: one, in most families."""
        return (self.shape,)

    @property
    def bidirectional(self) -> bool:
        """Whether a language model reads both ways, so that vectors depend on both sides (ELMo)."""
        return False

    @property
    def stacks(self) -> dict[str, int]:
        """Stack name -> number of layers, in the order in which data passes them."""
        raise NotImplementedError

    @property
    def widths(self) -> str:
        """The model's widths with their keys, for messages."""
        return f"dim {self.dim}"

    @property
    def summary(self) -> str:
        """A short description of the model's widths and kinds, without its layers."""
        return f"{self.dim} wide"

    @property
    def reach(self) -> int | None:
        """The largest distance, in tokens, at which self-attention attends; None: unlimited."""
        return None

    @property
    def bound(self) -> int | None:
        """The maximum number of tokens that have positions; None: unlimited."""
        return self.max_length

    def stack_inputs(self, lengths: Sequence[int]) -> list[StackInput]:
        """For each stack, the tokens that an example of these lengths brings to it.

        Args:
            lengths: Number of tokens of source and target, or of the only text.
        """
        below = (0, *lengths[:-1])
        stacks = zip(self.stacks.items(), lengths, below, strict=True)
        return [StackInput(*stack, tokens, memory) for stack, tokens, memory in stacks]

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int | None:
        """Estimates how many numbers one example stores for the backward pass.

        Args:
            lengths: Number of tokens of source and target, or of the only text.
            targets: Number of tokens that the loss is computed on.

        Returns:
            The estimate; None for models of blocks, whose formula is in `regard.cost.count`.
        """
        del lengths, targets
        return None

    def state_floats(self, rows: int, length: int, source: int) -> int | None:
        """How many numbers the decoding of one text stores, apart from the weights.

        Args:
            rows: Number of hypotheses.
            length: Maximum number of tokens of each.
            source: Number of source tokens.

        Returns:
            The number; None for models with a key-value cache, whose formula is in
            `regard.cost.count`.
        """
        del rows, length, source
        return None


class StackInput(NamedTuple):
    """One stack and the tokens of one example that go through it."""

    stack: str
    layers: int
    tokens: int
    memory: int
    """Number of memory tokens that its cross-attention attends to; 0: no cross-attention."""


class BlocksConfig(ModelConfig):
    """The settings of blocks, in all families. Every combination of fields is allowed."""

    heads: int = Field(default=8, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    """Number of key and value heads; fewer than `heads` is grouped attention. None: `heads`."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head. None: dim / heads."""
    hidden: int = Field(default=256, ge=1)
    activation: Activation = "relu"
    norm: NormKind = "layer"
    norm_place: NormPlace = "pre"
    """`pre`: on a sub-layer's input; `post`: on the residual sum; `inside`: on a sub-layer's
    output, before it is added."""
    norm_epsilon: float | None = Field(default=None, gt=0)
    """Added to the variance. None: 1e-5 for layer norm, 1e-6 for RMS norm."""
    final_norm: bool | None = None
    """A norm after the last block of each stack. None: only with pre-norm."""
    embedding_norm: bool = False
    """A norm on the sum of embedding and position (BERT, BART)."""
    residual: bool = True
    """Residual connections; false only to show how a model trains without them."""
    bias: bool = True
    """Whether projections have a bias."""
    attention_bias: Literal["all", "qkv", "out", "none"] | None = None
    """Which of attention's projections have a bias. None: all or none of them, as `bias`."""
    query_key_norm: bool = False
    """An RMS norm on each head's queries and keys, before rotary positions (Qwen3)."""
    positions: PositionKind = "sinusoidal"
    positions_from: int = Field(default=0, ge=0, le=LONGEST)
    """The row of the first token's `learned` position; rows before are unused (RoBERTa, BART)."""
    rotary_base: float = Field(default=10_000.0, gt=0)
    rotary_scaling: RotaryScaling | None = None
    buckets: int = Field(default=32, ge=4, le=LONGEST)
    """Number of buckets of relative positions (T5)."""
    farthest: int = Field(default=128, ge=1, le=LONGEST)
    """All distances from this one on share the last bucket."""
    window: int | None = Field(default=None, ge=1, le=LONGEST)
    """Self-attention covers this many tokens, the token itself included (Mistral). None: all."""
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """Maximum length of a sequence, in tokens. Only `learned` positions need this bound; tasks
    limit the length of their input to it."""
    score: ScoreKind = "scaled_dot"
    scaled_embedding: bool = True
    """Whether embeddings are multiplied by √dim."""
    scaled_output: bool = False
    """Whether the input of the output matrix is divided by √dim (T5 with a tied matrix)."""
    output_bias: bool = False
    """Whether logits have a bias (BERT, Marian)."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on embedding plus position, and on each sub-layer's output."""
    hidden_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout rate on the feed-forward's hidden layer. None: as `dropout`."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on the attention weights. The paper uses it; off by default, since the fused
    kernel cannot be used with it."""

    sublayers: tuple[str, ...] = ("self_attention", "feed_forward")
    """The sub-layers of a block, in order. In a decoder with a memory, cross-attention is inserted
    before the last feed-forward, unless `cross_attention` is named here."""
    scales: dict[str, float] = Field(default_factory=dict)
    """Factors on the outputs of sub-layers, by name (Conformer's feed-forwards: 0.5)."""
    norm_places: dict[str, NormPlace] = Field(default_factory=dict)
    """The norm places of single sub-layers, by name, where they differ from `norm_place`."""
    block_norm: bool = False
    """One more norm at the end of each block (Conformer); the default of `final_norm` is then
    false."""
    drop_path: float = Field(default=0.0, ge=0, lt=1)
    """Probability that an example skips a sub-layer of the last block in training; it falls
    linearly to 0 at the first block (stochastic depth)."""
    kernel: int = Field(default=31, ge=1, le=LONGEST)
    """Kernel size of a `convolution`, in tokens; odd, except in a decoder, whose convolutions are
    causal."""
    convolution_norm: Literal["layer", "rms", "batch", "none"] = "layer"
    """The norm inside a `convolution`. The Conformer uses batch norm; layer norm does not depend on
    the rest of the batch."""
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    """The cell of a `recurrent` sub-layer."""
    both_ways: bool = False
    """Whether `recurrent` sub-layers are bidirectional, with half of the width for each direction;
    ignored in a decoder."""
    grid_window: int | None = Field(default=None, ge=1, le=LONGEST)
    """The side of the square windows of an image within which attention stays; every other block
    shifts them by half of it (Swin)."""
    grid_bias: Literal["none", "table", "net"] = "none"
    """The bias added to attention scores by offset within a window: a learned table (Swin), or the
    output of a small network (Swin-V2)."""

    @model_validator(mode="after")
    def _check_sublayers(self) -> BlocksConfig:
        """Refuses unknown sub-layers, and settings that name a sub-layer which is not there."""
        first_words = [part.partition("_")[0] for part in self.sublayers]
        all_known = all(re.fullmatch(_SUBLAYER, part) for part in self.sublayers)
        if not (self.sublayers and all_known and len(set(first_words)) == len(first_words)):
            raise ValueError(
                f"sublayers [{', '.join(self.sublayers)}]: each must end in "
                f"{', '.join(SUBLAYERS)}, and differ in its first word, as first_feed_forward"
            )
        names = {*self.sublayers, "cross_attention"}
        unknown = sorted((set(self.scales) | set(self.norm_places)) - names)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the sublayers {', '.join(self.sublayers)}")
        if self.positions == "sinusoidal_2d" and (not self.has_grid or self.dim % 4):
            got = f"dim {self.dim}" if self.has_grid else f"a model of {self.reads}"
            raise ValueError(f"positions: sinusoidal_2d is for images, with dim / 4 whole; {got}")
        if self.both_ways and self.dim % 2:
            raise ValueError(f"both_ways needs an even dim, got {self.dim}")
        return self

    @model_validator(mode="after")
    def _check_heads(self) -> BlocksConfig:
        """Refuses heads that do not divide the width, and settings that positions cannot take."""
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
        """Width of a head: `head_dim` if given, else dim / heads."""
        return self.head_dim or self.dim // self.heads

    @property
    def widths(self) -> str:
        """The model's widths with their keys, for messages."""
        return f"dim {self.dim}, hidden {self.hidden}"

    @property
    def summary(self) -> str:
        """A short description of the model's widths and kinds, without its layers."""
        return f"{self.dim} wide, {self.heads} heads, {self.hidden} hidden"

    @property
    def reach(self) -> int | None:
        """The largest distance at which self-attention attends; None: unlimited."""
        return None if self.window is None else self.window - 1

    @property
    def bound(self) -> int | None:
        """The maximum number of tokens that have positions; None (unlimited) with buckets."""
        return None if self.positions == "buckets" else self.max_length


class EncoderDecoderConfig(BlocksConfig):
    """The settings of encoder-decoder families."""

    shape: ClassVar[Shape] = "encoder_decoder"
    has_target: ClassVar[bool] = True
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    encoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=2, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    """`all`: one matrix for both embeddings and the output (needs a shared vocabulary);
    `output`: one for the target embedding and the output; `inputs`: one for the two embeddings;
    `none`: three matrices."""

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of encoder and decoder."""
        return {"encoder": self.encoder_layers, "decoder": self.decoder_layers}


class DecoderConfig(BlocksConfig):
    """The settings of decoder-only families."""

    shape: ClassVar[Shape] = "decoder"
    layers: int = Field(default=4, ge=1, le=DEEPEST)
    feed_forward: bool = True
    """False for a model of attention alone, as in the study of induction heads."""
    tied: bool = True
    """Whether the embedding's matrix is also the output matrix."""

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of the decoder."""
        return {"decoder": self.layers}


class EncoderConfig(BlocksConfig):
    """The settings of encoder-only families, with their heads."""

    HEADS: ClassVar[tuple[str, ...]] = ("masked", "next_sentence", "classes", "tags", "spans")
    shape: ClassVar[Shape] = "encoder"
    layers: int = Field(default=2, ge=1, le=DEEPEST)
    token_types: int = Field(default=2, ge=0, le=LONGEST)
    """Number of token types with a learned vector (first and second sentence: 2); 0: none."""
    scaled_output: Literal[False] = False
    output_bias: Literal[True] = True
    """The masked-token head always has a bias."""
    pooler: Literal["tanh", "relu", "none"] = "tanh"
    """The function f of the pooled vector f(W x), where x is the first token's vector; `none`: the
    pooled vector is x itself."""
    masked: bool = True
    """Whether there is a head that predicts masked tokens; the embedding is its matrix."""
    next_sentence: bool = False
    """Whether there is a head that predicts if the second sentence follows the first."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a text, for a head on the pooled vector; empty: no such head."""
    tags: tuple[str, ...] = ()
    """Names of the tags of a token, for a head on every token; empty: no such head."""
    spans: bool = False
    """Whether there is a head that predicts the first and last token of an answer."""

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of the encoder."""
        return {"encoder": self.layers}
