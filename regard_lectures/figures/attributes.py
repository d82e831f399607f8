"""Figure of part 7: do heads follow colour, shape and place?

A ViT is trained on drawn scenes to answer three questions about each object, of which each needs a
look at another object: at that of its colour, at that of its shape, at its neighbour. For each
question the head that follows it most is taken away, and then each of the others. A part of the
claim is, for the linear probe of a question,

    loss without the head that follows it most - mean of the losses without each of the others
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from regard.draw import ORANGE, TEXT, positive_scale, shorten
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Dense, ImageReader
from regard.layers import Tap
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.alike import CELLS, QUESTIONS, draw_scenes, draw_tiles
from regard_lectures.claims.following import (
    BATCH,
    DIM,
    HEADS,
    LAYERS,
    PROBED,
    RATE,
    TESTED,
    TILE,
    Seeing,
    loaded,
    measure_followed,
    train_seeing,
)
from regard_lectures.claims.journal import Journal
from regard_lectures.claims.layers import viewers
from regard_lectures.claims.pasted import as_text, from_text, in_colour
from regard_lectures.limits import model_line
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import listed, trainings

Shown = tuple[torch.Tensor, NDArray[np.float32]]
"""An image as a model reads it, and the same from 0 to 1."""

_logger = logging.getLogger("regard.lectures")


def measure(text: str | None, model: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Measure the heads of ViTs that are trained here, or of a person's own.

    Args:
        text: An image on which the chosen heads are drawn; with it one ViT is trained. None: a
            drawn scene.
        model: A ViT; empty: train.
        steps: Training steps.
        tries: Trainings with other seeds.
        seed: The first seed.

    Returns:
        What was measured of each model; the maps of the chosen heads, of the first one.
    """
    if model:
        viewer = viewers(model, text)[0]
        seeing = loaded(viewer)
        shown = None if text is None else (viewer.pixels[:1], viewer.pictures[:1])
        runs = [_measure_heads(seeing, seed, PROBED, TESTED, shown)]
        return {"runs": runs, "name": viewer.name, "limits": model_line(viewer.pipeline),
                "differences": {}}  # fmt: skip
    shown = None if text is None else _read_image(text)
    tries = tries if text is None else 1
    settings = {"steps": steps, "text": text or "", "seed": seed}
    with Journal("attributes", settings) as journal, training_progress(steps * tries) as on_step:
        runs = [
            journal.get(str(number), partial(_train_and_measure, steps, number, on_step, shown))
            for number in range(seed, seed + tries)
        ]
    return {"runs": runs, "name": "", "limits": "", "differences": differences_of(runs)}


def _read_image(text: str) -> Shown:
    """An image as the trained ViT reads it, and from 0 to 1: (1, 3, height, width)."""
    half, side = (0.5,) * 3, CELLS * TILE
    reader = ImageReader(height=side, width=side, channels=3, mean=half, std=half)
    items = reader.files_in([text], _logger.warning)[:1]
    values = np.stack([image.values for image in reader.read(items)])
    return reader.normalised(torch.from_numpy(values)), values


def _train_and_measure(
    steps: int, seed: int, on_step: OnStep, shown: Shown | None
) -> dict[str, Any]:
    """Train a ViT and measure its heads; fewer scenes for the shortest trainings."""
    seeing = train_seeing(steps, seed, on_step)
    few = BATCH * steps
    return _measure_heads(seeing, seed, min(PROBED, few), min(TESTED, few), shown)


