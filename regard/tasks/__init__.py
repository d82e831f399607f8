"""Tasks: what models are trained for, how they are evaluated and used to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.tasks.answer import Answer as Answer
    from regard.tasks.classify import Classify as Classify
    from regard.tasks.fill import Fill as Fill
    from regard.tasks.fill import max_text_tokens as max_text_tokens
    from regard.tasks.fill import symbols_of as symbols_of
    from regard.tasks.generate import Generate as Generate
    from regard.tasks.generate import Suggestion as Suggestion
    from regard.tasks.labelled_task import ReadingOptions as ReadingOptions
    from regard.tasks.labelled_task import with_task_head as with_task_head
    from regard.tasks.measures.bleu import score_translations as score_translations
    from regard.tasks.measures.translation import pronoun_accuracy as pronoun_accuracy
    from regard.tasks.restore import Restore as Restore
    from regard.tasks.specs import TASKS as TASKS
    from regard.tasks.tag import Tag as Tag
    from regard.tasks.trace import Trace as Trace
    from regard.tasks.translate import Translate as Translate

_MODULES = modules_by_name(
    {
        "regard.tasks.answer": "Answer",
        "regard.tasks.classify": "Classify",
        "regard.tasks.fill": "Fill max_text_tokens symbols_of",
        "regard.tasks.generate": "Generate Suggestion",
        "regard.tasks.labelled_task": "ReadingOptions with_task_head",
        "regard.tasks.measures.bleu": "score_translations",
        "regard.tasks.measures.translation": "pronoun_accuracy",
        "regard.tasks.restore": "Restore",
        "regard.tasks.specs": "TASKS",
        "regard.tasks.tag": "Tag",
        "regard.tasks.trace": "Trace",
        "regard.tasks.translate": "Translate",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
