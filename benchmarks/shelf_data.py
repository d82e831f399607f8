"""The training data of the models on the shelf, made from the public files that they come from.

    python -m benchmarks.shelf_data FOLDER -o shelf

FOLDER has a folder for each source, named as in `SOURCES`. The recipes `small/…` read the folder
`shelf`, so that `regard train small/translate -o RUN` beside it trains the model again. What is
held out is chosen here: test sentences of all sources together, by their English side without case
and punctuation; no training example has the same. Prints how many examples each file has.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.data.text.corpus import choose
from regard.data.text.documents import TextFiles

SOURCES = {
    "tatoeba_en_de": ("en-de.tsv.gz",),
    "tatoeba_en_de_more": ("en-de_extra.tsv.gz", "en-de_pivot_fr.tsv.gz"),
    "tatoeba_en_fr": ("en-fr.tsv.gz", "en-fr_extra.tsv.gz"),
    "tinystories": ("tinystories_sample_2MiB.txt.gz",),
    "tinystories_more": ("tinystories_more.txt.gz",),
    "onestop_english": ("ele.txt.gz", "int.txt.gz", "adv.txt.gz"),
    "wikitext2": ("train.txt.gz",),
}
"""The files of each source."""
HELD_OUT = 0.02
"""The share of the first edition's text that no model of the shelf is trained on."""
SEPARATOR = "<|endoftext|>"
SLIDES = (
    "This is good.",
    "You look beautiful today!",
    "State authorities dispatched emergency crews Tuesday to survey the damage after an onslaught "
    "of severe weather in Mississippi.",
)
"""The lecture's own inputs: no training example shares eight consecutive words with them."""


def key(text: str) -> str:
    """A text without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", text.casefold()) or text


def grams(text: str, size: int = 8) -> set[tuple[str, ...]]:
    """All runs of `size` consecutive words, without case and punctuation."""
    words = [word for word in re.split(r"[\W_]+", text.casefold()) if word]
    return set(zip(*(words[start:] for start in range(size)), strict=False))


def lines(path: Path) -> Iterator[str]:
    """The lines of a compressed text."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def rows(path: Path) -> Iterator[list[str]]:
    """The cells of a compressed table."""
    return (line.split("\t") for line in lines(path))


class Output:
    """Writes the files of one folder, and counts their lines.

    Args:
        folder: Where to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.counts = folder, Counter[str]()
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, texts: Iterable[str]) -> None:
        """Writes a compressed file with one text a line."""
        # Without a name and a time in the file's head, equal texts give equal checksums.
        with (
            (self.folder / name).open("wb") as raw,
            gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file,
        ):
            for text in texts:
                file.write(f"{text}\n".encode())
                self.counts[name] += 1

    def documents(self, name: str, texts: Iterable[str]) -> None:
        """Writes documents as JSONL."""
        self.write(name, (json.dumps({"text": text}, ensure_ascii=False) for text in texts))


def documents(files: Sequence[Path], separator: str | None = None) -> list[str]:
    """All documents of text files."""
    texts, text = [], ""
    for piece in TextFiles(tuple(map(str, files)), separator, "skip").pieces(Counter()):
        text += piece.text
        if piece.last:
            texts.append(text)
            text = ""
    return texts


def plain_text(data: Path, out: Output) -> None:
    """English text for `small/write` and `small/fill`.

    Held out are the documents that the first edition of the models held out, so that both editions
    can be measured on the same text.
    """
    first = [
        data / "tatoeba_en_de" / "en-de.tsv.gz",
        data / "tinystories" / "tinystories_sample_2MiB.txt.gz",
    ]
    texts = documents(first, SEPARATOR)
    aside = choose(np.array([len(text) for text in texts]), HELD_OUT, 0)
    assert aside is not None
    held_out = [text for text, chosen in zip(texts, aside, strict=True) if chosen]
    unseen = {key(text) for text in held_out}

    def trained_on(candidates: Iterable[str]) -> Iterator[str]:
        for text in candidates:
            if key(text) not in unseen:
                unseen.add(key(text))  # and each text once
                yield text.strip().replace("\ufb01", "fi").replace("\ufb02", "fl")

    rest = [text for text, chosen in zip(texts, aside, strict=True) if not chosen]
    sentences = [text for text in rest if "\n" not in text and len(text) < 500]
    stories = [text for text in rest if "\n" in text or len(text) >= 500]
    for file in ("tatoeba_en_de_more/en-de_extra.tsv.gz", "tatoeba_en_fr/en-fr.tsv.gz",
                 "tatoeba_en_fr/en-fr_extra.tsv.gz"):  # fmt: skip
        sentences += [row[0] for row in rows(data / file)]
    stories += documents([data / "tinystories_more" / "tinystories_more.txt.gz"], SEPARATOR)
    articles: list[str] = []
    for level in ("ele", "int", "adv"):
        articles += documents([data / "onestop_english" / f"{level}.txt.gz"], "")
    out.documents("held-out.jsonl.gz", held_out)
    out.documents("sentences.jsonl.gz", trained_on(sentences))
    out.documents("stories.jsonl.gz", trained_on(stories))
    out.documents("articles.jsonl.gz", trained_on(articles))
    out.documents("wiki.jsonl.gz", trained_on(paragraphs(data / "wikitext2" / "train.txt.gz")))


def paragraphs(path: Path) -> Iterator[str]:
    """The paragraphs of WikiText as people write them, without sentences that have unknown words."""
    for line in lines(path):
        if not line.strip() or line.startswith(" ="):
            continue
        kept = [part for part in re.split(r"(?<= [.!?]) (?=[A-Z\"])", line) if "<unk>" not in part]
        text = " ".join(kept)
        text = re.sub(r" @([-,.])@ ", r"\1", text)
        text = re.sub(r' " ([^"]*) " ', r' "\1" ', f" {text} ")
        text = re.sub(r" ([.,;:!?%)\]]|'s|n't|'re|'ve|'ll|'d|'m)(?=\s)", r"\1", text)
        text = re.sub(r"([(\[$£]) ", r"\1", text).strip()
        if len(text) > 40:
            yield text


STEPS: dict[str, Callable[[Path, Output], None]] = {"text": plain_text}


def main(arguments: list[str] | None = None) -> None:
    """Makes the files of some or all models."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="the folder that has the folders of the sources")
    parser.add_argument("-o", "--out", type=Path, default=Path("shelf"))
    parser.add_argument("--only", choices=STEPS, help="one folder of the output alone")
    options = parser.parse_args(arguments)
    for name, step in STEPS.items():
        if options.only in (None, name):
            out = Output(options.out / name)
            step(options.data, out)
            print(name, json.dumps(out.counts))


if __name__ == "__main__":
    main()
