"""Estimates of what a model costs, before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.cost.plan import PAPER_TRAINING as PAPER_TRAINING
    from regard.cost.plan import paper_training_flops as paper_training_flops
    from regard.cost.sizes import PUBLISHED_MODELS as PUBLISHED_MODELS
    from regard.cost.sizes import SIZE_COLUMNS as SIZE_COLUMNS
    from regard.cost.sizes import compute_sizes as compute_sizes
    from regard.cost.sizes import dollars as dollars
    from regard.cost.sizes import format_sizes as format_sizes

_MODULES = modules_by_name(
    {
        "regard.cost.plan": "PAPER_TRAINING paper_training_flops",
        "regard.cost.sizes": "PUBLISHED_MODELS SIZE_COLUMNS compute_sizes dollars format_sizes",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
