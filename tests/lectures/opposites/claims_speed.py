"""Opposite numbers of the figures of times at equal multiply-adds, of directions, of heads."""

from __future__ import annotations

from typing import Any

from regard_lectures.claims import numbers_of

LESS, MORE = [-0.3, -0.32, -0.29], [0.3, 0.31, 0.28]


def flops(training: Any, inference: Any, product: Any) -> dict[str, Any]:
    differences = {"training": training, "inference": inference, "product": product}
    counts = {"CNN": 592_188_416, "ViT": 593_057_344}
    names = {"CNN": "ResNet-18", "ViT": "ViT"}
    return {"names": names, "multiply_adds": counts, **numbers_of("flops", differences)}


def direction(mark: Any, place: Any) -> dict[str, Any]:
    by_task = {
        known: {"before": difference, "generalises": difference}
        for known, difference in (("mark", mark), ("place", place))
    }
    task = {
        "share": {"before": [70.0], "both": [50.0]},
        "accuracies": {"before": {"after": [20.0]}, "both": {"after": [99.0]}},
    }
    return {
        "trained": True, "mark": task, "place": task, "by_task": by_task,
        **numbers_of("direction", by_task["mark"]),
    }  # fmt: skip


def diversity(heads: Any, of_weights: Any) -> dict[str, Any]:
    kinds = ("no dropout", "dropout", "dropout of weights")
    return {
        "trained": True,
        "mean_distance": {kind: [0.3] for kind in kinds},
        "right": {kind: [90.0] for kind in kinds},
        "differences_of_weights": of_weights,
        **numbers_of("diversity", {"heads": heads}),
    }


OPPOSITES = {
    "flops": (flops(MORE, MORE, MORE), flops(LESS, LESS, LESS)),
    "direction": (direction(MORE, MORE), direction(LESS, LESS)),
    "diversity": (diversity(MORE, MORE), diversity(LESS, LESS)),
}
