"""The cost of looking: a tap on one layer beside no tap, and transformers' eager mode."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.ours import reader_config
from benchmarks.measure.suite import LONG, Settings
from benchmarks.measure.suite import looking as ours
from benchmarks.peers import marian


def looking(chosen: Settings, tokens: int) -> Experiment:
    """Encoding so many tokens."""
    experiment = ours(chosen, tokens)
    size = experiment.entries[0].contender.tokens
    model = reader_config(size, quick=chosen.quick).model_dump()
    lines = (
        BenchLine("Marian (transformers), not looking", marian.Encode(size, "sdpa", model)),
        BenchLine("Marian (transformers), eager", marian.Encode(size, "eager", model)),
    )
    weight = 18.0 if tokens == LONG[0] else 35.0
    return replace(experiment, entries=(*experiment.entries, *lines), weight=weight)
