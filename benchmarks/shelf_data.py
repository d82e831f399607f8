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

from benchmarks.shelf_events import events
from regard.data.sources import GROUP_KEYS
from regard.data.text.corpus import choose
from regard.data.text.documents import TextFiles
from regard.data.text.pairs import Pair

SOURCES = {
    "tatoeba_en_de": ("en-de.tsv.gz",),
    "tatoeba_en_de_more": ("en-de_extra.tsv.gz",),
    "tatoeba_en_fr": ("en-fr.tsv.gz", "en-fr_extra.tsv.gz"),
    "tinystories": ("tinystories_sample_2MiB.txt.gz",),
    "tinystories_more": ("tinystories_more.txt.gz",),
    "onestop_english": ("ele.txt.gz", "int.txt.gz", "adv.txt.gz"),
    "wikitext2": ("train.txt.gz",),
    "news_headlines": ("reuters21578.tsv.gz", "agnews_test.tsv.gz", "inshorts.tsv.gz"),
    "toxic": ("paradetox_pairs.tsv.gz", "davidson_tweets.tsv.gz", "surge_1000.tsv.gz"),
    "multi30k/raw": (
        "train.en.gz",
        "train.de.gz",
        "train.fr.gz",
        "val.en.gz",
        "val.de.gz",
        "val.fr.gz",
    ),
}
"""The files of each source; all of them are needed."""
HELD_OUT = 0.02
"""The share of the first edition's text that no model of the shelf is trained on."""
SEPARATOR = "<|endoftext|>"
TEST, VALID = 1000, 500
"""English sentences that are held out of a translator's data."""
PHRASES = Path(__file__).with_name("shelf_phrases.txt")
ARTICLES = ("der ", "die ", "das ")
SLIDES = (
    "This is good.",
    "You look beautiful today!",
    "State authorities dispatched emergency crews Tuesday to survey the damage after an onslaught "
    "of severe weather in Mississippi.",
)
"""The lecture's own inputs: no training example shares eight consecutive words with them."""


def key(text: str) -> str:
    """A text without case, spaces and punctuation: that by which `group: source` holds out."""
    return str(GROUP_KEYS["source"](Pair(text, "")))


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

    to_train = [text for text, chosen in zip(texts, aside, strict=True) if not chosen]
    sentences = [text for text in to_train if "\n" not in text and len(text) < 500]
    stories = [text for text in to_train if "\n" in text or len(text) >= 500]
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
    """The paragraphs of WikiText as people write them, without sentences with unknown words."""
    for line in lines(path):
        if not line.strip() or line.startswith(" ="):
            continue
        sentences = re.split(r"(?<= [.!?]) (?=[A-Z\"])", line)
        text = " ".join(sentence for sentence in sentences if "<unk>" not in sentence)
        text = re.sub(r" @([-,.])@ ", r"\1", text)
        text = re.sub(r' " ([^"]*) " ', r' "\1" ', f" {text} ")
        text = re.sub(r" ([.,;:!?%)\]]|'s|n't|'re|'ve|'ll|'d|'m)(?=\s)", r"\1", text)
        text = re.sub(r"([(\[$£]) ", r"\1", text).strip()
        if len(text) > 40:
            yield text


def translations(
    data: Path, out: Output, files: Sequence[str], language: str, captions: Path
) -> None:
    """English sentences with translations, for a translator.

    Held out are random English sentences of all files together, with every translation. A training
    pair has neither one of them nor eight consecutive words of one.
    """
    pairs = [tuple(row[:2]) for file in files for row in rows(data / file) if len(row) > 1]
    sources = sorted({key(source) for source, _ in pairs})
    chosen = np.random.default_rng(0).permutation(len(sources))[: VALID + TEST]
    splits = {sources[number]: "test" for number in chosen[:TEST]}
    splits |= {sources[number]: "valid" for number in chosen[TEST:]}
    unseen = {gram for source, _ in pairs if key(source) in splits for gram in grams(source)}
    unseen |= {gram for text in SLIDES for gram in grams(text)}
    for split in ("valid", "test"):
        out.write(f"{split}.tsv.gz", (
            f"{source}\t{target}" for source, target in pairs if splits.get(key(source)) == split
        ))  # fmt: skip
    train = dict.fromkeys(
        f"{source}\t{target}"
        for source, target in [*pairs, *phrases(language)]
        if key(source) not in splits and not grams(source) & unseen
    )
    out.write("train.tsv.gz", train)
    for split, name in (("train", "captions"), ("val", "captions-valid")):
        both = (lines(captions / f"{split}.{code}.gz") for code in ("en", language))
        out.write(f"{name}.tsv.gz", (f"{en}\t{other}" for en, other in zip(*both, strict=True)))


