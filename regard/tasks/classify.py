"""Classification of texts or pairs of texts: examples with a class -> loss, accuracy, classes.

The hidden state of a text's first token, through the pooler, gives the logits of its classes.

`regard/tasks/classify_images.py` has the same for images.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.text.annotations import LabelledText
from regard.data.text.windows import LabelledRow, OnShare, evaluation
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.base_task import loss_unit
from regard.tasks.labelled_task import LabelledTask, class_loss, label_indices
from regard.tasks.measures.accuracy import Measures, class_scores


class Classify(LabelledTask[LabelledText]):
    """Text classification: training, evaluation and prediction."""

    noun = "training texts"
    scored = "texts"
    form = "classify"
    example_command = 'classify {} "A joy from start to end."'
    effect = loss_unit("text")
    unit = "examples"

    def rows(
        self, examples: Sequence[LabelledText], labels: Sequence[str], longest: int
    ) -> list[LabelledRow]:
        """One row per text, truncated to `longest` tokens; its target is the index of its class."""
        numbers = label_indices(labels, [example.label for example in examples])
        return [
            LabelledRow(text.values, list(text.types), [number])
            for text, number in zip(self._read_examples(examples, longest), numbers, strict=True)
        ]

    def truncated(self, model: Encoder, examples: Sequence[LabelledText]) -> int:
        """The number of texts that are longer than the model reads."""
        encoded = self._read_examples(examples, model.config.max_length)
        return sum(text.cut > 0 for text in encoded)

    def _read_examples(self, examples: Sequence[LabelledText], longest: int) -> list[Encoded]:
        """Encodes the texts of examples, each truncated to the length of a row."""
        pairs = [(example.text, example.pair) for example in examples]
        return self.tokenizer.read(pairs, self.max_row_tokens(longest))

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of texts in a batch: each has one class."""
        return len(batch.index)

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the classes with label smoothing, summed over the texts: a scalar."""
        return class_loss(model, batch, self.options.smoothing)

    def measure(
        self, model: Encoder, examples: Sequence[LabelledText], on_progress: OnShare | None = None
    ) -> Measures:
        """Mean loss (without smoothing), accuracy and macro-averaged F1, and scores per class."""
        model.require_head("classes")
        classes = model.config.head.classes
        rows = self.rows(examples, classes, model.config.max_length)
        total, predicted = 0.0, [""] * len(rows)
        with evaluating(model):
            for rows_of_batch in evaluation(rows, self.options.batch_tokens, on_progress):
                batch = rows_of_batch.to(model.device)
                logits = model.classify(batch.source)  # (texts, classes)
                total += float(F.cross_entropy(logits, batch.targets.ids, reduction="sum"))
                for index, best in zip(batch.index, logits.argmax(1).tolist(), strict=True):
                    predicted[index] = classes[best]
        scores = class_scores([example.label for example in examples], predicted, classes)
        return scores.with_loss(total / max(1, len(rows)))
