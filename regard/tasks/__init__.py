"""Tasks: what models are trained for, how they are evaluated and used to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from regard.tasks.answer import Answer as Answer
    from regard.tasks.answer import FoundAnswer as FoundAnswer
    from regard.tasks.classify import Classify as Classify
    from regard.tasks.embed import Embed as Embed
    from regard.tasks.entries import TASKS as TASKS
    from regard.tasks.fill import Fill as Fill
    from regard.tasks.generate import Generate as Generate
    from regard.tasks.generate import Suggestion as Suggestion
    from regard.tasks.reader import Filling as Filling
    from regard.tasks.reader import Labelled as Labelled
    from regard.tasks.reader import Reader as Reader
    from regard.tasks.restore import Restore as Restore
    from regard.tasks.restore import Restored as Restored
    from regard.tasks.rewrite import Rewrite as Rewrite
    from regard.tasks.tag import Tag as Tag
    from regard.tasks.tag import Tagged as Tagged
    from regard.tasks.task import Task as Task
    from regard.tasks.translate import Translate as Translate
    from regard.tasks.writer import Output as Output

_HOMES = {
    "Answer": "answer",
    "Classify": "classify",
    "Embed": "embed",
    "Fill": "fill",
    "Filling": "reader",
    "FoundAnswer": "answer",
    "Generate": "generate",
    "Labelled": "reader",
    "Output": "writer",
    "Reader": "reader",
    "Restore": "restore",
    "Restored": "restore",
    "Rewrite": "rewrite",
    "Suggestion": "generate",
    "TASKS": "entries",
    "Tag": "tag",
    "Tagged": "tag",
    "Task": "task",
    "Translate": "translate",
}
__getattr__ = lazy_getattr(
    __name__, {name: f"regard.tasks.{home}" for name, home in _HOMES.items()}
)
