"""What 8 bits cost in quality: perplexity of writers, and the vectors of a sentence encoder.

    python -m benchmarks.int8 --data FOLDER

FOLDER has `tinystories/`, `weights/llama2c-stories260K` and `weights/all-MiniLM-L6-v2`. Few rows of
a matrix product are computed otherwise than many, so both are measured: whole texts, and 16 tokens
(for vectors: one sentence) at a time. What is not in the folder is left out by name.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from regard.hub.llama2c import read_llama2c
from regard.inputs.arrays import Ragged
from regard.models.mode import evaluating
from regard.models.quantise import quantise

FOLDER = os.environ.get("REGARD_DATA", "../shared/data")
PERPLEXITY, COSINE = 1.001, 0.9999
"""The most of int8's perplexity over fp32's, and the least cosine of a vector to fp32's."""
STORIES, MINILM = "weights/llama2c-stories260K/stories260K.bin", "weights/all-MiniLM-L6-v2"
TEXTS = "tinystories/tinystories_sample_2MiB.txt.gz"
FEW = 16
"""Tokens at a time for the products of few rows."""


@dataclass(frozen=True)
class Finding:
    """A figure, and whether it is as good as it has to be; None: it was not measured."""

    text: str
    met: bool | None


def stories(data: Path, count: int) -> list[str]:
    with gzip.open(data / TEXTS, "rt", encoding="utf-8") as file:
        return [story.strip() for story in file.read().split("<|endoftext|>")[:count]]


def perplexity(model: Any, rows: list[list[int]]) -> float:
    """exp of the mean loss of each row's tokens after its first, one row at a time."""
    total, count = 0.0, 0
    with evaluating(model):
        for ids in rows:
            total += float(model.loss(Ragged.of([ids[:-1]]), torch.tensor(ids[1:])))
            count += len(ids) - 1
    return math.exp(total / count)


def writer_findings(name: str, model: Any, tokenizer: Any, texts: list[str]) -> Iterator[Finding]:
    small = quantise(model)
    longest = model.config.max_length
    whole = [[tokenizer.begin, *tokenizer.encode(text)][:longest] for text in texts]
    few = [ids[at : at + FEW + 1] for ids in whole for at in range(0, len(ids) - FEW, FEW)][:200]
    for what, rows in (("whole texts", whole), (f"{FEW} tokens at a time", few)):
        fp32, int8 = perplexity(model, rows), perplexity(small, rows)
        text = f"{name}, {what}: perplexity {int8:.4f} in int8, {fp32:.4f} in fp32"
        met = int8 / fp32 <= PERPLEXITY
        yield Finding(f"{text}: {int8 / fp32 - 1:+.3%}, at most {PERPLEXITY - 1:+.1%}", met)


def vector_findings(folder: Path, texts: list[str]) -> Iterator[Finding]:
    sentences = [text.partition(".")[0] + "." for text in texts]
    fp32 = regard.load(folder).embed(sentences)
    int8 = regard.load(folder, precision="int8")
    alone = [int8.embed(sentence) for sentence in sentences]
    for what, rows in (("together", int8.embed(sentences)), ("one at a time", alone)):
        cosines = [float(torch.dot(as_row(a), as_row(b))) for a, b in zip(fp32, rows, strict=True)]
        text = f"MiniLM, {len(sentences)} sentences {what}: lowest cosine {min(cosines):.6f}"
        met = min(cosines) >= COSINE
        mean = sum(cosines) / len(cosines)
        yield Finding(f"{text}, mean {mean:.6f}; at least {COSINE}", met)


def as_row(vector: Any) -> torch.Tensor:
    return torch.as_tensor(vector, dtype=torch.float64).flatten()


def findings(data: Path, count: int = 20) -> Iterator[Finding]:
    """All figures, from the first `count` stories."""
    needed = {
        "small/write": {TEXTS},
        "stories260K": {TEXTS, STORIES},
        "MiniLM": {TEXTS, MINILM},
    }
    absent = {
        name: ", ".join(sorted(file for file in files if not (data / file).exists()))
        for name, files in needed.items()
    }
    yield from (
        Finding(f"{name}: --data FOLDER needs {files}", None)
        for name, files in absent.items()
        if files
    )
    there = [name for name, files in absent.items() if not files]
    texts = stories(data, count) if there else []
    if "small/write" in there:
        pipeline = regard.load("small/write", device="cpu")
        tokenizer = pipeline.vocabulary.target
        yield from writer_findings("small/write", pipeline.model, tokenizer, texts)
    if "stories260K" in there:
        model, vocabulary = read_llama2c(data / STORIES)
        yield from writer_findings("stories260K", model.eval(), vocabulary.source, texts)
    if "MiniLM" in there:
        yield from vector_findings(data / MINILM, texts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(FOLDER), metavar="FOLDER")
    missed = False
    for finding in findings(parser.parse_args().data):
        print({True: "✓", False: "✗", None: "?"}[finding.met], finding.text, flush=True)
        missed |= finding.met is False
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
