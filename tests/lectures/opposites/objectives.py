"""Opposite numbers of the figures about heads, losses, families, objectives, and of the gallery."""

from __future__ import annotations

from typing import Any


def _heads(one: float, many: float) -> dict[str, Any]:
    """The numbers of `heads` for these losses of one head and of four."""
    return {
        "heads": 4, "loss_one": [one, one + 0.01], "loss_many": [many, many + 0.01],
        "weights_one": [[0.4, 0.4]] * 2, "weights_many": [[0.9, 0.6]] * 2,
    }  # fmt: skip


def _question(without: float, *, clear: bool) -> dict[str, Any]:
    """The numbers of `question` for a share of endings that are wrong without the head found."""
    runs = 3 if clear else 1
    return {
        "wrong_without": [without] * runs, "others": [0.1] * runs, "stands_out": [clear] * runs,
        "weights_found": [0.5] * runs,
    }  # fmt: skip


def _loss(after: float) -> dict[str, Any]:
    """The numbers of `loss` for a divergence after training, of three trainings or of one."""
    runs = 3 if after < 1 else 1
    return {
        "vocabulary": ["no", "thanks"], "right": 1, "source": "merci", "steps": 200,
        "kl_smoothed_before_of_all": [4.0] * runs, "kl_smoothed_after_of_all": [after] * runs,
        "probability_before": [0.01] * runs, "probability_after": [0.8] * runs,
    }  # fmt: skip


def _families(*, causal: bool) -> dict[str, Any]:
    """The numbers of `families` for two tokens of each, with a mask in GPT or with none."""
    back = [[0, 1], [0, 0]]
    t5 = [[0, 0, 1], [0, 0, 1], [0 if causal else 1, 0, 0]]
    return {
        "never_gpt": back if causal else [[0, 0], [0, 0]], "never_bert": [[0, 0], [0, 0]],
        "never_t5": t5, "decoder_from": 2, "shown": 2, "total": 2,
    }  # fmt: skip


def _objectives(chosen: float, *, differ: bool) -> dict[str, Any]:
    """The numbers of `objectives` for a share of tokens that BERT chooses."""
    return {
        "chosen_percent": chosen, "mask_percent": 80.0, "other_percent": 10.0, "kept_percent": 10.0,
        "cut_percent": 15.0, "predicted_gpt": 33, "predicted_bert": [5, 5], "epochs_differ": differ,
        "predicted_t5": 5, "spans": 2, "shown": 32, "total": 32,
    }  # fmt: skip


def gallery(*, holds: bool) -> dict[str, dict[str, Any]]:
    """The numbers of all scenes, in which every claim holds or none does."""
    guesses = [["you", 0.8], ["we", 0.1], ["they", 0.1]]
    sign = 1 if holds else -1
    return {
        "dogs": {
            "scene": "dogs", "word": "dog", "apart_with_positions": [30.0, 70.0],
            "apart_without": [0.0, 0.0 if holds else 5.0],
        },
        "her": {
            "scene": "her", "word": "her", "noun": "teacher", "meant": "teacher",
            "head": "encoder.1.self.2", "weight": 0.6, "is_largest": True, "translation": "Die …",
            "without": "Der …" if holds else "Die …", "log_p_lost": 3.0 * sign,
            "log_p_lost_of_others": [0.1] * 9,
        },
        "gender": {
            "scene": "gender", "words": ["her", "him"], "changed": ["Lehrerin", "Lehrer"],
            "head": "encoder.1.self.2", "margins": [3.0, -3.0],
            "margins_without": [2.0, 1.0 if holds else -1.0],
            "translations": ["Die Lehrerin …", "Der Lehrer …"],
        },
        "walk": {
            "scene": "walk", "translation": "…",
            "pairs": [["Hund", "dog", 0.9 if holds else 0.3], ["Tag", "day", 0.8 * holds]],
        },
        "once": {
            "scene": "once", "text": "Once", "words": ["upon" if holds else "more", "a", "time"],
            "expected": ["upon", "a", "time"], "suggestions": [guesses] * 3,
        },
        "hello": {
            "scene": "hello", "text": "Hello, how are", "expected": "you" if holds else "they",
            "suggestions": guesses,
        },
        "nurse": {
            "scene": "nurse", "nouns": ["doctor", "nurse"],
            "log_odds": [[-1.0] * 5, [sign * 1.0] * 5],
        },
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "heads": (_heads(0.7, 0.01), _heads(0.3, 0.7)),
    "question": (_question(60.0, clear=True), _question(0.2, clear=False)),
    "loss": (_loss(0.05), _loss(4.2)),
    "families": (_families(causal=True), _families(causal=False)),
    "objectives": (_objectives(15.0, differ=True), _objectives(30.0, differ=False)),
    "gallery": (gallery(holds=True), gallery(holds=False)),
}
SHUFFLED: dict[str, dict[str, Any]] = {
    "loss": {"model": "tiny/translate", "text": "The dog sleeps. = Der Hund schläft."},
}
