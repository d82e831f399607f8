"""Rows of tables -> a model of numbers."""
