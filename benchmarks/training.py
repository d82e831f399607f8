"""Training speed: Regard beside Marian, nn.Transformer, the annotated style and JoeyNMT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import OURS, Settings, training_base, training_demo
from benchmarks.measure.work import RANDOM, SAME, Work
from benchmarks.peers import annotated, joey, marian, torch_transformer

MARIAN, TORCH = "Marian (transformers)", "nn.Transformer"
PEERS = {
    MARIAN: marian.Train,
    TORCH: torch_transformer.Train,
    "annotated style": annotated.Train,
    "JoeyNMT": joey.Train,
}


def base(chosen: Settings, others: Mapping[str, ModuleType]) -> Experiment:
    """At the paper's base size: fed our batches, and as they are commonly fed."""
    bars = (
        Bar(OURS, (f"{MARIAN}, {SAME}", f"{TORCH}, {SAME}"), "speed", 1.25),
        Bar(OURS, (f"{MARIAN}, {RANDOM}",), "speed", 1.5),
    )
    peers = {**PEERS, **trained(others)}
    return beside_peers(training_base(chosen), bars, peers, (MARIAN, TORCH, *others))


def demo(chosen: Settings, others: Mapping[str, ModuleType]) -> Experiment:
    """At the demo's size, where dispatch is the limit."""
    bars = (Bar(OURS, (f"{MARIAN}, {SAME}", f"{TORCH}, {SAME}"), "speed", 1.25),)
    peers = {**PEERS, **trained(others)}
    return beside_peers(training_demo(chosen), bars, peers, (MARIAN, *others))


def trained(others: Mapping[str, ModuleType]) -> dict[str, Any]:
    """Those of other people's contenders that train."""
    return {name: peer.Train for name, peer in others.items() if hasattr(peer, "Train")}


def beside_peers(
    ours: Experiment,
    bars: tuple[Bar, ...],
    peers: Mapping[str, Any],
    fed_randomly: tuple[str, ...],
) -> Experiment:
    """The same experiment with peers on the same batches, and some on random ones as well."""
    [entry] = ours.entries
    path = entry.contender.work
    flops = {case: Work.read(path).flops(case) for case in (SAME, RANDOM)}
    lines = [
        BenchLine(f"{name}, {case}", kind(path), case, flops[case])
        for name, kind in peers.items()
        for case in (SAME, RANDOM)
        if case == SAME or name in fed_randomly
    ]
    return replace(
        ours,
        entries=(entry, *lines),
        bars=(*bars, *ours.bars),
        weight=ours.weight * (1 + 1.4 * len(lines)),
    )
