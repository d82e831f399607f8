"""Recurrent networks of one stack: language models, ELMo, classifiers and taggers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from regard.layers.config import SequenceStack, TiedHead
from regard.models.config import ModelConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel
from regard.models.families.seq2seq import RECURRENT


class RNNHead(TiedHead):
    """The heads of a recurrent network: one of a language model, or of a classifier or tagger."""

    pool: Literal["last", "mean"] = "last"
    """The vector that a text is classified by: the state of each direction after the whole text, or
    the mean of the states of all tokens."""
    classes: tuple[str, ...] = ()
    """Names of the classes of an input, for a head on the pooled vector; empty: no such head."""
    tags: tuple[str, ...] = ()
    """Names of the tags of a token, for a head on every token; empty: no such head."""


class RNNConfig(ModelConfig):
    """A stack of recurrent layers over one text.

    With `classes` or `tags`, which the tasks `classify` and `tag` set, it is an encoder with such a
    head; otherwise it is a language model. With `direction: both`, the layers of an encoder read
    both directions; of language models there are two, one for the next token and one for the token
    before, with one embedding (ELMo, Peters et al. 2018).
    """

    DEFAULTS: ClassVar[Short] = {"decoder": RECURRENT, "layers": 1, "cell": "lstm"}
    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128},
        "small": {"dim": 256, "layers": 2, "dropout": 0.2},
        "base": {"dim": 512, "layers": 2, "dropout": 0.3},
    }
    """Sizes for a laptop; `tiny` for small datasets."""
    HEADS: ClassVar[tuple[str, ...]] = ("classes", "tags")
    family: Literal["rnn"] = "rnn"
    size: Literal["tiny", "small", "base"] | None = None
    decoder: SequenceStack = SequenceStack()
    """The recurrent layers, of an encoder, too."""
    head: RNNHead = RNNHead()

    @property
    def sides(self) -> dict[str, Any]:
        """The only stack: an encoder if there is a head for classes or tags, else a decoder."""
        name = "encoder" if self.head.classes or self.head.tags else "decoder"
        return {name: self.decoder}

    @property
    def bidirectional(self) -> bool:
        """Whether the vectors of a language model's tokens depend on both sides."""
        recurrent = self.decoder.recurrent
        return recurrent is not None and recurrent.direction == "both"

    @property
    def width(self) -> int:
        """Width of the states of one direction."""
        return self.decoder.dim // 2 if self.bidirectional else self.decoder.dim


def build(config: RNNConfig, vocab: int) -> Any:
    """Builds the language model, or the encoder with its head."""
    from regard.models.rnn import RecurrentEncoder, RecurrentLM

    return (RecurrentEncoder if "encoder" in config.sides else RecurrentLM)(config, vocab)


FAMILY = Family(
    RNNConfig,
    build,
    task="generate",
    named={
        f"rnn-{size}": PublishedModel({"family": "rnn", "size": size}, lengths=(256,))
        for size in RNNConfig.SIZES
    },
)
