"""The functions that compute and draw the figures, by topic."""
