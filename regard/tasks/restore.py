"""Spans cut out of texts and an encoder-decoder -> loss, perplexity, what was cut out (T5).

Comes in: rows of plain text. Goes out: what the trainer needs, and texts without their holes.

    source    The <extra_id_0> sat on <extra_id_1>.
    target    <extra_id_0> cat <extra_id_1> the mat </s>

The spans are chosen anew in each epoch, as are the holes of `Fill`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.corpus import Corpus
from regard.data.text.corruption import CorruptedRows, generator
from regard.data.text.spans import SpanCorruption, cut_spans, span_lengths, span_mask
from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.decode.many import decode_many
from regard.decode.search import Hypothesis
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.measures.plain_text import SpanAccuracy
from regard.tasks.measures.report import Scoring, counted
from regard.tasks.passages import Passages, batch_of_ids, of_pairs, some_at_a_time
from regard.tasks.plain_text import MakeRows, PlainText
from regard.tasks.task import Settings, per_token, rooms
from regard.tasks.trace import ReadsAndWrites
from regard.tasks.translate import Output
from regard.tokens import Vocabulary
from regard.tokens.learn import Around, sentinels_of

HOLES = ("[MASK]", "<mask>", "___")
"""What a person may write for a hole; the first becomes `<extra_id_0>`, and so on."""
ROWS_AT_ONCE = 32
"""Texts restored together."""
SPANNED = 100
"""Texts that are restored for a report, at most."""


@dataclass(frozen=True)
class Restored:
    """A text without its holes, and what was put into each."""

    text: str
    spans: tuple[str, ...]


class Restore(PlainText, ReadsAndWrites):
    """Saying what is missing, as a task to train on and a way to predict.

    Args:
        vocabulary: Text <-> ids, with sentinels.
        train: Training text; None when nothing is to be trained.
        valid: Validation text.
        smoothing: Label smoothing while training.
    """

    around = Around("$A </s>", "$A </s> $B </s>", holes="sentinels")  # as T5's
    tried = 'restore {} "The ___ is open."'

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: CorruptedRows | None = None,
        valid: CorruptedRows | None = None,
        *,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(vocabulary, train, valid, smoothing=smoothing)
        self.sentinels = sentinels_of(self.tokenizer)
        if not self.sentinels:
            raise InputError(
                "the vocabulary", got="no <extra_id_0>", expected="sentinels for task: restore"
            )

    def corruption(self, seed: int) -> SpanCorruption:
        """What cuts spans out of texts; the seed decides which."""
        tokenizer = self.tokenizer
        return SpanCorruption(self.sentinels, begin=tokenizer.begin, end=tokenizer.end, seed=seed)

    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> CorruptedRows:
        """Rows whose corrupted form the model can read."""
        del train
        length = self.room(settings.model.max_length)
        return CorruptedRows(make(corpus, length=length), self.corruption(settings.seed))

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

    def targets(self, batch: Batch[Ragged]) -> int:
        """The tokens that are to be said: sentinels, what is missing, and the end symbols."""
        return batch.wanted.ids.numel()

    def loss(self, model: EncoderDecoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of what is to be said, a sum."""
        return model.loss(*batch.sides, batch.wanted.ids, self.smoothing)

    def evaluate(
        self,
        model: EncoderDecoder,
        rows: CorruptedRows | None = None,
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
            for made in self.to_evaluate_on(rows).evaluation():
                batch = made.to(model.device)
                total += float(model.loss(*batch.sides, batch.wanted.ids))
                count += batch.wanted.ids.numel()
                if tell is not None:
                    tell(batch.source.ids.numel() + batch.wanted.ids.numel())
        return per_token(total, count)

    def accuracy(
        self,
        model: EncoderDecoder,
        config: DecodeConfig,
        rows: CorruptedRows | None = None,
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
            for batch in self.to_evaluate_on(rows).evaluation()
            for pair in zip(*map(Ragged.split, batch.sides), strict=True)
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

    def details(
        self,
        model: EncoderDecoder,
        rows: CorruptedRows,
        found: Mapping[str, float],
        scoring: Scoring,
    ) -> dict[str, Any]:
        """How many spans are put back."""
        del found
        asked = counted(scoring.tell, SPANNED, "spans")
        return {"spans": self.accuracy(model, scoring.decode, rows, texts=SPANNED, tell=asked)}

    def passages(self, model: EncoderDecoder, items: Any) -> list[Passages]:
        """Texts, or their ids, of which pieces are cut out, to look at heads."""
        rows = self.id_rows(model, items, self.room(model.config.max_length))
        corrupt = self.corruption(0)
        made = (corrupt(batch_of_ids(some), 0) for some in some_at_a_time(rows))
        return [of_pairs(model, batch.to(model.device)) for batch in made]

    def symbols(self) -> Symbols:
        """The tokens that have a role in decoding; neither padding nor an unknown is said."""
        tokenizer = self.tokenizer
        banned = (tokenizer.pad, tokenizer.unknown)
        return Symbols(tokenizer.begin, tokenizer.end, tokenizer.pad, banned)

    def source_ids(self, text: str, longest: int, *, allow_unknown: bool = True) -> list[int]:
        """The ids of a text in which sentinels are meant, with what stands around them."""
        del allow_unknown  # sub-words spell what is unknown
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

    def generate(
        self, model: EncoderDecoder, texts: Sequence[str], config: DecodeConfig, **_: Any
    ) -> list[list[str]]:
        """What is missing in each text, as the model says it."""
        return [[best.text] for best, *_ in self.predict(model, texts, config)]

    def restore(
        self, model: EncoderDecoder, texts: Sequence[str], config: DecodeConfig
    ) -> list[Restored]:
        """Each text with its holes (`<extra_id_0>`, or `___`) filled, and what was put into each.

        Raises:
            InputError: A text has no hole.
        """
        if not all(map(self.has_hole, texts)):
            raise InputError("restore", got="no hole in the text", expected="___ where words miss")
        outputs, longest = self.predict(model, texts, config), model.config.max_length
        return [
            self.restored(text, best, longest)
            for text, (best, *_) in zip(texts, outputs, strict=True)
        ]

    def _decode(
        self,
        model: EncoderDecoder,
        ids: Sequence[Sequence[int]],
        config: DecodeConfig,
        tap: Tap | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """What is said of each source, best first, in their order."""

        def some(part: list[int]) -> list[list[Hypothesis]]:
            sources = Ragged.of([ids[i] for i in part])
            return decode(
                model,
                sources,
                self.symbols(),
                config,
                tap=tap,
                rooms=rooms(sources.lengths),
                limit=model.config.max_length,
            )

        with evaluating(model):
            lengths = [*map(len, ids)]
            return decode_many(lengths, some, config, rows=ROWS_AT_ONCE, tap=tap, tell=tell)

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
