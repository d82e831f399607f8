"""The configs of a model's parts: sub-layers, positions, fronts, stacks and vocabulary heads.

A stack is one side of a model: a front that makes vectors of an input, and blocks that are applied
to them in turn. Each part is chosen by its `kind`, so that a setting stands only where it means
something: a kernel belongs to a convolution, a table of positions to `learned` positions. Parts of
models that read images are in `grid_config.py`, those of recurrent decoders in
`recurrent_config.py`. How a recipe may leave out the nesting is in `regard/layers/short.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from regard.config import Config
from regard.layers.short import ShortForm

Activation = Literal[
    "relu", "gelu", "gelu_tanh", "silu",
    "gated_relu", "gated_gelu", "gated_gelu_tanh", "gated_silu",
]  # fmt: skip
NormKind = Literal["layer", "rms", "none"]
NormPlace = Literal["pre", "post", "inside"]
ScoreKind = Literal["scaled_dot", "dot", "additive", "cosine"]
Cell = Literal["rnn", "gru", "gru_before", "lstm"]

LONGEST = 2**24
"""Upper bound on lengths, in tokens; a config with more is corrupt or malicious."""
DEEPEST = 1000
"""Upper bound on layers: the deepest published models have this many, and building takes time."""


class Sublayer(Config):
    """The settings that all kinds of sub-layers share."""

    NAME: ClassVar[str]
    """The block's attribute that stores such a sub-layer, unless `name` is given."""
    kind: str
    name: str | None = Field(default=None, pattern=r"^[a-z]+(_[a-z]+)*$")
    """The sub-layer's name in the block and in taps, if a block has two of a kind; it ends in the
    usual name and differs in its first word, as `first_feed_forward`."""
    scale: float = 1.0
    """Factor on the output (Conformer's feed-forwards: 0.5)."""
    sublayer_norm_place: NormPlace | None = None
    """Where this sub-layer's norm is, if not where `norm_place` says."""

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        if self.name is not None and not self.name.endswith(self.NAME):
            raise ValueError(f"name {self.name}: it must end in {self.NAME}")
        return self

    @property
    def part(self) -> str:
        """The block's attribute that stores this sub-layer."""
        return self.name or self.NAME


class AnyAttention(Sublayer):
    """The settings of every attention."""

    NAME: ClassVar[str] = "self_attention"
    heads: int = Field(default=8, ge=1)
    kv_heads: int | None = Field(default=None, ge=1)
    """Number of key and value heads; fewer than `heads` is grouped attention. None: `heads`."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head. None: dim / heads."""
    score: ScoreKind = "scaled_dot"
    attention_bias: Literal["all", "qkv", "out", "none", "all_but_key"] | None = None
    """Which of attention's projections have a bias. None: all or none of them, as `bias`."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on the attention weights. The paper uses it; off by default, since the fused
    kernel cannot be used with it."""
    query_key_norm: bool = False
    """An RMS norm on each head's queries and keys, before rotary positions (Qwen3)."""


class AttentionConfig(AnyAttention):
    """Self-attention among all tokens of a sequence, or those within a window."""

    kind: Literal["attention"] = "attention"
    window: int | None = Field(default=None, ge=1, le=LONGEST)
    """Self-attention covers this many tokens, the token itself included (Mistral). None: all."""


class CrossAttentionConfig(AnyAttention):
    """Attention of a decoder's tokens to the memory, the output of the encoder."""

    NAME: ClassVar[str] = "cross_attention"
    kind: Literal["cross_attention"] = "cross_attention"


