"""The recurrent translation model, with attention (Bahdanau et al. 2015) or one context vector."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.layers.config import PairHead, SequenceStack
from regard.layers.recurrent_config import RecurrentDecoderConfig
from regard.models.config import ModelConfig, Short, Sizes
from regard.models.families.family import Family, PublishedModel

RECURRENT: Short = {
    "block": ("recurrent",), "norm": "none", "residual": False, "positions": "none",
}  # fmt: skip
"""A stack of recurrent layers alone."""


class Seq2SeqConfig(ModelConfig):
    """A bidirectional recurrent encoder, and a recurrent decoder that attends to it."""

    DEFAULTS: ClassVar[Short] = {"encoder": {**RECURRENT, "direction": "both"}, "layers": 1}
    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128},
        "small": {"dim": 256, "dropout": 0.2},
        "base": {"dim": 512, "layers": 2, "dropout": 0.3},
    }
    """Sizes for a laptop; `tiny` for small datasets."""
    has_target: ClassVar[bool] = True
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    family: Literal["seq2seq"] = "seq2seq"
    size: Literal["tiny", "small", "base"] | None = None
    encoder: SequenceStack = SequenceStack()
    decoder: RecurrentDecoderConfig = RecurrentDecoderConfig()
    head: PairHead = PairHead()


FAMILY = Family(
    Seq2SeqConfig,
    "regard.models.recurrent.Seq2Seq",
    task="translate",
    named={
        f"seq2seq-{size}": PublishedModel({"family": "seq2seq", "size": size}, lengths=(50, 50))
        for size in Seq2SeqConfig.SIZES
    },
)
