"""Does a word mean the same in two sentences? Contextual vectors against forty homonyms.

    python -m benchmarks.senses small/fill
    python -m benchmarks.senses runs/fill --layer 2 --wic ../shared/data/wic/dev.tsv.gz

`senses.txt` has forty words with three sentences for each of two senses. Five pairs are made of
each word, half of all pairs with the same sense. A pair is called "the same" if the cosine of the
word's two vectors is above a threshold; the threshold of one half of the words is the one that is
best on the other half. For comparison the same with bags of words: the cosine of the mean of the
static embeddings of the two sentences. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F

import regard
from regard.pipeline import Pipeline

SENSES = Path(__file__).with_name("senses.txt")
PAIRS = ((0, 1), (3, 4)), ((0, 3), (1, 4)), ((0, 2),), ((2, 5),)
"""Sentences of a word that are paired: with the same sense, with different senses; and the fifth
pair, by turns of the one and of the other kind."""


class Pair(NamedTuple):
    """A word in two sentences."""

    word: str
    sentences: tuple[str, str]
    same: bool


def homonyms() -> Iterator[Pair]:
    """Yield the 200 pairs of `senses.txt`, half of them with the same sense."""
    text = SENSES.read_text(encoding="utf-8")
    for number, block in enumerate(text.split("\n\n")[1:]):
        word, *sentences = block.split("\n")[:7]
        same, other, fifth_same, fifth_other = PAIRS
        chosen = [(pair, True) for pair in same] + [(pair, False) for pair in other]
        chosen += [(fifth_other[0], False)] if number % 2 else [(fifth_same[0], True)]
        for (first, second), alike in chosen:
            yield Pair(word, (sentences[first], sentences[second]), alike)


def word_in_context(path: str) -> Iterator[Pair]:
    """Yield the pairs of a WiC file in which the word is spelled alike in both sentences."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            answer, _, _, where, *sentences = line.rstrip("\n").split("\t")
            indices = map(int, where.split("-"))
            words = [text.split()[at].lower() for text, at in zip(sentences, indices, strict=True)]
            if words[0] == words[1]:
                yield Pair(words[0], (sentences[0], sentences[1]), answer == "T")


def cosines(pipeline: Pipeline, pairs: Sequence[Pair], layer: int | None) -> list[float | None]:
    """The cosine of the word's first vectors in both sentences; None if the model cannot tell."""
    values: list[float | None] = []
    for pair in pairs:
        try:
            words = pipeline.words(pair.word, pair.sentences, layer=layer, count=1)
        except regard.UserError:
            values.append(None)  # the vocabulary splits or lacks the word
            continue
        numbers = [occurrence.sentence for occurrence in words.occurrences]
        values.append(float(words.cosines[numbers.index(0), numbers.index(1)]))
    return values


def bags(pipeline: Pipeline, pairs: Sequence[Pair]) -> list[float]:
    """The cosine of the mean static embeddings of the two sentences."""
    table = pipeline.model.embeds()[0].table().detach()
    encode = pipeline.vocabulary.source.encode

    def mean(text: str) -> torch.Tensor:
        return table[torch.tensor(encode(text))].mean(dim=0)

    return [float(F.cosine_similarity(*map(mean, pair.sentences), dim=0)) for pair in pairs]


def accuracy(pairs: Sequence[Pair], values: Sequence[float | None]) -> float:
    """The share of right answers; each half of the words has the threshold of the other half."""
    words = sorted({pair.word for pair in pairs})
    half = set(words[::2])
    known = [(p, v) for p, v in zip(pairs, values, strict=True) if v is not None]
    right = sum(pair.same for pair, value in zip(pairs, values, strict=True) if value is None)
    for first in (True, False):
        others = [(p, v) for p, v in known if (p.word in half) is not first]
        threshold = max(
            (v for _, v in others), key=lambda t: sum((v >= t) is p.same for p, v in others)
        )
        mine = [(p, v) for p, v in known if (p.word in half) is first]
        right += sum((v >= threshold) is p.same for p, v in mine)
    return right / len(pairs)


def main(arguments: list[str] | None = None) -> None:
    """Measure one model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model that reads text, such as small/fill")
    parser.add_argument(
        "--layer", type=int, help="the block whose output is used; default: the top"
    )
    parser.add_argument("--wic", help="dev.tsv.gz of WiC")
    options = parser.parse_args(arguments)
    pipeline = regard.load(options.model)
    pairs = list(homonyms())
    values = cosines(pipeline, pairs, options.layer)
    result = {
        "pairs": len(pairs),
        "same": sum(pair.same for pair in pairs),
        "not known": values.count(None),
        "accuracy": accuracy(pairs, values),
        "bags of words": accuracy(pairs, bags(pipeline, pairs)),
    }
    if options.wic:
        pairs = list(word_in_context(options.wic))
        values = cosines(pipeline, pairs, options.layer)
        result |= {"wic pairs": len(pairs), "wic": accuracy(pairs, values)}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