def phrases(language: str) -> Iterator[tuple[str, str]]:
    """Words and phrases as people type them: with and without capitals, full stop, article."""
    column = ("en", "de", "fr").index(language)
    for line in PHRASES.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        english, other = cells[0], cells[column]
        article, _, noun = other.partition(" ") if " " in other else other.partition("'")
        article += "'" if article == "l" else ""
        if article in ("der", "die", "das", "le", "la", "l'") and cells[1][:4] in ARTICLES:
            yield english, noun
            yield english.capitalize(), noun[0].upper() + noun[1:]
            yield f"the {english}", other
            yield f"The {english}", other[0].upper() + other[1:]
            continue
        yield english, other
        upper, other = english[0].upper() + english[1:], other[0].upper() + other[1:]
        question = english.split(" ")[0] in ("how", "what", "where", "what's", "can")
        for mark in ("", "?") if question else ("", ".", "!"):
            space = " " if mark in ("?", "!") and language == "fr" else ""
            yield upper + mark, other + space + mark


def german(data: Path, out: Output) -> None:
    """Data of `small/translate`, and of the translations of `small/jobs`."""
    files = ("tatoeba_en_de/en-de.tsv.gz", "tatoeba_en_de_more/en-de_extra.tsv.gz")
    translations(data, out, files, "de", data / "multi30k" / "raw")


def french(data: Path, out: Output) -> None:
    """Data of `small/translate-fr`."""
    files = ("tatoeba_en_fr/en-fr.tsv.gz", "tatoeba_en_fr/en-fr_extra.tsv.gz")
    translations(data, out, files, "fr", data / "multi30k" / "raw")


