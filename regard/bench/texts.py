"""The texts that models of one stack are measured on: rows, prompts, sentences, in one JSON file.

A peer needs nothing of ours to read it: `model` has the sizes, `vocab` the number of ids, `texts`
the ids of each text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.bench.work import like_multi30k
from regard.cost.count import forward_flops
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.models.sketch import sketch
from regard.runtime.files import write_file
from regard.tokens.kinds import BEGIN, END


@dataclass(frozen=True)
class TextWork:
    """A model's sizes and the texts to feed it."""

    model: dict[str, Any]
    vocab: int
    texts: Sequence[Sequence[int]]
    """To learn from (a row has one token more than is read), to go on with, or to embed."""
    written: int = 0
    """Tokens that follow each text, where texts are gone on with."""
    end: int = 0
    """The symbol that is forbidden meanwhile."""

    @property
    def config(self) -> ModelConfig:
        """Of the model."""
        return CONFIGS[self.model["family"]].model_validate(self.model)

    def save(self, path: Path) -> str:
        """Writes the file that contenders are given the name of."""
        write_file(path, json.dumps(asdict(self)).encode())
        return str(path)

    @staticmethod
    def read(path: str) -> TextWork:
        """Undoes `save`."""
        return TextWork(**json.loads(Path(path).read_text("utf-8")))

    def flops(self, *, unread: int = 0) -> float:
        """FLOPs to read all texts once, but for the last `unread` tokens of each."""
        model = sketch(self.config, self.vocab)
        cost = cache(lambda length: sum(forward_flops(model, length).values()))
        return float(sum(cost(len(text) - unread) for text in self.texts))


def random_rows(rows: int, length: int, vocab: int) -> list[list[int]]:
    """Rows of random ids, all equally long; the last id, GPT-2's end symbol, is not among them."""
    ids: list[list[int]] = (
        np.random.default_rng(0).integers(vocab - 1, size=(rows, length)).tolist()
    )
    return ids


def random_sentences(count: int, vocab: int) -> list[list[int]]:
    """Random ids in the lengths of Multi30k's English, with a symbol before and one after."""
    return [[BEGIN, *source, END] for source, _ in like_multi30k(count, vocab).pairs]
