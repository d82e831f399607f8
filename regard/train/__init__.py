"""Training: a loss becomes better weights, and nothing is lost on the way."""
