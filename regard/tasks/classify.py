"""Classification of texts or pairs of texts: examples with a class -> loss, accuracy, classes.

The hidden state of a text's first token, through the pooler, gives the logits of its classes.

For models that read images, `prepare` and `for_trained_model` return the task of
`regard/tasks/pictures.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.annotations import LabelledText
from regard.data.text.windows import LabelledRow, OnShare, evaluation
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.labelled import Supervised, class_loss, label_indices
from regard.tasks.measures.accuracy import Measures, class_scores
from regard.tasks.pictures import ClassifyPictures
from regard.tasks.reader import Text
from regard.tasks.task import Prepared, Settings, rise


class Classify(Supervised[LabelledText]):
    """Text classification: training, evaluation and prediction."""

    noun = "training texts"
    scored = "texts"
    form = "classify"
    example_command = 'classify {} "A joy from start to end."'
    effect = rise("text")
    unit = "examples"

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Any = None) -> Prepared:
        """Reads the examples of a recipe: images if its model reads images, else texts.

        Args:
            settings: The recipe.
            vocabulary: The vocabulary of a resumed run or of the pretrained model; None: learn one.
        """
        if settings.model.reads == "images":
            return ClassifyPictures.prepare(settings, vocabulary)
        return super().prepare(settings, vocabulary)

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Any) -> Any:
        """Builds the task for a trained model that reads texts or images."""
        if settings.model.reads == "images":
            return ClassifyPictures(vocabulary)
        return super().for_trained_model(settings, vocabulary)

    def rows(
        self, examples: Sequence[LabelledText], labels: Sequence[str], longest: int
    ) -> list[LabelledRow]:
        """One row per text, truncated to `longest` tokens; its target is the index of its class."""
        numbers = label_indices(labels, [example.label for example in examples])
        return [
            LabelledRow(read.ids, read.types, [number])
            for read, number in zip(self.read(_texts(examples), longest), numbers, strict=True)
        ]

    def truncated(self, model: Encoder, examples: Sequence[LabelledText]) -> int:
        """The number of texts that are longer than the model reads."""
        read = self.read(_texts(examples), model.config.max_length)
        return sum(text.left_out > 0 for text in read)

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of texts in a batch: each has one class."""
        return len(batch.index)

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the classes with label smoothing, summed over the texts: a scalar."""
        return class_loss(model, batch, self.options.smoothing)

    def measure(
        self,
        model: Encoder,
        examples: Sequence[LabelledText],
        on_progress: OnShare | None = None,
    ) -> Measures:
        """Mean loss (without smoothing), accuracy and macro-averaged F1, and scores per class."""
        model.require_head("classes")
        classes = model.config.classes
        rows = self.rows(examples, classes, model.config.max_length)
        total, found = 0.0, [""] * len(rows)
        with evaluating(model):
            for made in evaluation(rows, self.options.batch_tokens, on_progress):
                batch = made.to(model.device)
                logits = model.classify(batch.source)  # (texts, classes)
                total += float(F.cross_entropy(logits, batch.targets.ids, reduction="sum"))
                for place, best in zip(batch.index, logits.argmax(1).tolist(), strict=True):
                    found[place] = classes[best]
        scores = class_scores([example.label for example in examples], found, classes)
        overall = {"loss": total / max(1, len(rows)), **scores.overall}
        return Measures(overall, scores.by_label, scores.confusion)


def _texts(examples: Sequence[LabelledText]) -> list[Text]:
    """The text of each example, or its pair of texts."""
    return [
        example.text if example.pair is None else (example.text, example.pair)
        for example in examples
    ]
