"""Images -> pixels: opening files and preparing what a model reads."""
