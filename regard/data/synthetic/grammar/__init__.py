"""A synchronous English-German grammar that generates pairs of sentences."""
