"""Many tasks as text to text: what to do with a source stands before it (T5).

Such as `translate to German: `. So a model of several tasks is trained and asked like a translator;
`data.kind: mixture` gives each set of pairs its share of the training.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.text.pairs import Pair
from regard.tasks.measures.rouge import mean_rouge
from regard.tasks.translate import Translate


class Rewrite(Translate):
    """Texts made into others, as they ask for."""

    def rouge(self, pairs: Sequence[Pair], hypotheses: Sequence[str]) -> dict[str, float] | None:
        """ROUGE-1, -2 and -L, by which summaries are scored."""
        return mean_rouge(hypotheses, [pair.references for pair in pairs])
