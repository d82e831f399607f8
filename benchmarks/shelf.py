"""How good the models on the shelf are: the numbers of their cards.

    python -m benchmarks.shelf small/translate --data ../shared/data --shelf shelf
    python -m benchmarks.shelf small/write --model runs/write --shelf shelf -o stories.json

`shelf` is the folder that `python -m benchmarks.shelf_data` made: what was held out is in it.
`--data` has the folders of the sources, for tests of other text. Prints one JSON object of scores
and examples.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import regard
from benchmarks.shelf_data import SLIDES, crc, grams, lines, rows
from regard.data.synthetic.grammar import corpus as grammar
from regard.data.synthetic.jobs.pronouns import ACCUSATIVE, NOMINATIVE, PRONOUN, Noun, nouns
from regard.data.text.pairs import Pair, by_source
from regard.pipeline import Pipeline
from regard.runs.evaluate import evaluate
from regard.tasks.measures.rouge import mean_rouge

SAID = (
    "I walk my dog every day.",
    "The dog chased another dog.",
    "The teacher asked the class a question, and everyone turned to look at her.",
    "The teacher asked the class a question, and everyone turned to look at him.",
    "He hit me with a pie.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "Students like this tool.",
    "The government has decided on new measures.",
    "thank you",
    "good morning",
)
"""The lectures' sentences, and others that people try."""
TIRED = ("tired", "müde")
VERBS = (
    ("didn't cross", "überquerte", "way", (TIRED, ("wide", "breit")), 37),
    ("didn't enter", "betrat", "building", (TIRED, ("crowded", "überfüllt")), 11),
)
"""Sentences that differ in the last word, which decides what "it" stands for: the verb, the kind of
its object, the two adjectives, and how many pairs."""
NEWS = 200
"""At most this many sentences of each set of other text, evenly spread: they are long."""
SHARED = 12
"""So many words in a row are copied, not written."""
PROMPTS = (
    "Once upon a time", "One day, a little girl named Lily", "Tom and his dog",
    "There was a small cat", "The old man", "A boy named Tim", "Sara wanted", "In the forest",
    "Once there was a bird", "Mia and her mom", "The big red car", "Ben found",
    "It was a sunny day", "A rabbit named Lulu", "Anna was sad because", "The king",
    "Max the dog", "Two friends", "One night", "Lucy loved",
)  # fmt: skip
"""The beginnings of the twenty stories; story number n has seed n."""
STORM = (
    "State authorities dispatched emergency crews Tuesday to survey the damage after an onslaught "
    "of severe weather in Mississippi. Six people were hospitalized after the storm hit Attala "
    "County."
)
"""The report that the lecture's slide abridges: its first sentence, and what its summary says."""


def translate(pipeline: Pipeline, shelf: Path, data: Path | None) -> dict[str, Any]:
    """BLEU and chrF against all references of each sentence; which of two nouns "it" stands for."""
    language = pipeline.recipe.data.parts["everyday"].test.split("/")[-2].removeprefix("en-")
    sets: dict[str, Sequence[Pair]] = {
        "everyday": pairs_of(shelf / f"en-{language}" / "test.tsv.gz")
    }
    if data is not None:
        column = ("de", "fr").index(language) + 1
        news = rows(data / "news_en_de" / "ntrex_en_de_fr.tsv.gz")
        sets["NTREX"] = [Pair(row[0], row[column]) for row in news]
        raw = data / "multi30k" / "raw"
        both = (lines(raw / f"test_2016_flickr.{code}.gz") for code in ("en", language))
        sets["Multi30k, test of 2016"] = [Pair(*pair) for pair in zip(*both, strict=True)]
    if data is not None and language == "de":
        wmt = rows(data / "news_en_de" / "wmt21-23_en-de.tsv.gz")
        name = "newstest2021.en-de"
        sets[name] = [Pair(*row[1:3]) for row in wmt if row[0] == name]
    reports = evaluate(pipeline, {"everyday": sets.pop("everyday")}, beam=4).to_json()
    if sets:
        reports += evaluate(pipeline, sets, beam=4, limit=NEWS).to_json()
    measures = ("sentences", "bleu", "chrf", "bleu_signature", "chrf_signature")
    scores = {entry["set"]: {key: entry.get(key) for key in measures} for entry in reports}
    both_ways = [text for said in SAID for text in dict.fromkeys((said, said.rstrip(".")))]
    examples = dict(zip(both_ways, pipeline.translate(both_ways), strict=True))
    results = {"scores": scores, "examples": examples}
    return results | (pronouns(pipeline) if language == "de" else {})


