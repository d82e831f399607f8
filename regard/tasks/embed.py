"""Vectors of texts from the hidden states of an encoder; for prediction only, not for training."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.data.input import Ragged
from regard.errors import InputError
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.entries import TASKS
from regard.tasks.head_batches import HeadBatch, in_batches, of_texts
from regard.tasks.pictures import ClassifyPictures
from regard.tasks.plain_text import ReadsText
from regard.tasks.reader import Reader, vectors_of
from regard.tasks.task import Prepared, Settings
from regard.tokens import Vocabulary


class Embed(ReadsText, Reader):
    """The task of an encoder without an output head: a vector for each text."""

    effect = "how far the vector of a text moves without the head: 1 - cosine"

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Any) -> Any:
        """Builds the task for a model that reads texts or images."""
        if settings.model.reads == "images":
            return ClassifyPictures(vocabulary)
        return super().for_trained_model(settings, vocabulary)

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Raises an error, because this task cannot be trained."""
        del vocabulary
        others = ", ".join(name for name in TASKS if name != settings.task)
        raise InputError(f"task: {settings.task}", got="a recipe to train", expected=others)

    def head_batches(self, model: Encoder, items: Any) -> list[HeadBatch]:
        """Batches of texts, given as such or as ids, on which heads are measured.

        The loss of a model without a head is how far it moves the vectors of the texts.
        """
        found = []
        for some in in_batches(self.id_rows(model, items, self.max_text_tokens(model))):
            texts = Ragged.of([self.tokenizer.template(ids) for ids in some]).to(model.device)
            with evaluating(model):
                usual = vectors_of(model, texts, pool="mean", normalise=True)
            found.append(of_texts(model, texts, partial(_moved, texts, usual), len(some)))
        return found


def _moved(texts: Ragged, usual: Tensor, model: Encoder) -> Tensor:
    """The distance 1 - cosine of each text's vector to that of the full model, summed."""
    vectors = vectors_of(model, texts, pool="mean", normalise=True)
    return (1 - (vectors * usual).sum(1)).sum()
