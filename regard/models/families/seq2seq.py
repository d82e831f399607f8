"""The recurrent translator: with attention (Bahdanau et al. 2015), or one context vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.models.config import DEEPEST, LONGEST, ModelConfig, Shape, Sizes
from regard.models.families.family import Family, Named

FUSED, IN_TURN = {"rnn": 4, "gru": 10, "lstm": 9}, {"rnn": 5, "gru": 11, "lstm": 13}
"""Vectors as wide as the state that a layer keeps of each token for the backward pass, as measured
on texts of different lengths: in PyTorch's kernel, and in the decoder's loop over time."""


class Seq2SeqConfig(ModelConfig):
    """A recurrent encoder that reads both ways, and a recurrent decoder that looks at it."""

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128},
        "small": {"dim": 256, "dropout": 0.2},
        "base": {"dim": 512, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3},
    }
    """For a laptop; `tiny` for small data."""
    shape: ClassVar[Shape] = "encoder_decoder"
    sides: ClassVar[int] = 2
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    family: Literal["seq2seq"] = "seq2seq"
    size: Literal["tiny", "small", "base"] | None = None
    dim: int = Field(default=128, ge=2, multiple_of=2)
    """Of embeddings and states; in the encoder, half of a state for each direction."""
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    attention: Literal["additive", "dot", "none"] = "additive"
    """How the decoder looks at the source: by v·tanh(W s + U h), by W s · U h, or not at all: then
    one vector, what the encoder holds at its two ends, is its context at every step."""
    encoder_layers: int = Field(default=1, ge=1, le=DEEPEST)
    decoder_layers: int = Field(default=1, ge=1, le=DEEPEST)
    tied: Literal["all", "output", "inputs", "none"] = "all"
    """As in the other encoder-decoders: which of both embeddings and the output matrix are one."""
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """The longest sequence that is taken; nothing in the model depends on it."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On embeddings, and on what leaves each recurrent layer."""

    @property
    def stacks(self) -> dict[str, int]:
        """Both."""
        return {"encoder": self.encoder_layers, "decoder": self.decoder_layers}

    @property
    def summary(self) -> str:
        """What it is made of beside its layers, in words."""
        looks = "no attention" if self.attention == "none" else f"{self.attention} attention"
        return f"{self.dim} wide, {self.cell} cells, {looks}"

    def kept_numbers(self, lengths: Sequence[int], targets: int) -> int:
        """Numbers that one example keeps from forward to backward, estimated.

        Each layer keeps its gates and states; attention tanh(W s + U h) for every pair of a target
        and a source token; the readout what it reads and what it gives.
        """
        (source, target), dim = lengths, self.dim
        lowest = (FUSED if self.attention == "none" else IN_TURN)[self.cell]
        above = FUSED[self.cell] * (self.decoder_layers - 1)
        layers = self.encoder_layers * FUSED[self.cell] * source + (lowest + above) * target
        pairs = {"additive": 2 * dim + 3, "dot": 3, "none": 0}[self.attention] * source * target
        return dim * (layers + 2 * (source + target) + 5 * targets) + pairs

    def held_numbers(self, rows: int, length: int, source: int) -> int:
        """Numbers that decoding one text holds: states of each row, keys and values of the source.

        They do not depend on how long the translation becomes.
        """
        del length
        states = self.decoder_layers * (2 if self.cell == "lstm" else 1)
        if self.attention == "none":
            return (rows * (states + 1) + source) * self.dim
        return (rows * states + 2 * source) * self.dim


def build(config: Seq2SeqConfig, source_vocab: int, target_vocab: int) -> Any:
    """Its encoder and decoder."""
    from regard.models.recurrent import Seq2Seq

    return Seq2Seq(config, source_vocab, target_vocab)


FAMILY = Family(
    Seq2SeqConfig,
    build,
    task="translate",
    named={
        f"seq2seq-{size}": Named({"family": "seq2seq", "size": size}, lengths=(50, 50))
        for size in Seq2SeqConfig.SIZES
    },
)
