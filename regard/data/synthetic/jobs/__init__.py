"""Generators of pairs for multi-task models: summaries, yes/no questions, what "it" stands for."""
