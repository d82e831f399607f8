"""Models that people know by name: their sizes, vocabulary and training, as far as published.

Light on purpose: dicts of numbers, for `regard plan NAME` and the size table of the atlas. A name
is a size of its family's config where that has it; the others are spelled out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.models.config import BertConfig, GPTConfig, T5Config


@dataclass(frozen=True)
class Named:
    """One model.

    Attributes:
        model: The `model:` section of a recipe.
        vocab: Entries of the vocabulary.
        lengths: Tokens of its texts in training: of source and target, or of the only one.
        step_tokens: Tokens of a training step.
        steps: Of the training; 0 where nobody published how many.
        source: Where that was published.
        flops: Of the training, where somebody published a count of their own.
        flops_source: Who, and how they counted.
    """

    model: dict[str, Any]
    vocab: int = 8000
    lengths: tuple[int, ...] = (512,)
    step_tokens: int = 0
    steps: int = 0
    source: str = ""
    flops: float | None = None
    flops_source: str = ""

    @property
    def tokens(self) -> int:
        """Of the whole training."""
        return self.steps * self.step_tokens


def _gpt(size: str, **training: Any) -> Named:
    length = GPTConfig(size=size).max_length
    return Named({"family": "gpt", "size": size}, lengths=(length,), **training)


def _bert(size: str, **training: Any) -> Named:
    length = BertConfig(size=size).max_length
    return Named({"family": "bert", "size": size}, lengths=(length,), **training)


_TABLE = "Brown et al. 2020"
"""Its table D.1 counts the training of others too."""
_BERT: dict[str, Any] = {
    "vocab": 30522, "lengths": (512,), "step_tokens": 256 * 512, "steps": 1_000_000,
    "source": "Devlin et al. 2019; mostly on texts of 128",
}  # fmt: skip
_T5: dict[str, Any] = {
    "vocab": 32128, "lengths": (512, 114), "step_tokens": 2048 * (512 + 114), "steps": 1_000_000,
    "source": "Raffel et al. 2020, section 3.7",
}  # fmt: skip
_T5_FLOPS = {"small": 1.8e20, "base": 6.6e20, "large": 2.31e21}
_MEGATRON: dict[str, Any] = {
    "vocab": 51200, "lengths": (1024,), "step_tokens": 512 * 1024, "steps": 300_000,
}  # fmt: skip
_NO_POOLER = {"family": "bert", "size": "large", "pooler": "none", "token_types": 0}

NAMED: dict[str, Named] = {
    "nano": _gpt("nano"),
    "mini": _gpt("mini"),
    "gpt2": _gpt("gpt2", vocab=50257),
    "gpt2-medium": _gpt("gpt2-medium", vocab=50257),
    "gpt2-large": _gpt("gpt2-large", vocab=50257),
    "gpt2-xl": _gpt("gpt2-xl", vocab=50257),
    "gpt3": _gpt(
        "gpt3",
        vocab=50257,
        step_tokens=1536 * 2048,
        steps=95_367,
        source="Brown et al. 2020: 300 G tokens",
        flops=3.14e23,
        flops_source=f"{_TABLE}: 6 × parameters × tokens",
    ),
    "nano-llama": _gpt("nano-llama"),
    "mini-llama": _gpt("mini-llama"),
    "llama-7b": _gpt(
        "llama-7b",
        vocab=32000,
        step_tokens=1024 * 4096,
        steps=476_837,
        source="Touvron et al. 2023 (Llama 2): 2 T tokens",
    ),
    "megatron-lm": Named(
        {"family": "gpt", "dim": 3072, "heads": 32, "hidden": 12288, "layers": 72},
        source="Shoeybi et al. 2019",
        **_MEGATRON,
    ),
    "turing-nlg": Named(
        {"family": "gpt", "dim": 4256, "heads": 28, "hidden": 17024, "layers": 78},
        source="Rosset 2020",
        **_MEGATRON,
    ),
    "gopher": Named(
        {"family": "gpt", "dim": 16384, "heads": 128, "hidden": 65536, "layers": 80,
         "max_length": 2048, "norm": "rms", "positions": "none"},
        vocab=32000,
        lengths=(2048,),
        step_tokens=1536 * 2048,
        steps=95_367,
        source="Rae et al. 2021: 300 G tokens",
        flops=6.31e23,
        flops_source="Rae et al. 2021, with a third more for recomputing",
    ),
    "bert-tiny": _bert("tiny"),
    "bert-mini": _bert("mini"),
    "bert-base": Named({"family": "bert", "size": "base", "next_sentence": True}, **_BERT),
    "bert-large": Named({"family": "bert", "size": "large", "next_sentence": True}, **_BERT),
    "roberta-large": Named(
        _NO_POOLER,
        vocab=50265,
        step_tokens=8192 * 512,
        steps=500_000,
        source="Liu et al. 2019, table 4",
        flops=4.26e21,
        flops_source=f"{_TABLE}: 6 × parameters × tokens",
    ),
    "xlnet-large": Named(
        {**_NO_POOLER, "positions": "none", "embedding_norm": False},
        vocab=32000,
        step_tokens=2048 * 512,
        steps=500_000,
        source="Yang et al. 2019, first version",
    ),
    "t5-tiny": Named({"family": "t5", "size": "tiny"}, lengths=(512, 114)),
    **{
        f"t5-{size}": Named(
            {"family": "t5", "size": size},
            flops=_T5_FLOPS.get(size),
            flops_source=f"{_TABLE}: 3 × parameters × source tokens",
            **_T5,
        )
        for size in T5Config.SIZES
        if size != "tiny"
    },
}  # fmt: skip
