"""Training: the loop, gradients, optimizers, logs and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.train.adam import Adam as Adam
    from regard.train.log import TrainingProgress as TrainingProgress

_MODULES = modules_by_name({"regard.train.adam": "Adam", "regard.train.log": "TrainingProgress"})
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
