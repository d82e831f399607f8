"""Opposite numbers of figures that are drawn from one model: its diagram, and its steps."""

from __future__ import annotations

from typing import Any


def _steps(weights: list[float]) -> dict[str, Any]:
    """The numbers of `steps` for the second of two words with these weights."""
    return {
        "model": "m", "text": "a b", "layer": "encoder.0.self", "head": 0, "word": "b", "row": 1,
        "key_tokens": ["a", "b"], "weights": [[1, 0], weights], "mask": [[True, True]] * 2,
        "note": "" if weights[0] < 0.6 else "Two times “b”.",
    }  # fmt: skip


def _animal(on_noun: float, without: float) -> dict[str, Any]:
    """The numbers of `animal` for a head that is on the noun so often."""
    sentence = {"text": "The dog ran because it was tired.", "words": ["The", "dog"]}
    return {
        "part": "encoder", "on_noun": on_noun, "right": 100.0, "right_without": without,
        "sentences": [{**sentence, "weights": [1 - on_noun, on_noun]}], "count": 48, "chance": 0.1,
        "right_without_others": {"encoder.0.self.0": 90.0}, "other_heads": 1 if without < 50 else 9,
        "trainings": [],
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "architecture": (
        {
            "model": "m",
            "sides": {
                "encoder": {"count": 6, "unit": "layer", "parts": []},
                "decoder": {"count": 6, "unit": "layer", "parts": ["cross-attention, 8 × 64"]},
            },
            "groups": {"the feed-forward": 60, "attention": 40},
            "total": 100,
        },
        {
            "model": "m",
            "sides": {"decoder": {"count": 12, "unit": "layer", "parts": []}},
            "groups": {"embeddings and output": 45, "attention": 30, "the feed-forward": 25},
            "total": 100,
        },
    ),
    "animal": (_animal(1.0, 20.0), _animal(0.3, 99.0)),
    "steps": (_steps([0.9, 0.1]), _steps([0.52, 0.48])),
}  # fmt: skip
