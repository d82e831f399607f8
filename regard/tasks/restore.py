"""Span corruption (T5): texts and an encoder-decoder -> loss, perplexity, restored texts.

Rows of plain text come in; batches with spans cut out and their loss go out to the trainer, and
texts with their holes filled go out to users.

    source    The <extra_id_0> sat on <extra_id_1>.
    target    <extra_id_0> cat <extra_id_1> the mat </s>

Each epoch chooses other spans, as `Fill` chooses other masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.data.order import generator
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import CorruptedCorpus
from regard.data.text.spans import SpanCorruption, cut_spans, span_lengths, span_mask
from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text import Vocabulary
from regard.inputs.text.learn import TaskSymbols, sentinels_of
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.base_task import Settings
from regard.tasks.head_batches import HeadBatch, batch_of_ids, in_batches, of_tokens
from regard.tasks.measures.plain_text import SpanAccuracy
from regard.tasks.measures.report import Scoring, count_progress
from regard.tasks.plain_text import MakeRows, PlainTextMethods, id_rows
from regard.tasks.writing_task import Output, WritingTask, check_length

HOLES = ("[MASK]", "<mask>", "___")
"""The ways to write a hole in a text; the first hole becomes `<extra_id_0>`, and so on."""
MAX_RESTORED_TEXTS = 100
"""The maximal number of texts that are restored for an evaluation report."""


@dataclass(frozen=True)
class Restored:
    """A text with its holes filled, and the span that was put into each hole."""

    text: str
    spans: tuple[str, ...]


class Restore(PlainTextMethods, WritingTask):
    """Span corruption: training, evaluation and prediction.

    Args:
        vocabulary: The tokenizers, with sentinel tokens.
        train: Training text; None if nothing is to be trained.
        valid: Validation text.
        smoothing: Label smoothing ε in training.

    Raises:
        InputError: The vocabulary has no sentinel tokens.
    """

    around = TaskSymbols("$A </s>", "$A </s> $B </s>", holes="sentinels")  # as in T5
    example_command = 'restore {} "The ___ is open."'

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: CorruptedCorpus | None = None,
        valid: CorruptedCorpus | None = None,
        *,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(vocabulary, train, valid, smoothing=smoothing)
        self.sentinels = sentinels_of(self.tokenizer)
        if not self.sentinels:
            expected = "sentinels for task: restore"
            raise InputError("the vocabulary", got="no <extra_id_0>", expected=expected)

    def corruption(self, seed: int) -> SpanCorruption:
        """The function that cuts spans out of texts; the seed determines which spans."""
        tokenizer = self.tokenizer
        return SpanCorruption(self.sentinels, begin=tokenizer.begin, end=tokenizer.end, seed=seed)

    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> CorruptedCorpus:
        """Cuts a corpus into rows that, with spans cut out, fit the model's maximal length."""
        del train
        length = self.max_text_tokens(settings.model.max_length)
        return CorruptedCorpus(make(corpus, length=length), self.corruption(settings.seed))

    def has_sentinel(self, text: str) -> bool:
        """Whether a text contains a sentinel token."""
        return any(name in text for name in self.tokenizer.tokens(self.sentinels))

    def has_hole(self, text: str) -> bool:
        """Whether a text contains a hole, written as a sentinel or as one of `HOLES`."""
        return self.has_sentinel(text) or any(hole in text for hole in HOLES)

    def max_text_tokens(self, length: int) -> int:
        """The maximal number of tokens of a text that fits the model after spans are cut out.

        Args:
            length: The maximal number of tokens that the model can read.

        Raises:
            InputError: The vocabulary has too few sentinels for such a text.
        """
        count, _ = span_lengths(length)
        # Raises if sentinels are too few: the number of spans depends only on the number of tokens.
        cut_spans(np.zeros(count, np.int64), span_mask(count, generator(0)), self.sentinels)
        return count

    def accuracy(
        self,
        model: EncoderDecoder,
        config: DecodeConfig,
        rows: CorruptedCorpus | None = None,
        *,
        texts: int = 100,
        on_progress: Callable[[int], None] | None = None,
    ) -> SpanAccuracy:
        """The percentage of spans that are restored with every token right.

        The spans are the same as in `evaluate`.

        Args:
            model: The encoder-decoder.
            config: The decoding settings.
            rows: The text to evaluate on; None: the validation text.
            texts: The maximal number of texts, spread evenly over all.
            on_progress: Called with the number of texts just decoded.
        """
        pairs = [
            pair
            for batch in self.rows_to_score(rows).evaluation()
            for pair in zip(*map(Ragged.split, batch.sides), strict=True)
        ]
        selected_pairs = pairs[:: -(-len(pairs) // texts)]
        spans = right = 0
        sources = [source for source, _ in selected_pairs]
        outputs = self.outputs(model, sources, config, on_progress=on_progress)
        for (_, target), [best, *_] in zip(selected_pairs, outputs, strict=True):
            predicted_spans = self._spans_by_sentinel(best.hypothesis.ids)
            expected_spans = self._spans_by_sentinel(target[1:])  # without the begin symbol
            spans += len(expected_spans)
            right += sum(predicted_spans.get(hole) == span for hole, span in expected_spans.items())
        return SpanAccuracy(len(selected_pairs), spans, 100 * right / max(1, spans))

    def details(
        self,
        model: EncoderDecoder,
        rows: CorruptedCorpus,
        scores: Mapping[str, float],
        scoring: Scoring,
    ) -> dict[str, Any]:
        """The accuracy of restored spans."""
        del scores
        on_progress = count_progress(scoring.on_progress, MAX_RESTORED_TEXTS, "spans")
        accuracy = self.accuracy(
            model, scoring.decode, rows, texts=MAX_RESTORED_TEXTS, on_progress=on_progress
        )
        return {"spans": accuracy}

    def head_batches(self, model: EncoderDecoder, items: Any) -> list[HeadBatch]:
        """Batches of texts with spans cut out, given as such or as ids, to measure heads on."""
        rows = id_rows(self, model, items, self.max_text_tokens(model.config.max_length))
        corrupt = self.corruption(0)
        batches = (corrupt(batch_of_ids(texts), 0) for texts in in_batches(rows))
        return [of_tokens(model, batch.to(model.device)) for batch in batches]

    def symbols(self) -> Symbols:
        """The special tokens of decoding; padding and the unknown token are never generated."""
        tokenizer = self.tokenizer
        banned = (tokenizer.pad, tokenizer.unknown)
        return Symbols(tokenizer.begin, tokenizer.end, tokenizer.pad, banned)

    def read(self, model: EncoderDecoder, items: Sequence[str], **_: Any) -> list[Encoded]:
        """Reads texts with holes; each of `HOLES` becomes the next unused sentinel.

        Raises:
            InputError: A text is longer than the model can read.
        """
        encoded = self.tokenizer.read(list(map(self._with_sentinels, items)), symbols=True)
        for text in encoded:
            check_length(len(text.values), "the text", model.config.max_length)
        return [replace(text, item=item) for text, item in zip(encoded, items, strict=True)]

    def _with_sentinels(self, text: str) -> str:
        """A text with a sentinel in place of each of `HOLES`."""
        names = self.tokenizer.tokens(self.sentinels)
        unused = (name for name in names if name not in text)
        for hole in HOLES:
            while hole in text and (name := next(unused, None)) is not None:
                text = text.replace(hole, name, 1)
        return text

    def target_ids(self, text: str, longest: int) -> list[int]:
        """Encodes a given output with sentinels; it may have `longest - 1` tokens, plus the end."""
        ids = self.tokenizer.encode_with_specials(text)
        check_length(len(ids), "the target", longest - 1)
        return ids

    def generate(
        self, model: EncoderDecoder, encoded: Sequence[Encoded], config: DecodeConfig, **_: Any
    ) -> list[list[str]]:
        """The best output for each text, in a list of one: the missing spans with sentinels."""
        return [[best.text] for best, *_ in self.predict(model, encoded, config)]

    def restore(
        self, model: EncoderDecoder, encoded: Sequence[Encoded], config: DecodeConfig
    ) -> list[Restored]:
        """Fills the holes (`<extra_id_0>`, or `___`) of each text.

        Raises:
            InputError: A text has no hole.
        """
        if not all(self.has_hole(text.item) for text in encoded):
            expected = "___ in place of missing words"
            raise InputError("restore", got="no hole in the text", expected=expected)
        outputs = self.predict(model, encoded, config)
        return [
            self.fill_holes(text.values, best)
            for text, (best, *_) in zip(encoded, outputs, strict=True)
        ]

    def fill_holes(self, ids: Sequence[int], output: Output) -> Restored:
        """Replaces the holes of a text, given as ids, by the spans of an output."""
        spans = self._spans_by_sentinel(output.hypothesis.ids)
        filled = [new for token in ids for new in spans.get(token, [token])]
        holes = [token for token in ids if token in self.sentinels]
        texts = tuple(self._decode_stripped(spans.get(hole, [])) for hole in holes)
        return Restored(self._decode_stripped(filled), texts)

    def _spans_by_sentinel(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """The ids after each sentinel, by sentinel; if one occurs twice, the first counts."""
        spans: dict[int, list[int]] = {}
        current: list[int] = []
        for token in ids:
            if token in self.sentinels:
                current = []
                spans.setdefault(token, current)
            else:
                current.append(token)
        return spans

    def _decode_stripped(self, ids: Sequence[int]) -> str:
        """Decodes ids to text without spaces at its ends."""
        return self.tokenizer.decode(ids).strip()

    def decode_output(self, ids: Sequence[int]) -> str:
        """Decodes the ids of an output to text, with its sentinels."""
        first = next((i for i, token in enumerate(ids) if token in self.sentinels), len(ids))
        parts = [self._decode_stripped(ids[:first])]
        for token, span in self._spans_by_sentinel(ids[first:]).items():
            parts += [self.tokenizer.symbol(token), self._decode_stripped(span)]
        return " ".join(filter(None, parts))