def pairs_of(path: Path) -> Sequence[Pair]:
    """The pairs of a table of two columns, one for each source with all its translations."""
    return by_source(Pair(*row[:2]) for row in rows(path))


def pronouns(pipeline: Pipeline) -> dict[str, Any]:
    """How often the last word flips the pronoun, and her or him the teacher."""
    chosen = [*flips()]
    texts = [text for tired, wide in chosen for text in (tired.source, wide.source)]
    answers = iter(pipeline.translate(texts))
    flipped, wrong = 0, []
    for pair in chosen:
        right = [grammar.pronoun_is_right(sentence, next(answers)) for sentence in pair]
        flipped += all(right)
        wrong += [] if all(right) else [pair[0].source]
    people = grammar.splits(100, 200, 0).tests["natural_gender"]
    said = pipeline.translate([pair.source for pair in people])
    teacher = [  # the German noun says Lehrerin or Lehrer, as her or him does
        _persons(pair.target) == _persons(text) for pair, text in zip(people, said, strict=True)
    ]
    return {
        "tired_wide_pairs": len(chosen),
        "tired_wide_flipped": flipped,
        "tired_wide_wrong": wrong,
        "her_him": sum(teacher) / max(1, len(teacher)),
        "her_him_sentences": len(teacher),
    }


def _persons(text: str) -> list[bool]:
    """Whether each person of a text is a woman, by the ending of the German noun."""
    return [noun.endswith("in") for noun in re.findall(PERSON, text)]


PERSON = r"\b(?:Lehrer|Ärzt|Arzt|Koch|Köch|Nachbar|Freund|Student|Schüler)(?:in)?\b"
"""People whose German noun tells women from men."""


def flips() -> Iterator[tuple[Pair, Pair]]:
    """Pairs of sentences with nouns that no training sentence of the generators has."""
    unseen = {kind: [noun for noun in group if noun.in_test] for kind, group in nouns().items()}
    for verb, german, kind, adjectives, most in VERBS:
        both = [(a, b) for a in unseen["creature"] for b in unseen[kind] if a.gender != b.gender]
        for creature, thing in Random(0).sample(both, min(most, len(both))):
            yield tuple(  # type: ignore[misc]
                because(f"The {creature.english} {verb} the {thing.english}",
                        f"{NOMINATIVE[creature.gender].capitalize()} {creature.german} {german} "
                        f"{ACCUSATIVE[thing.gender]} {thing.accusative} nicht", meant, words)
                for meant, words in zip((creature, thing), adjectives, strict=True)
            )  # fmt: skip


def because(source: str, target: str, meant: Noun, adjective: tuple[str, str]) -> Pair:
    """The reason that the lecture's sentence gives; the last word tells which noun is meant."""
    english, german = adjective
    reason = f"weil {PRONOUN[meant.gender]} zu {german} war"
    return Pair(f"{source} because it was too {english}.", f"{target}, {reason}.")


def held_out(shelf: Path) -> list[str]:
    """The English text that no edition of the models was trained on."""
    return [json.loads(line)["text"] for line in lines(shelf / "text" / "held-out.jsonl.gz")]


