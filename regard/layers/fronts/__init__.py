"""Fronts: what turns input into vectors."""
