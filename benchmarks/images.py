"""ViT-B/16 beside timm, transformers, onnxruntime and OpenVINO; a training step of ViT-Ti."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.images import OURS, image_training
from benchmarks.measure.images import images as ours
from benchmarks.measure.results import Bar
from benchmarks.measure.suite import Settings
from benchmarks.peers import runtimes, timm_vit, vit

VIT, TIMM = "ViT (transformers)", "timm"


def images(chosen: Settings, count: int) -> Experiment:
    """So many images at once."""
    experiment = ours(chosen.folder, count, quick=chosen.quick)
    first, case = experiment.entries[0], str(count)
    path, flops = first.contender.work, first.flops
    lines = (
        BenchLine(VIT, vit.Classify(path), case, flops=flops),
        BenchLine(TIMM, timm_vit.Classify(path), case, flops=flops),
        *(
            BenchLine(engine, runtimes.Classify(path, engine), case, flops=flops)
            for engine in runtimes.ENGINES
        ),
    )
    return replace(
        experiment,
        entries=(*experiment.entries, *lines),
        bars=(
            *experiment.bars,
            Bar(OURS, (VIT, TIMM), "speed", 1.0),
            Bar(OURS, ("onnxruntime",), "speed", 0.95),
        ),
        exact=(VIT, TIMM, *runtimes.ENGINES),
        weight=6.0 if count == 1 else 16.0,
    )


def training(chosen: Settings) -> Experiment:
    """A step of ViT-Ti, as fast as timm's."""
    experiment = image_training(chosen.folder, quick=chosen.quick)
    [entry] = experiment.entries
    line = BenchLine(TIMM, timm_vit.Train(entry.contender.work), flops=entry.flops)
    return replace(
        experiment, entries=(entry, line), bars=(Bar(OURS, (TIMM,), "speed", 1.0),), weight=8.0
    )
