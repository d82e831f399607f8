"""A real translation score: train a shipped Multi30k recipe, choose on validation, read test once.

    python -m benchmarks.quality de-en --data ../shared/data/multi30k/raw

The name is that of a recipe `multi30k/…`: the Transformer in both directions, and the older
translators from German to English. Writes `quality-de-en.json` and `.md` (score, signature, time,
samples) into `benchmarks/results/`.
A run that was stopped goes on where it was; one that is complete is only scored.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import regard
from regard.data.text.files import load_pairs
from regard.recipes import recipe as recipes
from regard.runtime.device import cores
from regard.runtime.files import write_file
from regard.tasks.measures.bleu import score_translations
from regard.train.log import read_metrics

CASED = ("en-de",)
"""Scored with regard to case, as the published figures beside it; the others are lower-cased."""
BARS = {
    "de-en": (36.5, 39.0),
    "en-de": (36.0, 40.0),
    "recurrent": (28.3, 36.0),
    "convolutional": (34.1, None),
    "gru": (20.6, None),
    "lstm": (13.8, None),
}
"""By recipe: the least BLEU on test 2016, and what is aimed for."""
PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
"""Length penalties to choose from on validation."""
SAMPLES = 12


def pairs_of(folder: Path, split: str, direction: str):
    source, target = direction.split("-")
    files = tuple(str(folder / f"{split}.{language}.gz") for language in (source, target))
    return load_pairs(files, 1000, "stop")[0]


def direction_of(name: str) -> str:
    """The languages of a recipe, such as `de-en`."""
    return name if "-" in name else "de-en"


def train(name: str, folder: Path, run: Path, threads: int, overrides: list[str]):
    languages = direction_of(name).split("-")
    data = [
        f"data.{key}={json.dumps([str(folder / f'{split}.{side}.gz') for side in languages])}"
        for key, split in (("train", "train"), ("valid", "val"))
    ]
    chosen = recipes.load(f"multi30k/{name}", [*data, *overrides])
    return regard.train(chosen, run, resume=run.exists(), threads=threads)


def choose_penalty(
    pipeline, valid, lowercase: bool, penalties: list[float]
) -> tuple[float, dict[float, float]]:
    """The length penalty with the highest validation BLEU."""
    references = [pair.target for pair in valid]
    scores = {}
    for penalty in penalties:
        texts = pipeline.translate(
            [pair.source for pair in valid], length_penalty=penalty, allow_unknown=True
        )
        scores[penalty] = score_translations(texts, references, lowercase=lowercase).bleu
        print(f"validation BLEU {scores[penalty]:.2f} at length penalty {penalty}", flush=True)
    return max(scores, key=lambda penalty: scores[penalty]), scores


def report(name: str, result: dict, samples: list[tuple[str, str, str]]) -> str:
    least, aim = BARS[name]
    wanted = f"at least {least}" if aim is None else f"at least {least}, aim {aim}"
    lines = [
        f"# Multi30k {result['direction']}, multi30k/{name}, test 2016",
        "",
        f"BLEU **{result['bleu']:.2f}** ({wanted}), chrF {result['chrf']:.2f}; "
        f"validation BLEU {result['validation_bleu']:.2f}.",
        f"`{result['signature']}`",
        "",
        f"{result['parameters']:,} parameters; {result['minutes']:.0f} minutes of training on "
        f"{result['threads']} {'threads' if result['threads'] > 1 else 'thread'}; length penalty "
        f"{result['length_penalty']}, the best of {len(result['validation_by_penalty'])} on "
        "validation.",
        "",
        "| source | reference | Regard |",
        "|---|---|---|",
        *(f"| {source} | {reference} | {ours} |" for source, reference, ours in samples),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=BARS)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/multi30k/raw"))
    parser.add_argument("--run", type=Path)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES)
    parser.add_argument("overrides", nargs="*", metavar="a.b=value")
    given = parser.parse_intermixed_args()
    name, direction = given.name, direction_of(given.name)
    lowercase = name not in CASED
    run = given.run or Path("runs") / f"multi30k-{name}"
    pipeline = train(name, given.data, run, given.threads, given.overrides)
    valid = pairs_of(given.data, "val", direction)
    penalty, tried = choose_penalty(pipeline, valid, lowercase, given.penalties)
    test = pairs_of(given.data, "test_2016_flickr", direction)
    evaluation = pipeline.evaluate(test, lowercase=lowercase, length_penalty=penalty)
    seconds = max(row.get("seconds", 0.0) for row in read_metrics(run / "metrics.jsonl"))
    result = {
        "recipe": f"multi30k/{name}",
        "direction": direction,
        "bleu": evaluation.scores.bleu,
        "chrf": evaluation.scores.chrf,
        "signature": evaluation.scores.bleu_signature,
        "validation_bleu": tried[penalty],
        "validation_by_penalty": tried,
        "length_penalty": penalty,
        "loss": evaluation.loss,
        "parameters": sum(p.numel() for p in pipeline.model.parameters()),
        "minutes": seconds / 60,
        "threads": given.threads,
    }
    step = len(test) // SAMPLES
    samples = [
        (pair.source, pair.target, ours)
        for pair, ours in list(zip(test, evaluation.hypotheses, strict=True))[step // 2 :: step]
    ][:SAMPLES]
    text = report(name, result, samples)
    given.output.mkdir(parents=True, exist_ok=True)
    write_file(given.output / f"quality-{name}.json", json.dumps(result, indent=2).encode())
    write_file(given.output / f"quality-{name}.md", text.encode())
    print(text)


if __name__ == "__main__":
    main()
