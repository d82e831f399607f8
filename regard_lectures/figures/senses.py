"""The vectors of a word in two meanings, and how far the meanings are apart at each layer."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.inputs import Tokenizer
from regard.models import Encoder
from regard_lectures.figures.contexts import layer_vectors

SPLITS = 500
"""The most divisions of the sentences into two groups that are tried."""


@dataclass(frozen=True)
class Sense:
    """One meaning of a word."""

    name: str
    sentences: Sequence[str]
    """Sentences with the word in this meaning."""
    others: Mapping[str, Sequence[str]]
    """Related unambiguous words, each with sentences that contain it."""


Homonym = tuple[Sense, ...]


@dataclass(frozen=True, eq=False)
class Seen:
    """The vectors of a word in both meanings, before the first layer and after each layer."""

    vectors: tuple[Tensor, Tensor]
    """For each meaning (layers + 1, occurrences, dim)."""
    others: tuple[Tensor, Tensor]
    """For each meaning, the vectors of related words (layers + 1, occurrences, dim)."""

    def silhouettes(self) -> list[float]:
        """The silhouette of the two meanings, before the first layer and after each layer."""
        return [silhouette(first, second) for first, second in zip(*self.vectors, strict=True)]

    def cosines(self) -> tuple[list[float], list[float]]:
        """The mean cosine of two occurrences with the same meaning and with different meanings."""
        first, second = (F.normalize(vectors, dim=-1) for vectors in self.vectors)
        same = [(_pairs(a) + _pairs(b)) / 2 for a, b in zip(first, second, strict=True)]
        between = (first @ second.transpose(1, 2)).mean((1, 2))
        return same, between.tolist()

    def near(self) -> float | None:
        """The share of occurrences whose last-layer vector points to related words of its meaning.

        Vectors are taken relative to the mean of all occurrences, which removes the word itself.
        None if there are no related words.
        """
        if any(vectors.shape[1] == 0 for vectors in self.others):
            return None
        groups = [F.normalize(vectors[-1], dim=-1) for vectors in self.vectors]
        means = [F.normalize(vectors[-1], dim=-1).mean(0) for vectors in self.others]
        middle = (groups[0].mean(0) + groups[1].mean(0)) / 2
        right = [
            (vectors - middle) @ (means[number] - means[1 - number]) > 0
            for number, vectors in enumerate(groups)
        ]
        return float(torch.cat(right).float().mean())

    def by_chance(self, seed: int) -> tuple[int, float]:
        """How many divisions of the sentences into two groups of these sizes were tried.

        Returns:
            The number, and the share of them whose silhouette after the last layer is at least
            that of the two meanings: the p of a permutation test.
        """
        first, second = (vectors[-1] for vectors in self.vectors)
        together, actual = torch.cat([first, second]), silhouette(first, second)
        scores = [
            silhouette(together[list(group)], together[_without(group, len(together))])
            for group in _groups(len(together), len(first), seed)
        ]
        return len(scores), sum(score >= actual - 1e-9 for score in scores) / len(scores)


def _groups(total: int, size: int, seed: int) -> list[tuple[int, ...]]:
    """All choices of `size` of the first numbers or, if these are many, random ones."""
    if math.comb(total, size) <= SPLITS:
        return list(combinations(range(total), size))
    dice = random.Random(f"{seed} groups")
    drawn = [tuple(dice.sample(range(total), size)) for _ in range(SPLITS - 1)]
    return [tuple(range(size)), *drawn]  # the meanings themselves are one of them


def _without(group: Sequence[int], total: int) -> list[int]:
    return [index for index in range(total) if index not in set(group)]


def silhouette(first: Tensor, second: Tensor) -> float:
    """The silhouette of two clusters (Rousseeuw 1987): the mean of (b - a) / max(a, b).

    For each point, a is the mean distance to its own cluster and b that to the other; distances
    are 1 - cosine. Both clusters are (points, dim).

    Example:
        >>> east, north = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[0.0, 1.0]] * 2)
        >>> silhouette(east, north), silhouette(east, east)
        (1.0, 0.0)
    """
    points = F.normalize(torch.cat([first, second]).double(), dim=-1)
    apart = (1 - points @ points.T).clamp(min=0)  # (point, point)
    kind = torch.arange(len(points)) >= len(first)
    same_cluster = kind[:, None] == kind
    mates = same_cluster.sum(1) - 1  # without the point itself
    a = (apart * same_cluster).sum(1) / mates.clamp(min=1)
    b = (apart * ~same_cluster).sum(1) / (~same_cluster).sum(1)
    most = torch.maximum(a, b)
    same = most < 1e-9  # all points coincide: the silhouette is 0
    return float(torch.where(same, torch.zeros_like(a), (b - a) / most.clamp(min=1e-9)).mean())


def _pairs(vectors: Tensor) -> float:
    """The mean cosine of two different unit vectors of (occurrences, dim)."""
    count = len(vectors)
    return float(((vectors @ vectors.T).sum() - count) / max(1, count * (count - 1)))


def look(model: Encoder, tokenizer: Tokenizer, word: str, senses: Homonym) -> Seen:
    """The vectors of a word, and of the related words, in the sentences of two meanings."""
    vectors = [_vectors(model, tokenizer, word, sense.sentences) for sense in senses]
    nothing = vectors[0][:, :0]
    others = [
        torch.cat(
            [nothing]
            + [_vectors(model, tokenizer, other, texts) for other, texts in sense.others.items()],
            1,
        )
        for sense in senses
    ]
    return Seen((vectors[0], vectors[1]), (others[0], others[1]))


def _vectors(model: Encoder, tokenizer: Tokenizer, word: str, sentences: Sequence[str]) -> Tensor:
    """The vectors of a word in each sentence: (layers + 1, sentences, dim).

    The first is the embedding vector without positions, the others are the layers' outputs. For a
    word of several sub-words it is their mean.
    """
    max_length = model.config.max_length - len(tokenizer.template([]))
    read = [tokenizer.template(tokenizer.encode(text)[:max_length]) for text in sentences]
    means = [
        vectors[:, _positions_of(tokenizer, ids, word)].mean(1)
        for ids, vectors in zip(read, layer_vectors(model, read), strict=True)
    ]
    return torch.stack(means, dim=1)


def _positions_of(tokenizer: Tokenizer, ids: list[int], word: str) -> list[int]:
    """The positions of the sub-words of a word.

    Raises:
        InputError: If the word is not among the words of the text.
    """
    words, index = tokenizer.words(ids)
    folded = [name.strip().casefold() for name in words]
    if word not in folded:
        raise InputError(
            "the model's tokenizer", got=" ".join(folded), expected=f"“{word}” as one of the words"
        )
    return [position for position, at in enumerate(index) if at == folded.index(word)]


def flat(seen: Seen, layer: int) -> list[list[list[float]]]:
    """Vectors of a layer on the first two principal components of all.

    Returns:
        For both meanings of the word, then for the related words of both: x and y of each vector.
    """
    groups = [F.normalize(vectors[layer], dim=-1) for vectors in (*seen.vectors, *seen.others)]
    together = torch.cat(groups)
    centre = together.mean(0)
    _, _, across = torch.linalg.svd(together - centre, full_matrices=False)
    points = [(group - centre) @ across[:2].T for group in groups]  # (occurrences, 2)
    if points[0][:, 0].mean() > points[1][:, 0].mean():  # the sign of an axis is arbitrary
        points = [group * torch.tensor([-1.0, 1.0]) for group in points]
    return [group.T.tolist() for group in points]
