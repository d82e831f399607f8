"""Many tasks as text to text: named sets of pairs in given proportions, for one model (T5).

What to do with a source stands before it, such as `translate to German: `, so a model of several
tasks is trained and asked like a translator; only the order of the pairs is another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from regard.data.batch import Batch, Cursor, order
from regard.data.mixture import Mixture
from regard.data.pair import Pair
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.translate import Translate


class Rewrite:
    """Sets of pairs, mixed by weight, as a task to train on.

    Args:
        translate: Turns texts into ids and batches into losses; it has the pairs of all sets.
        train: Its training pairs; the first tag of each names its set.
        valid: Its validation pairs.
        weights: The weight of each set, by name.
    """

    def __init__(
        self,
        translate: Translate,
        train: Sequence[Pair],
        valid: Sequence[Pair],
        weights: Mapping[str, float],
    ) -> None:
        self.translate, names = translate, list(weights)
        parts = [names.index(pair.tags[0]) for pair in train]
        self.mixture = Mixture(parts, list(weights.values()), seed=translate.seed)
        self.valid = {
            name: translate.encode([pair for pair in valid if pair.tags[0] == name])
            for name in names
        }

    def batches(self, start: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Training batches without end; their order is a pure function of (seed, epoch)."""
        pairs, translate = self.translate.train, self.translate
        epoch, first = start.epoch, start.batch
        while True:
            index = self.mixture.epoch(epoch)
            lengths = pairs.lengths[index].tolist()
            batches = order(lengths, translate.batch_tokens, translate.seed, epoch)
            for number in range(first, len(batches)):
                last = number + 1 == len(batches)
                after = Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1)
                yield pairs.batch(index[batches[number]].tolist()), after
            epoch, first = epoch + 1, 0

    def targets(self, batch: Batch) -> int:
        """The target tokens, end symbols included."""
        return self.translate.targets(batch)

    def split(self, batch: Batch, parts: int) -> list[Batch]:
        """The pairs of a batch dealt out to several, so that each core has its own."""
        return self.translate.split(batch, parts)

    def loss(self, model: EncoderDecoder, batch: Batch) -> Tensor:
        """Cross-entropy to the smoothed targets, a sum."""
        return self.translate.loss(model, batch)

    def evaluate(self, model: EncoderDecoder) -> dict[str, float]:
        """Loss and perplexity over all validation pairs, and the loss on each set."""
        found = self.translate.evaluate(model)
        parts = {name: each for name, each in self.valid.items() if len(each)}
        return found | {
            f"loss_{name}": self.translate.evaluate(model, each)["loss"]
            for name, each in parts.items()
        }

    def name(self, batch: Batch) -> str:
        """Which training pairs a batch holds."""
        return self.translate.name(batch)

    def longest(self) -> int:
        """The most tokens on one side of any pair, as the model reads it."""
        return self.translate.longest()
