"""Tokenizers of published models."""
