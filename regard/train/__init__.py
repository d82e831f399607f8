"""Training: the loop, gradients, optimizers, logs and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import homes_of, lazy_getattr

if TYPE_CHECKING:
    from regard.train.adam import Adam as Adam
    from regard.train.log import TrainingProgress as TrainingProgress

_HOMES = homes_of(
    {
        "regard.train.adam": "Adam",
        "regard.train.log": "TrainingProgress",
    }
)
__all__ = [*_HOMES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _HOMES)
