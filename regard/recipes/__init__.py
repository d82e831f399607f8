"""Recipes: typed YAML files with all settings of a run."""
