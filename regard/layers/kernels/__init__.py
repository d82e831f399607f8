"""Fast forms of single operations."""
