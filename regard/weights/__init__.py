"""Other people's checkpoints <-> ours: one table of names a family, read in both directions."""
