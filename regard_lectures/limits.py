"""One line for a picture: which model it is computed from, trained on what, for how long."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from regard.draw import short
from regard.recipes import card_of, shipped

if TYPE_CHECKING:
    from regard import Pipeline

COMPUTED = "Computed from the numbers shown: no model, no training."
"""The limits of a figure that is arithmetic."""
DATA_KEYS = ("train", "files", "file", "folder")
"""Keys of a recipe's data that name files."""


def model_line(model: str | Pipeline) -> str:
    """The limits of a figure that is computed from a model.

    Args:
        model: The name of a shipped model or of word vectors, or a loaded model of any origin.

    Example:
        >>> model_line("tiny/translate")
        'tiny/translate: 0.7M parameters, 1,600 steps on 60,000 pairs of a small grammar.'
    """
    name = model if isinstance(model, str) else model.name
    entries = shipped()
    if name in entries:
        return f"{name}: {card_of(entries[name]).summary}."
    label = "/".join(PurePath(name).parts[-2:])  # the end of a long path says most
    if isinstance(model, str):
        return f"{label}: how it was trained is not stated."
    parameters = short(model.parameters)
    data: Any = model.recipe.data
    if data.kind == "none":
        return f"{label}: {parameters} parameters; how it was trained is not stated."
    files = [str(getattr(data, key)) for key in DATA_KEYS if getattr(data, key, None)]
    source = PurePath(files[0]).name if files else f"data of kind {data.kind}"
    return f"{label}: {parameters} parameters, {model.recipe.train.steps:,} steps on {source}."
