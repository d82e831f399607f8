"""Masked tokens: texts and an encoder -> loss, how many holes are filled right (BERT).

Comes in: rows of plain text. Goes out: what the trainer needs to teach an encoder to say what is
hidden behind masks; asking it afterwards is `Reader`'s part. Three published ways are settings:

    BERT                model.next_sentence: true, data.rows: packed     pairs of texts
    BERT, one text      model.next_sentence: false, data.rows: packed    stretches of documents
    RoBERTa             model.next_sentence: false, data.rows: stream, model.token_types: 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Cursor
from regard.data.corpus import Corpus
from regard.data.corruption import MaskedBatch, Masking, SentencePairs, Symbols, corrupted
from regard.data.packing import Rows, TextBatch
from regard.errors import InputError
from regard.models.encoder import Encoder, Texts
from regard.models.mode import evaluating
from regard.tasks.task import listed
from regard.tokens import Foreign, Vocabulary, only_foreign

ENDS = (b".", b"!", b"?", b"\n")
"""What a sentence ends with."""
ALWAYS = 0
"""The epoch whose holes are those of every evaluation."""

Corrupt = Callable[[TextBatch, int], MaskedBatch]


def symbols_of(tokenizer: Foreign) -> Symbols:
    """What masking must know of a vocabulary."""
    mask = tokenizer.specials.mask
    if mask is None:
        raise InputError("task: fill", got="a vocabulary without a mask", expected="one with it")
    special = {token for token in range(tokenizer.vocab) if not tokenizer.bytes_of(token)}
    return Symbols(
        vocab=tokenizer.vocab,
        mask=mask,
        begin=tokenizer.begin,
        end=tokenizer.end,
        special=frozenset(special),
    )


def room(length: int, *, pairs: bool) -> int:
    """The most tokens of text in a sequence of a length: begin and end are in it, too."""
    return max(1, length - (3 if pairs else 2))


def corruption(
    tokenizer: Foreign, corpus: Corpus, seed: int, *, pairs: bool, spare: Corpus | None = None
) -> Corrupt:
    """How the texts of a corpus become sequences with holes.

    Args:
        tokenizer: Of the corpus.
        corpus: Where the texts come from, and the second ones of pairs that do not belong together.
        seed: Decides what is hidden.
        pairs: Whether sequences are pairs of texts.
        spare: Where second texts come from if the corpus has a single document.
    """
    masking = Masking(symbols_of(tokenizer), seed=seed)
    if not pairs:
        return masking
    stops = {
        token for token in range(tokenizer.vocab)
        if tokenizer.bytes_of(token).rstrip(b" ").endswith(ENDS)
    }  # fmt: skip
    others = spare if spare is not None and len(corpus) < 2 else corpus
    return SentencePairs(masking, others, frozenset(stops))


@dataclass(frozen=True, eq=False)
class Holes:
    """Rows of text, and how they become sequences with holes."""

    rows: Rows
    corrupt: Corrupt

    def evaluation(self) -> Iterator[MaskedBatch]:
        """All of the text once, always with the same holes."""
        return (self.corrupt(batch, ALWAYS) for batch in self.rows.evaluation())


class Fill:
    """Filling masks as a task to train on.

    Args:
        vocabulary: Text <-> ids.
        train: Training text and its holes, new ones in each epoch.
        valid: Validation text and its holes, always the same.
        smoothing: Label smoothing while training.
    """

    def __init__(
        self, vocabulary: Vocabulary, train: Holes, valid: Holes, *, smoothing: float = 0.0
    ) -> None:
        self.tokenizer, self.smoothing = only_foreign(vocabulary), smoothing
        self.train, self.valid = train, valid

    def batches(self, start: Cursor) -> Iterator[tuple[MaskedBatch, Cursor]]:
        """Training batches without end; order and holes are a pure function of (seed, epoch)."""
        return corrupted(self.train.rows, start, self.train.corrupt)

    def targets(self, batch: MaskedBatch) -> int:
        """The hidden tokens."""
        return batch.wanted.numel()

    def split(self, batch: MaskedBatch, parts: int) -> list[MaskedBatch]:
        """The sequences of a batch dealt out to several, so that each core has its own."""
        return batch.split(parts)

    def loss(self, model: Encoder, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of what is hidden; of pairs, whether they belong together is added.

        BERT adds two means: L = mean of -log p(token) + mean of -log p(follows). The trainer
        divides one sum by the number of hidden tokens, so in the second each pair counts as often
        as it has hidden tokens: divided, that is a mean over pairs by their length, and the sum is
        the same however pairs are dealt out to micro-batches and cores.
        """
        texts = Texts(batch.ids, batch.types)
        hidden = model.hidden(texts)  # (tokens, dim)
        masked: Any = model.need("masked")
        total: Tensor = masked.loss(hidden[batch.places], batch.wanted, self.smoothing)
        if batch.follows is None:
            return total
        logits = model.need("next_sentence")(model.pooled(texts, hidden))  # (pairs, 2)
        each = F.cross_entropy(logits, _classes(batch.follows), reduction="none")  # (pairs,)
        return total + (each * _holes_in_each(batch)).sum()

    def evaluate(
        self, model: Encoder, tell: Callable[[int], None] | None = None
    ) -> dict[str, float]:
        """On fixed holes: mean loss and share of right tokens; of pairs, the same of those.

        Args:
            model: What fills holes.
            tell: Told of the tokens of each batch that is done.
        """
        sums: dict[str, float] = {}
        with evaluating(model):
            for batch in self.valid.evaluation():
                for name, value in _measure(model, batch).items():
                    sums[name] = sums.get(name, 0.0) + value
                if tell is not None:
                    tell(batch.ids.ids.numel())
        mean = partial(_mean, sums)
        found = {"loss": mean("loss", "holes"), "accuracy": mean("right", "holes")}
        found["perplexity"] = math.exp(min(found["loss"], 700.0))
        if "pairs" in sums:
            found["next_sentence_loss"] = mean("follows_loss", "pairs")
            found["next_sentence_accuracy"] = mean("follows_right", "pairs")
        return found

    def name(self, batch: MaskedBatch) -> str:
        """Which texts a batch holds."""
        return listed("texts from token", batch.index)


