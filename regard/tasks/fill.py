"""Masked tokens: texts and an encoder -> loss, how many holes are filled right (BERT).

Comes in: rows of plain text. Goes out: what the trainer needs to teach an encoder to say what is
hidden behind masks; it is asked as any encoder is (`Reader`). Three published ways are settings:

    BERT                model.next_sentence: true, data.rows: packed     pairs of texts
    BERT, one text      model.next_sentence: false, data.rows: packed    stretches of documents
    RoBERTa             model.next_sentence: false, data.rows: stream, model.token_types: 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import (
    Corrupt,
    CorruptedRows,
    Masking,
    SentencePairs,
    Symbols,
)
from regard.data.text.packing import Packed
from regard.errors import InputError
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.measures.report import Scoring
from regard.tasks.passages import Passages, of_texts, some_at_a_time
from regard.tasks.plain_text import MakeRows, PlainText
from regard.tasks.reader import READING, Reader
from regard.tasks.task import Settings, rise
from regard.tokens import Tokenizer

ENDS = (b".", b"!", b"?", b"\n")
"""What a sentence ends with."""


def symbols_of(tokenizer: Tokenizer) -> Symbols:
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
    tokenizer: Tokenizer, corpus: Corpus, seed: int, *, pairs: bool, spare: Corpus | None = None
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


class Fill(PlainText, Reader):
    """Filling masks as a task to train on and a way to predict.

    Its training text has new holes in each epoch, its validation text always the same.
    """

    around = READING
    tried = 'fill {} "The [MASK] is open."'
    effect = rise("hidden token")

    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> CorruptedRows:
        """Rows with holes; of a model that learns which sentences follow, pairs of texts."""
        pairs = getattr(settings.model, "next_sentence", False)
        if pairs and make.func is not Packed:
            raise InputError(
                "model.next_sentence: true",
                got="data.rows: stream",
                expected="data.rows: packed, for a pair is cut from one document",
            )
        return CorruptedRows(
            make(corpus, length=room(settings.model.max_length, pairs=pairs)),
            corruption(self.tokenizer, corpus, settings.seed, pairs=pairs, spare=train),
        )

    def targets(self, batch: Batch[Ragged]) -> int:
        """The hidden tokens."""
        return batch.places.numel()

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of what is hidden; of pairs, whether they belong together is added.

        BERT adds two means: L = mean of -log p(token) + mean of -log p(follows). The trainer
        divides one sum by the number of hidden tokens, so in the second each pair counts as often
        as it has hidden tokens: divided, that is a mean over pairs by their length, and the sum is
        the same however pairs are dealt out to micro-batches and cores.
        """
        hidden = model.hidden(batch.source)  # (tokens, dim)
        masked: Any = model.need("masked")
        total: Tensor = masked.loss(hidden[batch.places], batch.asked, self.smoothing)
        if batch.labels is None:
            return total
        logits = model.need("next_sentence")(model.pooled(batch.source, hidden))  # (pairs, 2)
        each = F.cross_entropy(logits, _classes(batch.labels), reduction="none")  # (pairs,)
        return total + (each * _holes_in_each(batch)).sum()

    def evaluate(
        self,
        model: Encoder,
        rows: CorruptedRows | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """On fixed holes: mean loss and share of right tokens; of pairs, the same of those.

        Args:
            model: What fills holes.
            rows: Text and its holes; by default what is held out for validation.
            tell: Told of the tokens of each batch that is done.
        """
        sums: dict[str, float] = {}
        with evaluating(model):
            for made in self.to_evaluate_on(rows).evaluation():
                batch = made.to(model.device)
                for name, value in _measure(model, batch).items():
                    sums[name] = sums.get(name, 0.0) + value
                if tell is not None:
                    tell(batch.source.ids.numel())
        mean = partial(_mean, sums)
        found = {"loss": mean("loss", "holes"), "accuracy": mean("right", "holes")}
        found["perplexity"] = math.exp(min(found["loss"], 700.0))
        if "pairs" in sums:
            found["next_sentence_loss"] = mean("follows_loss", "pairs")
            found["next_sentence_accuracy"] = mean("follows_right", "pairs")
        return found

    def of_files(self, settings: Settings) -> MakeRows:
        """How text that somebody gives is cut into rows: in batches as in training."""
        return partial(Packed, batch_tokens=settings.train.batch_tokens)

    def details(
        self, model: Encoder, rows: CorruptedRows, found: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """How many of the hidden tokens are found."""
        del model, rows, scoring
        return {"masked": 100 * found["accuracy"]}

    def passages(self, model: Encoder, items: Any) -> list[Passages]:
        """Texts, or their ids, of which some tokens are hidden, to look at heads."""
        masking = Masking(symbols_of(self.tokenizer))
        found = []
        for some in some_at_a_time(self.id_rows(model, items, self.room_in(model))):
            rows = [np.array(self.tokenizer.template(ids)) for ids in some]
            batch = masking.hide(rows, tuple(range(len(some))), 0).to(model.device)
            loss = partial(_said, batch)
            found.append(of_texts(model, batch.source, loss, batch.places.numel()))
        return found


def _said(batch: Batch[Ragged], model: Encoder) -> Tensor:
    """The loss of what is hidden, however texts were put together, a sum."""
    logits = model.need("masked")(model.hidden(batch.source)[batch.places])
    return F.cross_entropy(logits, batch.asked, reduction="sum")


def _measure(model: Encoder, batch: Batch[Ragged]) -> dict[str, float]:
    """Sums over one batch, and what each is a sum over."""
    hidden = model.hidden(batch.source)
    logits = model.need("masked")(hidden[batch.places])  # (holes, vocab)
    found = {
        "loss": float(F.cross_entropy(logits, batch.asked, reduction="sum")),
        "right": float((logits.argmax(1) == batch.asked).sum()),
        "holes": float(batch.places.numel()),
    }
    if batch.labels is not None:
        logits = model.need("next_sentence")(model.pooled(batch.source, hidden))  # (pairs, 2)
        wanted = _classes(batch.labels)
        found["follows_loss"] = float(F.cross_entropy(logits, wanted, reduction="sum"))
        found["follows_right"] = float((logits.argmax(1) == wanted).sum())
        found["pairs"] = float(batch.labels.numel())
    return found


def _classes(follows: Tensor) -> Tensor:
    """The class of each pair, numbered as in published BERTs: 0 for one that belongs together."""
    return 1 - follows


def _holes_in_each(batch: Batch[Ragged]) -> Tensor:
    """How many hidden tokens each sequence has: (sequences,)."""
    lengths = batch.source.lengths
    ends = torch.tensor(lengths, device=batch.places.device).cumsum(0)
    which = torch.searchsorted(ends, batch.places, right=True)
    return torch.bincount(which, minlength=len(lengths))


def _mean(sums: dict[str, float], total: str, count: str) -> float:
    return sums.get(total, 0.0) / max(1.0, sums.get(count, 0.0))
