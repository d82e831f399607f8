"""Generators of pairs for multi-task models: summaries, and yes/no questions."""
