"""Opposite numbers of the figures of positions."""

from __future__ import annotations

from typing import Any


def _waves(changes: list[float], **more: Any) -> dict[str, Any]:
    return {"mean_change_of_pairs": changes, "changes_of_bits": [15, 7, 3, 1], **more}


def _shift(error: float, products: float, naive: float) -> dict[str, Any]:
    return {
        "by": 3, "error": error, "orthogonal": 0.0, "spread_of_products": products,
        "largest_product": 8.0, "spread_of_naive": naive, "shifted_positions": 197,
    }  # fmt: skip


def _order(without: float, sinusoidal: float) -> dict[str, Any]:
    means = {"none": without, "sinusoidal": sinusoidal, "rotary": 0.2, "learned": 0.2}
    return {
        "words": ["a", "dog"], "total": 2, "scheme": "sinusoidal", "orders": 2, "all_orders": True,
        "largest_change_without_positions": without, "mean_change_buckets": 0.2,
        **{f"mean_change_{name}": mean for name, mean in means.items()},
    }  # fmt: skip


def _pair(apart: dict[str, float]) -> dict[str, Any]:
    table = [[1.0, 2.0], [3.0, 4.0]]
    moved = [[1.0, 2.0], [3.0, 4.0 - max(apart.values())]]
    return {
        "words": ["my", "dog"], "names": list(apart), "head": 0, "run": 2, "remarks": [],
        "model": "", "scores_sinusoidal": [table, moved if apart["sinusoidal"] else table],
        **{f"largest_difference_{name}": value for name, value in apart.items()},
    }  # fmt: skip


def _long(best: str, rotary: int) -> dict[str, Any]:
    lengths = {"buckets": 32, "rotary": rotary, "sinusoidal": 32, "learned": 32}
    lengths |= {"none": 0 if best == "buckets" else 16, best: 128}
    return {
        "trained_length": 32,
        **{f"holds_{test}_{name}": [length] * 2
           for test in ("on", "apart") for name, length in lengths.items()},
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "waves": (_waves([0.6, 0.3, 0.1]), _waves([0.1, 0.3, 0.6])),
    "wavelengths": (
        {"wavelengths": [6.3, 600.0], "error": 1e-7},
        {"wavelengths": [6.3, 70000.0], "error": 0.5},
    ),
    "shift": (_shift(1e-7, 1e-6, 28500.0), _shift(0.5, 2.0, 28500.0)),
    "order": (_order(1e-7, 0.4), _order(0.3, 0.001)),
    "pair": (
        _pair({"sinusoidal": 2.0, "rotary": 0.0}),
        _pair({"sinusoidal": 0.0, "rotary": 2.0}),
    ),
    "long": (_long("buckets", 64), _long("learned", 16)),
}
