"""The gallery: the lectures' sentences, each with a model and what it shows.

A scene (`scenes_translated.py`, `scenes_pronoun.py`, `scenes_written.py`) is a picture of one
sentence in one model, and a claim that is measured there: it holds, or the picture says that it
does not. The verdicts are in `scene_words.py`. All scenes together are one page that the arrow keys
step through.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_pdf import PdfPages

from regard import Pipeline, load
from regard.draw import (
    GREEN,
    INK,
    MUTED,
    ORANGE,
    SMALLEST,
    TEXT,
    points,
    render,
    shorten,
    style,
    text_width,
    write_file,
)
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, escaped
from regard.inputs import TextReader
from regard.recipes import shipped
from regard_lectures.figures import scenes_pronoun, scenes_translated, scenes_written
from regard_lectures.figures.scene_words import VERDICTS, words_gallery
from regard_lectures.figures.scenes_pronoun import TEACHER
from regard_lectures.slides import Slide, slides_page
from regard_lectures.tries import listed

__all__ = ["words_gallery"]
MARKS = {True: "✓", False: "✗", None: "·"}
"""What stands before a scene whose claim holds, does not hold, or that claims nothing."""
PAIR = "The doctor said that / The nurse said that"
MODELS = {"translate": ("small/translate", "tiny/translate"), "suggest": ("small/write",)}
"""The shelf's models for each verb, the best first."""


@dataclass(frozen=True)
class Scene:
    """A sentence of the lectures, and how it is shown.

    Attributes:
        sentence: The sentence.
        verb: What the model must be able to do.
        draw: The function that draws it.
    """

    sentence: str
    verb: str
    draw: Callable[[Pipeline, str], Drawing]


SCENES = {
    "dogs": Scene("The dog chased another dog.", "translate", scenes_translated.dogs),
    "her": Scene(TEACHER, "translate", scenes_pronoun.her),
    "gender": Scene(TEACHER, "translate", scenes_pronoun.gender),
    "walk": Scene("I walk my dog every day.", "translate", scenes_translated.walk),
    "once": Scene("Once", "suggest", scenes_written.once),
    "hello": Scene("Hello, how are", "suggest", scenes_written.hello),
    "nurse": Scene(PAIR, "suggest", scenes_written.nurse),
}


@dataclass(frozen=True)
class Shown:
    """The result of a scene.

    Attributes:
        name: The name of the scene.
        sentence: The sentence that was read.
        model: The name of the model; empty if none could be used.
        drawing: The picture; None if it could not be drawn.
        says: The verdict in a line, or why there is no picture.
    """

    name: str
    sentence: str
    model: str
    drawing: Drawing | None
    says: str

    @property
    def mark(self) -> str:
        """✓ if the claim holds, ✗ if not, · if nothing is claimed, – if there is no picture."""
        if self.drawing is None:
            return "–"
        return MARKS[VERDICTS[self.name](self.drawing.numbers).holds]


class Gallery(Drawing):
    """All scenes: an overview as a picture, a page with one slide per scene, a PDF of all.

    Args:
        board: The overview.
        scenes: The scenes.
    """

    def __init__(self, board: Board, scenes: Sequence[Shown]) -> None:
        super().__init__(board, _numbers_of(scenes))
        self.scenes = scenes

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page (.html), the overview (.png, .svg), or all pictures (.pdf).

        Raises:
            InputError: For another ending.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        if Path(path).suffix.lower() != ".pdf" or self.paper:
            return super().save(path)
        buffer = io.BytesIO()
        figures = [self.figure, *(scene.drawing.figure for scene in self.scenes if scene.drawing)]
        with style(), PdfPages(buffer, metadata={"CreationDate": None}) as pdf:
            for figure in figures:
                pdf.savefig(figure)
        return write_file(path, buffer.getvalue())

    def _page(self) -> str:
        slides = [Slide("all", _picture(self))]
        for scene in self.scenes:
            head = f"<h2>{escaped(scene.sentence)}<small>{escaped(scene.model)}</small></h2>"
            if scene.drawing is None:
                body = f'<p class="quiet">{escaped(scene.says)}</p>'
            else:
                body = _picture(scene.drawing)
            slides.append(Slide(scene.name, f"{head}\n{body}"))
        return slides_page("Gallery", "The lectures' sentences, and what models show", slides)


