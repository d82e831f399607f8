"""Recipes: typed YAML files that say everything a run depends on."""
