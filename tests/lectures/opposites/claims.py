"""Opposite numbers of the figures of data hunger and of what helps on little data."""

from __future__ import annotations

from typing import Any

from regard_lectures.claims import numbers_of

LESS, MORE = [-3.0, -3.2, -2.9], [3.0, 3.1, 2.8]


def hunger(little: Any, shrinks: Any, much: Any) -> dict[str, Any]:
    differences = {"little": little, "shrinks": shrinks, "much": much}
    where = 3000.0 if little is MORE and much is MORE else None
    return {"sizes": [300, 10000], "crossing": where, **numbers_of("hunger", differences)}


def remedies(rise: Any, everything: Any) -> dict[str, Any]:
    parts = ("weight_decay", "drop_path", "mixup", "randaugment", "teacher")
    differences = {part: rise for part in parts} | {"all": everything}
    accuracies = {"none": [70.0], "all": [75.0 if everything is MORE else 65.0], "cnn": [72.0]}
    return {
        "images": 1000,
        "accuracies": accuracies,
        **numbers_of("remedies", differences),
    }


OPPOSITES = {
    "hunger": (hunger(MORE, MORE, MORE), hunger(LESS, LESS, LESS)),
    "remedies": (remedies(MORE, MORE), remedies(LESS, LESS)),
}
