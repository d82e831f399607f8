"""Translation: pairs of sentences and an encoder-decoder -> loss, perplexity, translations.

Pairs of texts come in and are encoded to ids; out go training batches and the loss for the trainer,
BLEU and chrF for evaluation, and translations (n-best lists or streams) for users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.batch import Batch, Cursor, epochs
from regard.data.order import Batches, training_batches
from regard.data.seen import Seen, keys_of_pairs
from regard.data.sources import load_splits
from regard.data.text.encoded import EncodedPairs
from regard.data.text.examples import sample
from regard.data.text.id_rows import encode, id_type
from regard.data.text.mixture import Mixture
from regard.data.text.pairs import Pair
from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text import Vocabulary, learn
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.base_task import Prepared, Settings
from regard.tasks.measures.unknown import check_known
from regard.tasks.pair_task import PairTask, pair_texts, warn_about
from regard.tasks.writing_task import Output, check_length


class Translate(PairTask):
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
        self.sets = {}
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
        warn_about(loaded)
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
        seen = Seen.of("pairs", keys_of_pairs(pair_texts(train)), len(train), keys_each=2)
        return Prepared(vocabulary, task, loaded.checksums, seen=seen)

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

    def stream(
        self,
        model: EncoderDecoder,
        text: Encoded,
        config: DecodeConfig,
        *,
        prefix: str = "",
        **_: Any,
    ) -> Iterator[str]:
        """Yields the translation piece by piece while it is decoded; see `stream_source`."""
        return self.stream_source(model, text, config, prefix)

    def decode_output(self, ids: Sequence[int]) -> str:
        """Decodes the ids of a translation to text."""
        return self.vocabulary.target.decode(ids)
