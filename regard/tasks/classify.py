"""Classification: texts or pairs of them, each with a class -> loss, accuracy, classes.

A model that reads images has the same task in another class, `regard/tasks/pictures.py`, which
`prepare` and `ready` hand over to.

The vector of a text's first token, through the pooler, gives the logits of its classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.annotations import LabelledText
from regard.data.text.windows import Row, evaluation
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.labelled import Supervised, numbered
from regard.tasks.measures.accuracy import Measures, class_scores
from regard.tasks.pictures import ClassifyPictures
from regard.tasks.task import Prepared, Settings, rise


class Classify(Supervised[LabelledText]):
    """Classes of texts as a task to train on and a way to predict."""

    noun = "training texts"
    form = "classify"
    tried = 'classify {} "A joy from start to end."'
    effect = rise("text")
    unit = "examples"

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Any = None) -> Prepared:
        """Reads the examples that a recipe names: texts, or images if its model reads them."""
        if settings.model.reads == "images":
            return ClassifyPictures.prepare(settings, vocabulary)
        return super().prepare(settings, vocabulary)

    @classmethod
    def ready(cls, settings: Settings, vocabulary: Any) -> Any:
        """The task of a trained model, of texts or of images."""
        if settings.model.reads == "images":
            return ClassifyPictures(vocabulary)
        return super().ready(settings, vocabulary)

    def rows(
        self, examples: Sequence[LabelledText], labels: Sequence[str], longest: int
    ) -> list[Row]:
        """One row a text, cut where it is too long; its target is the number of its class."""
        numbers = numbered(labels, [example.label for example in examples])
        texts = [
            example.text if example.pair is None else (example.text, example.pair)
            for example in examples
        ]
        return [
            Row(read.ids, read.types, [number])
            for read, number in zip(self.read(texts, longest), numbers, strict=True)
        ]

    def targets(self, batch: Batch[Ragged]) -> int:
        """The texts of a batch: each has one class."""
        return len(batch.index)

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the classes, a sum over the texts."""
        return F.cross_entropy(
            model.classify(batch.source),  # (texts, classes)
            batch.wanted.ids,
            reduction="sum",
            label_smoothing=self.options.smoothing,
        )

    def measure(self, model: Encoder, examples: Sequence[LabelledText]) -> Measures:
        """Mean loss (no smoothing), accuracy, the mean of the classes' F1; and each class's."""
        model.need("classes")
        classes = model.config.classes
        rows = self.rows(examples, classes, model.config.max_length)
        total, found = 0.0, [""] * len(rows)
        with evaluating(model):
            for made in evaluation(rows, self.options.batch_tokens):
                batch = made.to(model.device)
                logits = model.classify(batch.source)  # (texts, classes)
                total += float(F.cross_entropy(logits, batch.wanted.ids, reduction="sum"))
                for place, best in zip(batch.index, logits.argmax(1).tolist(), strict=True):
                    found[place] = classes[best]
        scores = class_scores([example.label for example in examples], found, classes)
        return Measures({"loss": total / max(1, len(rows)), **scores.overall}, scores.by_label)
