"""Vectors of sentences: Regard beside transformers, onnxruntime and OpenVINO.

These get batches as sentence-transformers makes them: 32 sentences, padded to the longest.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import OURS, Settings
from benchmarks.measure.suite import embedding as ours
from benchmarks.peers import bert, runtimes

BERT = "BERT (transformers), 32 at once"


def embedding(chosen: Settings) -> Experiment:
    """At the sizes of MiniLM."""
    experiment = ours(chosen)
    [entry] = experiment.entries
    path, flops = entry.contender.work, entry.flops
    lines = (
        BenchLine(BERT, bert.Embed(path), flops=flops),
        *(
            BenchLine(f"{engine}, 32 at once", runtimes.Embed(path, engine), flops=flops)
            for engine in runtimes.ENGINES
        ),
    )
    return replace(
        experiment,
        entries=(entry, *lines),
        bars=(Bar(OURS, (BERT,), "speed", 1.3),),
        weight=16.0,
    )
