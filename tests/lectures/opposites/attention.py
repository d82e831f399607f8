"""Opposite numbers of figures of attention: softmax, forms, masks, look-ups, scores, hard."""

from __future__ import annotations

from typing import Any


def _scaling(last: float) -> dict[str, Any]:
    """The numbers of `scaling` whose unscaled variance and gradient end there."""
    return {
        "dims": [4, 1024], "keys": 64, "variance_plain": [4.0, 1024.0],
        "variance_scaled": [1.0, 1.0 if last < 0.1 else 9.0],
        "largest_weight_plain": [0.2, 1.0], "largest_weight_scaled": [0.1, 0.1],
        "gradient_plain": [0.2, last], "gradient_scaled": [0.2, 0.2],
    }  # fmt: skip


def _bilinear(plain: float, learned: float) -> dict[str, Any]:
    """The numbers of `bilinear` for one share of right comparisons with each form."""
    return {
        **{f"plain_{kind}": [plain] * 3 for kind in ("adjective", "noun", "turned")},
        **{f"learned_{kind}": [learned] * 3 for kind in ("adjective", "noun", "turned")},
        "words": ["blue", "sky"], "scores_plain": [[1, 0.2], [0.2, 1]],
        "probabilities_learned": [[0.1, 0.2], [0.9, 0.1]] if learned > plain else [[1, 0], [0, 1]],
        "remark": "",
    }  # fmt: skip


def _lookup(exact: float, gained: int, lost: int, *, same: bool) -> dict[str, Any]:
    """The numbers of `lookup` for a look-up in all heads that is right so often."""
    return {
        "sets": ["softmax", "one head", "all heads"], "exact": [80.0, 82.0, exact], "pairs": 100,
        "gained": [0, 2, gained], "lost": [0, 0, lost], "words": 5,
        "translations": ["Der Hund schläft.", "Der Hund schläft." if same else "Hund Hund."],
    }  # fmt: skip


def _scores(weights: list[float], may_look: list[int]) -> dict[str, Any]:
    """The numbers of `scores` for two queries with these weights on two keys."""
    return {
        "layer": "encoder.0.self", "head": 1, "text": "a b", "queries": ["a", "b"],
        "keys": ["a", "b"], "scores": [[1.0, -1.0]] * 2, "may_look": [may_look] * 2,
        "weights": [weights] * 2,
    }  # fmt: skip


def _hard(hard: float, *, trained: bool) -> dict[str, Any]:
    """The numbers of `hard` in which hard attention is right so often, and soft in 90%."""
    return {
        "trained": trained, "count": 200, "right": {"soft": [90.0] * 3, "hard": [hard] * 3},
        "sharpness": {"soft": 0.6, "hard": 1.0}, "queries": ["a"] * 4, "keys": ["a"] * 4,
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "softmax": (
        {"x": [1.0, 9.0], "weights": [0.01, 0.99], "written": ["0.0100", "0.9900"], "sum": 1.0},
        {"x": [800.0, 800.0, 0.0], "weights": [0.5, 0.5, 0.0], "sum": 1.0,
         "written": ["0.5000", "0.5000", "0.0000"]},
    ),
    "scaling": (_scaling(1e-4), _scaling(0.3)),
    "bilinear": (_bilinear(60.0, 90.0), _bilinear(90.0, 60.0)),
    "mask": (
        {"rule": "causal", "rows": "queries", "may_look": [[1, 0], [1, 1]],
         "weights": [[1.0, 0.0], [0.5, 0.5]], "remark": ""},
        {"rule": "none", "rows": "keys", "may_look": [[1, 1], [1, 1]],
         "weights": [[0.5, 0.5], [0.5, 0.5]], "remark": ""},
    ),
    "lookup": (_lookup(40.0, 0, 40, same=False), _lookup(81.0, 2, 1, same=True)),
    "scores": (_scores([0.98, 0.02], [1, 1]), _scores([1.0, 0.0], [1, 0])),
    "hard": (_hard(50.0, trained=True), _hard(90.0, trained=False)),
}  # fmt: skip
SHUFFLED: dict[str, dict[str, Any]] = {
    "scores": {"model": "tiny/translate", "part": "decoder", "layer": 1},
}
