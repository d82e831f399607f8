"""Compares the contextual vectors of one word in several sentences.

A word, sentences and a model come in. Out go the cosines between the occurrences of the word, the
words nearest to each occurrence, and for comparison the cosines of the static embedding, which is
the same in every sentence. In "the model walked" and "the model was trained", the word "model" has
one vector in the embedding and two different ones above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
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
from regard.tasks.senses import VERDICTS, SenseTest

TOKENS_AT_ONCE = 4096
"""The maximal number of tokens in a batch."""


@dataclass(frozen=True)
class Neighbour:
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
    near: tuple[Neighbour, ...]
    """The nearest other words of all sentences, nearest first."""
    vocabulary: tuple[Neighbour, ...]
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
    senses: SenseTest | None = None
    """How well these cosines tell senses apart; None if that was not measured."""

    @property
    def verdicts(self) -> dict[tuple[int, int], str] | None:
        """For each pair of occurrences, from 0, one of `VERDICTS`; None if nothing was measured."""
        if self.senses is None:
            return None
        return {
            (first, second): self.senses.verdict(float(self.cosines[first, second]))
            for first, second in combinations(range(len(self.occurrences)), 2)
        }

    def to_json(self) -> dict[str, Any]:
        """Everything but the vectors, as JSON values."""
        return {
            "word": self.word,
            "layer": self.layer,
            "occurrences": [
                {
                    "sentence": occurrence.sentence,
                    "text": occurrence.text,
                    "near": list(map(_neighbour_to_json, occurrence.near)),
                    "vocabulary": list(map(_neighbour_to_json, occurrence.vocabulary)),
                }
                for occurrence in self.occurrences
            ],
            "cosines": self.cosines.tolist(),
            "static": self.static.tolist(),
            "usual": self.usual,
            "verdicts": None
            if self.verdicts is None
            else [{"pair": [*pair], "verdict": said} for pair, said in self.verdicts.items()],
            "senses": self.senses and self.senses.model_dump(),
        }

    def table(self) -> str:
        """Formats the comparison as a text table."""
        numbers = range(1, len(self.occurrences) + 1)
        lines = [f"{n:>4}  {word.text}" for n, word in enumerate(self.occurrences, start=1)]
        where = "top" if self.layer is None else f"layer {self.layer}"
        for title, cosines in ((f"cosine, {where}", self.cosines), ("embedding", self.static)):
            lines.append(f"{title:<18}" + "".join(f"{n:>8}" for n in numbers))
            for n, row in zip(numbers, cosines.tolist(), strict=True):
                lines.append(f"{n:>18}" + "".join(f"{value:>8.3f}" for value in row))
        lines.append(f"two different words of these sentences: {self.usual:.3f} on average")
        lines += self._verdict_lines()
        for n, word in enumerate(self.occurrences, start=1):
            lines.append(f"{n:>4}  near: {_format_neighbours(word.near)}")
            lines.append(f"      in the vocabulary: {_format_neighbours(word.vocabulary)}")
        return "\n".join(lines)

    def _verdict_lines(self) -> list[str]:
        """Which occurrences mean the same, and how often such verdicts are right."""
        if self.senses is None:
            return ["same meaning or not: not measured for this model and layer, so no verdict"]
        names: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
        for (first, second), verdict in (self.verdicts or {}).items():
            names[verdict].append(f"{first + 1} and {second + 1}")
        lines = [f"{verdict}: {', '.join(pairs)}" for verdict, pairs in names.items() if pairs]
        return [*lines, f"({self.senses.describe()})"]


def compare(
    model: Model,
    tokenizer: Tokenizer,
    word: str,
    sentences: Sequence[str],
    *,
    layer: int | None = None,
    count: int = 5,
    senses: SenseTest | None = None,
) -> Words:
    """Compares the contextual vectors of a word in several sentences.

    Args:
        model: The model; of an encoder-decoder, the encoder is used.
        tokenizer: The model's tokenizer.
        word: One word, or several consecutive words; upper and lower case are not distinguished.
        sentences: Sentences that contain the word at least once each.
        layer: The block whose output is used, from 0; None: the output of the whole stack.
        count: The number of nearest words to list.
        senses: How well the cosines of this layer tell word senses apart, for the verdicts.

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
    texts = [_Sentence(text.values, *tokenizer.words(text.values)) for text in encoded]
    with evaluating(model):
        vectors = _token_vectors(model, [sentence.ids for sentence in texts], layer)
    folded_words = _fold_words(tokenizer.words(tokenizer.encode(word))[0])
    spans = [
        (number, words)
        for number, sentence in enumerate(texts)
        for words in sentence.find(folded_words, word, number)
    ]
    embed: Any = model.embeds()[0]
    encoded_sentences = _EncodedSentences(texts, vectors, embed.table().detach().cpu(), tokenizer)
    comparison = _compare_occurrences(word, layer, encoded_sentences, spans, count)
    return replace(comparison, senses=senses)