def write(pipeline: Pipeline, shelf: Path, data: Path | None) -> dict[str, Any]:
    """Perplexity per word, next words among three suggested, stories and what they copy."""
    del data
    file = str(shelf / "text" / "held-out.jsonl.gz")
    scores: dict[str, Any] = evaluate(pipeline, files=file, suggest=True).to_json()  # type: ignore[assignment]
    words = sum(len(text.split()) for text in held_out(shelf))
    nats = math.log(scores["perplexity"]) * scores["tokens"]
    stories = [
        prompt + pipeline.generate(prompt, sample=True, seed=seed, max_length=200)
        for seed, prompt in enumerate(PROMPTS)
    ]
    trained = ("stories", "sentences", "articles")
    seen: set[tuple[str, ...]] = set()
    for name in trained:
        for line in lines(shelf / "text" / f"{name}.jsonl.gz"):
            seen |= grams(json.loads(line)["text"], SHARED)
    return {
        "scores": scores,
        "words": words,
        "perplexity_per_word": math.exp(nats / words),
        f"stories_that_share_{SHARED}_words": sum(bool(grams(s, SHARED) & seen) for s in stories),
        "stories_that_lose_their_hero": sum(map(loses_hero, stories)),
        "hello_how_are": [suggestion.word for suggestion in pipeline.suggest("Hello, how are")],
        "stories": stories,
    }


def loses_hero(story: str) -> bool:
    """Whether a story loses its hero in the first three sentences.

    The hero is who the first sentence is about: its names and nouns. The second and the third
    sentence keep the hero if they have one of these words or a personal pronoun.

    Example:
        >>> loses_hero("Tim had a ball. He was happy. The king of France came.")
        True
    """
    first, *others = re.split(r"(?<=[.!?])[\"”]?\s+", story.strip())[:3]
    heroes = {word.casefold() for word in re.findall(r"\w+", first) if len(word) > 2} - COMMON
    return any(not heroes & _words(other) and not PRONOUNS & _words(other) for other in others)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in re.findall(r"\w+", text)}


PRONOUNS = {"he", "she", "it", "they", "him", "her", "them", "his", "their", "its", "we", "i"}
COMMON = {"the", "and", "was", "were", "had", "has", "very", "one", "day", "once", "upon", "time",
          "there", "big", "little", "who", "his", "her", "with", "that", "this", "for"}  # fmt: skip


def fill(pipeline: Pipeline, shelf: Path, data: Path | None) -> dict[str, Any]:
    """Whole words that were masked, and some gaps."""
    del data
    texts = [
        "The [MASK] barked at the cat.", "The capital of France is [MASK].",
        "She drank a cup of [MASK].", "I would like a cup of [MASK].", "The [MASK] is barking.",
        "She is [MASK] a book.", "He [MASK] the door and went out.", "I am very [MASK] today.",
    ]  # fmt: skip
    examples = {
        text: [f"{filling.word} {filling.probability:.2f}" for filling in pipeline.fill(text)[0]]
        for text in texts
    }
    return {**whole_words(pipeline, held_out(shelf)), "examples": examples}


