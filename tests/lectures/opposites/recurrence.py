"""Opposite numbers of figures of recurrent networks."""

from __future__ import annotations

from typing import Any


def _gates(difference: float, attention: float) -> dict[str, Any]:
    """The numbers of `gates` for this error of the states and growth of attention's weights."""
    return {
        "difference": difference, "largest_factor_gates": 0.7,
        "largest_factor_attention": attention, "note": "",
    }  # fmt: skip


def _vanishing(rnn: float, attention: float) -> dict[str, Any]:
    """The numbers of `vanishing` if so much of two gradients reaches the first token."""
    return {
        "length": 60, "note": "",
        "reaching": {"rnn": [rnn, rnn], "lstm": [0.5, 0.5], "attention": [attention] * 2},
    }  # fmt: skip


def _road(gates: float, needed: int) -> dict[str, Any]:
    """The numbers of `road` for this percentage with gates, and so many words needed later."""
    return {
        "heads": 2, "right": [[gates, gates], *[[56.0, 60.0]] * 3, [100.0, 99.0]],
        "words_needed": [7, 7, needed, needed, needed],
    }  # fmt: skip


def _cells(lstm: int, computed: int) -> dict[str, Any]:
    """The numbers of `cells` for an LSTM with so many parameters."""
    counted = {"rnn": 10, "gru": 30, "lstm": lstm, "attention": 20, "convolution": 20}
    return {
        **{f"counted_{name}": count for name, count in counted.items()},
        **{f"computed_{name}": count for name, count in counted.items()},
        "computed_lstm": computed, "widths": [],
        **{f"parameters_{name}": [] for name in counted},
        "pairs_of_matrices": {"rnn": 1, "gru": 3, "lstm": 4},
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gates": (_gates(1e-7, 3.0), _gates(0.3, 0.5)),
    "vanishing": (_vanishing(1e-20, 0.3), _vanishing(0.3, 1e-9)),
    "road": (_road(30.0, 1), _road(70.0, 7)),
    "cells": (_cells(40, 40), _cells(20, 40)),
}
