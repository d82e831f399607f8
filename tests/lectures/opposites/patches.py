"""Opposite numbers of the figures of patches and other chunks."""

from __future__ import annotations

from typing import Any


def _patches(own_size: list[int], model: str, way: str) -> dict[str, Any]:
    return {
        "grid": [14, 14], "patch": 16, "patches": 196, "size": [224, 224], "own_size": own_size,
        "model": model, "way": way, "channels": 3, "dim": 24, "numbers_of_a_patch": 768,
    }  # fmt: skip


def _anything(kind: str, chunk: str, left_out: str) -> dict[str, Any]:
    return {
        "inputs": [kind], "chunk": [chunk], "chunks": [16], "numbers_of_a_chunk": [768],
        "left_out": [left_out], "equal": [0], "dim": 24,
    }  # fmt: skip


def _entries(image: int, layers: int) -> dict[str, Any]:
    tokens = [128**2, image**2, (image // 16) ** 2, (image // 14) ** 2]
    entries = [count**2 for count in tokens]
    return {
        "image": image, "entries": entries, "all_bytes": [4 * count * layers for count in entries]
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "patches": (
        _patches([224, 224], "", "random"),
        _patches([3000, 4000], "small/digits", "stem"),
    ),
    "anything": (
        _anything("sound", "slice of 0.5 s", ""),
        _anything("table", "row", "Shown: the first 12 of 40 rows."),
    ),
    "entries": (_entries(224, 48 * 16), _entries(16, 1)),
}
