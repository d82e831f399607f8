"""Opposite numbers of figures about vectors: words, inputs, directions, positions, layers."""

from __future__ import annotations

from typing import Any


def _onehot(difference: float) -> dict[str, Any]:
    """The numbers of `onehot` for a product that differs from the row by so much."""
    return {"words": ["a", "b"], "word": 2, "difference": difference, "multiplications": 16,
            "note": ""}  # fmt: skip


def _table(shares: list[float]) -> dict[str, Any]:
    """The numbers of `inputs` for a table whose columns make these parts of the distances."""
    return {"kind": "table", "table": [[1.0, 2.0]] * 3, "share_of_distance": shares}


def _analogies(answers: list[str], cosine: float) -> dict[str, Any]:
    """The numbers of `analogies` for three answers, of which x is expected."""
    asked = [
        {"question": "a − b + c", "expected": "x", "answers": [said, "y"], "cosines": [0.8, 0.5]}
        for said in answers
    ]
    return {
        "of_the_lecture": False,
        "asked": asked,
        "note": "" if cosine > 0.5 else "No vector: z.",
    }


def _orthogonal(inside: float, exponent: float) -> dict[str, Any]:
    """The numbers of `orthogonal` for a set of which so much is in the range."""
    return {
        "degrees": 1.0, "written_dimension": 16, "written": 144, "written_sampled": 144,
        "inside_random": 0.7, "inside_written": inside, "fitted_dimensions": [16],
        "pushed_apart": [], "written_down": [144], "bound": [150], "log10_exp": [exponent],
    }  # fmt: skip


def _similarity(near: float, far: float, borders: float) -> dict[str, Any]:
    """The numbers of `similarity` for these mean cosines."""
    return {
        "by_distance": [near, 0.0, far], "all_pairs": 0.0, "far_borders": borders,
        "far_others": 0.0, "far_from": 2, "farthest_pairs": 2,
    }  # fmt: skip


def _layers(least: float, word: str) -> dict[str, Any]:
    """The numbers of `layers` for a word whose least cosine elsewhere is this at the top."""
    near = {"cosine": 0.9, "word": word, "sentence": f"the [{word}]"}
    return {
        "word": "bank", "nearest": [[near], [near]], "elsewhere_least": [1.0, least],
        "elsewhere_largest": [1.0, 0.9], "contexts": 12, "words": 90,
        "cosine_its_embedding": [1.0, 0.4],
        "cosine_the_word_elsewhere": [1.0, 0.7],
    }  # fmt: skip


def _embedding(without: float, row: float) -> dict[str, Any]:
    """The numbers of `embedding` for a translation with this probability without the factor."""
    return {
        "root": 16.0, "dim": 256, "lengths": [[row], [16 * row], [11.3]],
        "factors": [1.0, 16.0, 256.0], "probability": [without, 0.9, 0.0],
        "probability_length_kept": [without, 0.9, 0.3],
    }  # fmt: skip


OPPOSITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "onehot": (_onehot(0.0), _onehot(0.5)),
    "inputs": (_table([0.02, 0.98]), {**_table([0.0, 0.0]), "kind": "table"}),
    "analogies": (
        _analogies(["x", "x"], 0.9),
        {**_analogies(["z", "y"], 0.1), "of_the_lecture": True, "mother_father": 0.1,
         "by_chance": 0.1},
    ),
    "orthogonal": (_orthogonal(1.0, 31.0), _orthogonal(0.7, 1.0)),
    "similarity": (_similarity(0.5, 0.8, 0.4), _similarity(0.02, 0.0, 0.0)),
    "layers": (_layers(0.3, "bank"), _layers(0.85, "king")),
    "embedding": (_embedding(0.01, 1.2), _embedding(0.88, 12.0)),
}  # fmt: skip
SHUFFLED: dict[str, dict[str, Any]] = {
    "embedding": {"model": "tiny/translate"},
}