def jobs(data: Path, out: Output) -> None:
    """Headlines and yes/no questions for `small/jobs`; its translations are those of en-de."""
    unseen = {gram for text in SLIDES for gram in grams(text)}
    news, test = [], []
    for row in rows(data / "news_headlines" / "reuters21578.tsv.gz"):
        _, split, headline, first = row[:4]
        pair = clean(first), headline_case(headline, " ".join(row[3:]))
        (test if split == "TEST" else news).append(pair)
    for _, headline, text in rows(data / "news_headlines" / "agnews_test.tsv.gz"):
        headline = re.sub(r"\s*\([^)]*\)$", "", headline)
        pair = clean(text), headline.strip()
        (test if crc(text) % 20 == 0 else news).append(pair)
    for headline, text in rows(data / "news_headlines" / "inshorts.tsv.gz"):
        (test if crc(text) % 20 == 0 else news).append((clean(text), headline.strip()))
    test = [pair for pair in test if usable(*pair)]
    tested = {key(text) for text, _ in test}
    train = [
        pair for pair in news
        if usable(*pair) and key(pair[0]) not in tested and not grams(pair[0]) & unseen
    ]  # fmt: skip
    out.write("headlines.tsv.gz", map("\t".join, dict.fromkeys(train)))
    out.write(
        "headlines-test.tsv.gz", map("\t".join, dict.fromkeys(test[:: max(1, len(test) // 500)]))
    )
    reports = [pair for pair in events(12_000, 0) if not grams(pair[0]) & unseen]
    out.write("events.tsv.gz", map("\t".join, reports))
    out.write("questions.tsv.gz", map("\t".join, questions(data, unseen)))
    surge = rows(data / "toxic" / "surge_1000.tsv.gz")
    out.write("questions-test.tsv.gz", (
        f"{clean(text)}\t{'yes' if label == 'toxic' else 'no'}" for label, text in surge
    ))  # fmt: skip


def questions(data: Path, unseen: set[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Sentences, and whether they are toxic: yes or no.

    The two sides of a ParaDetox pair differ in their spacing and capitals, too. Both are written in
    the same random style, so that only the words tell which is which.
    """
    tested = {key(text) for _, text in rows(data / "toxic" / "surge_1000.tsv.gz")}
    rewrites: dict[str, str] = {}  # the first of each
    for toxic, neutral in rows(data / "toxic" / "paradetox_pairs.tsv.gz"):
        rewrites.setdefault(toxic, neutral)
    tweets = [
        ("no" if label == "neither" else "yes", text.replace("RT ", "").replace("<url>", ""))
        for label, _, text in rows(data / "toxic" / "davidson_tweets.tsv.gz")
        if label != "offensive" or crc(text) % 5 == 0
    ]
    everyday = [row[0] for row in rows(data / "tatoeba_en_de" / "en-de.tsv.gz")]
    everyday = [text for text in dict.fromkeys(everyday) if crc(text) % 20 == 0]
    remarks = [("yes", text) for text in rewrites]
    remarks += [("no", text) for text in dict.fromkeys(rewrites.values())]
    remarks += [*tweets, *(("no", text) for text in everyday)]
    for answer, text in remarks:
        spoken = re.sub(r"@user:?", "", clean(text)).strip()
        if spoken and key(spoken) not in tested and not grams(spoken) & unseen:
            yield restyled(spoken), answer


def restyled(text: str) -> str:
    """A text in lower case, with a capital at its head, or in capitals: a hash decides."""
    style = crc(text) % 100
    if style < 35:
        return text.lower()
    if style < 38:
        return text.upper()
    lower = text.lower() if text.isupper() else text
    return lower[0].upper() + lower[1:]


def clean(text: str) -> str:
    """A text without agencies, double spaces, and spaces before punctuation."""
    text = re.sub(
        r"^([A-Z]{2,}[A-Z, .]*)?(\([A-Z]\w+\)|AP|AFP|Reuters|SPACE\.com)\s+-+\s+", "", text
    )
    text = re.sub(r"\s+", " ", text.replace("<", "").replace(">", ""))
    return re.sub(r" ([.,!?;:)])", r"\1", text).strip()


def headline_case(headline: str, article: str) -> str:
    """A headline in capitals as it would be written: names as in the article, all else small."""
    names = {word.lower(): word for word in re.findall(r"(?<=[a-z,] )[A-Z][\w.'-]*", article)}
    words = [names.get(word.lower(), word.lower()) for word in clean(headline).split()]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def usable(text: str, headline: str) -> bool:
    """Whether a pair is prose of a usual length, with a headline about the same thing."""
    words, title = text.split(), headline.split()
    shared = {key(word) for word in title} & {key(word) for word in words}
    return 10 <= len(words) <= 90 and 3 <= len(title) <= 16 and len(shared) >= 2


def crc(text: str) -> int:
    """A hash of a text, the same in every run."""
    return zlib.crc32(text.encode())


STEPS: dict[str, Callable[[Path, Output], None]] = {
    "text": plain_text,
    "en-de": german,
    "en-fr": french,
    "jobs": jobs,
}
"""What makes the files of each folder."""


def main(arguments: list[str] | None = None) -> None:
    """Makes the files of some or all models."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="the folder that has the folders of the sources")
    parser.add_argument("-o", "--out", type=Path, default=Path("shelf"))
    parser.add_argument("--only", choices=STEPS, help="one folder of the output alone")
    options = parser.parse_args(arguments)
    files = (options.data / folder / name for folder, names in SOURCES.items() for name in names)
    if missing := [str(path) for path in files if not path.exists()]:
        more = f" (and {len(missing) - 1} more files)" if len(missing) > 1 else ""
        parser.error(f"no {missing[0]}{more}; the cards of the models say where to get them")
    for name, step in STEPS.items():
        if options.only in (None, name):
            out = Output(options.out / name)
            step(options.data, out)
            print(name, json.dumps(out.counts))


if __name__ == "__main__":
    main()
