"""ViT-B/16 on images: Regard beside transformers, onnxruntime and OpenVINO."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers import runtimes, vit
from regard.bench.harness import Entry, Experiment
from regard.bench.images import OURS
from regard.bench.images import images as ours
from regard.bench.results import Bar
from regard.bench.suite import Settings

VIT = "ViT (transformers)"


def images(chosen: Settings, count: int) -> Experiment:
    """So many images at once."""
    experiment = ours(chosen.folder, count, quick=chosen.quick)
    first, case = experiment.entries[0], str(count)
    path, flops = first.contender.work, first.flops
    lines = (
        Entry(VIT, vit.Classify(path), case, flops=flops),
        *(
            Entry(engine, runtimes.Classify(path, engine), case, flops=flops)
            for engine in runtimes.ENGINES
        ),
    )
    return replace(
        experiment,
        entries=(*experiment.entries, *lines),
        bars=(
            *experiment.bars,
            Bar(OURS, (VIT,), "speed", 1.0),
            Bar(OURS, ("onnxruntime",), "speed", 0.95),
        ),
        exact=(VIT, *runtimes.ENGINES),
        weight=6.0 if count == 1 else 16.0,
    )
