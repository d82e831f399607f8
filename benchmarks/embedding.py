"""Vectors of sentences: Regard beside transformers as sentence-transformers feeds it."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers import bert
from regard.bench.harness import Entry, Experiment
from regard.bench.results import Bar
from regard.bench.suite import OURS, Settings
from regard.bench.suite import embedding as ours

BERT = "BERT (transformers), 32 at once"


def embedding(chosen: Settings) -> Experiment:
    """At the sizes of MiniLM."""
    experiment = ours(chosen)
    [entry] = experiment.entries
    line = Entry(BERT, bert.Embed(entry.contender.work), flops=entry.flops)
    return replace(
        experiment,
        entries=(entry, line),
        bars=(Bar(OURS, (BERT,), "speed", 1.3),),
        weight=8.0,
    )
