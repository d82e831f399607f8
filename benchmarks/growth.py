"""Memory and growth: attention over 1k to 16k tokens; a step as model, batch and length grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.measure.harness import BenchLine, Experiment, Point
from benchmarks.measure.ours import Attend, Train
from benchmarks.measure.suite import OURS, VOCAB, Makers, Settings
from benchmarks.measure.work import SAME, Work
from benchmarks.peers import marian, naive
from benchmarks.training import MARIAN
from regard.cost.count import parameters
from regard.models import TransformerConfig
from regard.models.meta_model import meta_model

ATTENTION = (1024, 2048, 4096, 8192, 16384)
NAIVE_UP_TO = 4096
"""Tokens: there the matrices of weights take more than a gigabyte."""
DIMS = (128, 256, 512, 768)
BATCHES = (512, 1024, 2048, 4096, 8192)
LENGTHS = (16, 32, 64, 128, 256, 512)
LENGTH = 16
"""Of a sentence on either side, where it does not grow."""
TOKENS = 4096
"""Of a batch, where it does not grow."""


def attention(chosen: Settings, tokens: int) -> Experiment:
    """One layer over one text."""
    shown = tokens // 16 if chosen.quick else tokens
    lines = [
        BenchLine(OURS, Attend(shown)),
        BenchLine(f"{OURS}, causal", Attend(shown, causal=True)),
        *([BenchLine("weights in full", naive.Attend(shown))] if tokens <= NAIVE_UP_TO else []),
    ]
    return Experiment(
        name=f"growth-attention-{tokens}",
        title=f"Attention over {shown:,} tokens",
        shows="time",
        unit="milliseconds",
        entries=tuple(lines),
        weight=2.0 + 8.0 * (tokens / ATTENTION[-1]) ** 2,
        point=Point("Attention alone", "tokens", shown, (OURS, f"{OURS}, causal")),
    )


def step(
    chosen: Settings, config: TransformerConfig, tokens: int, length: int, point: Point
) -> Experiment:
    """One training step of sentences that are all equally long."""
    vocab = 400 if chosen.quick else VOCAB
    random = np.random.default_rng(0)
    pairs = max(1, tokens // (2 * length))
    ids = random.integers(4, vocab, size=(pairs, 2, length)).tolist()
    batches = {SAME: [[(source, target[1:]) for source, target in ids]]}
    name = f"growth-{point.sweep.split()[-1]}-{point.x:.0f}"
    work = Work(config.model_dump(), vocab, vocab, batches, batch_tokens=tokens)
    path = work.save(chosen.folder / f"{name}.json")
    return Experiment(
        name=name,
        title=f"{point.sweep}: {point.x:,.0f} {point.axis}",
        shows="time",
        unit="milliseconds",
        entries=(BenchLine(OURS, Train(path), SAME), BenchLine(MARIAN, marian.Train(path), SAME)),
        weight=4.0,
        point=point,
    )


def of_model(chosen: Settings, dim: int) -> Experiment:
    """6+6 layers of a width."""
    width, layers = (dim // 8, 1) if chosen.quick else (dim, 6)
    config = TransformerConfig(
        dim=width,
        heads=max(2, width // 64),
        hidden=4 * width,
        layers=layers,
        norm_place="post",
    )
    vocab = 400 if chosen.quick else VOCAB
    size = sum(parameters(meta_model(config, vocab, vocab)).values())
    return step(chosen, config, 1024, LENGTH, Point("A training step by model", "parameters", size))


def of_batch(chosen: Settings, tokens: int) -> Experiment:
    """A small model, more and more sentences at once."""
    point = Point("A training step by batch", "tokens of a batch", tokens)
    return step(chosen, small(chosen), tokens, LENGTH, point)


def of_length(chosen: Settings, length: int) -> Experiment:
    """As many tokens, in longer and longer sentences."""
    point = Point("A training step by length", "tokens of a sentence", length)
    return step(chosen, small(chosen), 1024 if chosen.quick else TOKENS, length, point)


def small(chosen: Settings) -> TransformerConfig:
    """3+3×256."""
    if chosen.quick:
        return TransformerConfig(dim=32, heads=2, hidden=64, norm_place="post")
    return TransformerConfig(size="small", norm_place="post")


def sweeps(*, quick: bool) -> Makers:
    """All points of all sweeps by name; the first two of each if it is to be quick."""
    kinds = {
        "attention": (attention, ATTENTION),
        "model": (of_model, DIMS),
        "batch": (of_batch, BATCHES),
        "length": (of_length, LENGTHS),
    }
    return {
        f"growth-{name}-{x}": partial(_at, make, x)
        for name, (make, xs) in kinds.items()
        for x in (xs[:2] if quick else xs)
    }


def _at(make: Callable[[Settings, int], Experiment], x: int, chosen: Settings) -> Experiment:
    return make(chosen, x)
