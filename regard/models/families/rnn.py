"""Recurrent networks of one stack: language models, ELMo, classifiers and taggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.models.config import DEEPEST, LONGEST, ModelConfig, Shape, Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.seq2seq import FUSED, Cell


class RNNConfig(ModelConfig):
    """A stack of recurrent layers over one text.

    With `classes` or `tags`, which the tasks `classify` and `tag` set, it is an encoder with such a
    head; otherwise it is a language model.
    """

    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128},
        "small": {"dim": 256, "layers": 2, "dropout": 0.2},
        "base": {"dim": 512, "layers": 2, "dropout": 0.3},
    }
    """Sizes for a laptop; `tiny` for small datasets."""
    HEADS: ClassVar[tuple[str, ...]] = ("classes", "tags")
    family: Literal["rnn"] = "rnn"
    size: Literal["tiny", "small", "base"] | None = None
    dim: int = Field(default=128, ge=2, multiple_of=2)
    """Width of embeddings and states; with `both_ways`, half of the states for each direction."""
    layers: int = Field(default=1, ge=1, le=DEEPEST)
    cell: Cell = "lstm"
    """`gru_before`: a GRU whose reset gate acts before the matrix (Chung et al. 2014)."""
    both_ways: bool = False
    """A classifier or tagger whose layers read both directions; or two language models, one for the
    next token and one for the token before, with one embedding (ELMo, Peters et al. 2018)."""
    tied: bool = True
    """Whether the embedding's matrix is also a language model's output matrix."""
    pool: Literal["last", "mean"] = "last"
    """The vector that a text is classified by: the state of each direction after the whole text, or
    the mean of the states of all tokens."""
    classes: tuple[str, ...] = ()
    """Names of the classes of a text, for a head on the pooled vector; empty: no such head."""
    tags: tuple[str, ...] = ()
    """Names of the tags of a token, for a head on every token; empty: no such head."""
    max_length: int = Field(default=1024, ge=1, le=LONGEST)
    """Maximum length of a text; nothing in the model depends on it."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on embeddings, and on the output of each recurrent layer."""

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        """`encoder` if there is a head for classes or tags, else `decoder`."""
        return "encoder" if self.classes or self.tags else "decoder"

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Without a head it can be either: a task that learns labels adds the head."""
        return ("encoder",) if self.shape == "encoder" else ("decoder", "encoder")

    @property
    def bidirectional(self) -> bool:
        """Whether the vectors of a language model's tokens depend on both sides."""
        return self.both_ways

    @property
    def width(self) -> int:
        """Width of the states of one direction."""
        return self.dim // 2 if self.both_ways else self.dim

    @property
    def stacks(self) -> dict[str, int]:
        """The number of layers of the only stack."""
        return {self.shape: self.layers}

    @property
    def summary(self) -> str:
        """A short description of the model's width and cells."""
        return f"{self.dim} wide, {self.cell} cells{', both ways' if self.both_ways else ''}"

    def activation_floats(self, lengths: Sequence[int], targets: int) -> int:
        """Estimates how many numbers one text stores for the backward pass: gates and states."""
        [tokens] = lengths
        return self.dim * (tokens * (FUSED[self.cell] * self.layers + 2) + targets)

    def state_floats(self, rows: int, length: int, source: int) -> int:
        """How many numbers decoding stores: the states of each row, whatever the length."""
        del length, source
        if self.shape == "encoder":
            return 0
        return rows * self.layers * (2 if self.cell == "lstm" else 1) * self.width


def build(config: RNNConfig, vocab: int) -> Any:
    """Builds the language model, or the encoder with its head."""
    from regard.models.rnn import RecurrentEncoder, RecurrentLM

    return (RecurrentEncoder if config.shape == "encoder" else RecurrentLM)(config, vocab)


FAMILY = Family(
    RNNConfig,
    build,
    task="generate",
    named={
        f"rnn-{size}": PublishedModel({"family": "rnn", "size": size}, lengths=(256,))
        for size in RNNConfig.SIZES
    },
)
