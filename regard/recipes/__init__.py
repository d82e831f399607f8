"""Recipes: typed YAML files with all settings of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.recipes.recipe import Recipe as Recipe
    from regard.recipes.recipe import load as load
    from regard.recipes.shelf import shipped as shipped

_MODULES = modules_by_name(
    {
        "regard.recipes.recipe": "Recipe load",
        "regard.recipes.shelf": "shipped",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
