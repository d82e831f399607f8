"""Fast implementations of single operations."""
