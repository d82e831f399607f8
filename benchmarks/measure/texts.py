"""The input data of benchmarks with single-stack models, as a JSON file: rows, prompts, sentences.

Other packages can read the file without ours: `model` has the sizes, `vocab` the vocabulary size,
`texts` the ids of each text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.work import WorkFile, like_multi30k
from regard.cost.count import forward_flops
from regard.inputs.text.kinds import BEGIN, END
from regard.models.config import ModelConfig
from regard.models.meta_model import meta_model


@dataclass(frozen=True)
class TextWork(WorkFile):
    """A model's sizes and the texts to run it on."""

    model: dict[str, Any]
    vocab: int
    texts: Sequence[Sequence[int]]
    """Rows for training (one token longer than the input), prompts, or sentences to embed."""
    written: int = 0
    """The number of tokens to generate after each prompt."""
    end: int = 0
    """The id of the end symbol, which must not be generated."""
    weights: str = ""
    """A Hugging Face folder with the model's weights; empty: each contender has random ones."""

    def flops(self, *, unread: int = 0) -> float:
        """FLOPs of a forward pass over all texts, each without its last `unread` tokens."""
        model = meta_model(self.config, self.vocab)
        cost = cache(lambda length: sum(forward_flops(model, length).values()))
        return float(sum(cost(len(text) - unread) for text in self.texts))

    def matrix_weights(self) -> int:
        """The number of weights that a product reads for one token: of the layers and the output.

        Tables of embeddings and positions, of which one row is read, do not count.
        """
        # The output's matrix may be that of the embedding, which has two names then.
        named = meta_model(self.config, self.vocab).named_parameters(remove_duplicate=False)
        tables = ("embed.weight", "positions.table")
        return sum(w.numel() for name, w in named if w.dim() == 2 and not name.endswith(tables))


def random_gpt(folder: Path, config: ModelConfig, vocab: int) -> str:
    """Write a GPT with random weights in Hugging Face's format, unless it is there already.

    All contenders read it, so that they compute the same. With the initial weights every text
    repeats its last token; larger positions and outputs of the blocks make it vary, and biases and
    norms are random too, so that none can be left out unnoticed.

    Returns:
        The folder.
    """
    if not folder.exists():
        import torch

        from regard.hub.folder import write_model
        from regard.models import build

        torch.manual_seed(0)
        model = build(config, vocab)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.dim() == 1:
                    weight.add_(0.01 * torch.randn_like(weight))
                elif name.endswith("out.weight"):
                    weight.mul_(5.0)
                elif name.endswith("positions.table"):
                    weight.mul_(10.0)
        folder.mkdir()
        write_model(model, folder, eos_token_id=vocab - 1, bos_token_id=vocab - 1)
    return str(folder)


def random_rows(rows: int, length: int, vocab: int) -> list[list[int]]:
    """Rows of random ids of equal length, without the last id, GPT-2's end symbol."""
    ids: list[list[int]] = (
        np.random.default_rng(0).integers(vocab - 1, size=(rows, length)).tolist()
    )
    return ids


def random_sentences(count: int, vocab: int) -> list[list[int]]:
    """Random ids with the lengths of Multi30k's English, between begin and end symbols."""
    return [[BEGIN, *source, END] for source, _ in like_multi30k(count, vocab).pairs]
