"""Anyone's Hugging Face model -> what its attention looked at, and what it does when touched.

A `transformers` model looks its attention function up by name, in a public registry. `watch` puts
a name of ours there, behind which stands the model's own function; so the model runs as it did,
bit for bit, and what was asked for is computed beside it.
"""

from __future__ import annotations

from regard.watch.seen import Seen, Step
from regard.watch.watching import Watch, watch

__all__ = ["Seen", "Step", "Watch", "watch"]
