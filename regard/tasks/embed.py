"""Vectors of texts from the hidden states of an encoder; for prediction only, not for training."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks import plain_text
from regard.tasks.base_task import Prepared, Settings
from regard.tasks.classify_images import ClassifyImages
from regard.tasks.encoder_task import EncoderTask, vectors_of
from regard.tasks.head_batches import HeadBatch, in_batches, of_texts
from regard.tasks.specs import TASKS


def _refuse_training(task_class: Any, settings: Settings, processor: Any = None) -> Prepared:
    """Raises an error that lists the other tasks, because this one cannot be trained."""
    del task_class, processor
    other_tasks = ", ".join(name for name in TASKS if name != settings.task)
    raise InputError(f"task: {settings.task}", got="a recipe to train", expected=other_tasks)


class Embed(EncoderTask):
    """The task of an encoder without an output head: a vector for each text."""

    effect = "how far the vector of a text moves without the head: 1 - cosine"

    prepare = classmethod(_refuse_training)
    head_examples = plain_text.pieces

    def head_batches(self, model: Encoder, items: Any) -> list[HeadBatch]:
        """Batches of texts, given as such or as ids, on which heads are measured.

        The loss of a model without a head is how far it moves the vectors of the texts.
        """
        head_batches = []
        for rows in in_batches(plain_text.id_rows(self, model, items, self.max_text_tokens(model))):
            texts = Ragged.of([self.tokenizer.template(ids) for ids in rows]).to(model.device)
            with evaluating(model):
                vectors = vectors_of(model, texts, pool="mean", normalise=True)
            head_batches.append(of_texts(model, texts, partial(_shift, texts, vectors), len(rows)))
        return head_batches


class EmbedImages(ClassifyImages):
    """The task of a model of images without an output head: a vector for each image."""

    prepare = classmethod(_refuse_training)


def _shift(texts: Ragged, full_vectors: Tensor, model: Encoder) -> Tensor:
    """The distance 1 - cosine of each text's vector to that of the full model, summed."""
    vectors = vectors_of(model, texts, pool="mean", normalise=True)
    return (1 - (vectors * full_vectors).sum(1)).sum()
