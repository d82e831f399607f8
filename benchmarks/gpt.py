"""GPT-2 small: Regard beside transformers, the nanoGPT style and CTranslate2."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.decoding import CT2, CT2_INT8, HF
from benchmarks.peers import gpt2, nanogpt
from regard.bench.harness import Entry, Experiment
from regard.bench.results import Bar
from regard.bench.suite import INT8, OURS, Settings, gpt_decoding, gpt_training

GPT2, NANOGPT = "GPT-2 (transformers)", "nanoGPT style"


def training(chosen: Settings) -> Experiment:
    """A step: as fast as either, in less memory than either."""
    experiment = gpt_training(chosen)
    [ours] = experiment.entries
    path = ours.contender.work
    lines = (
        Entry(GPT2, gpt2.Train(path), flops=ours.flops),
        Entry(NANOGPT, nanogpt.Train(path), flops=ours.flops),
    )
    return replace(
        experiment,
        entries=(ours, *lines),
        bars=(
            Bar(OURS, (GPT2, NANOGPT), "speed", 1.0),
            Bar(OURS, (GPT2, NANOGPT), "all memory", 1.0),
        ),
        weight=24.0,
    )


def decoding(chosen: Settings, rows: int) -> Experiment:
    """Going on with so many prompts at once."""
    experiment = gpt_decoding(chosen, rows)
    path, case = experiment.entries[0].contender.work, str(rows)
    lines = (
        Entry(HF, gpt2.Decode(path), case),
        Entry(CT2, gpt2.DecodeCTranslate2(path), case),
        Entry(CT2_INT8, gpt2.DecodeCTranslate2(path, "int8"), case),
    )
    bars = (
        Bar(OURS, (HF,), "speed", 1.25),
        Bar(OURS, (CT2,), "speed", 0.95, aim=True),
        Bar(INT8, (CT2_INT8,), "speed", 1.0),
    )
    return replace(
        experiment,
        entries=(*experiment.entries, *lines),
        bars=(*experiment.bars, *(bars if rows == 1 else ())),
        weight=15.0 if rows == 1 else 30.0,
    )
