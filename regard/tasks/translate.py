"""Translation: pairs of sentences and an encoder-decoder -> loss, perplexity, translations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.data.batch import Batch, Cursor, EncodedPairs, Ragged, order, sequential
from regard.data.pair import Pair
from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.decode.search import Hypothesis
from regard.errors import InputError
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.task import listed, per_token
from regard.tasks.unknown import check_known
from regard.tokens import Foreign, Vocabulary

ROWS_AT_ONCE = 128
"""Hypotheses decoded together: enough to fill two cores, few enough to stay in their caches."""


@dataclass(frozen=True)
class Output:
    """One translation of one source."""

    text: str
    logprob: float
    score: float
    hypothesis: Hypothesis


class Translate:
    """Translation as a task to train on and a way to predict.

    Args:
        vocabulary: Text <-> ids for both sides.
        train: Training pairs; may be empty when nothing is to be trained.
        valid: Validation pairs.
        batch_tokens: Token budget of a micro-batch.
        smoothing: Label smoothing while training.
        seed: Decides the order of the data.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Sequence[Pair] = (),
        valid: Sequence[Pair] = (),
        *,
        batch_tokens: int = 4096,
        smoothing: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.vocabulary, self.smoothing = vocabulary, smoothing
        self.batch_tokens, self.seed = batch_tokens, seed
        self.train, self.valid = self.encode(train), self.encode(valid)

    def encode(self, pairs: Sequence[Pair]) -> EncodedPairs:
        """Pairs of texts as ids."""
        vocabulary = self.vocabulary
        sources = vocabulary.source.encode_batch([pair.source for pair in pairs])
        return EncodedPairs(
            [vocabulary.source.template(ids) for ids in sources],
            vocabulary.target.encode_batch([pair.target for pair in pairs]),
            begin=vocabulary.target.begin,
            end=vocabulary.target.end,
        )

    def longest(self) -> int:
        """The most tokens on one side of any training or validation pair, as the model reads it."""
        return max(self.train.longest, self.valid.longest)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Training batches without end; their order is a pure function of (seed, epoch)."""
        epoch, first = start.epoch, start.batch
        while True:
            batches = order(self.train.lengths.tolist(), self.batch_tokens, self.seed, epoch)
            for number in range(first, len(batches)):
                last = number + 1 == len(batches)
                after = Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1)
                yield self.train.batch(batches[number]), after
            epoch, first = epoch + 1, 0

    def targets(self, batch: Batch) -> int:
        """The target tokens, end symbols included. There is no padding to leave out."""
        return batch.target_out.numel()

    def split(self, batch: Batch, parts: int) -> list[Batch]:
        """The sentences of a batch dealt out to several, so that each core has its own."""
        return batch.split(parts)

    def loss(self, model: EncoderDecoder, batch: Batch) -> Tensor:
        """Cross-entropy to the smoothed targets: (1 - ε) on the right token, ε spread over all.

        A sum over the target tokens. It differs from the KL divergence only by a constant.
        """
        return model.loss(batch.source, batch.target_in, batch.target_out, self.smoothing)

    def evaluate(
        self, model: EncoderDecoder, pairs: EncodedPairs | None = None
    ) -> dict[str, float]:
        """Mean negative log-likelihood of a target token (no smoothing), and its exponential."""
        pairs = self.valid if pairs is None else pairs
        total, count = 0.0, 0
        with evaluating(model):
            for index in sequential(pairs.lengths.tolist(), self.batch_tokens):
                batch = pairs.batch(index)
                total += float(model.loss(batch.source, batch.target_in, batch.target_out))
                count += batch.target_out.numel()
        return per_token(total, count)

    def name(self, batch: Batch) -> str:
        """Which training pairs a batch holds."""
        return listed("training pairs", batch.index)

    def symbols(self) -> Symbols:
        """The tokens that have a role in decoding; a translation has no unknown word in it."""
        target = self.vocabulary.target
        if isinstance(target, Foreign):  # what is banned there, its maker says: decode.banned
            return Symbols(target.begin, target.end, target.pad)
        banned = (target.pad, target.begin, target.unknown)
        return Symbols(target.begin, target.end, target.pad, banned)

    def source_ids(self, text: str, longest: int, *, allow_unknown: bool = True) -> list[int]:
        """The ids of one sentence to translate, refused if there are none or too many.

        Args:
            text: The sentence.
            longest: The most tokens the model can read.
            allow_unknown: Whether it may have words that a vocabulary of words does not have.
        """
        ids = self.vocabulary.source.encode(text)
        _checked(ids, "the sentence to translate", longest)
        check_known(self.vocabulary.source, text, allow_unknown=allow_unknown)
        return self.vocabulary.source.template(ids)

    def target_ids(self, text: str, longest: int) -> list[int]:
        """The ids of a given translation, refused in the same way; it needs room for its end."""
        unknown = self.vocabulary.target.unknown_words(text)
        if unknown:
            raise InputError("the translation has words the model cannot write", got=unknown[0])
        return _checked(self.vocabulary.target.encode(text), "the translation", longest - 1)

    def opening(self, text: str, longest: int) -> list[int]:
        """The ids that a translation is to begin with; none for an empty text."""
        return self.target_ids(text, longest) if text else []

    def readable(self, pairs: Sequence[Pair], longest: int) -> EncodedPairs:
        """Pairs as ids, refused if one is longer than the model can read."""
        encoded = self.encode(pairs)
        if encoded.longest > longest:
            raise InputError(
                "the pairs have a sentence that is too long",
                got=f"{encoded.longest} tokens",
                expected=f"at most {longest} (model.max_length)",
                fix="leave it out, or give it in parts",
            )
        return encoded

    def predict(
        self,
        model: EncoderDecoder,
        sources: Sequence[str],
        config: DecodeConfig,
        *,
        prefixes: Sequence[str] | None = None,
        tap: Tap | None = None,
        allow_unknown: bool = True,
        tell: Callable[[int], None] | None = None,
    ) -> list[list[Output]]:
        """The best translations of each source, best first, in the order of the sources.

        Args:
            model: What translates.
            sources: Sentences.
            config: How to search.
            prefixes: How each translation is to begin.
            tap: What to record or edit. Records are those of one batch, row by row as the
                sources stand, so all sources are then decoded in one.
            allow_unknown: Whether sources may have unknown words.
            tell: Told of the sentences that are done.
        """
        longest = model.config.max_length
        ids = [self.source_ids(text, longest, allow_unknown=allow_unknown) for text in sources]
        openings = [self.opening(text, longest) for text in prefixes or [""] * len(ids)]
        results: dict[int, list[Hypothesis]] = {}
        recording = tap is not None and bool(tap.sites)
        parts = [list(range(len(ids)))] if recording else self._parts(ids, config)
        with evaluating(model):
            for part in parts:
                found = decode(
                    model,
                    Ragged.of([ids[i] for i in part]),
                    self.symbols(),
                    config,
                    prefixes=[openings[i] for i in part],
                    tap=tap,
                    limit=longest,
                )
                results |= dict(zip(part, found, strict=True))
                if tell is not None:
                    tell(len(part))
        return [[self._output(each) for each in results[i]] for i in range(len(ids))]

    def _parts(self, ids: Sequence[Sequence[int]], config: DecodeConfig) -> list[list[int]]:
        """Sentences of like lengths together, so that few rows wait for a long one."""
        size = max(1, ROWS_AT_ONCE // max(config.beam, config.n_best))
        by_length = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        return [by_length[start : start + size] for start in range(0, len(ids), size)]

    def written(self, ids: Sequence[int]) -> str:
        """The text of a translation's ids."""
        return self.vocabulary.target.decode(ids)

    def _output(self, hypothesis: Hypothesis) -> Output:
        text = self.written(hypothesis.ids)
        return Output(text, hypothesis.logprob, hypothesis.score, hypothesis)


def _checked(ids: list[int], what: str, longest: int) -> list[int]:
    if not ids:
        raise InputError(what, got="nothing", expected="some words")
    if len(ids) > longest:
        raise InputError(
            f"{what} is too long",
            got=f"{len(ids)} tokens",
            expected=f"at most {longest} (model.max_length)",
            fix="give it in parts",
        )
    return ids
