"""`PairTask`, the base class of the tasks whose examples are pairs of texts: their evaluation.

Pairs come in, of files, of a split or as given; out go those that the model can read, their loss,
BLEU and chrF, a report for `regard eval`, and batches on which heads are measured. Texts with holes
(T5) are passed on to the task `Restore`.
"""

from __future__ import annotations

import logging
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from glob import has_magic
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.batch import Batch
from regard.data.config import OnBad
from regard.data.order import evaluation_batches
from regard.data.seen import Seen, keys_of_pairs
from regard.data.sources import Loaded, few_pairs, load_splits, pairs_of
from regard.data.text.encoded import EncodedPairs
from regard.data.text.examples import with_keys_of
from regard.data.text.files import load_pairs, split_files
from regard.data.text.pairs import Pair, by_source
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text.bloom import Keys
from regard.inputs.text.items import are_texts, kind_of
from regard.inputs.text.learn import has_sentinels
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.base_task import BaseTask, Settings
from regard.tasks.head_batches import HeadBatch, of_tokens
from regard.tasks.measures.bleu import score_translations
from regard.tasks.measures.report import ExampleSet, Scoring, Selection
from regard.tasks.measures.translation import Evaluation, SetReport, TranslationReport
from regard.tasks.measures.unknown import Unknown
from regard.tasks.writing_task import WritingTask

if TYPE_CHECKING:
    from regard.tasks.restore import Restore

_logger = logging.getLogger(__name__)

PAIRS_TO_CHOOSE_FROM = 50
"""The number of pairs from which the source of the suggested command is chosen."""


