"""Decoding speed: Regard beside `generate` and CTranslate2, in fp32 and int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import INT8, OURS, Settings
from benchmarks.measure.suite import decoding as ours
from benchmarks.peers import ctranslate, marian

HF, CT2, CT2_INT8 = "generate (transformers)", "CTranslate2 fp32", "CTranslate2 int8"
AT_LEAST = {1: (1.3, 2.2, 2.2), 32: (1.2, 1.1, 1.3)}
"""By sentences: fp32 beside `generate`, and beside CTranslate2 in fp32 and in int8."""


def decoding(chosen: Settings, sentences: int, others: Mapping[str, ModuleType]) -> Experiment:
    """So many sentences at once."""
    experiment = ours(chosen, sentences)
    path, case = experiment.entries[0].contender.work, str(sentences)
    lines = [
        BenchLine(HF, marian.Decode(path), case),
        BenchLine(CT2, ctranslate.Decode(path, "float32"), case),
        BenchLine(CT2_INT8, ctranslate.Decode(path, "int8"), case),
        *(
            BenchLine(name, other.Decode(path), case)
            for name, other in others.items()
            if hasattr(other, "Decode")
        ),
    ]
    generate, fp32, int8 = AT_LEAST[sentences]
    bars = (
        Bar(OURS, (HF,), "speed", generate),
        Bar(OURS, (CT2,), "speed", fp32),
        Bar(INT8, (CT2_INT8,), "speed", int8),
    )
    return replace(
        experiment,
        entries=(*experiment.entries, *lines),
        bars=bars,
        weight=6.0 if sentences == 1 else 18.0,
    )
