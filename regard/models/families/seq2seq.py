"""The recurrent translation model, with attention (Bahdanau et al. 2015) or one context vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from regard.models.config import DEEPEST, LONGEST, ModelConfig, Shape, Sizes
from regard.models.families.family import Family, PublishedModel

Cell = Literal["rnn", "gru", "gru_before", "lstm"]
FUSED = {"rnn": 4, "gru": 10, "gru_before": 9, "lstm": 9}
IN_TURN = {"rnn": 5, "gru": 11, "gru_before": 14, "lstm": 13}
"""Number of vectors (of the state's width) that a layer stores per token for the backward pass,
measured on texts of different lengths: in PyTorch's kernel (`gru_before` has none), and in the
decoder's loop over time."""


class Seq2SeqConfig(ModelConfig):
    """A bidirectional recurrent encoder, and a recurrent decoder that attends to it."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128},
        "small": {"dim": 256, "dropout": 0.2},
        "base": {"dim": 512, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3},
    }
    """Sizes for a laptop; `tiny` for small datasets."""
    shape: ClassVar[Shape] = "encoder_decoder"
    has_target: ClassVar[bool] = True
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    family: Literal["seq2seq"] = "seq2seq"
    size: Literal["tiny", "small", "base"] | None = None
    dim: int = Field(default=128, ge=2, multiple_of=2)
    """Width of embeddings and states; in an encoder of both directions, half of it for each."""
    cell: Cell = "gru"
    """`gru_before`: a GRU whose reset gate acts before the matrix (Chung et al. 2014)."""
    encoder: Literal["both", "forward", "backward"] = "both"
    """The direction in which the encoder reads. `backward` is a source in reversed order (Sutskever
    et al. 2014)."""
    attention: Literal["additive", "dot", "location", "none"] = "additive"
    """The score of the decoder's attention: v·tanh(W s + U h_i), W s · U h_i, or W s · p_i with a
    learned vector p_i for each place i of the source. `none`: one context vector, the encoder's
    final states of all its directions."""
    last_word: bool = False
    """Whether the score sees the last word, too: W [s; y] in place of W s."""
    hard_attention: bool | Literal["sampled"] = False
    """Hard attention: the context is the one source token with the highest score. Gradients are
    straight-through: those of soft attention. `sampled`: in training the source token is drawn from
    the softmax (straight-through Gumbel-softmax); in decoding it is the one with the highest."""
    context: Literal["every", "first"] = "every"
    """Without attention: whether the context vector enters every step (Cho et al. 2014), or is only
    the decoder's initial state (Sutskever et al. 2014)."""
    encoder_layers: int = Field(default=1, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=1, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    """Which of the two embeddings and the output share a matrix, as in other encoder-decoders."""
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """Maximum length of an input sequence; nothing in the model depends on it."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on embeddings, and on the output of each recurrent layer."""

    @model_validator(mode="after")
    def _check_attention(self) -> Seq2SeqConfig:
        """Refuses settings that contradict the kind of attention."""
        if self.attention == "none" and (self.hard_attention or self.last_word):
            key = "hard_attention" if self.hard_attention else "last_word"
            raise ValueError(f"{key} needs attention: additive, dot or location, got none")
        if self.attention != "none" and self.context == "first":
            raise ValueError(f"context: first needs attention: none, got {self.attention}")
        return self

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of encoder and decoder."""
        return {"encoder": self.encoder_layers, "decoder": self.decoder_layers}

    @property
    def summary(self) -> str:
        """A short description of the model's width, cells and attention."""
        attention = "no attention" if self.attention == "none" else f"{self.attention} attention"
        hard = "sampled hard" if self.hard_attention == "sampled" else "hard"
        attention = f"{hard} {attention}" if self.hard_attention else attention
        return f"{self.dim} wide, {self.cell} cells, {attention}"

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int:
        """Estimates how many numbers one example stores for the backward pass.

        Each layer stores its gates and states; attention stores tanh(W s + U h) for every pair of a
        target and a source token; the readout stores its input and output.
        """
        (source, target), dim = lengths, self.dim
        lowest = (FUSED if self.attention == "none" else IN_TURN)[self.cell]
        above = FUSED[self.cell] * (self.decoder_layers - 1)
        layers = self.encoder_layers * FUSED[self.cell] * source + (lowest + above) * target
        pairs = {"additive": dim + 3, "dot": 3, "location": 3, "none": 0}[self.attention]
        top = 5 if self.context == "every" else 2
        ends = 2 * source + (2 if self.context == "every" else 1) * target
        linear = dim * (layers + ends + top * targets)
        return linear + pairs * source * target

    def state_floats(self, rows: int, length: int, source: int) -> int:
        """How many numbers decoding stores: states of each row, keys and values of the source.

        The number does not depend on the length of the translation.
        """
        del length
        states = self.decoder_layers * (2 if self.cell == "lstm" else 1)
        if self.attention == "none":
            states += self.context == "every"
            return (rows * states + source) * self.dim
        return (rows * states + 2 * source) * self.dim


FAMILY = Family(
    Seq2SeqConfig,
    "regard.models.recurrent.Seq2Seq",
    task="translate",
    named={
        f"seq2seq-{size}": PublishedModel({"family": "seq2seq", "size": size}, lengths=(50, 50))
        for size in Seq2SeqConfig.SIZES
    },
)
