"""BERT, RoBERTa and DistilBERT."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from regard.models.config import EncoderConfig, Short, Sizes
from regard.models.families.family import BROWN, Family, PublishedModel


class BertConfig(EncoderConfig):
    """BERT, an encoder-only model (Devlin et al. 2019); also RoBERTa and DistilBERT."""

    DEFAULTS: ClassVar[Short] = {
        "heads": 2, "hidden": 512, "activation": "gelu", "norm_place": "post",
        "norm_epsilon": 1e-12, "embedding_norm": True, "positions": "learned", "max_length": 512,
        "scaled_embedding": False,
    }  # fmt: skip
    SIZES: ClassVar[Sizes] = {
        "tiny": {"dim": 128, "heads": 2, "hidden": 512, "layers": 2, "max_length": 256},
        "mini": {"dim": 256, "heads": 4, "hidden": 1024, "layers": 4},
        "base": {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12},
        "large": {"dim": 1024, "heads": 16, "hidden": 4096, "layers": 24},
    }
    family: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "base", "large"] | None = None


def _published_model(size: str) -> PublishedModel:
    """The entry of a size in the list of models that `regard plan` knows by name."""
    length = BertConfig(size=size).max_length
    return PublishedModel({"family": "bert", "size": size}, lengths=(length,))


_TRAINING: dict[str, Any] = {
    "vocab": 30522, "lengths": (512,), "step_tokens": 256 * 512, "steps": 1_000_000,
    "source": "Devlin et al. 2019; mostly on texts of 128",
}  # fmt: skip

FAMILY = Family(
    BertConfig,
    "regard.models.encoder.Encoder",
    task="fill",
    named={
        "bert-tiny": _published_model("tiny"),
        "bert-mini": _published_model("mini"),
        "bert-base": PublishedModel(
            {"family": "bert", "size": "base", "next_sentence": True}, **_TRAINING
        ),
        "bert-large": PublishedModel(
            {"family": "bert", "size": "large", "next_sentence": True}, **_TRAINING
        ),
        "roberta-large": PublishedModel(
            {"family": "bert", "size": "large", "pooler": "none", "token_types": 0},
            vocab=50265,
            step_tokens=8192 * 512,
            steps=500_000,
            source="Liu et al. 2019, table 4",
            flops=4.26e21,
            flops_source=f"{BROWN}: 6 × parameters × tokens",
        ),
    },
)
