"""Tasks: what a model is for."""

from __future__ import annotations

from regard.tasks.answer import Answer, FoundAnswer
from regard.tasks.classify import Classify
from regard.tasks.fill import Fill
from regard.tasks.generate import Generate, Suggestion
from regard.tasks.reader import Filling, Labelled, Reader
from regard.tasks.restore import Restore, Restored
from regard.tasks.rewrite import Rewrite
from regard.tasks.tag import Tag, Tagged
from regard.tasks.task import Task
from regard.tasks.translate import Output, Translate

TASKS: dict[str, type[Translate] | type[Generate] | type[Reader] | type[Restore]] = {
    "translate": Translate,
    "rewrite": Translate,
    "restore": Restore,
    "generate": Generate,
    "fill": Reader,
    "classify": Classify,
    "tag": Tag,
    "answer": Answer,
    "embed": Reader,
}
"""What a recipe's `task` can be, and what asks a model of it."""

__all__ = [
    "TASKS",
    "Answer",
    "Classify",
    "Fill",
    "Filling",
    "FoundAnswer",
    "Generate",
    "Labelled",
    "Output",
    "Reader",
    "Restore",
    "Restored",
    "Rewrite",
    "Suggestion",
    "Tag",
    "Tagged",
    "Task",
    "Translate",
]
