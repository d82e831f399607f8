"""How good the models on the shelf are: the numbers of their cards.

    python -m benchmarks.shelf small/translate --data ../shared/data
    python -m benchmarks.shelf small/write --model runs/write --data ../shared/data

Prints one JSON object of scores and examples. The folder of the data has `tatoeba` (or
`tatoeba_en_de`) and `tinystories`, as the recipes say where to get them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import regard
from regard.data.grammar import corpus as grammar
from regard.data.text.documents import TextFiles
from regard.data.text.pairs import Pair
from regard.pipeline import Pipeline
from regard.runs.evaluate import evaluate
from regard.tasks.measures.report import Selection
from regard.tasks.measures.rouge import mean_rouge

SAID = (
    "I walk my dog every day.",
    "The dog chased another dog.",
    "The teacher asked the class a question, and everyone turned to look at her.",
    "The teacher asked the class a question, and everyone turned to look at him.",
    "He hit me with a pie.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)
"""The lectures' sentences."""
SHARED = 12
"""So many words in a row are copied, not written."""
STORIES = 20
UNSEEN = 200
"""Pairs of each job that are asked."""


def translate(pipeline: Pipeline) -> dict[str, Any]:
    """BLEU and chrF against all references of each sentence, and the grammar's own tests."""
    report = evaluate(pipeline, beam=4)
    kept = ("sentences", "bleu", "chrf", "exact", "pronouns", "bleu_signature", "chrf_signature")
    scores = {
        entry["set"]: {key: entry[key] for key in kept if entry.get(key) is not None}
        for entry in report.to_json()
    }
    both = [text for said in SAID for text in (said, said.rstrip("."))]
    pairs = grammar.DEMO
    flipped = pipeline.translate([pair.source for pair in pairs])
    right = [grammar.pronoun_is_right(*each) for each in zip(pairs, flipped, strict=True)]
    examples = dict(zip(both, pipeline.translate(both), strict=True))
    return {"scores": scores, "it_flips": all(right), "examples": examples}


def write(pipeline: Pipeline) -> dict[str, Any]:
    """Perplexity, next words among three suggested, and how much of its stories is copied."""
    found = evaluate(pipeline, suggest=True)
    stories = [
        "Once upon a time"
        + pipeline.generate("Once upon a time", sample=True, seed=seed, max_length=200)
        for seed in range(STORIES)
    ]
    data = pipeline.recipe.data
    text = TextFiles(data.files, data.separator, "skip")
    seen = {run for document in _documents(text) for run in _runs(document)}
    copied = sum(any(run in seen for run in _runs(story)) for story in stories)
    return {
        "scores": found.to_json(),
        "stories": STORIES,
        f"stories_that_share_{SHARED}_words_with_the_training_text": copied,
        "hello_how_are": [each.word for each in pipeline.suggest("Hello, how are")],
        "examples": stories[:3],
    }


def fill(pipeline: Pipeline) -> dict[str, Any]:
    """Hidden tokens found, and some gaps."""
    texts = ["I would like a cup of [MASK].", "The [MASK] is barking.", "She is [MASK] a book."]
    found = {text: [each.word for each in pipeline.fill(text)[0]] for text in texts}
    return {"scores": evaluate(pipeline).to_json(), "examples": found}


def jobs(pipeline: Pipeline) -> dict[str, Any]:
    """Each job on unseen sources; a summary beside the first sentence of the report."""
    own = pipeline.task.examples(pipeline.recipe, Selection())
    sets = {name: pairs[:UNSEEN] for name, pairs in own.items()}
    report = {each.name: each for each in evaluate(pipeline, sets).sets}
    scores = {
        name: {
            "sources": each.evaluation.scores.sentences,
            "bleu": each.evaluation.scores.bleu,
            "chrf": each.evaluation.scores.chrf,
            "exact": each.evaluation.scores.exact,
            "rouge": each.rouge,
        }
        for name, each in report.items()
    }
    scores["summarize"]["rouge_of_the_first_sentence"] = _first_sentences(sets["summarize"])
    asked = [
        "Translate EN-DE: This is good.",
        f"{sets['summarize'][0].source}",
        "Is this toxic: You look beautiful today!",
        "Is this toxic: You are an idiot.",
    ]
    return {"scores": scores, "examples": dict(zip(asked, pipeline.generate(asked), strict=True))}


def _first_sentences(pairs: Sequence[Pair]) -> dict[str, float]:
    bodies = [pair.source.removeprefix("Summarize: ") for pair in pairs]
    firsts = [body.partition(". ")[0] + "." for body in bodies]
    return mean_rouge(firsts, [pair.references for pair in pairs])


def _documents(text: TextFiles) -> Iterator[str]:
    from collections import Counter

    held = ""
    for piece in text.pieces(Counter()):
        held += piece.text
        if piece.last:
            yield held
            held = ""


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """The runs of words, without case and marks."""
    words = ["".join(filter(str.isalnum, word.lower())) for word in text.split()]
    words = [word for word in words if word]
    return zip(*(words[start:] for start in range(SHARED)), strict=False)


MEASURES: dict[str, Callable[[Pipeline], dict[str, Any]]] = {
    "small/translate": translate,
    "small/write": write,
    "small/fill": fill,
    "small/jobs": jobs,
}


def main(arguments: list[str] | None = None) -> None:
    """Measures one model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=MEASURES)
    parser.add_argument("--model", help="a run to measure instead of the shipped model")
    parser.add_argument("--data", default=".", help="the folder that the recipe's files are in")
    options = parser.parse_args(arguments)
    place = options.model or options.name
    place = str(Path(place).resolve()) if Path(place).exists() else place
    os.chdir(options.data)
    print(json.dumps(MEASURES[options.name](regard.load(place)), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
