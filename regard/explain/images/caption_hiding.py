"""The test that can contradict the maps of a caption: hide what each word looked at.

Input: an image with a captioner's probability of each word, and a map of the image for each word.
Output: for each word its probability as the image is, with the cells hidden that it looked at most,
and with as many others hidden. The words before it stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.draw.labels import Weights
from regard.explain.images.hiding import HiddenPatches, Hiding, Verdict, hidden_images, judge
from regard.tasks.trace import Captioned

IMAGES_AT_ONCE = 64
"""So many changed images are read together."""
PHRASES: dict[Verdict, str] = {
    "holds": "needs what it looked at",
    "does not hold": "needs other cells more",
    "cannot tell": "cannot be told",
}


@dataclass(frozen=True)
class WordTests:
    """What hiding cells of the image does to each word of a caption.

    Attributes:
        tests: The test of each word, in the order of the caption.
    """

    tests: tuple[HiddenPatches, ...]

    def words(self, verdict: Verdict) -> list[str]:
        """The words of which the test says this, each once."""
        words = (test.label for test in self.tests if judge(test.most, test.random) == verdict)
        return list(dict.fromkeys(words))

    @property
    def verdict(self) -> str:
        """One sentence: for which words the maps hold."""
        first = self.tests[0]
        parts = []
        for name, phrase in PHRASES.items():
            if words := self.words(name):
                parts.append(f"{', '.join(words)}: {phrase}")
        return f"With {first.hidden} of {first.patches} cells hidden: {'; '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """The test of each word."""
        return {"words": [test.to_json() for test in self.tests]}


def hide_by_words(
    captioned: Captioned, words: Sequence[str], maps: Sequence[Weights], hiding: Hiding
) -> WordTests:
    """Hide cells of an image by the map of each word, and compute the word's probability.

    Args:
        captioned: The image, and the probability of each word of its caption.
        words: The words of the caption.
        maps: For each word, its map (rows, columns) over the image.
        hiding: How many cells are hidden, and how.
    """
    changed = [
        hidden_images(captioned.values, weights, hiding, number)
        for number, weights in enumerate(maps)
    ]
    parts = torch.split(torch.cat(changed), IMAGES_AT_ONCE)
    shares = torch.cat([captioned.shares(part) for part in parts])
    tests = []
    for number, rows in enumerate(torch.split(shares, [*map(len, changed)])):
        before, most, least, *random = rows[:, number].tolist()
        size = maps[number].size
        tests.append(
            HiddenPatches(
                label=words[number], patches=size, hidden=hiding.count(size), before=before,
                most=most, random=tuple(random), least=least, fill=hiding.fill, seed=hiding.seed,
            )
        )  # fmt: skip
    return WordTests(tuple(tests))