class FeedForwardConfig(Sublayer):
    """Two matrices with an activation function between them."""

    NAME: ClassVar[str] = "feed_forward"
    kind: Literal["feed_forward"] = "feed_forward"
    hidden: int = Field(default=256, ge=1)
    """Width of the hidden layer."""
    activation: Activation = "relu"
    hidden_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout rate on the hidden layer. None: as `dropout`."""


class GatedConvolutionConfig(Sublayer):
    """A gated convolution over neighbouring tokens (ConvS2S)."""

    NAME: ClassVar[str] = "gated_convolution"
    kind: Literal["gated_convolution"] = "gated_convolution"
    kernel: int = Field(default=31, ge=1, le=LONGEST)
    """Kernel size of a convolution in tokens, the token itself included; odd, except in a decoder,
    whose convolutions are causal."""


class ConvolutionConfig(Sublayer):
    """The Conformer's convolution over neighbouring tokens."""

    NAME: ClassVar[str] = "convolution"
    kind: Literal["convolution"] = "convolution"
    kernel: int = Field(default=31, ge=1, le=LONGEST)
    """Kernel size of a convolution in tokens, the token itself included; odd, except in a decoder,
    whose convolutions are causal."""
    convolution_norm: Literal["layer", "rms", "batch", "none"] = "layer"
    """The norm inside a `convolution`. The Conformer uses batch norm; layer norm does not depend on
    the rest of the batch."""


class RecurrentConfig(Sublayer):
    """A recurrent layer over the tokens of a sequence."""

    NAME: ClassVar[str] = "recurrent"
    kind: Literal["recurrent"] = "recurrent"
    cell: Cell = "gru"
    """`gru_before`: a GRU whose reset gate acts before the matrix (Chung et al. 2014)."""
    direction: Literal["forward", "backward", "both", "apart"] = "forward"
    """In which direction a recurrent layer reads. `backward`: from the end (Sutskever et al. 2014);
    `both`: two layers of half the width; `apart`: two that never see each other (ELMo)."""


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


class SinusoidalConfig(Config):
    """Sines and cosines added to the embedding: alternating, or all sines first (`_halves`)."""

    kind: Literal["sinusoidal", "sinusoidal_halves"] = "sinusoidal"


class Sinusoidal2DConfig(Config):
    """Sines and cosines of the row and the column of a patch."""

    kind: Literal["sinusoidal_2d"] = "sinusoidal_2d"


class LearnedConfig(Config):
    """A learned vector for each position."""

    kind: Literal["learned"] = "learned"
    positions_from: int = Field(default=0, ge=0, le=LONGEST)
    """The row of the first token's `learned` position; rows before are unused (RoBERTa, BART)."""


class RotaryConfig(Config):
    """Queries and keys turned by an angle that grows with the position (RoPE)."""

    kind: Literal["rotary"] = "rotary"
    rotary_base: float = Field(default=10_000.0, gt=0)
    """The base of the angles' geometric series."""
    rotary_scaling: RotaryScaling | None = None
    """Scaling of the frequencies for longer texts; None: none."""


class BucketsConfig(Config):
    """A learned bias on attention scores by relative position (T5)."""

    kind: Literal["buckets"] = "buckets"
    buckets: int = Field(default=32, ge=4, le=LONGEST)
    """Number of buckets of relative positions."""
    farthest: int = Field(default=128, ge=1, le=LONGEST)
    """All distances from this one on share the last bucket."""

    @model_validator(mode="after")
    def _check_farthest(self) -> Self:
        if self.farthest <= self.buckets // 4:
            raise ValueError(f"farthest {self.farthest} must be more than a quarter of the buckets")
        return self


class NoPositionsConfig(Config):
    """No positions: attention alone cannot tell the order of the tokens."""

    kind: Literal["none"] = "none"


AnyPositions = Annotated[
    SinusoidalConfig | LearnedConfig | RotaryConfig | BucketsConfig | NoPositionsConfig,
    Field(discriminator="kind"),
]


class WordsFront(Config):
    """Token ids -> vectors, by a learned matrix."""

    reads: ClassVar[str] = "text"
    """The name of the reader of such inputs in `regard.inputs.reader.READERS`."""
    kind: Literal["text"] = "text"
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """Maximum length of a sequence, in tokens. Only `learned` positions need this bound; tasks
    limit the length of their input to it."""


class TextFront(WordsFront):
    """Token ids -> vectors, to which a stack may add positions."""

    scaled_embedding: bool = True
    """Whether embeddings are multiplied by √dim."""
    embedding_norm: bool = False
    """A norm on the sum of embedding and position (BERT, BART)."""


class SentencesFront(TextFront):
    """Token ids -> vectors, with a further vector for the sentence that a token belongs to."""

    token_types: int = Field(default=2, ge=0, le=LONGEST)
    """Number of token types with a learned vector (first and second sentence: 2); 0: none."""


