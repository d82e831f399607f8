"""Many tasks as text to text (T5): the source begins with a prefix that names the task.

With a prefix such as `translate to German: `, a model of several tasks is trained and used like a
translation model; `data.kind: mixture` weights the datasets in training.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.text.pairs import Pair
from regard.tasks.measures.rouge import mean_rouge
from regard.tasks.translate import Translate


class Rewrite(Translate):
    """Text-to-text tasks, trained like translation and also scored by ROUGE."""

    def rouge(self, pairs: Sequence[Pair], hypotheses: Sequence[str]) -> dict[str, float] | None:
        """The mean ROUGE-1, -2 and -L of the outputs, as for summaries, in percent."""
        return mean_rouge(hypotheses, [pair.references for pair in pairs])
