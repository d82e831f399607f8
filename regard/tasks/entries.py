"""The tasks, by name: what a recipe's `task` can be. Light on purpose: it does not import torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.runtime.lazy import imported
from regard.tasks.verbs import (
    ANSWER,
    CLASSIFY,
    EMBED,
    FILL,
    GENERATE,
    RESTORE,
    SUGGEST,
    TAG,
    TRANSLATE,
    Verb,
)

if TYPE_CHECKING:
    from regard.models.config import ModelConfig, Reads, Shape
    from regard.tokens import Vocabulary

EVERY_MODEL = ("words", "look", "heads")
"""What any model can do, whatever it is for."""


@dataclass(frozen=True)
class Entry:
    """A task.

    Attributes:
        home: The class that asks a model of it, imported on use.
        shapes: The shapes of models that can do it.
        family: What a recipe's model is if it does not say.
        verbs: What a model can be asked for, each a method of the class.
        head: The key of a model's config that names the head it needs; none: the vocabulary's.
        needs: The function that tells whether a vocabulary has what it takes; none: any has.
        reads: What its models can read.
    """

    home: str
    shapes: tuple[Shape, ...]
    family: str
    verbs: tuple[Verb, ...] = ()
    head: str = ""
    needs: str = ""
    reads: tuple[Reads, ...] = ("text",)

    def fits(self, config: ModelConfig) -> bool:
        """Whether models of a config are of a shape, and read what it takes, to do it."""
        return config.shape in self.shapes and config.reads in self.reads

    @property
    def kind(self) -> Any:
        """The class at home."""
        return imported(self.home)

    def able(self, config: ModelConfig, vocabulary: Vocabulary | None) -> bool:
        """Whether a model can do it though it is for another, by a head or symbols that it has."""
        if not (self.head or self.needs):
            return False
        if not self.fits(config) or (self.head and not getattr(config, self.head, None)):
            return False
        return not self.needs or (vocabulary is not None and imported(self.needs)(vocabulary))


_WRITERS: tuple[Shape, ...] = ("encoder_decoder",)
_READERS: tuple[Shape, ...] = ("encoder",)
_BOTH: tuple[Reads, ...] = ("text", "images")

TASKS: dict[str, Entry] = {
    "translate": Entry("regard.tasks.translate.Translate", _WRITERS, "transformer", (TRANSLATE,)),
    "rewrite": Entry("regard.tasks.rewrite.Rewrite", _WRITERS, "t5", (TRANSLATE,)),
    "restore": Entry(
        "regard.tasks.restore.Restore",
        _WRITERS,
        "t5",
        (GENERATE, RESTORE),
        needs="regard.tokens.learn.has_sentinels",
    ),
    "generate": Entry("regard.tasks.generate.Generate", ("decoder",), "gpt", (GENERATE, SUGGEST)),
    "fill": Entry("regard.tasks.fill.Fill", _READERS, "bert", (EMBED, FILL), "masked"),
    "classify": Entry(
        "regard.tasks.classify.Classify",
        _READERS,
        "bert",
        (CLASSIFY, EMBED),
        "classes",
        reads=_BOTH,
    ),
    "tag": Entry("regard.tasks.tag.Tag", _READERS, "bert", (TAG, EMBED), "tags"),
    "answer": Entry("regard.tasks.answer.Answer", _READERS, "bert", (ANSWER, EMBED), "spans"),
    "embed": Entry(
        "regard.tasks.embed.Embed",
        (*_READERS, *_WRITERS, "decoder"),
        "bert",
        (EMBED,),
        reads=_BOTH,
    ),
}


def every_verb() -> dict[str, Verb]:
    """The verbs of all tasks, by name, each once."""
    return {verb.name: verb for entry in TASKS.values() for verb in entry.verbs}


def verbs_of(
    task: str, config: ModelConfig, vocabulary: Vocabulary | None
) -> Iterator[tuple[str, str]]:
    """The verbs of a model, each with the task that it is asked of: its own first.

    Args:
        task: As its recipe says.
        config: Of the model.
        vocabulary: Text <-> ids.
    """
    seen = set[str]()
    for name in (task, *TASKS):
        if name == task or TASKS[name].able(config, vocabulary):
            for verb in TASKS[name].verbs:
                if verb.name not in seen:
                    yield verb.name, name
                seen.add(verb.name)