@dataclass(frozen=True)
class _Sentence:
    """A sentence as token ids and as words."""

    ids: list[int]
    words: list[str]
    index: list[int]
    """For each token the index of its word."""

    def find(self, folded_words: list[str], word: str, number: int) -> list[range]:
        """The range of word indices of each occurrence of some words.

        Args:
            folded_words: The words to find, stripped and case-folded.
            word: The word as the user gave it, for the error.
            number: The index of the sentence, for the error.

        Raises:
            InputError: The sentence does not contain the word.
        """
        words, size = _fold_words(self.words), max(1, len(folded_words))
        occurrences = [
            range(start, start + size)
            for start in range(len(words) - size + 1)
            if words[start : start + size] == folded_words
        ]
        if not occurrences:
            got, expected = " ".join(self.words), f"the word {word!r} in it"
            raise InputError(f"sentence {number + 1}", got=got, expected=expected)
        return occurrences

    def tokens(self, words: range) -> list[int]:
        """The indices of the tokens of some words, which are given by their indices."""
        return [token for token, word in enumerate(self.index) if word in words]

    def with_brackets(self, words: range) -> str:
        """The sentence with some words in brackets."""
        marked = [f"[{word}]" if i in words else word for i, word in enumerate(self.words)]
        return " ".join(word.strip() for word in marked)


@dataclass(frozen=True, eq=False)
class _EncodedSentences:
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
        return self.embedding[[sentence.ids[token] for token in sentence.tokens(words)]].mean(0)

    def all_words(self) -> list[tuple[int, int]]:
        """All words as (sentence, word) indices, without punctuation and special tokens."""
        return [
            (number, word)
            for number, sentence in enumerate(self.sentences)
            for word in range(len(sentence.words))
            if self._is_word(sentence, word)
        ]

    def _is_word(self, sentence: _Sentence, word: int) -> bool:
        """Whether the word of an index has a letter or digit, unlike punctuation."""
        ids = [sentence.ids[token] for token in sentence.tokens(range(word, word + 1))]
        text = self.tokenizer.decode(ids)  # empty for a special token
        return any(letter.isalnum() for letter in text)


