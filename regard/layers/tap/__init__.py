"""Recording and editing what passes between layers."""
