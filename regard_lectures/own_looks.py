"""The attention of any model on a person's own texts or images, for figures that compare layers."""

from __future__ import annotations

import re
from pathlib import Path

from regard import Pipeline, load
from regard.data import grammar, make_scene
from regard.errors import InputError
from regard.explain import Look

MODEL = "small/translate"
"""The model that reads a text if none is named."""
EXAMPLES = 8
"""Sentences or images that are read if none are given."""
MOST_EXAMPLES = 40
SIDE = 64
"""Height and width of drawn scenes; models read them at their own size."""
SLASH = re.compile(r"\s+/\s+")
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")


def look_at(model: str, text: str | None) -> tuple[Pipeline, list[Look], str]:
    """The attention of a model on some texts or images.

    Args:
        model: The name of a model; empty: `MODEL`.
        text: Texts with slashes between them, or the paths of images, or of a folder of images.
            None: sentences of the grammar, or drawn scenes.

    Returns:
        The model, the attention on each text or image, and what was read, in words.

    Raises:
        InputError: If nothing is given to read, or the model has no attention.
    """
    pipeline = load(model or MODEL, device="cpu")
    items, what = _items(pipeline, text)
    looks = []
    for item in items:
        if pipeline.reads_images:
            looks.append(pipeline.look(item))
        else:
            looks.append(pipeline.look(item, allow_unknown=True))
    return pipeline, looks, what


def _items(pipeline: Pipeline, text: str | None) -> tuple[list[object], str]:
    """What is to be read: texts or images, and its name."""
    if text is None:
        if pipeline.reads_images:
            scenes = [make_scene(0, 2, number).draw(SIDE) for number in range(EXAMPLES)]
            return list(scenes), f"{EXAMPLES} drawn scenes"
        pairs = grammar.sample(EXAMPLES, seed=0)
        return [pair.source for pair in pairs], f"{EXAMPLES} sentences of the grammar"
    parts = [part.strip() for part in SLASH.split(text.strip()) if part.strip()]
    if not parts:
        raise InputError("--text", got="nothing", expected="texts with slashes between them")
    if not pipeline.reads_images:
        parts = parts[:MOST_EXAMPLES]
        return list(parts), f"{len(parts)} own text{'s'[: len(parts) > 1]}"
    files: list[object] = []
    for part in parts:
        folder = Path(part)
        inside = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
        pictures = [str(file) for file in inside if file.suffix.lower() in IMAGES]
        files += pictures if folder.is_dir() else [part]
    files = files[:MOST_EXAMPLES]
    if not files:
        raise InputError("--text", got=f"no image in {text}", expected="images, or their folder")
    return files, f"{len(files)} own image{'s'[: len(files) > 1]}"
