"""Estimates of what a model costs, before it is built."""
