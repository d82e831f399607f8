"""Opposite numbers of figures that train small networks with several seeds."""

from __future__ import annotations

from typing import Any

KINDS = ("rnn", "gru", "lstm")


def _recall(attention: list[int], faint: int) -> dict[str, Any]:
    """The numbers of `recall` if attention gets this far with each seed, and the cells up to 8."""
    return {
        "steps": 200,
        **{f"remembers_{kind}": [8, 8] for kind in KINDS},
        "remembers_attention": attention,
        "trainings_with_a_faint_gradient": faint, "learned_with_a_faint_gradient": 0,
        "other_trainings": 9, "learned_of_the_others": 6,
    }  # fmt: skip


def _depth(plain: list[int], residual: list[int]) -> dict[str, Any]:
    """The numbers of `depth` if so many layers of all kinds learn with each seed."""
    most = {"plain": plain, "residual": residual}
    kinds = (*KINDS, "transformer")
    trained = {f"trained_{way}_{kind}": most[way] for way in most for kind in kinds}
    return {"steps": 200, "layers": [1, 16], **trained}


def _norms(post: float, last: float) -> dict[str, Any]:
    """The numbers of `norms` for this loss and last gradient of post-norm without warm-up."""
    return {
        "learned_below": 0.7, "loss_pre_norm": [0.1, 0.1], "loss_post_norm": [post, post],
        "loss_pre_norm_warm_up": [0.1, 0.1], "loss_post_norm_warm_up": [0.1, 0.1],
        "gradients_post_norm": [[1.0, last]] * 2,
    }  # fmt: skip


def _residuals(without: float, error: float) -> dict[str, Any]:
    """The numbers of `residuals` for this loss without residuals, and their error."""
    return {
        "blocks": 8, "steps": 200, "learned_below": 0.7, "loss_both": [0.1, 0.1],
        "loss_no_norms": [9.0, 9.0], "loss_no_residuals": [without, without],
        "loss_neither": [2.0, 2.0], "identity_layers": [1, 8],
        "identity_error_plain": [[0.1, 0.8], [0.1, 0.7]],
        "identity_error_residual": [[0.1, error], [0.1, error]],
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recall": (_recall([128, 128], 3), _recall([4, 8], 0)),
    "depth": (_depth([8, 8], [16, 16]), _depth([16, 16], [8, 16])),
    "norms": (_norms(2.7, 3.0), _norms(0.1, 1.0)),
    "residuals": (_residuals(2.0, 0.2), _residuals(0.1, 0.9)),
}