def _measure(model: Encoder, batch: MaskedBatch) -> dict[str, float]:
    """Sums over one batch, and what each is a sum over."""
    texts = Texts(batch.ids, batch.types)
    hidden = model.hidden(texts)
    logits = model.need("masked")(hidden[batch.places])  # (holes, vocab)
    found = {
        "loss": float(F.cross_entropy(logits, batch.wanted, reduction="sum")),
        "right": float((logits.argmax(1) == batch.wanted).sum()),
        "holes": float(batch.wanted.numel()),
    }
    if batch.follows is not None:
        logits = model.need("next_sentence")(model.pooled(texts, hidden))  # (pairs, 2)
        wanted = _classes(batch.follows)
        found["follows_loss"] = float(F.cross_entropy(logits, wanted, reduction="sum"))
        found["follows_right"] = float((logits.argmax(1) == wanted).sum())
        found["pairs"] = float(batch.follows.numel())
    return found


def _classes(follows: Tensor) -> Tensor:
    """The class of each pair, numbered as in published BERTs: 0 for one that belongs together."""
    return 1 - follows


def _holes_in_each(batch: MaskedBatch) -> Tensor:
    """How many hidden tokens each sequence has: (sequences,)."""
    ends = torch.tensor(batch.ids.lengths, device=batch.places.device).cumsum(0)
    which = torch.searchsorted(ends, batch.places, right=True)
    return torch.bincount(which, minlength=len(batch.ids.lengths))


def _mean(sums: dict[str, float], total: str, count: str) -> float:
    return sums.get(total, 0.0) / max(1.0, sums.get(count, 0.0))
