"""Vectors of texts, which any encoder gives: a task to ask for, not to train on."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.data.input import Ragged
from regard.errors import InputError
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.entries import TASKS
from regard.tasks.passages import Passages, of_texts, some_at_a_time
from regard.tasks.pictures import ClassifyPictures
from regard.tasks.plain_text import ReadsText
from regard.tasks.reader import Reader, vectors_of
from regard.tasks.task import Prepared, Settings
from regard.tokens import Vocabulary


class Embed(ReadsText, Reader):
    """What an encoder without a head of its own is for."""

    effect = "how far the vector of a text moves without the head: 1 - cosine"

    @classmethod
    def ready(cls, settings: Settings, vocabulary: Any) -> Any:
        """The task of a model, of texts or of images."""
        if settings.model.reads == "images":
            return ClassifyPictures(vocabulary)
        return super().ready(settings, vocabulary)

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Refuses: there is nothing to learn."""
        del vocabulary
        others = ", ".join(name for name in TASKS if name != settings.task)
        raise InputError(f"task: {settings.task}", got="a recipe to train", expected=others)

    def passages(self, model: Encoder, items: Any) -> list[Passages]:
        """Texts, or their ids, whose vectors should stay where they are, to look at heads."""
        found = []
        for some in some_at_a_time(self.id_rows(model, items, self.room_in(model))):
            texts = Ragged.of([self.tokenizer.template(ids) for ids in some]).to(model.device)
            with evaluating(model):
                usual = vectors_of(model, texts, pool="mean", normalise=True)
            found.append(of_texts(model, texts, partial(_moved, texts, usual), len(some)))
        return found


def _moved(texts: Ragged, usual: Tensor, model: Encoder) -> Tensor:
    """How far the vectors of texts are from the usual ones: 1 - cosine, a sum."""
    vectors = vectors_of(model, texts, pool="mean", normalise=True)
    return (1 - (vectors * usual).sum(1)).sum()
