"""Opposite numbers of the figures of moved and scaled objects, distant marks, and heads."""

from __future__ import annotations

from typing import Any

from regard_lectures.claims import numbers_of

LESS, MORE = [-3.0, -3.2, -2.9], [3.0, 3.1, 2.8]


def invariance(lost: Any, gained: Any) -> dict[str, Any]:
    kinds = ("CNN", "ViT", "ViT with shifts", "ViT, sines as positions")
    return {
        "left": dict.fromkeys(kinds, 90.0),
        "right": dict.fromkeys(kinds, 60.0),
        "chance": 17.0,
        **numbers_of("invariance", {"built_in": lost, "learned": gained}),
    }


def scale(rise: Any) -> dict[str, Any]:
    means = [20.0, 50.0, 90.0] if rise is MORE else [90.0, 50.0, 20.0]
    return {
        "sides": [5, 10, 20],
        "means": {"CNN": means, "ViT": means},
        **numbers_of("scale", {"cnn": rise, "vit": rise}),
    }


def distant(rise: Any) -> dict[str, Any]:
    return {
        "marks": {"CNN 3": 1, "CNN 4": 2 if rise is MORE else 1, "attention": 2},
        "means": {"CNN 3": 50.0, "CNN 4": 99.0, "attention": 99.0},
        **numbers_of("distant", {"field": rise, "attention": rise}),
    }


def attributes(rise: Any, strongest: float) -> dict[str, Any]:
    parts = ("colour", "shape", "place")
    return {
        "strongest": dict.fromkeys(parts, strongest),
        "right": dict.fromkeys(parts, 90.0),
        **numbers_of("attributes", dict.fromkeys(parts, rise)),
    }


OPPOSITES = {
    "invariance": (invariance(MORE, MORE), invariance(LESS, LESS)),
    "scale": (scale(MORE), scale(LESS)),
    "distant": (distant(MORE), distant(LESS)),
    "attributes": (attributes(MORE, 30.0), attributes(LESS, 2.0)),
}