def _measure_heads(
    seeing: Seeing, seed: int, probed: int, tested: int, shown: Shown | None
) -> dict[str, Any]:
    """What the heads of a model follow, and the maps of those that follow most."""
    measured = measure_followed(seeing, seed, probed, tested)
    chosen = np.argmax(measured.follows, axis=1).tolist()
    if shown is None:
        tiles = draw_tiles(seeing.tile, seed, 2)
        scenes = draw_scenes(tiles, 1, np.random.default_rng(seed))
        pixels, picture = seeing.pixels(scenes.pictures), scenes.pictures
        at = [(side + 0.5) / CELLS for side in divmod(int(scenes.cells[0, 0]), CELLS)]
    else:
        pixels, at = shown[0], [0.5, 0.5]
        picture = np.rint(255 * shown[1]).astype(np.uint8)
    rows, columns = seeing.grid
    patch = [min(int(at[0] * rows), rows - 1), min(int(at[1] * columns), columns - 1)]
    tap = Tap("encoder.*.self.weights")
    with torch.no_grad():
        seeing.model.hidden(Dense(pixels), tap)
    before = seeing.model.embed.tokens_before
    maps = []
    for head in (measured.heads[index] for index in chosen):
        layer, _, number = head.rpartition(".")
        weights = tap.records[f"{layer}.weights"][0, int(number), before:, before:]
        row = weights[patch[0] * columns + patch[1]].view(rows, columns)
        maps.append(np.round(row.double().numpy(), 4).tolist())
    return {
        "heads": measured.heads,
        "chosen": chosen,
        "follows": measured.follows,
        "losses": measured.losses,
        "without": measured.without,
        "right": measured.right,
        "maps": maps,
        "patch": patch,
        "picture": as_text(picture),
    }


