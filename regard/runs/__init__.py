"""A recipe or a place -> a model that can be used: load, start, train, evaluate, list."""
