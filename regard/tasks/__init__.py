"""Tasks: what a model is for."""

from __future__ import annotations

from regard.tasks.generate import Generate, Suggestion
from regard.tasks.reader import Filling, Labelled, Reader
from regard.tasks.task import Task
from regard.tasks.translate import Output, Translate

TASKS: dict[str, type[Translate] | type[Generate] | type[Reader]] = {
    "translate": Translate,
    "generate": Generate,
    "fill": Reader,
    "classify": Reader,
    "embed": Reader,
}
"""What a recipe's `task` can be."""

__all__ = [
    "TASKS",
    "Filling",
    "Generate",
    "Labelled",
    "Output",
    "Reader",
    "Suggestion",
    "Task",
    "Translate",
]
