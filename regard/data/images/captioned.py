"""Images with captions as token ids -> batches for a model that writes captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.images.labelled_images import LabelledImages
from regard.inputs.arrays import Dense, Ragged


class CaptionedImages:
    """All images of a split with their captions as token ids.

    Args:
        images: The images.
        captions: The ids of each caption, without begin and end.
        image_tokens: What an image counts in a batch: the tokens that the model makes of it.
        begin: Id of the begin symbol.
        end: Id of the end symbol.
    """

    lengths: NDArray[np.int64]
    """(examples,) Number of tokens of each example: image, begin symbol, caption."""

    def __init__(
        self,
        images: LabelledImages,
        captions: Sequence[Sequence[int]],
        *,
        image_tokens: int,
        begin: int,
        end: int,
    ) -> None:
        if len(images) != len(captions):
            raise ValueError(f"{len(images)} images but {len(captions)} captions")
        self.images, self.captions, self.begin, self.end = images, captions, begin, end
        caption_lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        self.lengths = image_tokens + 1 + caption_lengths

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def longest(self) -> int:
        """The most tokens of a caption, with its begin symbol."""
        return 1 + max(map(len, self.captions), default=0)

    def batch(self, index: Sequence[int], source: Dense) -> Batch[Dense]:
        """The batch of some examples.

        Args:
            index: The numbers of the examples.
            source: Their images, as the model reads them.
        """
        captions = [self.captions[row] for row in index]
        written = Ragged.of([[*ids, self.end] for ids in captions])
        read = Ragged.of([[self.begin, *ids] for ids in captions])
        return Batch(source, written, tuple(index), decoder_input=read)
