"""Images with captions as token ids -> batches for a model that writes captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.images.labelled_images import LabelledImages
from regard.data.order import Batches, Lengths
from regard.inputs.arrays import Dense, Ragged, Shared


class CaptionedImages:
    """All images of a split with their captions as token ids: an example is one caption.

    Args:
        images: The images.
        captions: The ids of the captions of each image, without begin and end.
        image_tokens: What an image counts in a batch: the tokens that the model makes of it.
        begin: Id of the begin symbol.
        end: Id of the end symbol.
    """

    lengths: NDArray[np.int64]
    """(examples,) Number of tokens of each example: image, begin symbol, caption."""
    image_of: NDArray[np.int64]
    """(examples,) The number of the image of each example."""

    def __init__(
        self,
        images: LabelledImages,
        captions: Sequence[Sequence[Sequence[int]]],
        *,
        image_tokens: int,
        begin: int,
        end: int,
    ) -> None:
        if len(images) != len(captions):
            raise ValueError(f"{len(images)} images but captions of {len(captions)}")
        self.images, self.begin, self.end = images, begin, end
        self.captions = [ids for captions_of_image in captions for ids in captions_of_image]
        self.image_of = np.repeat(np.arange(len(captions)), [*map(len, captions)])
        caption_lengths = np.fromiter(map(len, self.captions), np.int64, len(self.captions))
        self.lengths = image_tokens + 1 + caption_lengths
        self._image_tokens = image_tokens

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def longest(self) -> int:
        """The most tokens of a caption, with its begin symbol."""
        return 1 + max(map(len, self.captions), default=0)

    def plan(self, cut: Callable[[Lengths], Batches], *, together: bool) -> Batches:
        """Compute the examples of each batch.

        Args:
            cut: Maps lengths to batches, such as `training_batches` with its budget.
            together: All captions of an image are in the same batch, in which it counts once.
        """
        if not together:
            return cut(self.lengths)
        counts = np.bincount(self.image_of, minlength=len(self.images))
        firsts = np.cumsum(counts) - counts
        captions = np.bincount(self.image_of, self.lengths - self._image_tokens, len(counts))
        return cut(self._image_tokens + captions.astype(np.int64)).of_groups(firsts, counts)

    def images_of(self, index: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
        """Return the numbers of the images of some examples, and which of these each one has."""
        rows = dict.fromkeys(self.image_of[list(index)].tolist())
        numbers = {image: number for number, image in enumerate(rows)}
        return list(rows), tuple(numbers[image] for image in self.image_of[list(index)].tolist())

    def batch(self, index: Sequence[int], source: Dense) -> Batch[Dense | Shared]:
        """Return the batch of some examples.

        Args:
            index: The numbers of the examples.
            source: Their images, each once, as the model reads them: `images_of`.
        """
        captions = [self.captions[row] for row in index]
        written = Ragged.of([[*ids, self.end] for ids in captions])
        read = Ragged.of([[self.begin, *ids] for ids in captions])
        inputs = source if len(source) == len(index) else Shared(source, self.images_of(index)[1])
        return Batch(inputs, written, tuple(index), decoder_input=read)
