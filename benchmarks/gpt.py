"""GPT-2 small: training beside transformers and the nanoGPT style; decoding beside llama.cpp,
CTranslate2, `generate`, onnxruntime and OpenVINO, all with the same weights."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.decoding import CT2, CT2_INT8, HF
from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import (
    INT8,
    OURS,
    WEIGHT_BYTES,
    Settings,
    gpt_decoding,
    gpt_decoding_work,
    gpt_training,
)
from benchmarks.peers import gpt2, llamacpp, nanogpt, runtimes

GPT2, NANOGPT = "GPT-2 (transformers)", "nanoGPT style"
LLAMA, LLAMA_F16, LLAMA_Q8 = (f"llama.cpp {name}" for name in llamacpp.PRECISIONS)


def training(chosen: Settings) -> Experiment:
    """A step: as fast as either, in less memory than either."""
    experiment = gpt_training(chosen)
    [ours] = experiment.entries
    path = ours.contender.work
    lines = (
        BenchLine(GPT2, gpt2.Train(path), flops=ours.flops),
        BenchLine(NANOGPT, nanogpt.Train(path), flops=ours.flops),
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
    """Continuing so many prompts at once."""
    experiment = gpt_decoding(chosen, rows)
    path, work = gpt_decoding_work(chosen, rows)
    lines = [
        (LLAMA, llamacpp.Decode(path, "f32"), "float32"),
        (LLAMA_F16, llamacpp.Decode(path, "f16"), "float16"),
        (LLAMA_Q8, llamacpp.Decode(path, "q8_0"), "q8_0"),
        (CT2, gpt2.DecodeCTranslate2(path), "float32"),
        (CT2_INT8, gpt2.DecodeCTranslate2(path, "int8"), "int8"),
        (HF, gpt2.Decode(path), "float32"),
        *((engine, runtimes.Decode(path, engine), "float32") for engine in runtimes.ENGINES),
    ]
    size = work.matrix_weights()
    entries = (
        *experiment.entries,
        *(
            BenchLine(
                label,
                contender,
                str(rows),
                reads=size * WEIGHT_BYTES[precision] if rows == 1 else None,
            )
            for label, contender, precision in lines
        ),
    )
    if rows == 1:  # those with equally many bytes to read stand together
        entries = tuple(sorted(entries, key=lambda entry: -(entry.reads or 0)))
    bars = (
        Bar(OURS, (LLAMA,), "speed", 1.0),
        Bar(INT8, (LLAMA_Q8,), "speed", 1.0),
        Bar(INT8, (LLAMA_Q8,), "speed", 1.2, aim=True),
        Bar(OURS, (HF,), "speed", 1.25),
        Bar(OURS, (CT2,), "speed", 1.0),
        Bar(INT8, (CT2_INT8,), "speed", 1.0),
    )
    return replace(
        experiment,
        entries=entries,
        bars=(*experiment.bars, *(bars if rows == 1 else ())),
        exact=tuple(label for label, _, precision in lines if precision == "float32"),
        weight=16.0 if rows == 1 else 32.0,
    )