def _numbers_of(scenes: Sequence[Shown]) -> Numbers:
    """The numbers of all scenes; of one that is not drawn, why not."""
    return {
        scene.name: {
            "sentence": scene.sentence,
            "model": scene.model,
            **(scene.drawing.numbers if scene.drawing else {"holds": None, "says": scene.says}),
        }
        for scene in scenes
    }


def _picture(drawing: Drawing) -> str:
    data = base64.b64encode(render(drawing.figure, ".svg")).decode()
    said = escaped(drawing.caption)
    return f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{said}"></figure>'


def gallery(text: str | None, scene: str, model: str) -> Drawing:
    """Draw one scene, or all of them."""
    models = _models(model)
    if scene:
        return _draw(scene, text, models)
    scenes = [_shown(name, text, models) for name in SCENES]
    return _overview(scenes)


def _models(name: str) -> dict[str, Pipeline]:
    """A model for each verb: the given one if it can, else the first that is shipped."""
    given = load(name, device="cpu") if name else None
    models: dict[str, Pipeline] = {}
    for verb, names in MODELS.items():
        shipped_name = next((candidate for candidate in names if candidate in shipped()), None)
        if given is not None and verb in given.verbs:
            models[verb] = given
        elif given is None and shipped_name is not None:
            models[verb] = load(shipped_name, device="cpu")
    if not models:
        raise InputError(
            f"show gallery: {name}", got="no such verb", expected="a model that can translate, "
            "or suggest the next word",
        )  # fmt: skip
    return models


def _draw(name: str, text: str | None, models: dict[str, Pipeline]) -> Drawing:
    """One scene.

    Raises:
        InputError: If its model is missing, or the text is not for this scene.
    """
    scene = SCENES[name]
    if scene.verb not in models:
        ours, given = MODELS[scene.verb][0], [pipeline.name for pipeline in models.values()]
        raise InputError(
            f"scene {name}",
            got=f"{given[0]}, which cannot {scene.verb}" if given else f"no {ours} on the shelf",
            expected=f"a model that can {scene.verb}",
            fix=f"model={ours}" if ours in shipped() else "name one of your own: model=MODEL",
        )
    pipeline = models[scene.verb]
    read = scene.sentence if text is None else text
    TextReader.check("--text", read)
    pipeline.task.task_for(read).read(pipeline.model, [read], allow_unknown=False)
    return scene.draw(pipeline, read)


def _shown(name: str, text: str | None, models: dict[str, Pipeline]) -> Shown:
    """One scene of all: if it cannot be drawn, it says why."""
    sentence = SCENES[name].sentence if text is None else text
    try:
        drawing = _draw(name, text, models)
    except InputError as error:
        return Shown(name, sentence, "", None, str(error).replace("\n", "; "))
    model = models[SCENES[name].verb].name
    return Shown(name, sentence, model, drawing, drawing.title)


def _overview(scenes: Sequence[Shown]) -> Gallery:
    """A sheet with each sentence, its model, and what the picture shows."""
    details = " ".join(scene.drawing.details for scene in scenes if scene.drawing)
    models = list(dict.fromkeys(scene.model for scene in scenes if scene.model))
    limits = f"Computed by {listed(models)}; regard ls MODEL says on what it was trained."
    with Board(words_gallery(_numbers_of(scenes)), (1,), details, limits=limits) as board:
        left, top, width, height = board.panel_box(0)
        axes = board.sheet.axes(left, top, width, height)
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        pitch, small = height / len(scenes), SMALLEST
        colours = {"✓": GREEN, "✗": ORANGE, "·": MUTED, "–": MUTED}
        for number, scene in enumerate(scenes):
            y = number * pitch
            said = shorten(scene.says, width - 40, small)
            free_width = width - 180 - text_width(scene.model, small)
            sentence = shorten(f"“{scene.sentence}”", free_width, small)
            colour = colours[scene.mark]
            for x, down, words, size, how in (
                (0, 0, scene.mark, TEXT + 4, {"color": colour, "weight": "bold"}),
                (40, 2, scene.name, TEXT, {"weight": "bold"}),
                (160, 5, sentence, small, {}),
                (width, 5, scene.model, small, {"ha": "right", "color": MUTED}),
                (40, 36, said, small, {}),
            ):
                kind: Any = {"color": INK, "va": "top", "fontsize": points(size), **how}
                axes.text(x, y + down, words, **kind)
        return Gallery(board, scenes)
