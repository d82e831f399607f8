"""Metrics of predictions, and the reports of `regard eval`."""
