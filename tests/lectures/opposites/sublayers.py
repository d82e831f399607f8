"""Opposite numbers of the figures of norms and of the feed-forward."""

from __future__ import annotations

from typing import Any


def _batchnorm(layer: float, batch: float) -> dict[str, Any]:
    """The numbers of `batchnorm` if the norms change the first sentence by so much."""
    return {
        "features": 100, "rows": 7, "other_batch": "Alone in its batch", "note": "",
        "change_layer": layer, "change_batch": batch, "item": "word", "whole": "sentence",
        "batch_of_one": False,
    }  # fmt: skip


def _feedforward(silent: float, left: float, output: str) -> dict[str, Any]:
    """The numbers of `feedforward` for this share of silent units and what is left without it."""
    return {
        "layer": "encoder.0.feed_forward", "silent": [silent, silent], "silent_is_zero": True,
        "hidden": 256, "dim": 128, "out_of_order": 0.0 if silent > 0.5 else 0.2,
        "measured": "a token of its output", "with_all": 0.9, "output": "Ein Hund.",
        "without": {"encoder.0.feed_forward": 0.9 * left}, "share_left": left,
        "change": 0.9 * left - 0.9, "margin": 0.01, "output_without": output,
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "batchnorm": (_batchnorm(0.0, 1.7), _batchnorm(0.0, 0.0)),
    "feedforward": (_feedforward(0.9, 0.3, "Ein"), _feedforward(0.2, 1.0, "Ein Hund.")),
}
SHUFFLED: dict[str, dict[str, Any]] = {
    "feedforward": {"model": "tiny/translate", "text": "The dog sleeps because it is tired."}
}
