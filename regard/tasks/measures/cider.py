"""BLEU-4 and CIDEr-D of captions, with several references for each, as the field reports them.

In: captions and, for each, the captions that people wrote. Out: the scores of pycocoevalcap, the
code of the COCO challenge. Words are split and made lower case by one rule here, since its own
splitter is a program in Java; on text that is split already the scores are the same.

    CIDEr-D_n(c, R) = 10/|R| Σ_{r ∈ R} e^{-(l_c - l_r)² / 2σ²} min(g_c, g_r) · g_r / (|g_c| |g_r|)

where g has the counts of the n-grams of a caption, each times log(images / images whose references
have it), and σ = 6; the score is the mean over n = 1 … 4 (Vedantam et al. 2015).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

ORDER = 4
"""n-grams of up to so many words count."""
SIGMA = 6.0
WORD = re.compile(r"\w+(?:['’]\w+)*", re.UNICODE)
SMALL, TINY = 1e-9, 1e-15
"""What the published code adds so that nothing is divided by 0."""

Ngrams = Counter[tuple[str, ...]]
References = Sequence[Sequence[str]]


def words_of(text: str) -> list[str]:
    """The words of a caption, in lower case and without punctuation.

    Example:
        >>> words_of("A dog's ball , on the grass .")
        ['a', "dog's", 'ball', 'on', 'the', 'grass']
    """
    return WORD.findall(text.lower())


def bleu_4(captions: Sequence[str], references: References) -> float:
    """BLEU of up to four words, from 0 to 100, of the whole set; references may be several.

    Example:
        >>> round(bleu_4(["a dog runs on grass"], [["a dog runs on the grass", "a dog"]]), 1)
        57.9
    """
    correct, total = [0] * ORDER, [0] * ORDER
    length = reference_length = 0
    for caption, texts in zip(captions, references, strict=True):
        words, others = words_of(caption), [words_of(text) for text in texts]
        length += len(words)
        # the length of the reference that is nearest, of two as near the shorter
        reference_length += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for n in range(1, ORDER + 1):
            most: Ngrams = Counter()
            for other in others:
                most |= _ngrams(other, n)  # the largest count of each
            correct[n - 1] += (_ngrams(words, n) & most).total()
            total[n - 1] += max(0, len(words) - n + 1)
    product = 1.0
    for right, count in zip(correct, total, strict=True):
        product *= (right + TINY) / (count + SMALL)
    ratio = (length + TINY) / (reference_length + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return 100 * penalty * product ** (1 / ORDER)


def cider_d(captions: Sequence[str], references: References) -> float:
    """CIDEr-D of a set of captions: 0 if nothing is shared, 10 for equal ones.

    It needs several images: an n-gram that all of them have weighs nothing.

    Example:
        >>> texts = ["a red circle", "a blue square"]
        >>> round(cider_d(texts, [[text] for text in texts]), 2)
        7.5
    """
    reference_words = [[words_of(text) for text in texts] for texts in references]
    images_with: Ngrams = Counter()
    for texts in reference_words:
        images_with.update({ngram for words in texts for ngram in _all_ngrams(words)})
    images = math.log(max(1, len(reference_words)))
    scores = []
    for caption, texts in zip(captions, reference_words, strict=True):
        vectors, length = _vectors(words_of(caption), images_with, images)
        total = 0.0
        for words in texts:
            reference, reference_length = _vectors(words, images_with, images)
            nearness = math.exp(-((length - reference_length) ** 2) / (2 * SIGMA**2))
            cosines = map(_clipped_cosine, vectors, reference)
            total += nearness * sum(cosines) / ORDER
        scores.append(10 * total / len(texts))
    return sum(scores) / max(1, len(scores))


def _ngrams(words: Sequence[str], n: int) -> Ngrams:
    """The counts of the n-grams of some words."""
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _all_ngrams(words: Sequence[str]) -> Ngrams:
    """The counts of all n-grams of up to four words."""
    counts: Ngrams = Counter()
    for n in range(1, ORDER + 1):
        counts.update(_ngrams(words, n))
    return counts


Vector = dict[tuple[str, ...], float]


def _vectors(words: Sequence[str], images_with: Ngrams, images: float) -> tuple[list[Vector], int]:
    """The weighted counts of the n-grams for each n, and the length of a caption.

    As in the published code, the length is the number of pairs of neighbouring words.

    Args:
        words: The words of a caption.
        images_with: For each n-gram, how many images have it in a reference.
        images: The logarithm of the number of images.
    """
    vectors = [
        {
            ngram: count * (images - math.log(max(1, images_with[ngram])))
            for ngram, count in _ngrams(words, n).items()
        }
        for n in range(1, ORDER + 1)
    ]
    return vectors, max(0, len(words) - 1)


def _clipped_cosine(vector: Vector, reference: Vector) -> float:
    """min(g_c, g_r) · g_r / (|g_c| |g_r|); 0 if one of them is 0."""
    norms = math.hypot(*vector.values()) * math.hypot(*reference.values())
    if not norms:
        return 0.0
    product = sum(
        min(value, reference[ngram]) * reference[ngram]
        for ngram, value in vector.items() if ngram in reference
    )  # fmt: skip
    return product / norms
