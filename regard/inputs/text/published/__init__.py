"""Reading the tokenizers of published models."""
