"""Translation: pairs of sentences and an encoder-decoder -> loss, perplexity, translations.

Pairs of texts come in and are encoded to ids; out go training batches and the loss for the trainer,
BLEU and chrF for evaluation, and translations (n-best lists or streams) for users.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.batch import Batch, Cursor, epochs
from regard.data.config import OnBad
from regard.data.order import Batches, evaluation_batches, training_batches
from regard.data.seen import Seen, keys_of_pairs
from regard.data.sources import Loaded, few_pairs, load_splits, pairs_of
from regard.data.text.encoded import EncodedPairs
from regard.data.text.examples import sample, with_keys_of
from regard.data.text.files import load_pairs, split_files
from regard.data.text.id_rows import encode, id_type
from regard.data.text.mixture import Mixture
from regard.data.text.pairs import Pair, by_source
from regard.decode.config import DecodeConfig
from regard.decode.engine import Step
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text import Vocabulary, learn
from regard.inputs.text.bloom import Keys
from regard.inputs.text.learn import has_sentinels
from regard.inputs.text.reader import are_texts, kind_of
from regard.layers import Tap
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.base_task import BaseTask, Prepared, Settings
from regard.tasks.head_batches import HeadBatch, of_tokens
from regard.tasks.measures.bleu import score_translations
from regard.tasks.measures.report import ExampleSet, Scoring, Selection
from regard.tasks.measures.translation import Evaluation, SetReport, TranslationReport
from regard.tasks.measures.unknown import Unknown, check_known
from regard.tasks.writing_task import Output, WritingTask, check_length

if TYPE_CHECKING:
    from regard.tasks.restore import Restore

_logger = logging.getLogger(__name__)

PAIRS_TO_CHOOSE_FROM = 50
"""The number of pairs from which the source of the suggested command is chosen."""


class Translate(WritingTask):
    """Translation: training, evaluation and prediction.

    Args:
        vocabulary: The tokenizers of source and target.
        train: Training pairs; empty if nothing is to be trained.
        valid: Validation pairs.
        batch_tokens: Token budget of a micro-batch.
        smoothing: Label smoothing ε in training.
        seed: The seed of the order of the data.
        weights: For a mixture of datasets (T5), the weight of each dataset by name; the first tag
            of a pair is the name of its dataset.
    """

    noun = "training pairs"
    scored = "pairs"
    scoring = frozenset({"beam", "lowercase"})
    rows_at_once = 128  # enough to fill two cores, few enough to stay in their caches

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Sequence[Pair] = (),
        valid: Sequence[Pair] = (),
        *,
        batch_tokens: int = 4096,
        smoothing: float = 0.0,
        seed: int = 0,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(vocabulary)
        self.smoothing, self.batch_tokens, self.seed = smoothing, batch_tokens, seed
        if train or valid:
            self.train, self.valid = self.encode(train), self.encode(valid)
        self.mixture: Mixture | None = None
        self.sets: dict[str, EncodedPairs] = {}
        if weights:
            names = list(weights)
            numbers = (names.index(pair.tags[0]) for pair in train)
            parts = np.fromiter(numbers, np.int64, count=len(train))
            self.mixture = Mixture(parts, list(weights.values()), seed=seed)
            valid_parts = {name: [p for p in valid if p.tags[0] == name] for name in names}
            self.sets = {name: self.encode(pairs) for name, pairs in valid_parts.items() if pairs}

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Reads or generates the pairs of a recipe, and learns a vocabulary from the training set.

        Args:
            settings: The recipe.
            vocabulary: The vocabulary of a resumed run or of the pretrained model; None: learn one.

        Raises:
            InputError: A sentence is longer than the model can read.
        """
        loaded = load_splits(settings.data)
        for problem, count in loaded.skipped.items():
            _logger.warning("data: %d pairs skipped: %s", count, problem)
        _warn_of_overlap(loaded)
        vocabulary = vocabulary or learn(sample(loaded.splits.train), settings.tokens)
        parts = getattr(settings.data, "parts", {})
        task = cls(
            vocabulary,
            loaded.splits.train,
            loaded.splits.valid,
            batch_tokens=settings.train.batch_tokens,
            smoothing=settings.train.label_smoothing,
            seed=settings.seed,
            weights={name: part.weight for name, part in parts.items()},
        )
        longest = settings.model.max_length
        if task.longest() > longest:
            what = "the data has a sentence longer than the model can read"
            got, expected = f"{task.longest()} tokens", f"at most model.max_length={longest}"
            fix = "raise model.max_length, or lower data.max_words with data.on_bad=skip"
            raise InputError(what, got=got, expected=expected, fix=fix)
        train = loaded.splits.train
        seen = Seen.of("pairs", keys_of_pairs(_pair_texts(train)), len(train), keys_each=2)
        return Prepared(vocabulary, task, loaded.checksums, seen=seen)

    @cached_property
    def restorer(self) -> Restore | None:
        """The task that fills holes in a text; None if the vocabulary has no sentinel tokens."""
        from regard.tasks.restore import Restore

        return Restore(self.vocabulary) if has_sentinels(self.vocabulary) else None

    def encode(self, pairs: Sequence[Pair]) -> EncodedPairs:
        """Encodes pairs of texts to ids."""
        source, target = self.vocabulary.source, self.vocabulary.target

        def encode_block(block: list[Pair]) -> tuple[list[list[int]], list[list[int]]]:
            sources = source.encode_batch([pair.source for pair in block])
            if source.template([]):
                sources = [source.template(row) for row in sources]
            return sources, target.encode_batch([pair.target for pair in block])

        sides = {"source": id_type(source.vocab), "target": id_type(target.vocab)}
        rows = encode(pairs, encode_block, sides, lambda: {"vocabulary": self.vocabulary.to_json()})
        return EncodedPairs(*rows, begin=target.begin, end=target.end)

    def longest(self) -> int:
        """The maximal number of tokens on one side of any training or validation pair."""
        return max(self.train.longest, self.valid.longest)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        return epochs(self._epoch_batches, lambda index, _: self.train.batch(index), start)

    def _epoch_batches(self, epoch: int) -> Batches:
        """The indices of the pairs of each batch of an epoch.

        For a mixture, the epoch contains the pairs that `Mixture.epoch` draws by the weights.
        """
        lengths = self.train.lengths
        if self.mixture is None:
            return training_batches(lengths, self.batch_tokens, self.seed, epoch)
        index = self.mixture.epoch(epoch)
        return training_batches(lengths[index], self.batch_tokens, self.seed, epoch).of(index)

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
        return keys_of_pairs(_pair_texts(_check_pairs(examples))) if seen.unit == "pairs" else None

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

    def symbols(self) -> Symbols:
        """The special tokens of decoding; `decode.banned` may ban further tokens."""
        target = self.vocabulary.target
        return Symbols(target.begin, target.end, target.pad, target.specials.banned)

    def read(
        self, model: EncoderDecoder, items: Sequence[str], *, allow_unknown: bool = True, **_: Any
    ) -> list[Encoded]:
        """Reads sentences to translate.

        Args:
            model: The translation model.
            items: Sentences.
            allow_unknown: Whether a sentence may have words that are not in a word vocabulary.

        Raises:
            InputError: A sentence has no tokens, too many, or unknown words.
        """
        tokenizer, longest = self.vocabulary.source, model.config.max_length
        around, encoded = len(tokenizer.template([])), []
        for text in tokenizer.read(items):
            check_length(len(text.values) - around, "the sentence to translate", longest)
            has_unknown = tokenizer.specials.unknown in text.values
            words = tuple(tokenizer.unknown_words(text.item)) if has_unknown else ()
            check_known(tokenizer, words, allow_unknown=allow_unknown)
            encoded.append(replace(text, unknown=words))
        return encoded

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

    def target_ids(self, text: str, longest: int) -> list[int]:
        """Encodes a given translation; it may have `longest - 1` tokens, as the end is added.

        Raises:
            InputError: The translation has no tokens, too many, or unknown words.
        """
        unknown = self.vocabulary.target.unknown_words(text)
        if unknown:
            raise InputError("the translation has words the model cannot write", got=unknown[0])
        ids = self.vocabulary.target.encode(text)
        check_length(len(ids), "the translation", longest - 1)
        return ids

    def opening(self, text: str, longest: int) -> list[int]:
        """Encodes the prefix that a translation must begin with; no ids for an empty text."""
        return self.target_ids(text, longest) if text else []

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

    def task_for(self, text: str) -> BaseTask:
        """The task for a text: `Restore` if the text contains a sentinel token, else this task."""
        restorer = self.restorer
        return self if restorer is None or not restorer.has_sentinel(text) else restorer

    def banned(self) -> Sequence[int]:
        """The ids that are never generated, such as padding, if the vocabulary names any."""
        return self.symbols().banned

    def translate(
        self,
        model: EncoderDecoder,
        encoded: Sequence[Encoded],
        config: DecodeConfig,
        *,
        prefix: str | Sequence[str] = "",
        **_: Any,
    ) -> list[list[Output]]:
        """The n best translations of each sentence, with log-probabilities and scores.

        Args:
            model: The translation model.
            encoded: Sentences.
            config: The decoding settings.
            prefix: The text that all translations must begin with, or one text for each.
        """
        prefixes = [prefix] * len(encoded) if isinstance(prefix, str) else prefix
        return self.predict(model, encoded, config, prefixes=prefixes)

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

    def stream(
        self,
        model: EncoderDecoder,
        text: Encoded,
        config: DecodeConfig,
        *,
        prefix: str = "",
        **_: Any,
    ) -> Iterator[str]:
        """Yields the translation piece by piece while it is decoded; no piece is revised later.

        In beam search a token is final once all beams agree on it, so a translation may grow by
        several words at a time.
        """
        begin = self.opening(prefix, model.config.max_length)
        return self._stream_pieces(model, self.steps(model, text.values, config, begin))

    def _stream_pieces(self, model: EncoderDecoder, steps: Iterator[Step]) -> Iterator[str]:
        """Yields the text of the ids that each decoding step settles, and the rest at the end."""
        writer, yielded_text, decoded = self.vocabulary.target.stream_decoder(), "", 0
        with evaluating(model):
            for step in steps:
                for ids in step.stable_prefixes:
                    new_text = "".join(map(writer.push, ids[decoded:]))
                    decoded = len(ids)
                    if new_text:
                        yielded_text += new_text
                        yield new_text
                for _, hypotheses in step.done:
                    final_text = self.decode_output(hypotheses[0].ids)
                    if final_text != yielded_text or not yielded_text:
                        yield final_text[len(yielded_text) :]

    def predict(
        self,
        model: EncoderDecoder,
        encoded: Sequence[Encoded],
        config: DecodeConfig,
        *,
        prefixes: Sequence[str] | None = None,
        tap: Tap | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Output]]:
        """The best translations of each sentence, best first, in their order.

        Args:
            model: The translation model.
            encoded: Sentences.
            config: The decoding settings.
            prefixes: The text that each translation must begin with.
            tap: Records or edits activations. A record belongs to one batch, with rows in the order
                of the sentences; so with a tap all of them are decoded in a single batch.
            on_progress: Called with the number of sentences just translated.
        """
        ids, longest = [text.values for text in encoded], model.config.max_length
        openings = [self.opening(text, longest) for text in prefixes or [""] * len(ids)]
        return self.outputs(model, ids, config, prefixes=openings, tap=tap, on_progress=on_progress)

    def decode_output(self, ids: Sequence[int]) -> str:
        """Decodes the ids of a translation to text."""
        return self.vocabulary.target.decode(ids)