def _compare_occurrences(
    word: str,
    layer: int | None,
    encoded: _EncodedSentences,
    spans: Sequence[tuple[int, range]],
    count: int,
) -> Words:
    """Compares the occurrences of a word.

    Args:
        word: The word as the user gave it.
        layer: The block whose output the vectors are, from 0; None: that of the whole stack.
        encoded: The sentences with their vectors.
        spans: For each occurrence the index of its sentence, and the indices of its words there.
        count: The number of nearest words to list.
    """
    vectors = F.normalize(torch.stack([encoded.vector(*span) for span in spans]), dim=1)
    static = F.normalize(torch.stack([encoded.static(*span) for span in spans]), dim=1)
    all_words = encoded.all_words()
    if not all_words:
        raise InputError("words", got="no word", expected="words of letters or digits")
    word_vectors = torch.stack([encoded.vector(n, range(at, at + 1)) for n, at in all_words])
    word_vectors = F.normalize(word_vectors, dim=1)  # (words, dim)
    texts = [encoded.sentences[n].words[at].strip() for n, at in all_words]
    to_words = vectors @ word_vectors.t()  # (occurrences, words)
    to_entries = vectors @ F.normalize(encoded.embedding, dim=1).t()  # (occurrences, vocab)
    occurrences = []
    for (number, words), cosines, entries in zip(spans, to_words, to_entries, strict=True):
        neighbours = [
            Neighbour(text, float(cosine), n)
            for (n, at), text, cosine in zip(all_words, texts, cosines, strict=True)
            if n != number or at not in words
        ]
        best = entries.topk(min(count, len(entries)))
        names = encoded.tokenizer.tokens(best.indices.tolist())
        occurrences.append(
            Occurrence(
                sentence=number,
                text=encoded.sentences[number].with_brackets(words),
                vector=encoded.vector(number, words),
                near=tuple(sorted(neighbours, key=lambda neighbour: -neighbour.cosine)[:count]),
                vocabulary=tuple(map(Neighbour, names, best.values.tolist())),
            )
        )
    cosines, static_cosines = vectors @ vectors.t(), static @ static.t()
    mean_cosine = _mean_cosine_of_different_words(word_vectors, texts)
    return Words(word, layer, tuple(occurrences), cosines, static_cosines, mean_cosine)


def _mean_cosine_of_different_words(vectors: Tensor, texts: Sequence[str]) -> float:
    """The mean cosine of pairs of words that are spelled differently; 0 if there are none."""
    folded = _fold_words(texts)
    different = torch.tensor([[first != second for second in folded] for first in folded])
    cosines = vectors @ vectors.t()
    return float(cosines[different].mean()) if different.any() else 0.0


def _token_vectors(model: Model, texts: Sequence[list[int]], layer: int | None) -> list[Tensor]:
    """The contextual vectors of the tokens of each text: a list of tensors (tokens, dim).

    Args:
        model: The model.
        texts: The token ids of each text.
        layer: The block whose output is taken; None: the output of the whole stack.
    """
    vectors: dict[int, Tensor] = {}
    for index in evaluation_batches([len(ids) for ids in texts], TOKENS_AT_ONCE):
        part = Ragged.of([texts[i] for i in index]).to(model.device)
        if layer is None:
            rows = torch.split(model.hidden(part).float().cpu(), list(part.lengths))
            vectors |= dict(zip(index, rows, strict=True))
            continue
        site = f"{model.reader}.{layer}.residual"  # of the stack that reads: encoder, decoder
        tap = Tap(site)
        model.hidden(part, tap)
        recorded = tap.records[site].float().cpu()  # (batch, length, dim)
        for row, (i, length) in enumerate(zip(index, part.lengths, strict=True)):
            vectors[i] = recorded[row, :length]
    return [vectors[i] for i in range(len(texts))]


def _fold_words(words: Sequence[str]) -> list[str]:
    """Words without spaces around them, in lower case, to compare them."""
    return [word.strip().casefold() for word in words]


def _neighbour_to_json(neighbour: Neighbour) -> dict[str, Any]:
    """A neighbour as JSON fields; one of the vocabulary has no sentence."""
    sentence = {} if neighbour.sentence is None else {"sentence": neighbour.sentence}
    return {"word": neighbour.word, "cosine": neighbour.cosine, **sentence}


def _format_neighbours(neighbours: Sequence[Neighbour]) -> str:
    """Neighbours on one line, each with its sentence (from 1) and its cosine."""
    with_brackets = []
    for neighbour in neighbours:
        sentence = "" if neighbour.sentence is None else f" ({neighbour.sentence + 1})"
        with_brackets.append(f"{neighbour.word}{sentence} {neighbour.cosine:.2f}")
    return "  ".join(with_brackets) or "none"
