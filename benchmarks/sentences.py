"""Choose the sentences that `regard show layers` compares a word with.

    python -m benchmarks.sentences en-de.tsv.gz en-de_extra.tsv.gz en-fr.tsv.gz

Input: English sentences of Tatoeba, one on each line, before a tab. Output: the file `SENTENCES` of
`regard_lectures.bank`, in which each common word of the input is in several sentences.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import random
import re
from collections import Counter
from pathlib import Path

from regard.draw import write_file
from regard_lectures.bank import FEWEST, SENTENCES, words_of

WANTED = 36
"""Sentences of each common word, if there are so many."""
SHORTEST, LONGEST = 5, 13
"""Words of a sentence; others are chosen only for a word that has too few."""
LEFT_OUT = re.compile(
    r"\b(fuck|shit|bitch|nigg|whore|slut|rape|porn|penis|vagina|faggot|cunt|asshole|bastard|sex)",
    re.IGNORECASE,
)


def choose(sentences: list[str], seed: int = 0) -> list[str]:
    """Some of the sentences, such that each word that is in `FEWEST` has `WANTED` of them.

    Example:
        >>> choose(["A dog."] * 3)
        []
    """
    sentences = list({sentence.casefold(): sentence for sentence in sentences}.values())
    random.Random(seed).shuffle(sentences)
    words = [sorted(set(words_of(sentence))) for sentence in sentences]
    sentences_of: dict[str, list[int]] = {}
    for number, found in enumerate(words):
        for word in found:
            sentences_of.setdefault(word, []).append(number)
    common = [word for word, numbers in sentences_of.items() if len(numbers) >= FEWEST]
    chosen: set[int] = set()
    count: Counter[str] = Counter()
    for word in sorted(common, key=lambda word: (len(sentences_of[word]), word)):
        usual = [n for n in sentences_of[word] if SHORTEST <= len(words[n]) <= LONGEST]
        for number in (*usual, *sentences_of[word]):
            if count[word] >= WANTED:
                break
            if number not in chosen:
                chosen.add(number)
                count.update(words[number])
    return sorted(sentences[number] for number in chosen)


def main() -> None:
    """Read the files that the command line names, and write the bank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="sentences before a tab, in gzip")
    sentences = []
    for file in parser.parse_args().files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            sentences += [line.split("\t")[0].strip() for line in lines]
    chosen = choose([s for s in sentences if s.isascii() and not LEFT_OUT.search(s)])
    packed = lzma.compress("\n".join(chosen).encode(), preset=9 | lzma.PRESET_EXTREME)
    write_file(SENTENCES, packed)
    print(f"{len(chosen):,} sentences, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
