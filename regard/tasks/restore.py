"""Spans cut out of texts and an encoder-decoder -> loss, perplexity, what was cut out (T5).

Comes in: rows of plain text. Goes out: what the trainer needs, and texts without their holes.

    source    The <extra_id_0> sat on <extra_id_1>.
    target    <extra_id_0> cat <extra_id_1> the mat </s>

The spans are chosen anew in each epoch, as are the holes of `Fill`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.data.batch import Batch, Cursor, Ragged
from regard.data.corruption import corrupted, generator
from regard.data.packing import Rows
from regard.data.spans import SpanCorruption, cut_spans, span_lengths, span_mask
from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.decode.search import Hypothesis
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.task import listed, per_token
from regard.tasks.translate import Output
from regard.tokens import Foreign, Vocabulary, only_foreign
from regard.tokens.plain import sentinels_of

ALWAYS = 0
"""The epoch whose spans are those of every evaluation."""
HOLES = ("[MASK]", "<mask>", "___")
"""What a person may write for a hole; the first becomes `<extra_id_0>`, and so on."""
ROWS_AT_ONCE = 32
"""Texts restored together."""


@dataclass(frozen=True)
class Restored:
    """A text without its holes, and what was put into each."""

    text: str
    spans: tuple[str, ...]


@dataclass(frozen=True)
class SpanAccuracy:
    """How many of the spans that were cut out of texts came back."""

    texts: int
    spans: int
    exact: float
    """Percentage of spans of which every token is right."""


class Restore:
    """Saying what is missing, as a task to train on and a way to predict.

    Args:
        vocabulary: Text <-> ids, with sentinels.
        train: Training text; None when nothing is to be trained.
        valid: Validation text.
        smoothing: Label smoothing while training.
        seed: Decides what is cut out.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Rows | None = None,
        valid: Rows | None = None,
        *,
        smoothing: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.vocabulary, self.tokenizer = vocabulary, only_foreign(vocabulary)
        self.train, self.valid, self.smoothing = train, valid, smoothing
        self.sentinels = sentinels_of(self.tokenizer)
        if not self.sentinels:
            raise InputError(
                "the vocabulary", got="no <extra_id_0>", expected="sentinels for task: restore"
            )
        self.corrupt = SpanCorruption(
            self.sentinels, begin=self.tokenizer.begin, end=self.tokenizer.end, seed=seed
        )

    @staticmethod
    def can(vocabulary: Vocabulary) -> bool:
        """Whether a vocabulary has sentinels, as T5's has, whatever else it is trained for."""
        return isinstance(vocabulary.source, Foreign) and bool(sentinels_of(vocabulary.source))

    def has_sentinel(self, text: str) -> bool:
        """Whether a text has one in it."""
        return any(name in text for name in self.tokenizer.tokens(self.sentinels))

    def has_hole(self, text: str) -> bool:
        """Whether something is missing in a text, however that is written."""
        return self.has_sentinel(text) or any(hole in text for hole in HOLES)

    def room(self, length: int) -> int:
        """The most tokens of a text whose corrupted form a model of this length can read.

        Raises:
            InputError: There are too few sentinels for such a text.
        """
        text, _ = span_lengths(length)
        # How many spans there are depends on the length alone, so one try tells for all texts.
        cut_spans(np.zeros(text, np.int64), span_mask(text, generator(0)), self.sentinels)
        return text

    def batches(self, start: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Training batches without end; order and spans are a pure function of (seed, epoch)."""
        if self.train is None:
            raise InputError("training", got="no text", expected="some to learn from")
        return corrupted(self.train, start, self.corrupt)

    def targets(self, batch: Batch) -> int:
        """The tokens that are to be said: sentinels, what is missing, and the end symbols."""
        return batch.target_out.numel()

    def split(self, batch: Batch, parts: int) -> list[Batch]:
        """The texts of a batch dealt out to several, so that each core has its own."""
        return batch.split(parts)

    def loss(self, model: EncoderDecoder, batch: Batch) -> Tensor:
        """Cross-entropy of what is to be said, a sum."""
        return model.loss(batch.source, batch.target_in, batch.target_out, self.smoothing)

    def evaluate(
        self,
        model: EncoderDecoder,
        rows: Rows | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """On fixed spans: mean negative log-likelihood of a token to say, and its exponential.

        Args:
            model: What restores.
            rows: Text; None: the validation text.
            tell: Told of the tokens of each batch that is done.
        """
        total, count = 0.0, 0
        with evaluating(model):
            for batch in self._fixed(rows):
                total += float(model.loss(batch.source, batch.target_in, batch.target_out))
                count += batch.target_out.numel()
                if tell is not None:
                    tell(batch.source.ids.numel() + batch.target_out.numel())
        return per_token(total, count)

    def accuracy(
        self,
        model: EncoderDecoder,
        config: DecodeConfig,
        rows: Rows | None = None,
        *,
        texts: int = 100,
        tell: Callable[[int], None] | None = None,
    ) -> SpanAccuracy:
        """How many of the same spans are put back token by token.

        Args:
            model: What restores.
            config: How to search.
            rows: Text; None: the validation text.
            texts: How many texts at most, spread evenly over all.
            tell: Told of the texts that are done.
        """
        pairs = [
            pair
            for batch in self._fixed(rows)
            for pair in zip(batch.source.split(), batch.target_in.split(), strict=True)
        ]
        asked = pairs[:: -(-len(pairs) // texts)]
        spans = right = 0
        found = self._decode(model, [source for source, _ in asked], config, None, tell)
        for (_, target), [best, *_] in zip(asked, found, strict=True):
            said = self._spans(best.ids)
            cut = self._spans(target[1:])  # without the begin symbol
            spans += len(cut)
            right += sum(said.get(hole) == span for hole, span in cut.items())
        return SpanAccuracy(len(asked), spans, 100 * right / max(1, spans))

    def _fixed(self, rows: Rows | None) -> Iterator[Batch]:
        """Text with the holes that it has at every evaluation."""
        rows = self.valid if rows is None else rows
        if rows is None:
            raise InputError("evaluation", got="no text", expected="some to evaluate on")
        return (self.corrupt(text, ALWAYS) for text in rows.evaluation())

    def name(self, batch: Batch) -> str:
        """Which texts a batch holds."""
        return listed("texts from token", batch.index)

    def symbols(self) -> Symbols:
        """The tokens that have a role in decoding; neither padding nor an unknown is said."""
        tokenizer = self.tokenizer
        banned = (tokenizer.pad, tokenizer.unknown)
        return Symbols(tokenizer.begin, tokenizer.end, tokenizer.pad, banned)

    def source_ids(self, text: str, longest: int) -> list[int]:
        """The ids of a text in which sentinels are meant, with what stands around them."""
        names = self.tokenizer.tokens(self.sentinels)
        free = (name for name in names if name not in text)
        for hole in HOLES:
            while hole in text and (name := next(free, None)) is not None:
                text = text.replace(hole, name, 1)
        ids = self.tokenizer.template(self.tokenizer.encode_with_specials(text))
        if len(ids) > longest:
            raise InputError(
                "the text is too long",
                got=f"{len(ids)} tokens",
                expected=f"at most {longest} (model.max_length)",
                fix="give it in parts",
            )
        return ids

    def target_ids(self, text: str, longest: int) -> list[int]:
        """The ids of what is to be said, sentinels among them, with room for its end."""
        ids = self.tokenizer.encode_with_specials(text)
        if not 0 < len(ids) < longest:
            got, expected = f"{len(ids)} tokens", f"1 to {longest - 1}"
            raise InputError("what is to be said", got=got, expected=expected)
        return ids

    def predict(
        self,
        model: EncoderDecoder,
        texts: Sequence[str],
        config: DecodeConfig,
        *,
        tap: Tap | None = None,
    ) -> list[list[Output]]:
        """What is missing in each text, best first: `<extra_id_0> cat <extra_id_1> the mat`.

        Args:
            model: What restores.
            texts: With holes.
            config: How to search.
            tap: What to record or edit; all texts are then decoded in one batch.
        """
        ids = [self.source_ids(text, model.config.max_length) for text in texts]
        found = self._decode(model, ids, config, tap)
        return [[self._output(each) for each in best] for best in found]

    def _decode(
        self,
        model: EncoderDecoder,
        ids: Sequence[Sequence[int]],
        config: DecodeConfig,
        tap: Tap | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """What is said of each source, best first, in their order; like lengths go together."""
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        size = max(1, ROWS_AT_ONCE // max(config.beam, config.n_best))
        if tap is not None:
            order, size = list(range(len(ids))), len(ids)
        results: dict[int, list[Hypothesis]] = {}
        with evaluating(model):
            for start in range(0, len(order), size):
                part = order[start : start + size]
                sources, longest = Ragged.of([ids[i] for i in part]), model.config.max_length
                found = decode(model, sources, self.symbols(), config, tap=tap, limit=longest)
                results |= dict(zip(part, found, strict=True))
                if tell is not None:
                    tell(len(part))
        return [results[i] for i in range(len(ids))]

    def restored(self, text: str, output: Output, longest: int) -> Restored:
        """The text with what was said in the place of its holes."""
        shown, said = self.source_ids(text, longest), self._spans(output.hypothesis.ids)
        whole = [token for each in shown for token in said.get(each, [each])]
        holes = [token for token in shown if token in self.sentinels]
        spans = tuple(self._decoded(said.get(hole, [])) for hole in holes)
        return Restored(self._decoded(whole), spans)

    def _spans(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """What stands behind each sentinel, by its id; the first counts if it is said twice."""
        spans: dict[int, list[int]] = {}
        current: list[int] = []
        for token in ids:
            if token in self.sentinels:
                current = []
                spans.setdefault(token, current)
            else:
                current.append(token)
        return spans

    def _decoded(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids).strip()

    def written(self, ids: Sequence[int]) -> str:
        """The text of what was said, with its sentinels, and with what stands before the first."""
        first = next((i for i, token in enumerate(ids) if token in self.sentinels), len(ids))
        said = [self._decoded(ids[:first])]
        for token, span in self._spans(ids[first:]).items():
            said += [self.tokenizer.symbol(token), self._decoded(span)]
        return " ".join(filter(None, said))

    def _output(self, hypothesis: Hypothesis) -> Output:
        text = self.written(hypothesis.ids)
        return Output(text, hypothesis.logprob, hypothesis.score, hypothesis)
