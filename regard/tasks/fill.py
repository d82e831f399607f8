"""Masked language modelling (BERT): texts and an encoder -> loss, accuracy of masked tokens.

Rows of plain text come in; batches with masked tokens and their loss go out to the trainer.
The words for a mask go out to users. Settings give three published variants:
    BERT                model.next_sentence: true, data.rows: packed     pairs of texts
    BERT, one text      model.next_sentence: false, data.rows: packed    stretches of documents
    RoBERTa             model.next_sentence: false, data.rows: stream, model.token_types: 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import (
    RATE,
    Corrupt,
    CorruptedCorpus,
    Masking,
    SentencePairs,
    Symbols,
)
from regard.data.text.packing import BatchedCorpus, Packed
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text import Tokenizer
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.base_task import Settings, loss_unit
from regard.tasks.encoder_task import ENCODER_SYMBOLS, EncoderTask
from regard.tasks.head_batches import HeadBatch, in_batches, of_texts
from regard.tasks.measures.report import Scoring
from regard.tasks.plain_text import MakeRows, PlainTextMethods, id_rows

SENTENCE_ENDS = (b".", b"!", b"?", b"\n")
"""The bytes that end a sentence."""
MASKS = ("[MASK]", "<mask>", "___")
"""The ways to write a mask in a text, independent of the model's own mask symbol."""
NO_MASK_TOKEN = "a vocabulary without a mask token"


@dataclass(frozen=True)
class Filling:
    """A predicted word for one mask."""

    word: str
    probability: float


def symbols_of(tokenizer: Tokenizer) -> Symbols:
    """The special tokens and the vocabulary size that masking needs.

    Raises:
        InputError: The vocabulary has no mask token.
    """
    mask = tokenizer.specials.mask
    if mask is None:
        raise InputError("task: fill", got=NO_MASK_TOKEN, expected="one with it")
    # Special tokens are those that add nothing to the text.
    special = {token for token in range(tokenizer.vocab) if not tokenizer.bytes_of(token)}
    return Symbols(tokenizer.vocab, mask, tokenizer.begin, tokenizer.end, frozenset(special))


def max_text_tokens(length: int, *, pairs: bool) -> int:
    """The maximal number of text tokens in a sequence, without its begin and end symbols."""
    return max(1, length - (3 if pairs else 2))


def corruption(
    tokenizer: Tokenizer,
    corpus: Corpus,
    seed: int,
    *,
    pairs: bool,
    spare: Corpus | None = None,
    rate: float = RATE,
) -> Corrupt:
    """The function that masks texts, and combines them to pairs if the model needs pairs.

    Args:
        tokenizer: The tokenizer of the corpus.
        corpus: The source of the texts, and of the random second texts of pairs.
        seed: The seed of the masks.
        pairs: Whether sequences are pairs of texts, for next-sentence prediction.
        spare: The source of random second texts if the corpus has a single document.
        rate: The share of the tokens that are masked.
    """
    masking = Masking(symbols_of(tokenizer), rate, seed)
    if not pairs:
        return masking
    sentence_ends = {
        token for token in range(tokenizer.vocab)
        if tokenizer.bytes_of(token).rstrip(b" ").endswith(SENTENCE_ENDS)
    }  # fmt: skip
    second_texts = spare if spare is not None and len(corpus) < 2 else corpus
    return SentencePairs(masking, second_texts, frozenset(sentence_ends))


