"""Runs: train a recipe, load a model by folder or name, evaluate it, list what there is."""
