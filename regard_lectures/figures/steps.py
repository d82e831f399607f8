"""Figure of part 3: attention step by step, with all numbers of one word in one head of a model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from regard import Pipeline, load
from regard.draw import render, visible, write_file
from regard.errors import InputError
from regard.explain import Drawing, Numbers, Words, in_words
from regard.inputs import TextReader
from regard.recipes import shipped
from regard_lectures.limits import model_line
from regard_lectures.scene import Scene
from regard_lectures.scenes import scenes_of
from regard_lectures.slides import scene_slide, slides_page
from regard_lectures.steps import choose_site, record
from regard_lectures.strip import Heading, draw_scene, draw_strip, pages

LECTURE = "Thinking Machines"
"""The example text of the slides."""
CLEAR = 2.0
"""A token is called the one attended to most if it has this many times the mean of the others."""
MODELS = {
    "tiny/steps": LECTURE,
    "small/write": LECTURE,
    "small/translate": LECTURE,
    "tiny/translate": "The animal was tired.",
}
"""The default models, each with a text that it knows: the first one that is shipped, has the
requested part and knows the words is used."""


class Stepped(Drawing):
    """Attention step by step: an HTML page with one slide per step, pictures, and all numbers.

    Args:
        heading: The words of the figure, and its limits.
        scenes: The steps.
        numbers: All numbers, in a form that JSON can hold.
        step: The step to open at or to draw alone, from 1; 0 for all.
    """

    def __init__(self, heading: Heading, scenes: list[Scene], numbers: Numbers, step: int) -> None:
        self.name, self.numbers, self.heading, self.limits = "", numbers, heading, heading.limits
        self.title, self.caption = heading.words.title, heading.words.caption
        self.scenes, self.step = scenes, step
        self.details = " ".join(f"{scene.title}: {scene.explanation}" for scene in scenes)
        self.tables, self.paper = [], False

    @cached_property
    def figure(self) -> Figure:  # type: ignore[override]
        """The picture of all steps, or of the requested one; drawn on first use."""
        if self.step:
            return draw_scene(self.heading, self.scenes, self.step)
        return draw_strip(self.heading, self.scenes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a page (.html), pictures (.png, .svg, .pdf), or the numbers (.json).

        Raises:
            InputError: For another ending.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        ending = Path(path).suffix.lower()
        if ending == ".html":
            return write_file(path, self._page().encode())
        if ending == ".json":
            return write_file(path, json.dumps(self.numbers, ensure_ascii=False).encode())
        if ending == ".pdf" and not self.step:
            return write_file(path, pages(self.heading, self.scenes))
        return write_file(path, render(self.figure, ending))

    def _page(self) -> str:
        slides = [scene_slide(scene) for scene in self.scenes]
        return slides_page(self.title, f"{self.caption} {self.limits}", slides, self.step or 1)


def words_steps(numbers: Mapping[str, Any]) -> Words:
    """Which token the word attends to most, or that none gets clearly more than the others."""
    row, tokens = numbers["weights"][numbers["row"]], numbers["key_tokens"]
    allowed = [w for w, seen in zip(row, numbers["mask"][numbers["row"]], strict=True) if seen]
    word = visible(numbers.get("whole_word", numbers["word"]))
    best = max(range(len(row)), key=row.__getitem__)
    most = f"{row[best]:.2f}"
    title = f"“{word}” attends most to “{visible(tokens[best])}”: {most}"
    if len(allowed) == 1:
        title = f"“{word}” may attend to “{visible(tokens[best])}” only"
    elif row[best] < CLEAR * (sum(allowed) - row[best]) / (len(allowed) - 1):
        weights = f"{min(allowed):.2f} to {most}"
        title = f"“{word}” attends to {len(allowed)} tokens, to none clearly most: {weights}"
    caption = (
        f"Step by step: {in_words(numbers['layer'] + '.' + str(numbers['head']))} of "
        f"{numbers['model']}, on “{numbers['text']}”. {numbers['note']}"
    )
    return Words(title, caption.strip())


def steps(  # noqa: PLR0913 (each is something that a person may set)
    text: str | None,
    model: str,
    part: str,
    layer: int,
    head: int,
    word: str,
    target: str,
    step: str,
    matrices: str,
) -> Stepped:
    """Record one word in one head, from the layer's input x to its output."""
    pipeline, read, site = _opened(model, text, part, layer, head)
    task = pipeline.task.task_for(read)
    recorded = record(
        task,
        pipeline.model,
        read,
        site,
        head,
        word=word,
        decode=pipeline.decoding(),
        target=target or None,
    )
    scenes = scenes_of(recorded)
    number = _number(step, scenes)
    numbers = {
        "model": pipeline.name,
        "text": read,
        **recorded.to_json(matrices={"auto": None, "all": True, "none": False}[matrices]),
    }
    heading = Heading(words_steps(numbers), model_line(pipeline))
    return Stepped(heading, scenes, numbers, number)


def _number(step: str, scenes: list[Scene]) -> int:
    """The number of a step, from 1, given its name or number; 0 if none is given.

    Raises:
        InputError: If there is no such step.
    """
    keys = [scene.key for scene in scenes]
    if step in keys:
        return keys.index(step) + 1
    if not step or (step.isdecimal() and 1 <= int(step) <= len(keys)):
        return int(step or 0)
    raise InputError("step", got=step, expected=f"1 to {len(keys)}, or one of {', '.join(keys)}")


def _opened(
    model: str, text: str | None, part: str, layer: int, head: int
) -> tuple[Pipeline, str, str]:
    """The model (given, or the first shipped one that fits), the text, and the layer's name."""
    if text is not None:
        TextReader.check("--text", text)
    if model:
        pipeline, read = _readable(load(model), text)
        return pipeline, read, choose_site(pipeline.model, part, layer, head)
    failed: InputError = InputError("model", got="none", expected="a model's folder or name")
    for name in MODELS:
        if name not in shipped():
            continue
        try:
            pipeline, read = _readable(load(name), MODELS[name] if text is None else text)
            return pipeline, read, choose_site(pipeline.model, part, layer, head)
        except InputError as error:
            failed = error
    raise failed


def _readable(pipeline: Pipeline, text: str | None) -> tuple[Pipeline, str]:
    """The pipeline and a text whose words it knows: the given text, or an example.

    Raises:
        InputError: If it does not know all words of the text.
    """
    if text is not None:
        _check(pipeline, text)
        return pipeline, text
    for known in (LECTURE, *MODELS.values(), "the cat sat"):
        try:
            _check(pipeline, known)
        except InputError:
            continue
        return pipeline, known
    raise InputError(
        "show steps", got="no text", expected="words that the model knows", fix="add --text"
    )


def _check(pipeline: Pipeline, text: str) -> None:
    unknown = pipeline.vocabulary.source.unknown_words(text)
    if unknown:
        raise InputError(
            f"{pipeline.name} does not know",
            got=", ".join(unknown),
            expected="words of its vocabulary",
            fix="other words, or another model: model=MODEL",
        )