Part = TypeVar("Part", bound=Sublayer)


class StackConfig(ShortForm):
    """One side of a model: a front, and blocks of sub-layers that are applied in turn."""

    kind: Literal["blocks"] = "blocks"
    front: Any
    dim: int = Field(default=128, ge=1)
    """Width of the vectors."""
    layers: int = Field(default=2, ge=1, le=DEEPEST)
    """Number of blocks."""
    block: tuple[Any, ...]
    """The sub-layers of a block, in order."""
    positions: Any
    """How the position of a token enters the computation."""
    norm: NormKind = "layer"
    norm_place: NormPlace = "pre"
    """`pre`: on a sub-layer's input; `post`: on the residual sum; `inside`: on a sub-layer's
    output, before it is added."""
    norm_epsilon: float | None = Field(default=None, gt=0)
    """Added to the variance. None: 1e-5 for layer norm, 1e-6 for RMS norm."""
    final_norm: bool | None = None
    """A norm after the last block. None: only with pre-norm and without `block_norm`."""
    block_norm: bool = False
    """One more norm at the end of each block (Conformer)."""
    bias: bool = True
    """Whether projections have a bias."""
    residual: bool = True
    """Residual connections; false only to show how a model trains without them."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on embedding plus position, and on each sub-layer's output; in a convolutional
    network, on the input of the head."""
    drop_path: float = Field(default=0.0, ge=0, lt=1)
    """Probability that an example skips a sub-layer of the last block in training; it falls
    linearly to 0 at the first block (stochastic depth)."""
    layer_scale: float | None = Field(default=None, gt=0)
    """First value of a learned factor for each feature of a sub-layer's output (CaiT, DINOv2).
    None: no such factors."""

    def first(self, kind: type[Part]) -> Part | None:
        """The first sub-layer of a kind; None if a block has none."""
        return next((part for part in self.block if isinstance(part, kind)), None)

    @property
    def attention(self) -> AnyAttention | None:
        """The first attention of a block."""
        return self.first(AnyAttention)

    @property
    def feed_forward(self) -> FeedForwardConfig | None:
        """The first feed-forward of a block."""
        return self.first(FeedForwardConfig)

    @property
    def recurrent(self) -> RecurrentConfig | None:
        """The first recurrent layer of a block."""
        return self.first(RecurrentConfig)

    def head_width(self, attention: AnyAttention) -> int:
        """Width of one of an attention's heads: `head_dim` if given, else dim / heads."""
        return attention.head_dim or self.dim // attention.heads

    @property
    def reach(self) -> int | None:
        """The largest distance, in tokens, at which self-attention attends; None: unlimited."""
        attention = self.first(AttentionConfig)
        return None if attention is None or attention.window is None else attention.window - 1

    @property
    def bound(self) -> int | None:
        """The maximum number of tokens that have positions; None (unlimited) with buckets."""
        length: int = self.front.max_length
        return None if self.positions.kind == "buckets" else length

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last block."""
        usual = self.norm_place == "pre" and not self.block_norm
        return usual if self.final_norm is None else self.final_norm

    @property
    def summary(self) -> str:
        """A short description of the widths and sub-layers."""
        words, attention, recurrent = [f"{self.dim} wide"], self.attention, self.recurrent
        convolution = self.first(GatedConvolutionConfig) or self.first(ConvolutionConfig)
        if convolution is not None:
            words.append(f"convolutions of {convolution.kernel}")
        if attention is not None:
            words.append(f"{attention.heads} head{'s' if attention.heads > 1 else ''}")
        if recurrent is not None:
            ways = "" if recurrent.direction == "forward" else f", {recurrent.direction} ways"
            words.append(f"{recurrent.cell} cells{ways}")
        if self.feed_forward is not None:
            words.append(f"{self.feed_forward.hidden} hidden")
        return ", ".join(words)

    @model_validator(mode="after")
    def _check_block(self) -> Self:
        """Refuses sub-layers that cannot stand in one block."""
        names = [part.part for part in self.block]
        first_words = [name.partition("_")[0] for name in names]
        if not names or len(set(first_words)) < len(first_words):
            raise ValueError(
                f"block [{', '.join(names)}]: at least one sub-layer, and names that differ in "
                "their first word; give one a name, such as {kind: feed_forward, name: "
                "first_feed_forward}"
            )
        windows = {part.window for part in self.block if isinstance(part, AttentionConfig)}
        if len(windows) > 1:
            raise ValueError("the attentions of a block need one window, since they share a mask")
        halves = self.recurrent is not None and self.recurrent.direction in ("both", "apart")
        if halves and self.dim % 2:
            raise ValueError(f"direction: both needs an even dim, got {self.dim}")
        return self

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        """Refuses heads that do not divide the width, and positions that nothing can use."""
        attentions = [part for part in self.block if isinstance(part, AnyAttention)]
        for part in attentions:
            if part.head_dim is None and self.dim % part.heads:
                raise ValueError(f"dim {self.dim} is not a multiple of heads {part.heads}")
            if part.kv_heads is not None and part.heads % part.kv_heads:
                raise ValueError(
                    f"heads {part.heads} is not a multiple of kv_heads {part.kv_heads}"
                )
            if self.positions.kind == "rotary" and self.head_width(part) % 2:
                raise ValueError(f"rotary needs an even head width, got {self.head_width(part)}")
        if self.positions.kind in ("rotary", "buckets") and not attentions:
            raise ValueError(f"positions: {self.positions.kind} needs an attention in the block")
        return self


SequenceSublayer = Annotated[
    AttentionConfig
    | FeedForwardConfig
    | ConvolutionConfig
    | GatedConvolutionConfig
    | RecurrentConfig,
    Field(discriminator="kind"),
]
WritingSublayer = Annotated[
    AttentionConfig
    | CrossAttentionConfig
    | FeedForwardConfig
    | ConvolutionConfig
    | GatedConvolutionConfig
    | RecurrentConfig,
    Field(discriminator="kind"),
]


class SequenceStack(StackConfig):
    """A stack over a sequence of tokens: an encoder of text, or a decoder without a memory."""

    front: TextFront = TextFront()
    block: tuple[SequenceSublayer, ...] = (AttentionConfig(), FeedForwardConfig())
    positions: AnyPositions = SinusoidalConfig()


class SentencesStack(SequenceStack):
    """A stack over a text of one or two sentences (BERT)."""

    front: SentencesFront = SentencesFront()


class WritingStack(SequenceStack):
    """The decoder of an encoder-decoder: its blocks attend to the memory, too."""

    block: tuple[WritingSublayer, ...] = (  # type: ignore[assignment]
        AttentionConfig(),
        CrossAttentionConfig(),
        FeedForwardConfig(),
    )

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        """Refuses a decoder that never looks at its encoder, or that reads ahead."""
        if self.first(CrossAttentionConfig) is None:
            raise ValueError("the block of a decoder with an encoder needs a cross_attention")
        if self.recurrent is not None and self.recurrent.direction != "forward":
            raise ValueError(f"a decoder reads forward, not {self.recurrent.direction}")
        return self


Tying = Literal["all", "output", "inputs", "none"]


class TiedHead(Config):
    """A head that may share its matrix with the embedding."""

    tied: Literal["all", "none"] = "all"
    """Which matrices are one. `all`: embeddings and output (in a model with two sides, that needs a
    shared vocabulary); `output`: the decoder's embedding and the output; `inputs`: both embeddings;
    `none`: each its own. true is short for `all`, false for `none`."""

    @model_validator(mode="before")
    @classmethod
    def _read_short_tied(cls, values: Any) -> Any:
        tied = values.get("tied") if isinstance(values, dict) else None
        return {**values, "tied": "all" if tied else "none"} if isinstance(tied, bool) else values


class TokenHead(TiedHead):
    """The output over a vocabulary: logits = W x."""

    output_bias: bool = False
    """Whether logits have a bias (BERT, Marian)."""
    scaled_output: bool = False
    """Whether the input of the output matrix is divided by √dim (T5 with a tied matrix)."""


class PairHead(TokenHead):
    """The output over the target vocabulary of a model with two sides."""

    tied: Tying = "all"  # type: ignore[assignment]
    """Which matrices are one, as in a model with one side, and two more choices."""
