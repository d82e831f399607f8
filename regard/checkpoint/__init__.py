"""Checkpoints: folders whose files are verified by checksums."""
