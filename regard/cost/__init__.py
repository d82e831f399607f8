"""What a model costs, before it is built."""
