"""Does a word mean the same in two sentences? Contextual vectors against forty homonyms.

    python -m benchmarks.senses small/fill
    python -m benchmarks.senses runs/fill --layer 2 --wic ../shared/data/wic/dev.tsv.gz
    python -m benchmarks.senses small/fill --verdicts ../shared/data/wic

`senses.txt` has forty words with three sentences for each of two senses. Five pairs are made of
each word, half of all pairs with the same sense. A pair is called "the same" if the cosine of the
word's two vectors is above a threshold; the threshold of one half of the words is the one that is
best on the other half. For comparison the same with bags of words: the cosine of the mean of the
static embeddings of the two sentences. Prints one JSON object.

With `--verdicts FOLDER`, the YAML of all layers for the model's card: the thresholds by which
`regard words` says "same meaning", "other meaning" or "cannot tell". Each fifth of the homonyms is
asked with the thresholds of the others; WiC's pairs of train and dev, in FOLDER, with those of all.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F

import regard
from regard.pipeline import Pipeline
from regard.tasks.senses import SAME, UNDECIDED, SenseRule, SenseTest

SENSES = Path(__file__).with_name("senses.txt")
PAIRS = ((0, 1), (3, 4)), ((0, 3), (1, 4)), ((0, 2),), ((2, 5),)
"""Sentences of a word that are paired: with the same sense, with different senses; and the fifth
pair, by turns of the one and of the other kind."""
ENOUGH, FEWEST, FOLDS = 0.8, 10, 5
"""The share of pairs that has to be right beyond a threshold, the least number of such pairs, and
in how many parts the words are asked with the thresholds of the others."""
LEAST, OFTEN = 0.1, 0.7
"""A model gets thresholds if it decides so many pairs of other words, and so often rightly."""


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


def word_in_context(path: str | Path) -> Iterator[Pair]:
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


def rule_of(pairs: Sequence[Pair], values: Sequence[float]) -> SenseRule:
    """The cosines from which on, and up to which, `ENOUGH` of the pairs are (not) of one sense."""
    rising = sorted(zip(values, (pair.same for pair in pairs), strict=True))

    def last(ordered: Sequence[tuple[float, bool]], *, wanted: bool) -> float | None:
        """The last cosine up to which enough of the pairs are as wanted."""
        hits = list(accumulate(same is wanted for _, same in ordered))
        counts = range(FEWEST, len(ordered) + 1)
        ends = ((n, *ordered[n - 1]) for n in counts)  # at a pair that is as wanted
        good = [at for n, at, same in ends if same is wanted and hits[n - 1] >= ENOUGH * n]
        return good[-1] if good else None

    return SenseRule(same=last(rising[::-1], wanted=True), other=last(rising, wanted=False))


def judged(rule: SenseRule, pairs: Sequence[Pair], values: Sequence[float]) -> list[bool]:
    """For each pair that is decided, whether rightly so."""
    said = [(rule.verdict(value), pair.same) for value, pair in zip(values, pairs, strict=True)]
    return [(verdict == SAME) == same for verdict, same in said if verdict != UNDECIDED]


def sense_test(
    pairs: Sequence[Pair], values: Sequence[float],
    finer_pairs: Sequence[Pair], finer_values: Sequence[float],
) -> SenseTest:  # fmt: skip
    """The rule that homonyms give, and how often its verdicts are right."""
    words = sorted({pair.word for pair in pairs})
    decided: list[bool] = []
    for fold in range(FOLDS):
        asked = set(words[fold::FOLDS])
        parts = [
            [item for item in zip(pairs, values, strict=True) if (item[0].word in asked) is chosen]
            for chosen in (False, True)
        ]
        others, mine = (list(zip(*part, strict=True)) for part in parts)
        decided += judged(rule_of(*others), *mine)
    is_useful = len(decided) >= LEAST * len(pairs) and sum(decided) >= OFTEN * len(decided)
    rule = rule_of(pairs, values) if is_useful else SenseRule()
    finer = judged(rule, finer_pairs, finer_values)
    limits = {name: at and round(at, 4) for name, at in rule.model_dump().items()}
    return SenseTest(
        **limits, pairs=len(pairs), decided=len(decided), right=sum(decided),
        finer_pairs=len(finer_pairs), finer_decided=len(finer), finer_right=sum(finer),
    )  # fmt: skip


def card_lines(pipeline: Pipeline, folder: Path) -> str:
    """The YAML of a card's `senses`, for the top and every layer that a model has."""
    pairs = list(homonyms())
    finer = [p for part in ("train", "dev") for p in word_in_context(folder / f"{part}.tsv.gz")]
    lines = ["senses:"]
    for layer in (None, *range(_layers(pipeline))):
        both = [_known(some, cosines(pipeline, some, layer)) for some in (pairs, finer)]
        test = sense_test(*both[0], *both[1])
        values = {"layer": layer, **test.model_dump(exclude={"layer"})}
        given = [f"{key}: {value}" for key, value in values.items() if value is not None]
        lines.append("- " + "\n  ".join(given))
    return "\n".join(lines)


def _layers(pipeline: Pipeline) -> int:
    """The number of layers of the stack that reads."""
    model = pipeline.model
    ends = (site.startswith(model.reader) and site.endswith(".residual") for site in model.sites())
    return sum(ends)


def _known(pairs: Sequence[Pair], values: Sequence[float | None]) -> tuple[list[Pair], list[float]]:
    """The pairs whose word the model knows, and their cosines."""
    known = [(p, value) for p, value in zip(pairs, values, strict=True) if value is not None]
    return [pair for pair, _ in known], [value for _, value in known]


def main(arguments: list[str] | None = None) -> None:
    """Measure one model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model that reads text, such as small/fill")
    parser.add_argument(
        "--layer", type=int, help="the block whose output is used; default: the top"
    )
    parser.add_argument("--wic", help="dev.tsv.gz of WiC")
    parser.add_argument("--verdicts", help="the folder of WiC: print the card's senses", type=Path)
    options = parser.parse_args(arguments)
    pipeline = regard.load(options.model)
    if options.verdicts:
        print(card_lines(pipeline, options.verdicts))
        return
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
