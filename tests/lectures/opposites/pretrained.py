"""Opposite numbers of the figures of pretraining, learning in context, scaling, sizes and BLEU."""

from __future__ import annotations

from typing import Any


def _finetuning(free: float, scratch: float) -> dict[str, Any]:
    """The numbers of `finetuning` where these percentages are right, with 4 labels and with 8."""
    lines = {"all_of_it_learns": free, "from_scratch": scratch}
    lines |= {"half_frozen": 60, "encoder_frozen": scratch}
    return {
        "examples": [4, 8], "labels": ["a", "b"], "most_frequent": 50, "tested": 40, "tries": 3,
        "cut": 0,
        **{f"accuracy_{way}": [[share, share + 1, share + 2]] * 2 for way, share in lines.items()},
    }  # fmt: skip


def _meanings(last: float, before: float, chance: float, cosine: float) -> dict[str, Any]:
    return {
        "word": "bank", "sentences": [4, 4],
        "silhouettes": {"bank": [[0, last]], "not trained": [[0, before]]},
        "cosine_same": [cosine, 0.9], "cosine_between": [cosine, 0.3], "towards_their_like": None,
        "groups_tried": 70, "groups_as_far_apart": chance,
    }  # fmt: skip


def _induction(two: float, one: float) -> dict[str, Any]:
    learned = two < 1
    return {
        "steps": [0, 100], "guess": 4.0, "loss_two_layers": [two] * 2, "loss_one_layer": [one] * 2,
        "fall": [[30, 40]] * 2 if learned else [[], []],
        "one_layer_still_falls_by": [0.0 if learned else 0.5] * 2,
        "heads_by_role": {
            "induction": [["decoder.1.self.0"]] * 2 if learned else [[], []],
            "previous": [[], []], "same": [[], []],
        },
        "loss_without_induction": [4.0, 4.0], "loss_without_previous": [two] * 2,
        "loss_without_same": [two] * 2, "loss_without_others": [two] * 2,
    }  # fmt: skip


def _prompts(small: float, large: float, written: float) -> dict[str, Any]:
    line = [40.0] * 8
    return {
        "sizes": ["small", "large"], "right_by_examples_small": [[*line[:-1], small]] * 2,
        "right_by_examples_large": [[*line[:-1], large]] * 2,
        "sums_at_once": [[10, 10], [10, 11]], "sums_with_steps": [[10, 12], [written, written]],
    }  # fmt: skip


def _laws(off: float, misfit: float) -> dict[str, Any]:
    return {
        "losses": [[2.0], [1.5]], "predicted": [1.5], "off": [off], "off_by_the_fourth": 0.06,
        "fit_is_off_by_at_most": misfit, "floor": 0.5, "size_power": 0.2, "data_power": 0.5,
    }  # fmt: skip


def _sizes(counts: list[float], cost: float) -> dict[str, Any]:
    return {
        "part": "table", "share": 0.3, "price": 1.0, "models": ["A", "B"],
        "parameters_computed": counts, "parameters_published": [100, 200],
        "cost_of_hours_computed": [None, cost], "cost_of_hours_published": [None, 1000.0],
        "flops_computed": [1e18, 1e20],
    }  # fmt: skip


def _bleu(score: float, counted: float) -> dict[str, Any]:
    return {
        "table": [["ConvS2S", 26.0, 40.0, 1e19, 1e20],
                  ["Transformer base", score, 38.0, 3e18, 3e18]],
        "published_flops_base": 3e18, "published_flops_big": 2e19,
        "counted_flops_base": counted, "counted_flops_big": counted,
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "finetuning": (_finetuning(90, 40), _finetuning(40, 90)),
    "meanings": (_meanings(0.8, 0.1, 0.01, 1.0), _meanings(0.01, 0.2, 0.7, 0.5)),
    "induction": (_induction(0.01, 3.7), _induction(4.0, 4.0)),
    "prompts": (_prompts(95, 96, 99), _prompts(40, 90, 10)),
    "laws": (_laws(0.02, 0.01), _laws(0.2, 0.3)),
    "sizes": (_sizes([100, 201], 900.0), _sizes([50, 400], 2000.0)),
    "bleu": (_bleu(27.0, 1e18), _bleu(20.0, 1e20)),
}