def _check_pairs(pairs: Sequence[Pair | tuple[str, str]]) -> list[Pair]:
    """Converts (source, target) tuples to `Pair`s; raises an error if there are none."""
    expected = "at least one (source, target)"
    if not isinstance(pairs, Sequence) or not pairs:
        raise InputError("pairs", got=kind_of(pairs), expected=expected)
    for pair in pairs:
        if not isinstance(pair, Pair) and not (are_texts(pair) and len(pair) == 2):
            raise InputError("pairs", got=kind_of(pair), expected=expected)
    return [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]


def _pair_texts(pairs: Iterable[Pair]) -> Iterator[tuple[str, str]]:
    """Yields each source with each of its references."""
    return ((pair.source, target) for pair in pairs for target in pair.references)


def _length(pair: Pair) -> int:
    """The length by which progress is estimated: characters of the source, at least 1."""
    return 1 + len(pair.source)


def _merge_pairs(example_set: ExampleSet) -> ExampleSet:
    """A set in which each source has one pair, with all its references."""
    pairs = by_source(example_set.examples)
    reason = "merged with another of the same source"
    return example_set.without(pairs, reason, len(example_set.examples) - len(pairs))


def _warn_of_overlap(loaded: Loaded) -> None:
    """Warns about validation and test pairs that are also in the training set."""
    for name, pairs in {"valid": loaded.splits.valid, **loaded.splits.tests}.items():
        train = {(pair.source, pair.target) for pair in with_keys_of(loaded.splits.train, pairs)}
        overlap = sum((pair.source, pair.target) in train for pair in pairs)
        if overlap:
            message = "data: %d of %d %s pairs are also in the training set"
            _logger.warning(message, overlap, len(pairs), name)