class PairTask(WritingTask):
    """Base class of the tasks whose examples are pairs of texts; it evaluates them."""

    noun = "training pairs"
    scored = "pairs"
    scoring = frozenset({"beam", "lowercase"})
    batch_tokens: int
    """Token budget of a micro-batch."""
    sets: dict[str, EncodedPairs]
    """For a mixture, the validation pairs of each dataset by name."""

    @abstractmethod
    def encode(self, pairs: Sequence[Pair]) -> EncodedPairs:
        """Encodes pairs of texts to ids."""

    def evaluate(self, model: EncoderDecoder) -> dict[str, float]:
        """Loss and perplexity on the validation pairs; for a mixture also the loss per dataset."""
        scores = self.likelihood(model, self._evaluation_batches(self.valid))
        return scores | {
            f"loss_{name}": self.likelihood(model, self._evaluation_batches(pairs))["loss"]
            for name, pairs in self.sets.items()
        }

    def _evaluation_batches(self, pairs: EncodedPairs) -> Iterator[Batch[Ragged]]:
        """Yields pairs in batches of the token budget of training, in a fixed order."""
        return map(pairs.batch, evaluation_batches(pairs.lengths, self.batch_tokens))

    def readable(self, pairs: Sequence[Pair], longest: int) -> EncodedPairs:
        """Encodes pairs.

        Raises:
            InputError: A sentence is longer than the model can read.
        """
        encoded = self.encode(pairs)
        if encoded.longest > longest:
            what = "the pairs have a sentence that is too long"
            got, expected = f"{encoded.longest} tokens", f"at most {longest} (model.max_length)"
            fix = "leave it out, or give it in parts"
            raise InputError(what, got=got, expected=expected, fix=fix)
        return encoded

    def examples(self, settings: Settings, selection: Selection) -> dict[str, Sequence[Pair]]:
        """The selected pairs; see `example_sets`."""
        sets = self.example_sets(settings, selection)
        return {name: example_set.examples for name, example_set in sets.items()}

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected pairs: those of files, of a split, or by default of the test sets.

        Without test sets the default is the validation split. If the recipe has
        `data.group: source`, pairs with the same source become one pair with several references.
        """
        sets: dict[str, Sequence[Pair]]
        skipped: Mapping[str, int] = {}
        if selection.files is not None:
            columns = selection.columns_for(settings.data)
            files = split_files([selection.files])
            on_bad: OnBad = getattr(settings.data, "on_bad", "stop")
            pairs, skipped = load_pairs(files, max_words=10_000, on_bad=on_bad, columns=columns)
            sets = {selection.files: tuple(pairs)}
        elif (missing := _missing_file(settings.data)) is not None:
            what, got = f"{selection.verb}: the model's own pairs", f"no file {missing} here"
            fix = "give other pairs with --data FILE, or run the command where that file is"
            raise InputError(what, got=got, fix=fix)
        elif selection.split is not None:
            sets = {selection.split: pairs_of(settings.data, selection.split)}
        else:
            splits = load_splits(settings.data).splits
            sets = {**splits.tests} or {"valid": splits.valid}
        example_sets = {name: ExampleSet(pairs, skipped) for name, pairs in sets.items()}
        if getattr(settings.data, "group", None) == "source":
            return {name: _merge_pairs(example_set) for name, example_set in example_sets.items()}
        return example_sets

    def scorable(self, model: EncoderDecoder, example_set: ExampleSet) -> ExampleSet:
        """The pairs that the model can read; the error of `readable` if it can read none."""
        longest, pairs = model.config.max_length, example_set.examples
        sources = self.vocabulary.source.encode_batch([pair.source for pair in pairs])
        around = len(self.vocabulary.source.template([]))
        fits = [
            around + len(ids) <= longest
            and all(len(self.vocabulary.target.encode(text)) < longest for text in pair.references)
            for pair, ids in zip(pairs, sources, strict=True)
        ]
        readable_pairs = tuple(pair for pair, fit in zip(pairs, fits, strict=True) if fit)
        if pairs and not readable_pairs:
            self.readable(pairs, longest)
        reason = f"longer than the model reads ({longest:,} tokens)"
        return example_set.without(readable_pairs, reason, len(pairs) - len(readable_pairs))

    def limited(self, examples: Sequence[Pair | tuple[str, str]], limit: int) -> list[Pair]:
        """At most `limit` pairs, evenly spread over a set."""
        pairs: list[Pair] = super().limited(_check_pairs(examples), limit)
        return pairs

    def keys(self, examples: Sequence[Pair | tuple[str, str]], seen: Seen) -> Iterator[Keys] | None:
        """The keys of each source with each of its references."""
        return keys_of_pairs(pair_texts(_check_pairs(examples))) if seen.unit == "pairs" else None

    def measure(
        self,
        model: EncoderDecoder,
        pairs: Sequence[Pair | tuple[str, str]],
        decode: DecodeConfig,
        *,
        lowercase: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> Evaluation:
        """Loss, perplexity, BLEU and chrF on pairs, and the translations.

        Args:
            model: The translation model.
            pairs: Sources and targets; a `Pair` with `others` has several references.
            decode: The decoding settings.
            lowercase: Whether to score without regard to case.
            on_progress: Called with the number of pairs just translated.
        """
        all_pairs = _check_pairs(pairs)
        sources = [pair.source for pair in all_pairs]
        references = [pair.references for pair in all_pairs]
        singles = [Pair(pair.source, target) for pair in all_pairs for target in pair.references]
        encoded = self.readable(singles, model.config.max_length)
        likelihood = self.likelihood(model, self._evaluation_batches(encoded))
        outputs = self.predict(model, self.read(model, sources), decode, on_progress=on_progress)
        hypotheses = [best.text for best, *_ in outputs]
        return Evaluation(
            likelihood["loss"],
            likelihood["perplexity"],
            score_translations(hypotheses, references, lowercase=lowercase),
            tuple(hypotheses),
            Unknown.of(self.vocabulary.source, sources),
            Unknown.of(self.vocabulary.target, [pair.target for pair in singles]),
            lowercase=lowercase,
        )

    def report(
        self, model: EncoderDecoder, sets: Mapping[str, Sequence[Pair]], scoring: Scoring
    ) -> TranslationReport:
        """Scores each set of pairs, and reports progress and results through `scoring`."""
        done, reports = 0, []
        # They are translated from short to long, in a time that grows with their length.
        lengths = [length for pairs in sets.values() for length in sorted(map(_length, pairs))]
        before = [0, *accumulate(lengths)]

        def add_done(name: str, count: int) -> None:
            nonlocal done
            done += count
            scoring.on_progress(before[done] / max(1, before[-1]), name)

        for name, pairs in sets.items():
            on_progress = partial(add_done, name)
            result = self.measure(
                model, pairs, scoring.decode, lowercase=scoring.lowercase, on_progress=on_progress
            )
            reports.append(SetReport(name, pairs, result, self.rouge(pairs, result.hypotheses)))
            scoring.keep(reports[-1].files())
        return TranslationReport(tuple(reports))

    def rouge(self, pairs: Sequence[Pair], hypotheses: Sequence[str]) -> dict[str, float] | None:
        """ROUGE scores, for tasks that use them; None for translation."""
        del pairs, hypotheses
        return None

    def head_batches(
        self, model: EncoderDecoder, pairs: Sequence[Pair | tuple[str, str]]
    ) -> list[HeadBatch]:
        """One batch of pairs on which heads are measured; a few dozen pairs are enough."""
        encoded = self.readable(_check_pairs(pairs), model.config.max_length)
        return [of_tokens(model, encoded.batch(range(len(pairs))).to(model.device))]

    def suggested_command(self, settings: Settings, model_name: str) -> str:
        """A command to suggest after training: translates a short source of known words."""
        # The closest to six words: short, and yet a sentence.
        sources = sorted(
            (pair.source for pair in few_pairs(settings.data, PAIRS_TO_CHOOSE_FROM)),
            key=lambda text: abs(len(text.split()) - 6),
        )
        if not sources:
            return f"translate {model_name}"
        unknown = self.vocabulary.source.unknown_words
        source = next((text for text in sources if not unknown(text)), None)
        words = shlex.quote(source) if source else f"{shlex.quote(sources[0])} --allow-unknown"
        return f"translate {model_name} {words}"

    @cached_property
    def restorer(self) -> Restore | None:
        """The task that fills holes in a text; None if the vocabulary has no sentinel tokens."""
        from regard.tasks.restore import Restore

        return Restore(self.vocabulary) if has_sentinels(self.vocabulary) else None

    def task_for(self, text: str) -> BaseTask:
        """The task for a text: `Restore` if the text contains a sentinel token, else this task."""
        restorer = self.restorer
        return self if restorer is None or not restorer.has_sentinel(text) else restorer

    def read_prompts(
        self, model: EncoderDecoder, items: Sequence[str], **options: Any
    ) -> list[Encoded]:
        """Reads texts for `generate`: those with holes as `Restore` does, others as `read`."""
        tasks: list[Any] = list(map(self.task_for, items))
        own_texts = [text for text, task in zip(items, tasks, strict=True) if task is self]
        encoded = iter(self.read(model, own_texts, **options))
        return [
            next(encoded) if task is self else task.read(model, [text])[0]
            for text, task in zip(items, tasks, strict=True)
        ]

    def generate(
        self, model: EncoderDecoder, encoded: Sequence[Encoded], config: DecodeConfig, **_: Any
    ) -> list[list[str]]:
        """The output for each text, in a list of one: its translation, or the filled-in holes."""
        has_holes = [self.task_for(text.item) is not self for text in encoded]
        sentences = [text for text, holes in zip(encoded, has_holes, strict=True) if not holes]
        with_holes = [text for text, holes in zip(encoded, has_holes, strict=True) if holes]
        translated = iter(self.predict(model, sentences, config))
        restored = iter(self.restorer.predict(model, with_holes, config) if self.restorer else ())
        return [[next(restored if holes else translated)[0].text] for holes in has_holes]


def _check_pairs(pairs: Sequence[Pair | tuple[str, str]]) -> list[Pair]:
    """Converts (source, target) tuples to `Pair`s; raises an error if there are none."""
    expected = "at least one (source, target)"
    if not isinstance(pairs, Sequence) or not pairs:
        raise InputError("pairs", got=kind_of(pairs), expected=expected)
    for pair in pairs:
        if not isinstance(pair, Pair) and not (are_texts(pair) and len(pair) == 2):
            raise InputError("pairs", got=kind_of(pair), expected=expected)
    return [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]


def pair_texts(pairs: Iterable[Pair]) -> Iterator[tuple[str, str]]:
    """Yields each source with each of its references."""
    return ((pair.source, target) for pair in pairs for target in pair.references)


def _length(pair: Pair) -> int:
    """The length by which progress is estimated: characters of the source, at least 1."""
    return 1 + len(pair.source)


def _missing_file(data: Any) -> str | None:
    """The first file of a recipe's data, or of a part of it, that does not exist."""
    parts = [data, *getattr(data, "parts", {}).values()]
    values = [
        getattr(part, key, None) or () for part in parts for key in ("train", "valid", "test")
    ]
    names = [name for value in values for name in ((value,) if isinstance(value, str) else value)]
    return next((name for name in names if not Path(name).exists() and not has_magic(name)), None)


def _merge_pairs(example_set: ExampleSet) -> ExampleSet:
    """A set in which each source has one pair, with all its references."""
    pairs = by_source(example_set.examples)
    reason = "merged with another of the same source"
    return example_set.without(pairs, reason, len(example_set.examples) - len(pairs))


def warn_about(loaded: Loaded) -> None:
    """Warns about pairs that were skipped, and about others that are also in the training set."""
    for problem, count in loaded.skipped.items():
        _logger.warning("data: %d pairs skipped: %s", count, problem)
    for name, pairs in {"valid": loaded.splits.valid, **loaded.splits.tests}.items():
        train = {(pair.source, pair.target) for pair in with_keys_of(loaded.splits.train, pairs)}
        overlap = sum((pair.source, pair.target) in train for pair in pairs)
        if overlap:
            message = "data: %d of %d %s pairs are also in the training set"
            _logger.warning(message, overlap, len(pairs), name)