def differences_of(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The differences of the claim's parts, one for each seed."""
    return {
        question: [
            run["without"][index][run["chosen"][index]]
            - float(np.mean(np.delete(run["without"][index], run["chosen"][index])))
            for run in runs
        ]
        for index, question in enumerate(QUESTIONS)
    }


def rises_of(runs: list[dict[str, Any]]) -> Any:
    """By how much the probes' losses rise without a head, in nats, mean over the trainings.

    Returns:
        (4, 3): without the head that follows colour, shape, place most, and the mean of all heads;
        for the probe of each.
    """
    tables = []
    for run in runs:
        rises = np.array(run["without"]) - np.array(run["losses"])[:, None]  # (probes, heads)
        tables.append(np.vstack([rises[:, run["chosen"]].T, rises.mean(1)]))
    return np.mean(tables, axis=0)


def words_attributes(numbers: Numbers) -> Words:
    """Which of the heads are needed for what they follow, and how much they follow it."""
    strongest = ", ".join(
        f"{question} {numbers['strongest'][question]:+.0f}" for question in QUESTIONS
    )
    right = ", ".join(f"{numbers['right'][question]:.0f}%" for question in QUESTIONS)
    follows = f"Attention on the partner over others, points: {strongest}."
    if "verdict" not in numbers:
        heads = numbers["heads"]
        chosen = ", ".join(f"{question} {heads[question]}" for question in QUESTIONS)
        needed = [question for question in QUESTIONS if numbers["lead"][question] > 0]
        verb = f"most needed for {listed(needed)}" if needed else "none of them needed most"
        title = f"{numbers['name']}: heads that follow most are {chosen}; {verb}"
        return Words(title, f"{follows} Probes right: {right}.")
    verdicts = {question: numbers[f"verdict_{question}"] for question in QUESTIONS}
    needed, unneeded, open_ = (
        [question for question in QUESTIONS if verdicts[question] == verdict]
        for verdict in ("holds", "does not hold", "cannot tell")
    )
    if needed:
        title = f"The head that follows {listed(needed)} most is needed for it more than others"
        title = title.replace("The head that", "Of each, the head that") if needed[1:] else title
    elif unneeded:
        title = f"The head that follows {listed(unneeded)} most is needed for it less than others"
    else:
        title = "No head is surely needed more than others for what it follows"
    left = [f"{listed(open_)} cannot be told"] if open_ and (needed or unneeded) else []
    left += [f"for {listed(unneeded)} less than others"] if needed and unneeded else []
    title = "; ".join([title, *left])
    gaps = ", ".join(
        f"{question} {interval(numbers[f'differences_{question}']).shown('+.2f')}"
        for question in QUESTIONS
    )
    caption = (
        f"{follows} Loss without that head over without another, nats: {gaps}. "
        f"Probes right: {right}. {claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def attributes(measured: dict[str, Any], *, steps: int, seed: int, **_: Any) -> Drawing:
    """Draw where the three heads look, and what the probes lose without them."""
    runs, name = measured["runs"], measured["name"]
    first = runs[0]
    short = [head.replace("encoder.", "").replace(".self", "") for head in first["heads"]]
    heads = {q: short[index] for q, index in zip(QUESTIONS, first["chosen"], strict=True)}
    strongest = {q: float(np.mean([max(run["follows"][i]) for run in runs]))
                 for i, q in enumerate(QUESTIONS)}  # fmt: skip
    rises = rises_of(runs)
    numbers: Numbers = {
        "name": shorten(name, 300, TEXT),
        "steps": steps,
        "tries": len(runs),
        "heads": heads,
        "strongest": strongest,
        "rises": rises.tolist(),
        "follows": first["follows"],
        "right": {
            q: float(np.mean([run["right"][i] for run in runs])) for i, q in enumerate(QUESTIONS)
        },
        "lead": {q: values[0] for q, values in differences_of(runs).items()},
    }
    if measured["differences"]:
        numbers |= numbers_of("attributes", measured["differences"])
    details = (
        f"Scenes of four objects on {CELLS} x {CELLS} cells: two pairs alike in colour, two in "
        "shape, two of neighbours, paired independently. Questions about each object: the shape of "
        "the other one of its colour, the colour of the other one of its shape, the colour of its "
        "neighbour; whoever knows what is in the scene and answers what the object itself is not "
        "is right for 67%. Follows: mean weight on the partner less that on the other two. Probes: "
        f"softmax regression on the last layer's vectors, {PROBED:,} scenes to fit, {TESTED:,} to "
        "measure. Without: the head's output is 0. Heads: layer.head. "
    )
    if not name:
        details += (
            f"ViT: {LAYERS} layers of {HEADS} heads, width {DIM}, a patch is a cell, trained with "
            f"a linear layer for each question, the loss of place counted twice, Adam {RATE:g}, "
            f"seeds from {seed}; maps: the first."
        )
    limits = measured["limits"] or (
        f"drawn scenes, {LAYERS} layers of {HEADS} heads, {BATCH * steps:,} scenes seen, "
        f"{trainings(len(runs))}."
    )
    with Board(words_attributes(numbers), (1, 1.15), details, limits=limits) as board:
        _draw_maps(board, first, heads)
        board.matrix(
            1,
            "rise of a probe's loss without a head, nats",
            rises,
            positive_scale(max(1e-3, float(rises.max()))),
            ([*(f"{question} head" for question in QUESTIONS), "mean of all"], QUESTIONS),
            ("taken away", "probe"),
            number_format=".2f",
        )
        return board.drawing(**numbers)


def _draw_maps(board: Board, run: dict[str, Any], heads: dict[str, str]) -> None:
    """Draw the picture with a patch marked, and where the three heads look from it."""
    left, top, width, height = board.panel_box(0)
    picture = in_colour(from_text(run["picture"])[0])
    size = picture.shape[:2]
    grid = np.array(run["maps"][0]).shape
    sides = [size[axis] / grid[axis] for axis in (0, 1)]
    pitch = min(width / 2, height / 2 - TEXT - 6)
    names = [
        "a marked patch",
        *(f"{question}: head {heads[question]}" for question in heads),
    ]
    for index, name in enumerate(names):
        row, column = divmod(index, 2)
        x, y = left + column * width / 2, top + row * height / 2
        board.sheet.text((x, y), shorten(name, width / 2 - 8, TEXT))
        axes = board.sheet.axes(x, y + TEXT + 8, pitch - 10, pitch - 10)
        axes.set_axis_off()
        axes.imshow(picture)
        if index:
            field = np.array(run["maps"][index - 1])
            others = np.delete(field.ravel(), run["patch"][0] * grid[1] + run["patch"][1])
            field = np.minimum(field / max(others.max(), 1e-9), 1)
            field = np.kron(field, np.ones((int(sides[0]), int(sides[1]))))
            veil = np.ones((*field.shape, 4))  # white where the head does not look
            veil[..., 3] = 0.85 * (1 - field)
            axes.imshow(veil, extent=(-0.5, size[1] - 0.5, size[0] - 0.5, -0.5))
        corner = (run["patch"][1] * sides[1] - 0.5, run["patch"][0] * sides[0] - 0.5)
        axes.add_patch(
            Rectangle(corner, sides[1], sides[0], fill=False, edgecolor=ORANGE, linewidth=3)
        )
        axes.set(xlim=(-0.5, size[1] - 0.5), ylim=(size[0] - 0.5, -0.5))
