"""Opposite numbers of the figures of what the layers of a network see and hold."""

from __future__ import annotations

from typing import Any

from regard_lectures.claims import numbers_of

LESS, MORE = [-3.0, -3.2, -2.9], [3.0, 3.1, 2.8]


def slicing(organised: Any, lost: Any, reused: Any) -> dict[str, Any]:
    differences = {
        "organised_cnn": organised, "organised_vit": organised, "lost_cnn": lost,
        "lost_vit": lost, "reused": reused,
    }  # fmt: skip
    return {
        "held_CNN": [1024, 3600, 1152, 256, 64],
        "held_ViT": [1024, 3072, 3072, 3072, 48],
        "few": 10,
        **numbers_of("slicing", differences),
    }


def equivariance(maps: Any, pooled: Any) -> dict[str, Any]:
    return {
        "kinds": ["CNN", "ViT"],
        "mean_error_CNN": 15.0, "mean_error_ViT": 70.0, "mean_change_CNN": 20.0,
        "mean_change_ViT": 60.0, "whole_CNN": [0.0, 0.0],
        **numbers_of("equivariance", {"maps": maps, "pooled": pooled}),
    }  # fmt: skip


def filters(smooth: int, coloured: int) -> dict[str, Any]:
    counts = {"smooth": smooth, "coloured": coloured}
    return {
        "model": "small/caption", "filters": 32, "channels": 3, "side": 7, "counts": counts,
        "answers": [1, 2],
    }  # fmt: skip


def exciting(early: float, late: float, grown: float) -> dict[str, Any]:
    layers = [
        {"layer": name, "alike": alike, "random": 0.1}
        for name, alike in (("stem", early), ("layer 4", late))
    ]
    return {
        "model": "small/caption", "layers": layers, "images": 120, "grown": [grown] * 2,
        "peaks": [1.0, 2.0],
    }  # fmt: skip


def pooling(second: float, largest: list[list[int]]) -> dict[str, Any]:
    return {
        "x": [[second, 3.0], [1.0, 2.0]], "window": 2, "y": [[3.0]], "y_gradient": [[10.0]],
        "x_gradient": [[0.0, 10.0], [0.0, 0.0]], "chosen": [[0, 1]], "equal": [largest],
        "is_lecture": False,
    }  # fmt: skip


OPPOSITES = {
    "slicing": (slicing(MORE, MORE, MORE), slicing(LESS, LESS, LESS)),
    "equivariance": (equivariance(MORE, MORE), equivariance(LESS, LESS)),
    "exciting": (exciting(0.9, 0.2, 5.0), exciting(0.2, 0.9, 0.5)),
    "filters": (filters(20, 9), filters(1, 2)),
    "pooling": (pooling(0.0, [[0, 1]]), pooling(3.0, [[0, 0], [0, 1]])),
}