def whole_words(pipeline: Pipeline, texts: Sequence[str]) -> dict[str, Any]:
    """How many masked words are predicted; a word counts only if each of its pieces is right.

    About every seventh word of a text is masked, at least one, chosen by a hash of the text, so
    that the words are the same for all models. As in BERT's whole-word masking a punctuation mark
    is a word, too; `without_punctuation` counts the others alone. All pieces of the word are
    masked, and each is predicted by itself.
    """
    tokenizer = pipeline.vocabulary.source
    mask, longest = tokenizer.specials.mask, pipeline.model.config.max_length - 2
    right: list[tuple[bool, bool]] = []  # spoken, predicted
    pieces = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
    rows_of_ids: list[list[int]] = []
    answers: list[list[tuple[int, list[int], bool]]] = []
    for text in texts:
        for words in cut([match.group() for match in pieces.finditer(text)], longest // 2):
            random = Random(crc(" ".join(words)))
            hidden = set(random.sample(range(len(words)), max(1, round(0.15 * len(words)))))
            ids, gold = [tokenizer.begin], []
            for i, word in enumerate(words):
                word_ids = tokenizer.encode_batch([word])[0]
                if i in hidden:
                    gold.append((len(ids), word_ids, word[0].isalnum()))
                ids += [mask] * len(word_ids) if i in hidden else word_ids
            if len(ids) <= longest:
                rows_of_ids.append([*ids, tokenizer.end])
                answers.append(gold)
    for start in range(0, len(rows_of_ids), 64):
        logits = pipeline.logits(rows_of_ids[start : start + 64])
        for row, gold in zip(logits, answers[start : start + 64], strict=True):
            for position, word_ids, spoken in gold:
                best = row[position : position + len(word_ids)].argmax(-1).tolist()
                right.append((spoken, best == word_ids))
    alone = [predicted for spoken, predicted in right if spoken]
    return {
        "words": len(right),
        "whole_words_right": 100 * sum(predicted for _, predicted in right) / len(right),
        "without_punctuation": {"words": len(alone), "right": 100 * sum(alone) / len(alone)},
    }


def cut(words: Sequence[str], longest: int) -> Iterator[Sequence[str]]:
    """The words in parts of at most `longest`."""
    for start in range(0, len(words), longest):
        yield words[start : start + longest]


def jobs(pipeline: Pipeline, shelf: Path, data: Path | None) -> dict[str, Any]:
    """Translations, headlines beside the first eight words of the text, and yes or no."""
    del data
    news = pairs_of(shelf / "jobs" / "headlines-test.tsv.gz")
    asked = pairs_of(shelf / "jobs" / "questions-test.tsv.gz")
    everyday = pairs_of(shelf / "en-de" / "test.tsv.gz")
    headlines = pipeline.generate([f"Summarize: {pair.source}" for pair in news])
    first = [" ".join(pair.source.split()[:8]) for pair in news]
    wanted = [pair.target for pair in news]
    said = pipeline.generate([f"Is this toxic: {shortened(pair.source)}" for pair in asked])
    right = [pair.target == answer for pair, answer in zip(asked, said, strict=True)]
    sets = {"translate": [replace(p, source=f"Translate EN-DE: {p.source}") for p in everyday]}
    report = evaluate(pipeline, sets, beam=4).to_json()
    texts = [
        "Translate EN-DE: This is good.", f"Summarize: {STORM}", f"Summarize: {STORM.lower()}",
        f"Summarize: {SLIDES[2]}", "Is this toxic: You look beautiful today!",
        "Is this toxic: You are an idiot.", "Is this toxic: The weather is nice.",
        "Is this toxic: Shut up, you stupid liar!",
    ]  # fmt: skip
    return {
        "translate": report[0],
        "headlines": len(news),
        "rouge": mean_rouge(headlines, wanted),
        "rouge_of_the_first_8_words": mean_rouge(first, wanted),
        "comments": len(asked),
        "right_of_comments": 100 * sum(right) / len(right),
        "said_yes": sum(answer == "yes" for answer in said),
        "examples": dict(zip(texts, pipeline.generate(texts), strict=True)),
        "some_headlines": dict(zip((p.source for p in news[:8]), headlines[:8], strict=True)),
    }


def shortened(text: str, most: int = 110) -> str:
    """The first words of a long comment: as many as the training texts have."""
    return " ".join(text.split()[:most])


MEASURES: Mapping[str, Callable[[Pipeline, Path, Path | None], dict[str, Any]]] = {
    "small/translate": translate,
    "small/translate-fr": translate,
    "small/write": write,
    "small/fill": fill,
    "small/jobs": jobs,
}


def main(arguments: list[str] | None = None) -> None:
    """Measures one model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=MEASURES)
    parser.add_argument("--model", help="a run to measure instead of the shipped model")
    parser.add_argument("--shelf", type=Path, default=Path("shelf"), help="what shelf_data made")
    parser.add_argument("--data", type=Path, help="the folder of the sources, for other tests")
    parser.add_argument("-o", "--out", type=Path, help="also write the result into this file")
    options = parser.parse_args(arguments)
    pipeline = regard.load(options.model or options.name)
    results = MEASURES[options.name](pipeline, options.shelf, options.data)
    text = json.dumps(results, ensure_ascii=False, indent=1)
    if options.out is not None:
        options.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
