"""Compares the contextual vectors of one word in several sentences.

A word, sentences and a model come in. Out go the cosines between the occurrences of the word, the
words nearest to each occurrence, and for comparison the cosines of the static embedding, which is
the same in every sentence. In "the model walked" and "the model was trained", the word "model" has
one vector in the embedding and two different ones above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.order import evaluation_batches
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text import Tokenizer
from regard.layers import Tap
from regard.models import Model
from regard.models.mode import evaluating
from regard.tasks.base_task import warn_truncated

TOKENS_AT_ONCE = 4096
"""The maximal number of tokens in a batch."""


@dataclass(frozen=True)
class Near:
    """A nearby word with its cosine."""

    word: str
    cosine: float
    sentence: int | None = None
    """The index of its sentence, from 0; None for an entry of the vocabulary."""


@dataclass(frozen=True, eq=False)
class Occurrence:
    """One occurrence of the word."""

    sentence: int
    """The index of the sentence, from 0."""
    text: str
    """The sentence as the model reads it, the word in brackets."""
    vector: Tensor
    """(dim,) The mean of the vectors of its sub-words."""
    near: tuple[Near, ...]
    """The nearest other words of all sentences, nearest first."""
    vocabulary: tuple[Near, ...]
    """The nearest entries of the embedding matrix, nearest first."""


@dataclass(frozen=True, eq=False)
class Words:
    """All occurrences of a word, compared."""

    word: str
    layer: int | None
    """The block whose output the vectors are, from 0; None: the output of the whole stack."""
    occurrences: tuple[Occurrence, ...]
    cosines: Tensor
    """(occurrences, occurrences) The cosines between their vectors."""
    static: Tensor
    """(occurrences, occurrences) The cosines of their static embeddings: 1 if spelled the same."""
    usual: float
    """The mean cosine of two different words of these sentences. Compare cosines with it, because
    in many models all vectors point in similar directions."""

    def to_json(self) -> dict[str, Any]:
        """Everything but the vectors, as JSON values."""
        return {
            "word": self.word,
            "layer": self.layer,
            "occurrences": [
                {
                    "sentence": each.sentence,
                    "text": each.text,
                    "near": [_as_json(near) for near in each.near],
                    "vocabulary": [_as_json(near) for near in each.vocabulary],
                }
                for each in self.occurrences
            ],
            "cosines": self.cosines.tolist(),
            "static": self.static.tolist(),
            "usual": self.usual,
        }

    def table(self) -> str:
        """Formats the comparison as a text table."""
        numbers = range(1, len(self.occurrences) + 1)
        lines = [f"{n:>4}  {each.text}" for n, each in zip(numbers, self.occurrences, strict=True)]
        where = "top" if self.layer is None else f"layer {self.layer}"
        for title, cosines in ((f"cosine, {where}", self.cosines), ("embedding", self.static)):
            lines.append(f"{title:<18}" + "".join(f"{n:>8}" for n in numbers))
            for n, row in zip(numbers, cosines.tolist(), strict=True):
                lines.append(f"{n:>18}" + "".join(f"{value:>8.3f}" for value in row))
        lines.append(f"two different words of these sentences: {self.usual:.3f} on average")
        for n, each in zip(numbers, self.occurrences, strict=True):
            lines.append(f"{n:>4}  near: {_listed(each.near)}")
            lines.append(f"      in the vocabulary: {_listed(each.vocabulary)}")
        return "\n".join(lines)


def compare(
    model: Model,
    tokenizer: Tokenizer,
    word: str,
    sentences: Sequence[str],
    *,
    layer: int | None = None,
    count: int = 5,
) -> Words:
    """Compares the contextual vectors of a word in several sentences.

    Args:
        model: The model; of an encoder-decoder, the encoder is used.
        tokenizer: The model's tokenizer.
        word: One word, or several consecutive words; upper and lower case are not distinguished.
        sentences: Sentences that contain the word at least once each.
        layer: The block whose output is used, from 0; None: the output of the whole stack.
        count: The number of nearest words to list.

    Raises:
        InputError: A sentence does not contain the word, the vocabulary does not have it, or there
            is no such layer.
    """
    if not sentences:
        raise InputError("words", got="no sentence", expected="some with the word in them")
    unknown = tokenizer.unknown_words(word)
    if unknown:  # it would match every other unknown word
        raise InputError(f"the model does not know the word {unknown[0]!r}", fix="ask for another")
    encoded = tokenizer.read(sentences, model.config.max_length)
    warn_truncated(encoded)
    read = [_Sentence(text.values, *tokenizer.words(text.values)) for text in encoded]
    with evaluating(model):
        vectors = _vectors(model, [sentence.ids for sentence in read], layer)
    wanted = _folded(tokenizer.words(tokenizer.encode(word))[0])
    places = [
        (number, found)
        for number, sentence in enumerate(read)
        for found in sentence.find(wanted, word, number)
    ]
    embed: Any = model.embeds()[0]
    return _compared(
        word,
        layer,
        _Reading(read, vectors, embed.table().detach().cpu(), tokenizer),
        places,
        count,
    )


@dataclass(frozen=True)
class _Sentence:
    """A sentence as token ids and as words."""

    ids: list[int]
    words: list[str]
    index: list[int]
    """For each token the index of its word."""

    def find(self, wanted: list[str], word: str, number: int) -> list[range]:
        """The range of word indices of each occurrence of the wanted words.

        Args:
            wanted: The words to find, stripped and case-folded.
            word: The word as the user gave it, for the error.
            number: The index of the sentence, for the error.

        Raises:
            InputError: The sentence does not contain the word.
        """
        own, size = _folded(self.words), max(1, len(wanted))
        found = [
            range(start, start + size)
            for start in range(len(own) - size + 1)
            if own[start : start + size] == wanted
        ]
        if not found:
            raise InputError(
                f"sentence {number + 1}",
                got=" ".join(self.words),
                expected=f"the word {word!r} in it",
            )
        return found

    def tokens(self, words: range) -> list[int]:
        """The positions of the tokens of some words."""
        return [place for place, number in enumerate(self.index) if number in words]

    def shown(self, words: range) -> str:
        """The sentence with some words in brackets."""
        marked = [f"[{w}]" if n in words else w for n, w in enumerate(self.words)]
        return " ".join(word.strip() for word in marked)


@dataclass(frozen=True, eq=False)
class _Reading:
    """Sentences with the contextual vectors and the static embeddings of their tokens."""

    sentences: list[_Sentence]
    vectors: list[Tensor]  # of each sentence (tokens, dim)
    embedding: Tensor  # (vocab, dim)
    tokenizer: Tokenizer

    def vector(self, number: int, words: range) -> Tensor:
        """The mean contextual vector of the tokens of some words of a sentence: (dim,)."""
        return self.vectors[number][self.sentences[number].tokens(words)].mean(0)

    def static(self, number: int, words: range) -> Tensor:
        """The mean static embedding of the tokens of some words of a sentence: (dim,)."""
        sentence = self.sentences[number]
        return self.embedding[[sentence.ids[place] for place in sentence.tokens(words)]].mean(0)

    def all_words(self) -> list[tuple[int, int]]:
        """All words as (sentence, word) indices, without punctuation and special tokens."""
        return [
            (number, word)
            for number, sentence in enumerate(self.sentences)
            for word in range(len(sentence.words))
            if self._is_word(sentence, word)
        ]

    def _is_word(self, sentence: _Sentence, word: int) -> bool:
        ids = [sentence.ids[place] for place in sentence.tokens(range(word, word + 1))]
        written = self.tokenizer.decode(ids)  # empty for a special token
        return any(letter.isalnum() for letter in written)


def _compared(
    word: str,
    layer: int | None,
    reading: _Reading,
    places: Sequence[tuple[int, range]],
    count: int,
) -> Words:
    """Compares the occurrences at `places`, given as (sentence, range of words)."""
    own = F.normalize(torch.stack([reading.vector(*place) for place in places]), dim=1)
    static = F.normalize(torch.stack([reading.static(*place) for place in places]), dim=1)
    others = reading.all_words()
    if not others:
        raise InputError("words", got="no word", expected="words of letters or digits")
    vectors = torch.stack([reading.vector(n, range(at, at + 1)) for n, at in others])
    vectors = F.normalize(vectors, dim=1)  # (words, dim)
    texts = [reading.sentences[n].words[at].strip() for n, at in others]
    to_entries = own @ F.normalize(reading.embedding, dim=1).t()  # (occurrences, vocab)
    occurrences = []
    to_words = own @ vectors.t()  # (occurrences, words)
    for (number, words), cosines, entries in zip(places, to_words, to_entries, strict=True):
        near = [
            Near(text, float(cosine), n)
            for (n, at), text, cosine in zip(others, texts, cosines, strict=True)
            if n != number or at not in words
        ]
        best = entries.topk(min(count, len(entries)))
        names = reading.tokenizer.tokens(best.indices.tolist())
        occurrences.append(
            Occurrence(
                sentence=number,
                text=reading.sentences[number].shown(words),
                vector=reading.vector(number, words),
                near=tuple(sorted(near, key=lambda each: -each.cosine)[:count]),
                vocabulary=tuple(map(Near, names, best.values.tolist())),
            )
        )
    return Words(
        word, layer, tuple(occurrences), own @ own.t(), static @ static.t(), _usual(vectors, texts)
    )


def _usual(vectors: Tensor, texts: Sequence[str]) -> float:
    """The mean cosine of pairs of words that are spelled differently; 0 if there are none."""
    folded = _folded(texts)
    different = torch.tensor([[one != two for two in folded] for one in folded])
    cosines = vectors @ vectors.t()
    return float(cosines[different].mean()) if different.any() else 0.0


def _vectors(model: Model, texts: Sequence[list[int]], layer: int | None) -> list[Tensor]:
    """The contextual vectors of the tokens of each text: a list of tensors (tokens, dim)."""
    found: dict[int, Tensor] = {}
    for index in evaluation_batches([len(ids) for ids in texts], TOKENS_AT_ONCE):
        part = Ragged.of([texts[i] for i in index]).to(model.device)
        if layer is None:
            rows = torch.split(model.hidden(part).float().cpu(), list(part.lengths))
            found |= dict(zip(index, rows, strict=True))
            continue
        site = f"{model.reader}.{layer}.residual"
        tap = Tap(site)
        model.hidden(part, tap)
        recorded = tap.records[site].float().cpu()  # (batch, length, dim)
        for row, (i, length) in enumerate(zip(index, part.lengths, strict=True)):
            found[i] = recorded[row, :length]
    return [found[i] for i in range(len(texts))]


def _folded(words: Sequence[str]) -> list[str]:
    return [word.strip().casefold() for word in words]


def _as_json(near: Near) -> dict[str, Any]:
    place = {} if near.sentence is None else {"sentence": near.sentence}
    return {"word": near.word, "cosine": near.cosine, **place}


def _listed(near: Sequence[Near]) -> str:
    shown = []
    for each in near:
        place = "" if each.sentence is None else f" ({each.sentence + 1})"
        shown.append(f"{each.word}{place} {each.cosine:.2f}")
    return "  ".join(shown) or "none"
