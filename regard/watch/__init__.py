"""Record and edit the attention of any Hugging Face model.

A `transformers` model looks up its attention function by name in a public registry. `watch`
registers a function of ours under a new name; it calls the model's own function, so that the
output stays the same bit for bit, and computes the requested weights in addition.
"""

from __future__ import annotations

from regard.watch.seen import Seen, Step
from regard.watch.watching import Watch, watch

__all__ = ["Seen", "Step", "Watch", "watch"]