class Fill(PlainTextMethods, EncoderTask):
    """Masked language modelling: training, evaluation and prediction.

    The masks of the training text change in each epoch; those of the validation text are fixed.
    """

    file_batch_tokens = None  # as in training, which decides the masks
    around = ENCODER_SYMBOLS
    example_command = 'fill {} "The [MASK] is open."'
    effect = loss_unit("masked token")

    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> CorruptedCorpus:
        """Cuts a corpus into masked rows; for next-sentence prediction, into pairs of texts."""
        pairs = getattr(settings.model, "next_sentence", False)
        if pairs and make.func is not Packed:
            what, got = "model.next_sentence: true", "data.rows: stream"
            expected = "data.rows: packed, because a pair is cut from one document"
            raise InputError(what, got=got, expected=expected)
        rate = getattr(settings.data, "masked", RATE) if corpus is train else RATE
        return CorruptedCorpus(
            make(corpus, length=max_text_tokens(settings.model.max_length, pairs=pairs)),
            corruption(self.tokenizer, corpus, settings.seed, pairs=pairs, spare=train, rate=rate),
        )

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of masked tokens in a batch."""
        return batch.target_positions.numel()

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the masked tokens, plus that of next-sentence prediction for pairs.

        BERT adds two means: L = mean of -log p(token) + mean of -log p(follows). The trainer
        divides the summed loss by the number of masked tokens. Therefore each pair is weighted by
        its number of masked tokens: after the division, the second term is a weighted mean over
        pairs, and the sum does not depend on how pairs are split into micro-batches and cores.
        """
        hidden = model.hidden(batch.source)  # (tokens, dim)
        masked: Any = model.require_head("masked")
        masked_hidden = hidden[batch.target_positions]
        total: Tensor = masked.loss(masked_hidden, batch.known_targets, self.smoothing)
        if batch.labels is None:
            return total
        pooled = model.pooled(batch.source, hidden)
        logits = model.require_head("next_sentence")(pooled)  # (pairs, 2)
        losses = F.cross_entropy(logits, _pair_classes(batch.labels), reduction="none")  # (pairs,)
        return total + (losses * _masks_per_text(batch)).sum()

    def evaluate(
        self,
        model: Encoder,
        rows: BatchedCorpus | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """Mean loss, perplexity and accuracy of masked tokens; for pairs also of next sentences.

        Args:
            model: The encoder.
            rows: Masked text; by default the validation text, whose masks are fixed.
            on_progress: Called after each batch with its number of tokens.
        """
        sums: dict[str, float] = {}
        with evaluating(model):
            for rows_of_batch in self.rows_to_score(rows).evaluation():
                batch = rows_of_batch.to(model.device)
                for name, value in _sum_measures(model, batch).items():
                    sums[name] = sums.get(name, 0.0) + value
                if on_progress is not None:
                    on_progress(batch.source.ids.numel())
        mean = partial(_mean_of_sums, sums)
        scores = {"loss": mean("loss", "holes"), "accuracy": mean("right", "holes")}
        scores["perplexity"] = math.exp(min(scores["loss"], 700.0))
        if "pairs" in sums:
            scores["next_sentence_loss"] = mean("follows_loss", "pairs")
            scores["next_sentence_accuracy"] = mean("follows_right", "pairs")
        return scores

    def details(
        self, model: Encoder, rows: CorruptedCorpus, scores: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """The percentage of masked tokens that are predicted right."""
        del model, rows, scoring
        return {"masked": 100 * scores["accuracy"]}

    def head_batches(self, model: Encoder, items: Any) -> list[HeadBatch]:
        """Batches of masked texts, given as such or as ids, on which heads are measured."""
        masking = Masking(symbols_of(self.tokenizer))
        head_batches = []
        for texts in in_batches(id_rows(self, model, items, self.max_text_tokens(model))):
            rows = [np.array(self.tokenizer.template(ids)) for ids in texts]
            batch = masking.hide(rows, tuple(range(len(texts))), 0).to(model.device)
            loss = partial(_masked_loss, batch)
            head_batches.append(of_texts(model, batch.source, loss, batch.target_positions.numel()))
        return head_batches

    def read_masks(self, model: Encoder, items: Sequence[str], **_: Any) -> list[Encoded]:
        """Reads texts with masks, each written in one of the ways of `MASKS`.

        Raises:
            InputError: The vocabulary has no mask token, or a text has no mask.
        """
        mask = self.tokenizer.specials.mask
        if mask is None:
            raise InputError("fill", got=NO_MASK_TOKEN, expected="one with it")
        [symbol] = self.tokenizer.tokens([mask])
        texts = list(items)
        for spelling in MASKS:
            texts = [text.replace(spelling, symbol) for text in texts]
        encoded = self.tokenizer.read(texts, model.config.max_length, symbols=True)
        if not all(mask in text.values for text in encoded):
            raise InputError("fill", got="no mask in the text", expected=f"{MASKS[0]} for a word")
        return [replace(text, item=item) for text, item in zip(encoded, items, strict=True)]

    def fill(
        self, model: Encoder, encoded: Sequence[Encoded], top: int = 5
    ) -> list[list[list[Filling]]]:
        """The `top` most probable words for each mask of each text: (texts, masks, top)."""
        mask = self.tokenizer.specials.mask
        fillings: list[list[list[Filling]]] = [[] for _ in encoded]
        with evaluating(model):
            for index, texts in self.inputs(model, encoded):
                batch: Any = texts.to(model.device)
                positions = (batch.ids == mask).nonzero()[:, 0]
                hidden = model.hidden(batch)[positions]  # (masks, dim)
                logits = model.require_head("masked")(hidden)  # (masks, vocab)
                words = iter(self._most_probable_words(logits.softmax(dim=1), top))
                for i in index:
                    fillings[i] = [next(words) for _ in range(encoded[i].values.count(mask))]
        return fillings

    def _most_probable_words(self, probabilities: Tensor, count: int) -> list[list[Filling]]:
        """The `count` most probable words of each row of probabilities (rows, vocab)."""

        def word(token: int) -> str:
            return self.tokenizer.decode([token]).strip() or self.tokenizer.tokens([token])[0]

        values, tokens = probabilities.topk(min(count, probabilities.shape[1]))
        return [
            list(map(Filling, map(word, row), probabilities_of_row))
            for row, probabilities_of_row in zip(tokens.tolist(), values.tolist(), strict=True)
        ]


def _masked_loss(batch: Batch[Ragged], model: Encoder) -> Tensor:
    """The summed loss of the masked tokens, without next-sentence prediction."""
    logits = model.require_head("masked")(model.hidden(batch.source)[batch.target_positions])
    return F.cross_entropy(logits, batch.known_targets, reduction="sum")


def _sum_measures(model: Encoder, batch: Batch[Ragged]) -> dict[str, float]:
    """Sums of losses and of right predictions over one batch, and their numbers of targets."""
    hidden = model.hidden(batch.source)
    logits = model.require_head("masked")(hidden[batch.target_positions])  # (holes, vocab)
    sums = {
        "loss": float(F.cross_entropy(logits, batch.known_targets, reduction="sum")),
        "right": float((logits.argmax(1) == batch.known_targets).sum()),
        "holes": float(batch.target_positions.numel()),
    }
    if batch.labels is not None:
        pooled = model.pooled(batch.source, hidden)
        logits = model.require_head("next_sentence")(pooled)  # (pairs, 2)
        pair_classes = _pair_classes(batch.labels)
        sums["follows_loss"] = float(F.cross_entropy(logits, pair_classes, reduction="sum"))
        sums["follows_right"] = float((logits.argmax(1) == pair_classes).sum())
        sums["pairs"] = float(batch.labels.numel())
    return sums


def _pair_classes(follows: Tensor) -> Tensor:
    """The class of each pair, as in published BERT models: 0 if the second text follows, else 1."""
    return 1 - follows


def _masks_per_text(batch: Batch[Ragged]) -> Tensor:
    """The number of masked tokens in each sequence: (sequences,)."""
    lengths = batch.source.lengths
    ends = torch.tensor(lengths, device=batch.target_positions.device).cumsum(0)
    text_of_mask = torch.searchsorted(ends, batch.target_positions, right=True)
    return torch.bincount(text_of_mask, minlength=len(lengths))


def _mean_of_sums(sums: dict[str, float], total: str, count: str) -> float:
    """The sum named `total` divided by the one named `count`; 0 if there is nothing to count."""
    return sums.get(total, 0.0) / max(1.0, sums.get(count, 0.0))
