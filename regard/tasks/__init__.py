"""Tasks: what a model is for."""

from __future__ import annotations

from regard.tasks.task import Task
from regard.tasks.translate import Output, Translate

TASKS = {"translate": Translate}

__all__ = ["TASKS", "Output", "Task", "Translate"]
