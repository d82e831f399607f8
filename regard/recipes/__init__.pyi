from regard.recipes.recipe import Recipe as Recipe
from regard.recipes.recipe import load as load
from regard.recipes.shelf import card_of as card_of
from regard.recipes.shelf import shipped as shipped

__all__: list[str]
