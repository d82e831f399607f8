"""The table of tasks, by the name that a recipe's `task` gives.

This file does not import torch, so that `regard --help` starts quickly.
"""

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

EVERY_TASK: dict[Reads, tuple[str, ...]] = {
    "text": ("words", "look", "heads"),
    "images": ("look", "heads"),
}
"""The commands that work with a model of any task, by what the model reads."""


@dataclass(frozen=True)
class Entry:
    """One row of the table of tasks.

    Attributes:
        home: The import path of the task's class, imported on first use.
        shapes: The model shapes that can do the task.
        family: The default model family of a recipe for this task.
        verbs: What a model of this task can be asked to do; each is a method of the class.
        head: The config key of the output head that the task needs; empty if the logits over the
            vocabulary suffice.
        needs: The import path of a function that checks whether a vocabulary suits the task; empty
            if every vocabulary does.
        reads: The kinds of input that its models can read.
        contextual: Whether a model that writes can do it, too, if its vectors of tokens depend on
            both sides.
    """

    home: str
    shapes: tuple[Shape, ...]
    family: str
    verbs: tuple[Verb, ...] = ()
    head: str = ""
    needs: str = ""
    reads: tuple[Reads, ...] = ("text",)
    contextual: bool = False

    def fits(self, config: ModelConfig) -> bool:
        """Whether a model of this config can have the shape, input and head of the task."""
        if config.reads not in self.reads or (self.head and self.head not in config.HEADS):
            return False
        return any(shape in self.shapes for shape in config.shapes)

    @property
    def task_class(self) -> Any:
        """The task's class, imported from `home`."""
        return imported(self.home)

    def can_be_done_by(self, config: ModelConfig, vocabulary: Vocabulary | None) -> bool:
        """Whether a model trained for another task can do this one as well.

        It can if its shape and kind of input fit and it has the head (`head`) and the special
        tokens (`needs`) that this task asks for. A task that asks for neither is never offered,
        except that of vectors to a contextual model.
        """
        if not (self.head or self.needs):
            return self.contextual and config.contextual
        if not self.fits(config) or (self.head and not getattr(config, self.head, None)):
            return False
        return not self.needs or (vocabulary is not None and imported(self.needs)(vocabulary))


_WRITERS: tuple[Shape, ...] = ("encoder_decoder",)
_READERS: tuple[Shape, ...] = ("encoder",)
_BOTH: tuple[Reads, ...] = ("text", "images")

TASKS: dict[str, Entry] = {
    "translate": Entry("regard.tasks.translate.Translate", _WRITERS, "transformer", (TRANSLATE,)),
    "rewrite": Entry("regard.tasks.rewrite.Rewrite", _WRITERS, "t5", (TRANSLATE, GENERATE)),
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
        contextual=True,
    ),
}


def every_verb() -> dict[str, Verb]:
    """The verbs of all tasks, by name."""
    return {verb.name: verb for entry in TASKS.values() for verb in entry.verbs}


def verbs_of(
    task: str, config: ModelConfig, vocabulary: Vocabulary | None
) -> Iterator[tuple[str, str]]:
    """Yields the verbs of a model as (verb, task): first those of its own task, then of others.

    Args:
        task: The name of the task in the model's recipe.
        config: The model's config.
        vocabulary: The model's tokenizers; None if it has none.
    """
    seen = set[str]()
    for name in (task, *TASKS):
        if name == task or TASKS[name].can_be_done_by(config, vocabulary):
            for verb in TASKS[name].verbs:
                if verb.name not in seen:
                    yield verb.name, name
                seen.add(verb.name)
