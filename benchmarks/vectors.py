"""Word vectors: Regard beside gensim, on the same text, with the same settings, in one run.

`python -m benchmarks.vectors TRAIN [--wordsim FILE] [--simlex FILE]`: TRAIN is WikiText-2's
training text (or any text that is cut into words by spaces), plain or `.gz`. Each seed trains both,
turn by turn; a time is from the file to the vectors, reading included. gensim reads the file by
itself (`corpus_file`), its fastest way. It is in the `bench` extra.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regard.recipes import recipe as recipes
from regard.runtime.device import setup
from regard.vectors.recipe import FORM, RATES
from regard.vectors.scores import rank, read_pairs
from regard.vectors.table import WordVectors
from regard.vectors.training import train_vectors

KINDS = ("skip-gram", "cbow")


def ours(file: Path, kind: str, seed: int, options: argparse.Namespace) -> WordVectors:
    changes = [f"data.files={file}", "tokens.split=spaces", f"model.kind={kind}", f"seed={seed}"]
    changes += [f"train.epochs={options.epochs}", f"model.dim={options.dim}"]
    recipe = recipes.load_form(FORM, "own/vectors", changes)
    return train_vectors(recipe, quiet=True, threads=options.threads)


def theirs(file: Path, kind: str, seed: int, options: argparse.Namespace) -> WordVectors:
    from gensim.models import Word2Vec

    trained = Word2Vec(
        corpus_file=str(file),
        vector_size=options.dim,
        window=5,
        min_count=5,
        sample=1e-3,
        negative=5,
        sg=int(kind == "skip-gram"),
        workers=options.threads,
        epochs=options.epochs,
        alpha=RATES[kind],
        seed=seed + 1,
    )
    return WordVectors(trained.wv.index_to_key, trained.wv.vectors, "gensim")


TOOLS: dict[str, Callable[..., WordVectors]] = {"regard": ours, "gensim": theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--similarity", action="append", default=[], help="Scored pairs.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    setup(options.threads)
    sets = {Path(file).stem: read_pairs(file) for file in options.similarity}
    unpack = gzip.open if options.text.suffix == ".gz" else open
    with unpack(options.text, "rt", encoding="utf-8") as stream:
        text = "\n".join(line for line in stream.read().lower().split("\n") if line.strip())
    words = len(text.split()) * options.epochs
    print(f"| kind | seed | tool | words/s | {' | '.join(sets)} |")
    print(f"|---|---|---|---|{'---|' * len(sets)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text.txt"
        file.write_text(text + "\n", "utf-8")
        for kind in options.kind or KINDS:
            compare(kind, file, words, sets, options)


def compare(kind: str, file: Path, words: int, sets: dict, options: argparse.Namespace) -> None:
    speeds: dict[str, list[float]] = {name: [] for name in TOOLS}
    scores: dict[str, list[list[float]]] = {name: [] for name in TOOLS}
    for seed in range(options.seeds):
        for name, train in TOOLS.items():
            began = time.perf_counter()
            table = train(file, kind, seed, options)
            speeds[name].append(words / (time.perf_counter() - began))
            scores[name].append([rank(table, pairs).spearman or 0.0 for pairs in sets.values()])
            told = " | ".join(f"{value:.3f}" for value in scores[name][-1])
            print(f"| {kind} | {seed} | {name} | {speeds[name][-1]:,.0f} | {told} |", flush=True)
    means = {
        name: [statistics.mean(column) for column in zip(*scores[name], strict=True)]
        for name in TOOLS
    }
    for name in TOOLS:
        told = " | ".join(f"{value:.3f}" for value in means[name])
        print(f"| {kind} | mean | {name} | {statistics.median(speeds[name]):,.0f} | {told} |")
    ratio = statistics.median(
        a / b for a, b in zip(speeds["regard"], speeds["gensim"], strict=True)
    )
    apart = [a - b for a, b in zip(means["regard"], means["gensim"], strict=True)]
    print(
        f"| {kind} | ours / theirs | | {ratio:.2f} × | {' | '.join(f'{x:+.3f}' for x in apart)} |"
    )


if __name__ == "__main__":
    main()
