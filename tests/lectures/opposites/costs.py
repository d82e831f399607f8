"""Opposite numbers of figures that measure time, and of the receptive fields."""

from __future__ import annotations

from typing import Any


def _costs(additive: list[float], size: float, heads: list[float]) -> dict[str, Any]:
    """The numbers of `costs` for these ratios of time and of bytes."""
    return {
        "rounds": 9, "dim": 64, "lengths": [128, 256], "heads": [1, 8],
        "additive_over_dot_seconds": additive, "additive_over_dot_bytes": size,
        "seconds_heads_narrow": [[1, 1, 1], heads],
    }  # fmt: skip


def _growth(attention: list[float], recurrent: list[float], times: list[float]) -> dict[str, Any]:
    """The numbers of `growth` for these exponents, and this ratio at the longest text."""
    return {
        "rounds": 5, "lengths": [4096, 8192], "attention_over_recurrent": [[0.5, 0.4, 0.6], times],
        "exponent_of_time": {"attention": attention, "recurrent": recurrent},
        "attention_is_slower_from": 8192 if times[0] > 1 else None,
    }  # fmt: skip


def _crossover(counted: list[float], met: list[float | None]) -> dict[str, Any]:
    """The numbers of `crossover` with attention slower from these lengths on."""
    return {
        "rounds": 3, "widths": [16, 32], "slower_from_by_operations": counted,
        "slower_from_by_time": [met, met],
    }  # fmt: skip


KINDS = ("convolution", "dilated_convolution", "restricted_attention", "attention", "recurrent")


def _fields(one_layer: dict[str, int], recurrent: int) -> dict[str, Any]:
    """The numbers of `fields` for what one layer of each kind sees."""
    return {
        "length": 64, "layers": [1], "formula": {kind: [5] for kind in KINDS},
        "measured": {kind: [[one_layer[kind]]] * 3 for kind in KINDS},
        "most_of_the_gradient": {"recurrent": [[recurrent]] * 3, "attention": [[50]] * 3},
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "costs": (
        _costs([80, 75, 85], 57.0, [1.0, 0.95, 1.1]),
        _costs([1.0, 0.6, 1.7], 0.9, [3.0, 2.8, 3.1]),
    ),
    "growth": (
        _growth([2.0, 1.9, 2.1], [1.0, 1.0, 1.1], [2.8, 2.7, 2.9]),
        _growth([1.1, 0.9, 1.4], [1.0, 0.9, 1.2], [1.0, 0.5, 1.9]),
    ),
    "crossover": (
        _crossover([16.0, 32.0], [2000.0, 2100.0, 1990.0]),
        _crossover([100.0, 30.0], [None, None, None]),
    ),
    "fields": (
        _fields({kind: 64 if kind in KINDS[3:] else 5 for kind in KINDS}, 4),
        _fields(dict.fromkeys(KINDS, 5), 60),
    ),
}
