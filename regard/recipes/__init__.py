"""Recipes: typed YAML files with all settings of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import homes_of, lazy_getattr

if TYPE_CHECKING:
    from regard.recipes.recipe import Recipe as Recipe
    from regard.recipes.recipe import load as load
    from regard.recipes.shelf import shipped as shipped

_HOMES = homes_of(
    {
        "regard.recipes.recipe": "Recipe load",
        "regard.recipes.shelf": "shipped",
    }
)
__all__ = [*_HOMES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _HOMES)
