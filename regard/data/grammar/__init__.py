"""An English-German grammar that makes pairs of sentences."""
