"""The table of tasks, by the name that a recipe's `task` gives.

This file does not import torch, so that `regard --help` starts quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.runtime.lazy import imported
from regard.tasks.verbs import (
    ANSWER,
    CAPTION,
    CLASSIFY,
    EMBED,
    FILL,
    GENERATE,
    PREDICT,
    RESTORE,
    SUGGEST,
    TAG,
    TRANSLATE,
    Verb,
)

if TYPE_CHECKING:
    from regard.inputs.text import Vocabulary
    from regard.models.config import ModelConfig


@dataclass(frozen=True)
class TaskSpec:
    """One row of the table of tasks.

    Attributes:
        homes: The import path of the task's class, for each modality that its models can read;
            imported on first use.
        ability: What a model must be able to do (`ModelConfig.abilities`); empty if the head that
            the task adds suffices.
        family: The default model family of a recipe for this task.
        verbs: What a model of this task can be asked to do; each is a method of the class.
        head: The config key of the output head that the task needs; empty if the logits over the
            vocabulary suffice.
        needs: The import path of a function that checks whether a vocabulary suits the task; empty
            if every vocabulary does.
        contextual: Whether a model that writes can do it, too, if its vectors of tokens depend on
            both sides.
    """

    homes: Mapping[str, str]
    ability: str
    family: str
    verbs: tuple[Verb, ...] = ()
    head: str = ""
    needs: str = ""
    contextual: bool = False

    def fits(self, config: ModelConfig) -> bool:
        """Whether a model of this config reads what the task is about, and can have its head."""
        if config.reads not in self.homes or (self.head and self.head not in config.HEADS):
            return False
        return not self.ability or self.ability in config.abilities

    def class_for(self, config: ModelConfig) -> Any:
        """The task's class for what the model reads."""
        return imported(self.homes[config.reads])

    @property
    def first_class(self) -> Any:
        """The task's class for the first modality: what is the same for all."""
        return imported(next(iter(self.homes.values())))

    def can_be_done_by(self, config: ModelConfig, vocabulary: Vocabulary | None) -> bool:
        """Whether a model trained for another task can do this one as well.

        It can if its abilities and kind of input fit and it has the head (`head`) and the special
        tokens (`needs`) that this task asks for. A task that asks for neither is never offered,
        except that of vectors to a contextual model.
        """
        if not (self.head or self.needs):
            return self.contextual and config.bidirectional
        if not self.fits(config) or (self.head and not getattr(config, self.head, None)):
            return False
        return not self.needs or (vocabulary is not None and imported(self.needs)(vocabulary))


TASKS: dict[str, TaskSpec] = {
    "translate": TaskSpec(
        {"text": "regard.tasks.translate.Translate"}, "writes", "transformer", (TRANSLATE,)
    ),
    "rewrite": TaskSpec(
        {"text": "regard.tasks.rewrite.Rewrite"}, "writes", "t5", (TRANSLATE, GENERATE)
    ),
    "restore": TaskSpec(
        {"text": "regard.tasks.restore.Restore"},
        "writes",
        "t5",
        (GENERATE, RESTORE),
        needs="regard.inputs.text.learn.has_sentinels",
    ),
    "generate": TaskSpec(
        {"text": "regard.tasks.generate.Generate"}, "continues", "gpt", (GENERATE, SUGGEST)
    ),
    "fill": TaskSpec({"text": "regard.tasks.fill.Fill"}, "", "bert", (EMBED, FILL), "masked"),
    "classify": TaskSpec(
        {
            "text": "regard.tasks.classify.Classify",
            "images": "regard.tasks.classify_images.ClassifyImages",
        },
        "",
        "bert",
        (CLASSIFY, EMBED),
        "classes",
    ),
    "tag": TaskSpec({"text": "regard.tasks.tag.Tag"}, "", "bert", (TAG, EMBED), "tags"),
    "answer": TaskSpec(
        {"text": "regard.tasks.answer.Answer"}, "", "bert", (ANSWER, EMBED), "spans"
    ),
    "predict": TaskSpec(
        {
            "images": "regard.tasks.predict_images.PredictImages",
            "table": "regard.tasks.predict_table.PredictTable",
        },
        "",
        "resnet",
        (PREDICT,),
        "numbers",
    ),
    "caption": TaskSpec(
        {"images": "regard.tasks.caption.Caption"}, "writes", "captioner", (CAPTION,)
    ),
    "embed": TaskSpec(
        {"text": "regard.tasks.embed.Embed", "images": "regard.tasks.embed.EmbedImages"},
        "vectors",
        "bert",
        (EMBED,),
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
    yielded = set[str]()
    for name in (task, *TASKS):
        if name == task or TASKS[name].can_be_done_by(config, vocabulary):
            for verb in TASKS[name].verbs:
                if verb.name not in yielded:
                    yield verb.name, name
                yielded.add(verb.name)
