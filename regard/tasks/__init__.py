"""Tasks: what models are trained for, how they are evaluated and used to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from regard.tasks.answer import Answer as Answer
    from regard.tasks.classify import Classify as Classify
    from regard.tasks.fill import Fill as Fill
    from regard.tasks.generate import Generate as Generate
    from regard.tasks.restore import Restore as Restore
    from regard.tasks.specs import TASKS as TASKS
    from regard.tasks.tag import Tag as Tag
    from regard.tasks.translate import Translate as Translate

_HOMES = {
    "Answer": "answer",
    "Classify": "classify",
    "Fill": "fill",
    "Generate": "generate",
    "Restore": "restore",
    "TASKS": "specs",
    "Tag": "tag",
    "Translate": "translate",
}
__getattr__ = lazy_getattr(
    __name__, {name: f"regard.tasks.{home}" for name, home in _HOMES.items()}
)
