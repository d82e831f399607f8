"""Opposite numbers of the figures of claims, and of the table of them."""

from __future__ import annotations

from typing import Any

from regard_lectures.claims import numbers_of

LESS, MORE = [-3.0, -3.2, -2.9], [3.0, 3.1, 2.8]


def hunger(little: Any, shrinks: Any, much: Any) -> dict[str, Any]:
    differences = {"little": little, "shrinks": shrinks, "much": much}
    where = 3000.0 if little is MORE and much is MORE else None
    whole = {"whole_size": 55_000, "whole": {"CNN": 92.0, "ViT": 91.0}}
    return {"sizes": [300, 10000], "crossing": where, **whole, **numbers_of("hunger", differences)}


def remedies(rise: Any, everything: Any) -> dict[str, Any]:
    parts = ("weight_decay", "drop_path", "mixup", "randaugment", "teacher")
    differences = dict.fromkeys(parts, rise) | {"all": everything}
    accuracies = {"none": [70.0], "all": [75.0 if everything is MORE else 65.0], "cnn": [72.0]}
    return {
        "images": 1000,
        "accuracies": accuracies,
        "teacher_right": [100.0],
        **numbers_of("remedies", differences),
    }


def idea1(lead: Any, factor: float, fall: float) -> dict[str, Any]:
    with_it = [80.0, 80.2, 80.1]
    accuracies = {
        "plain": [value - difference for value, difference in zip(with_it, lead, strict=True)],
        "attention": with_it,
        "removed": [value - fall for value in with_it],
    }
    return {
        "accuracies": accuracies,
        "gammas": [[factor, -factor]] * 3,
        **numbers_of("idea1", {"attention": lead}),
    }


def pixels(power: float, growth: Any) -> dict[str, Any]:
    return {
        "resolutions": [32, 64],
        "exponent_matrices": power,
        "exponent_fused": 2.0,
        "memory_matrices": [2.0**24, 2.0 ** (24 + power)],
        "memory_fused": [2.0**24, 2.0**26],
        "accuracies": {"pixels": [95.0], "patches of 2 × 2": [96.0]},
        **numbers_of("pixels", {"memory": growth}),
    }


def receptive(rise: Any) -> dict[str, Any]:
    few, many = (5.0, 95.0) if rise is MORE else (95.0, 5.0)
    kinds = {"CNN": (few, many), "ViT": (many, many)}
    shares = {
        f"{share}_{kind}": value
        for kind, (first, last) in kinds.items()
        for share, value in (
            ("first", "layer 1"), ("reached_first", first), ("reached_last", last),
            ("most_last", last / 2), ("most_last_untrained", last / 3),
        )
    }  # fmt: skip
    differences = dict.fromkeys(("whole", "grows", "effective"), rise)
    return {"kinds": list(kinds), **shares, **numbers_of("receptive", differences)}


def claims(*verdicts: str) -> dict[str, Any]:
    return {"verdicts": dict(zip(("hunger", "remedies", "pixels"), verdicts, strict=True))}


OPPOSITES = {
    "hunger": (hunger(MORE, MORE, MORE), hunger(LESS, LESS, LESS)),
    "remedies": (remedies(MORE, MORE), remedies(LESS, LESS)),
    "idea1": (idea1(MORE, 0.5, 9.0), idea1(LESS, 0.01, 0.0)),
    "pixels": (pixels(4.0, [1.0, 1.0, 1.0]), pixels(2.0, [-0.5, -0.5, -0.5])),
    "receptive": (receptive(MORE), receptive(LESS)),
    "claims": (claims("holds", "holds", "holds"), claims("does not hold", "holds", "cannot tell")),
}
