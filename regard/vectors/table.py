"""A vocabulary with its vectors, and queries on it: neighbours, analogies, the odd one out.

All queries use cosines: vectors are scaled to length 1 first, as in Mikolov et al. (2013).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import InputError

Floats = npt.NDArray[np.float32]
TOP = 10
"""The default number of neighbours."""
SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0}
MAX_NAMED = 8
"""The largest number of unknown words that an error message lists."""
RANDOM_PAIRS = 2000
"""The number of random pairs of differences that estimate the cosine expected by chance."""


class Neighbour(NamedTuple):
    """A word and the cosine of its vector to the query vector."""

    word: str
    cosine: float


@dataclass(frozen=True)
class Difference:
    """A comparison of two difference vectors, first − second and third − fourth."""

    cosine: float
    """The cosine of first − second and third − fourth; word vectors have length 1."""
    lengths: tuple[float, float]
    """The lengths of the two differences."""
    apart: float
    """The Euclidean distance between the two differences."""
    by_chance: float
    """The mean absolute cosine of two differences between randomly drawn words."""

    def to_json(self) -> dict[str, Any]:
        """All values by name."""
        return asdict(self)


class WordVectors:
    """A vocabulary with one vector per word.

    Args:
        words: The words without duplicates, most frequent first if that is known.
        vectors: (words, dim) One row per word.
        name: A name for messages and titles.
        about: Further information, such as how they were trained.

    Example:
        >>> small = WordVectors(["up", "down", "left"], np.array([[0, 1], [0, -1], [-1, 0.1]]))
        >>> small.nearest("up", 1)[0].word
        'left'
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: npt.ArrayLike,
        name: str = "vectors",
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.words, self.name, self.about = list(words), name, dict(about or {})
        self.vectors: Floats = np.ascontiguousarray(vectors, dtype=np.float32)
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.words) or not self.words:
            shape = "×".join(map(str, self.vectors.shape))
            got = f"{len(self.words)} words, vectors of {shape}"
            raise InputError(name, got=got, expected="one row per word")
        self.index = {word: row for row, word in enumerate(self.words)}
        if len(self.index) != len(self.words):
            again = next(w for row, w in enumerate(self.words) if self.index[w] != row)
            raise InputError(name, got=f"{again!r} twice", expected="each word once")

    @property
    def dim(self) -> int:
        """The dimension of a vector."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.row(word) is not None

    def __getitem__(self, word: str) -> Floats:
        return self.vectors[self.rows([word])[0]]

    def __repr__(self) -> str:
        return f"WordVectors({self.name!r}, {len(self):,} words, {self.dim} numbers each)"

    @cached_property
    def unit(self) -> Floats:
        """(words, dim) The vectors scaled to length 1; a zero vector stays zero."""
        return unit(self.vectors)

    def row(self, word: str) -> int | None:
        """The row of a word, as written or else in lower case; None if it is unknown."""
        row = self.index.get(word)
        return self.index.get(word.lower()) if row is None else row

    def rows(self, words: Iterable[str]) -> list[int]:
        """The rows of words; repeated words are returned once.

        Raises:
            InputError: If some are unknown; the message lists them with similarly spelled words.
        """
        rows = {word: self.row(word) for word in _check_texts(words)}
        unknown = [word for word, row in rows.items() if row is None]
        if unknown:
            spelled = {word: self._spelled_like(word) for word in unknown[:MAX_NAMED]}
            similar = ", ".join(f"{close} for {word!r}" for word, close in spelled.items() if close)
            many = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
            fix = f"it has {len(self):,} words, such as {', '.join(self.words[:5])}"
            if similar:
                fix = f"did you mean {similar}?"
            named = f"{', '.join(map(repr, spelled))}{many}"
            raise InputError(f"{self.name} has no vector of {named}", fix=fix)
        return [row for row in rows.values() if row is not None]

    def _spelled_like(self, word: str) -> str | None:
        """The known word with the most similar spelling; None if none is similar."""
        low = word.lower()
        alike = [
            other
            for other in self.words
            if abs(len(other) - len(low)) <= 2 and (other[:1] == low[:1] or other[-2:] == low[-2:])
        ]
        return next(iter(get_close_matches(low, alike, n=1, cutoff=0.7)), None)

    def nearest(self, word: str | npt.ArrayLike, top: int = TOP) -> list[Neighbour]:
        """The words with the largest cosine to a word or vector; the word itself is excluded.

        Args:
            word: A word, or a vector (dim,).
            top: The number of neighbours.
        """
        if isinstance(word, str):
            [row] = self.rows([word])
            return self._nearest_words(self.unit[row], [row], top)
        try:
            vector = np.asarray(word, np.float32)
        except (TypeError, ValueError):
            vector = np.empty(0, np.float32)
        if vector.shape != (self.dim,) or not np.isfinite(vector).all():
            got, expected = f"a {type(word).__name__}", f"a word, or {self.dim} finite numbers"
            raise InputError("nearest", got=got, expected=expected)
        return self._nearest_words(unit(vector[None])[0], [], top)

    def analogy(self, terms: str | Sequence[str], top: int = TOP) -> list[Neighbour]:
        """The words nearest to a signed sum of unit vectors, the given words excluded (3CosAdd).

        Args:
            terms: `"king - man + woman"`, or the same as a list of words and signs.
            top: The number of answers.
        """
        signed = self.terms(terms)
        rows = self.rows(word for _, word in signed)
        by_word = dict(zip(dict.fromkeys(word for _, word in signed), rows, strict=True))
        total = sum((sign * self.unit[by_word[word]] for sign, word in signed), np.float32(0))
        return self._nearest_words(unit(np.asarray(total)[None])[0], rows, top)

    def terms(self, given: str | Sequence[str]) -> list[tuple[float, str]]:
        """Parse `king - man + woman` into (sign, word) pairs.

        Raises:
            InputError: If words and signs do not alternate.
        """
        pieces = [
            piece
            for part in ([given] if isinstance(given, str) else _check_texts(given))
            for piece in ([part] if part in self.index else part.split())
        ]
        expected = "words with + or - between, as in: king - man + woman"
        signed: list[tuple[float, str]] = []
        sign: float | None = 1.0
        for piece in pieces:
            if sign is None:
                if piece not in SIGNS:
                    raise InputError("analogy", got=f"no sign before {piece!r}", expected=expected)
                sign = SIGNS[piece]
            else:
                signed.append((sign, piece))
                sign = None
        if sign is not None or not signed:
            got = "nothing" if not pieces else f"nothing after {pieces[-1]!r}"
            raise InputError("analogy", got=got, expected=expected)
        return signed

    def similarity(self, first: str, second: str) -> float:
        """The cosine of the vectors of two words."""
        vector, other = (self.unit[self.rows([word])[0]] for word in (first, second))
        return float(vector @ other)

    def difference(self, first: str, second: str, third: str, fourth: str) -> Difference:
        """Compare first − second with third − fourth, such as mother − father and woman − man."""
        words = dict.fromkeys((first, second, third, fourth))
        rows = dict(zip(words, self.rows(words), strict=True))
        first_gap = self.unit[rows[first]] - self.unit[rows[second]]
        second_gap = self.unit[rows[third]] - self.unit[rows[fourth]]
        random_rows = np.random.default_rng(0).integers(0, len(self), (4, RANDOM_PAIRS))
        a, b, c, d = self.unit[random_rows]
        by_chance = np.abs((unit(a - b) * unit(c - d)).sum(1)).mean()
        return Difference(
            cosine=float(unit(first_gap[None])[0] @ unit(second_gap[None])[0]),
            lengths=(float(np.linalg.norm(first_gap)), float(np.linalg.norm(second_gap))),
            apart=float(np.linalg.norm(first_gap - second_gap)),
            by_chance=float(by_chance),
        )

    def odd(self, words: Sequence[str]) -> list[Neighbour]:
        """Find the word that does not belong to the others.

        Args:
            words: Three or more different words.

        Returns:
            Each word with its cosine to the mean of the others, ascending: the odd one is first.
        """
        rows = list(dict.fromkeys(self.rows(words)))
        if len(rows) < 3:
            raise InputError("odd", got=f"{len(rows)} words", expected="three or more")
        vectors = self.unit[rows]
        means_of_others = unit(vectors.sum(0) - vectors)
        cosines = (vectors * means_of_others).sum(1)
        neighbours = [Neighbour(self.words[rows[i]], float(cosines[i])) for i in range(len(rows))]
        return sorted(neighbours, key=lambda neighbour: neighbour.cosine)

    def map(
        self,
        words: Sequence[str],
        path: str | os.PathLike[str] | None = None,
        *,
        method: str = "pca",
        seed: int = 0,
    ) -> dict[str, tuple[float, float]]:
        """Project words to the plane, and draw a map if a path is given.

        Args:
            words: Two or more words.
            path: A .png or .svg file.
            method: `pca`: the first two principal components; `tsne`: t-SNE, which preserves
                neighbourhoods (van der Maaten and Hinton 2008).
            seed: The seed of t-SNE.

        Returns:
            The coordinates (x, y) by word.
        """
        from regard.vectors.projection import draw_map, project_words

        rows = list(dict.fromkeys(self.rows(words)))
        names = [self.words[row] for row in rows]
        points, caption = project_words(self.unit[rows], method, seed)
        if path is not None:
            draw_map(names, points, f"{len(names)} words of {self.name}", caption, Path(path))
        return {word: (x, y) for word, (x, y) in zip(names, points.tolist(), strict=True)}

    def first(self, count: int) -> WordVectors:
        """The first `count` words; most files are sorted by frequency."""
        return WordVectors(self.words[:count], self.vectors[:count], self.name, self.about)

    def joined(self, other: WordVectors) -> WordVectors:
        """These words, followed by the words of another set that are not among them."""
        if other.dim != self.dim:
            raise InputError(other.name, got=f"vectors of {other.dim}", expected=f"of {self.dim}")
        new = [row for row, word in enumerate(other.words) if word not in self.index]
        words = [*self.words, *(other.words[row] for row in new)]
        vectors = np.concatenate([self.vectors, other.vectors[new]])
        return WordVectors(words, vectors, self.name, self.about)

    def _nearest_words(self, vector: Floats, left_out: Sequence[int], top: int) -> list[Neighbour]:
        """Return the `top` words with the largest cosines to a unit vector, in that order."""
        if top < 1:
            raise InputError("top", got=top, expected="1 or more")
        cosines = self.unit @ vector
        cosines[list(left_out)] = -np.inf
        count = min(top, len(self) - len(set(left_out)))
        if count < 1:
            return []
        best = np.argpartition(-cosines, count - 1)[:count]
        best = best[np.lexsort((best, -cosines[best]))]
        return [Neighbour(self.words[row], float(cosines[row])) for row in best]


def unit(rows: Floats) -> Floats:
    """Rows (rows, dim) scaled to length 1; a zero row stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled = rows / np.where(lengths > 0, lengths, 1)
    return scaled.astype(np.float32, copy=False)


def _check_texts(words: Any) -> list[str]:
    """Words given as a sequence or iterator; anything else in it is an error."""
    word_list = list(words) if isinstance(words, Iterable) else [words]
    for word in word_list:
        if not isinstance(word, str):
            raise InputError("a word", got=f"a {type(word).__name__}", expected="a text")
    return word_list
