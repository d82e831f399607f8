"""Figure of part 7: a CNN and a Vision Transformer, each cut after every layer.

Of each cut is measured how many numbers pass it; what a linear probe reads from them about images
that were not trained on; how well a small decoder rebuilds the image from them; and what they are
worth for another task: classes that the network has never seen, with a few labels, beside a network
that is trained on these few from scratch.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import LabelledImages
from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import ImageReader
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.classifiers import Classifier, Course, train_classifier
from regard_lectures.claims.cuts import cut_vectors, fit_probe, rebuilding_error, train_decoder
from regard_lectures.claims.journal import Journal
from regard_lectures.claims.layers import as_input, cnn_config, framed_in, read_pictures, vit_config
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, listed, spread_of, trainings

SIDE = 32
"""Height and width of the images; smaller ones get a border."""
IMAGES, UNSEEN = 20_000, 4_000
"""Images to train on, and others, of all classes."""
PROBED, DECODED, MEASURED = 1_000, 3_000, 1_000
"""Images that probes and decoders learn from, and images that both are measured on, at most."""
NEW = 0.3
"""The share of the classes that the network is not trained on; at least two."""
FEWEST_CLASSES, FEWEST_IMAGES = 4, 3
RATES = {"CNN": 2e-3, "ViT": 1e-3}
BATCH, DECODER_WIDTH, DECODER_STEPS = 64, 256, 400
SCRATCH_BATCH, SCRATCH_STEPS = 16, 200
"""How the networks are trained that have the few labels alone."""
DATA = "fashion-mnist"


def _split(images: LabelledImages, classes: Sequence[str]) -> LabelledImages:
    """The images of these classes."""
    rows = [row for row, label in enumerate(images.labels) if label in set(classes)]
    return images.take(rows)


def new_classes(classes: Sequence[str], seed: int) -> list[str]:
    """The classes of the other task, drawn at random.

    Raises:
        InputError: If there are too few classes.
    """
    if len(classes) < FEWEST_CLASSES:
        expected = f"{FEWEST_CLASSES} classes or more"
        fix = "some are trained on, the others are the other task"
        raise InputError("data", got=f"{len(classes)} classes", expected=expected, fix=fix)
    order = np.random.default_rng(seed).permutation(sorted(classes)).tolist()
    return sorted(order[: max(2, round(NEW * len(order)))])


def few_labels(
    images: LabelledImages, labels: int, seed: int
) -> tuple[LabelledImages, LabelledImages, LabelledImages]:
    """A few images of each class, images to choose the best cut by, and images to report.

    Raises:
        InputError: If a class has too few images.
    """
    order = np.random.default_rng(seed).permutation(len(images)).tolist()
    chosen: list[int] = []
    for name in sorted(set(images.labels)):
        rows = [row for row in order if images.labels[row] == name]
        if len(rows) < FEWEST_IMAGES:
            expected = f"{FEWEST_IMAGES} or more of each class"
            raise InputError("data", got=f"{len(rows)} images of {name}", expected=expected)
        chosen += rows[: min(labels, len(rows) // FEWEST_IMAGES)]
    others = [row for row in order if row not in set(chosen)][: 2 * MEASURED]
    half = len(others) // 2
    few, choose, report = chosen, others[:half], others[half:]
    return images.take(few), images.take(choose), images.take(report)


def measure(
    text: str | None, data: str, steps: int, labels: int, tries: int, seed: int
) -> dict[str, Any]:
    """Train both networks on most classes with every seed, and measure what each cut holds.

    Returns:
        By network: numbers held (cuts,), accuracies and errors in percent (tries, cuts), and an
        image rebuilt from each cut.
    """
    most = BATCH * steps
    pictures = read_pictures(
        data, train=min(IMAGES, most), unseen=min(UNSEEN, most), side=SIDE, seed=0
    )
    given = None if text is None else _read_image(text, pictures.train.values.shape[1], data)
    settings = {
        "data": pictures.name, "images": len(pictures.train), "steps": steps, "labels": labels,
        "seed": seed, "text": text or "",
    }  # fmt: skip
    count = tries * len(RATES) * (steps + 5 * decoder_steps(steps) + min(steps, SCRATCH_STEPS))
    with Journal("slicing", settings) as journal, training_progress(count) as on_step:
        runs = [
            journal.get(
                str(number),
                partial(_measure_seed, pictures, given, (steps, labels), number, on_step),
            )
            for number in range(seed, seed + tries)
        ]
    first = runs[0]
    networks = {
        kind: {
            "cuts": first[kind]["cuts"],
            "held": first[kind]["held"],
            "pictures": first[kind]["pictures"],
            **{
                key: [run[kind][key] for run in runs]
                for key in ("probe", "error", "chosen", "reused", "scratch", "accuracy")
            },
        }
        for kind in RATES
    }
    best = [best_of(run) for run in runs]
    return {
        "networks": networks,
        "best": best,
        "image": first["image"],
        "channels": pictures.train.values.shape[1],
        "data": pictures.name,
        "classes": len(set(pictures.train.labels)),
        "new": [run["new"] for run in runs],
        "few": first["few"],
        "measured": first["measured"],
        "own": text is not None,
        "differences": differences_of(networks, best),
    }


def _read_image(path: str, channels: int, data: str) -> NDArray[np.float32]:
    """A person's own image as those that are trained on: (1, channels, side, side), 0 to 1."""
    half = (0.5,) * channels
    side = 28 if channels == 1 else SIDE
    scaling: Any = "object" if data == DATA and channels == 1 else "whole"
    reader = ImageReader(
        height=side, width=side, channels=channels, mean=half, std=half, scaling=scaling
    )
    return framed_in(reader.pixels(path)[None], SIDE)


def decoder_steps(steps: int) -> int:
    """The training steps of a decoder, at most those of the networks."""
    return min(steps, DECODER_STEPS)


def scratch_course(steps: int, kind: str) -> Course:
    """How a network is trained on the few labels alone: in fewer steps, of small batches."""
    return Course(SCRATCH_BATCH * min(SCRATCH_STEPS, steps), RATES[kind], SCRATCH_BATCH)


def _measure_seed(
    pictures: Any, given: NDArray[np.float32] | None, sizes: tuple[int, int], seed: int,
    on_step: OnStep,
) -> dict[str, Any]:  # fmt: skip
    """All measurements of both networks with one seed."""
    steps, labels = sizes
    classes = sorted(set(pictures.train.labels))
    new = new_classes(classes, seed)
    old = [name for name in classes if name not in new]
    train, unseen = _split(pictures.train, old), _split(pictures.unseen, old)[:MEASURED]
    few, choose, report = few_labels(_split(pictures.train, new), labels, seed)
    shown = unseen.values[:1] if given is None else given
    result: dict[str, Any] = {
        "new": new, "few": len(few) / len(new), "measured": [len(unseen), len(report)],
        "image": _packed(as_input(shown)[0] / 2 + 0.5),
    }  # fmt: skip
    channels = train.values.shape[1]
    for kind, config in {
        "CNN": cnn_config(channels, SIDE),
        "ViT": vit_config(channels, SIDE),
    }.items():
        course = Course(BATCH * steps, RATES[kind], BATCH)
        trained = train_classifier(config, train, course, seed, on_step)
        scratch = train_classifier(config, few, scratch_course(steps, kind), seed, on_step)
        result[kind] = {
            "accuracy": trained.accuracy(unseen),
            "scratch": [scratch.accuracy(choose), scratch.accuracy(report)],
            **_measure_cuts(trained, train, unseen, as_input(shown), steps, seed, on_step),
            **_reuse(trained, few, choose, report),
        }
    return result


def _measure_cuts(
    trained: Classifier, train: LabelledImages, unseen: LabelledImages, shown: Tensor, steps: int,
    seed: int, on_step: OnStep,
) -> dict[str, Any]:  # fmt: skip
    """What probes and decoders get from each cut, and one image rebuilt from each."""
    learned_on = train[: max(PROBED, DECODED)]
    pixels, unseen_pixels = as_input(learned_on.values), as_input(unseen.values)
    learned_from, new = (cut_vectors(trained.model, x) for x in (pixels, unseen_pixels))
    of_shown = cut_vectors(trained.model, shown)
    images, unseen_images = pixels / 2 + 0.5, unseen_pixels / 2 + 0.5
    probes, errors, rebuilt = [], [], []
    for cut, vectors in learned_from.items():
        probe = fit_probe(vectors[:PROBED], learned_on.labels[:PROBED])
        probes.append(probe.accuracy(new[cut], unseen.labels))
        decoder = train_decoder(
            vectors[:DECODED], images[:DECODED], width=DECODER_WIDTH, steps=decoder_steps(steps),
            batch=BATCH, seed=seed, on_step=on_step,
        )  # fmt: skip
        errors.append(rebuilding_error(decoder, new[cut], unseen_images))
        with torch.no_grad():
            rebuilt.append(_packed(decoder(of_shown[cut])[0]))
    counts = [vectors.shape[1] for vectors in learned_from.values()]
    return {
        "cuts": list(new),
        "held": counts,
        "probe": probes,
        "error": errors,
        "pictures": rebuilt,
    }


def _reuse(
    trained: Classifier, few: LabelledImages, choose: LabelledImages, report: LabelledImages
) -> dict[str, list[float]]:
    """The accuracy of a linear probe on few labels of new classes, at each cut."""
    sets = [cut_vectors(trained.model, as_input(part.values)) for part in (few, choose, report)]
    probes = {cut: fit_probe(vectors, few.labels) for cut, vectors in sets[0].items()}
    return {
        "chosen": [probe.accuracy(sets[1][cut], choose.labels) for cut, probe in probes.items()],
        "reused": [probe.accuracy(sets[2][cut], report.labels) for cut, probe in probes.items()],
    }


def best_of(run: dict[str, Any]) -> dict[str, Any]:
    """The best cut of a seed, and the best network from scratch, both chosen by other images.

    Of equally good cuts it is the one that holds the fewest numbers.
    """
    cuts = [
        (run[kind]["chosen"][at], -run[kind]["held"][at], kind, at)
        for kind in RATES
        for at in range(1, len(run[kind]["cuts"]))  # the pixels are no cut of a network
    ]
    _, _, kind, at = max(cuts)
    scratch = max(RATES, key=lambda name: run[name]["scratch"][0])
    return {
        "network": kind, "cut": run[kind]["cuts"][at], "held": run[kind]["held"][at],
        "reused": run[kind]["reused"][at], "scratch": run[scratch]["scratch"][1],
        "scratch_network": scratch,
    }  # fmt: skip


def differences_of(
    networks: dict[str, Any], best: Sequence[dict[str, Any]]
) -> dict[str, list[float]]:
    """The differences of the claim's parts in percent: the last cut over layer 1, by seed."""

    def rise(kind: str, key: str) -> list[float]:
        return [curve[-1] - curve[1] for curve in networks[kind][key]]  # 0 is the image itself

    return {
        "organised_cnn": rise("CNN", "probe"),
        "organised_vit": rise("ViT", "probe"),
        "lost_cnn": rise("CNN", "error"),
        "lost_vit": rise("ViT", "error"),
        "reused": [run["reused"] - run["scratch"] for run in best],
    }


def _packed(image: Tensor) -> str:
    """An image (channels, height, width) from 0 to 1, as bytes."""
    values = (255 * image.clamp(0, 1)).round().byte().numpy()
    return base64.b64encode(values.tobytes()).decode()


def _unpacked(text: str, channels: int) -> NDArray[np.uint8]:
    """An image for drawing: (height, width) or (height, width, 3)."""
    values = np.frombuffer(base64.b64decode(text), np.uint8).reshape(channels, SIDE, SIDE)
    return values.transpose(1, 2, 0).squeeze()


def words_slicing(numbers: Numbers) -> Words:
    """Whether later cuts are better organised, what they lose, and whether a cut can be reused."""
    passing = {kind: numbers[f"held_{kind}"] for kind in RATES}
    probe, error = (
        {kind: interval(numbers[f"differences_{key}_{kind.lower()}"]) for kind in RATES}
        for key in ("organised", "lost")
    )
    changes = []
    for kind, rise in probe.items():
        change = {
            "holds": f"rises {rise.mean:.1f} points",
            "does not hold": f"falls {-rise.mean:.1f} points",
            "cannot tell": "does not surely change",
        }[numbers[f"verdict_organised_{kind.lower()}"]]
        changes.append(f"{kind} {change} ({passing[kind][1]:,} → {passing[kind][-1]:,} numbers)")
    title = f"Linear probe, first cut to last: {', '.join(changes)}"
    read = ", ".join(f"{kind} {rise.shown()}" for kind, rise in probe.items())
    lost = [kind for kind in RATES if numbers[f"verdict_lost_{kind.lower()}"] == "holds"]
    fall = {
        2: "Images are rebuilt worse from there",
        1: f"Images are rebuilt worse from there in the {''.join(lost)} only",
        0: "Images are not surely rebuilt worse from there",
    }[len(lost)]
    growth = ", ".join(f"{rise.mean:+.0f}" for rise in error.values())
    gain = interval(numbers["differences_reused"])
    reuse = {
        "holds": "a cut is worth reusing",
        "does not hold": "training from scratch is better than a cut",
        "cannot tell": "whether a cut beats training from scratch cannot be told",
    }[numbers["verdict_reused"]]
    few = _few(numbers)
    caption = (
        f"Probe, pooled vector over layer 1: {read} points. {fall} (error {growth} points). New "
        f"classes, {few}: {reuse}, {gain.shown(unit=' points')}. {claimed(numbers['verdict'])}"
    )
    return Words(title, caption)


def _few(numbers: Numbers) -> str:
    """How many labels each new class has."""
    count = round(numbers["few"])
    return f"{count} label{'s'[: count != 1]}"


def slicing(
    measured: dict[str, Any], *, steps: int, labels: int, tries: int, seed: int, **_: Any
) -> Drawing:
    """Draw an image rebuilt from each cut, and what each cut is worth."""
    networks, best = measured["networks"], measured["best"]
    numbers: Numbers = {
        "data": measured["data"], "classes": measured["classes"], "new_classes": measured["new"],
        "few": measured["few"], "asked_labels": labels, "best": best, "own_image": measured["own"],
        **numbers_of("slicing", measured["differences"]),
    }  # fmt: skip
    for kind, values in networks.items():
        numbers |= {f"{key}_{kind}": values[key] for key in ("cuts", "held", "accuracy")}
        numbers |= {f"{key}_{kind}": values[key] for key in ("probe", "error", "reused", "scratch")}
    means = {kind: float(np.mean(networks[kind]["accuracy"])) for kind in networks}
    cuts = [f"{run['network']} {run['cut']}" for run in best]
    counts, sizes = measured["classes"], measured["measured"]
    old = counts - len(measured["new"][0])
    details = (
        "CNN: three convolutions of 3 × 3, each max-pooled. ViT: three blocks on patches of "
        f"4 × 4, 48 wide. Both are trained on {old} of {counts} classes (accuracy "
        f"{means['CNN']:.0f}% and {means['ViT']:.0f}%); each seed has other new ones. pixels: the "
        "image; pooled: the vector that the head reads. Probe: ridge regression on at most "
        f"{PROBED:,} training images, λ by leaving one out. Decoder: two layers, {DECODER_WIDTH} "
        f"wide, {decoder_steps(steps):,} steps; 100%: no better than the mean image. Measured on "
        f"{sizes[0]:,} unseen images. New classes: a probe on the few labels, {sizes[1]:,} test "
        f"images; best cut by seed, chosen on other images: {listed(cuts)}. From scratch: the same "
        "network, trained on these labels; the better of both counts."
    )
    limits = (
        f"{measured['data']}, {BATCH * steps:,} images seen, images of {SIDE} × {SIDE}, "
        f"{trainings(tries)} from {seed}."
    )
    with Board(words_slicing(numbers), (1.6, 1, 1), details, limits=limits) as board:
        styles = dict(zip(networks, LINE_STYLES, strict=False))
        board.legend({
            **styles, "from scratch, same labels": LineStyle(MUTED, (0, (2, 2)))
        })  # fmt: skip
        _draw_pictures(board, measured)
        charts = (
            (1, (0.0, 0.48), "probe, accuracy %", "probe"),
            (1, (0.52, 1.0), "rebuilding, error %", "error"),
            (2, (0.0, 1.0), f"new classes, {_few(measured)}, accuracy %", "reused"),
        )
        for panel, part, heading, key in charts:
            axes = board.chart(panel, heading, part=part, ticks=56)
            for kind, style in styles.items():
                values = networks[kind]
                draw_spread(axes, range(len(values["cuts"])), spread_of(values[key]), style)
                if key == "reused":
                    scratch = float(np.mean(values["scratch"], 0)[1])
                    axes.axhline(scratch, color=style.colour, linestyle=(0, (2, 2)), linewidth=2)
            names = [name.removeprefix("layer ") for name in networks["CNN"]["cuts"]]
            axes.set_xticks(range(len(names)), names)
            axes.set_xlim(-0.45, len(names) - 0.55)
            axes.locator_params(axis="y", nbins=4)
        return board.drawing(**numbers)


def _draw_pictures(board: Board, measured: dict[str, Any]) -> None:
    """Draw the image rebuilt from each cut, a row for each network, and the numbers held."""
    networks = measured["networks"]
    left, top, width, height = board.panel_box(0)
    below = f"below: numbers that pass; image: {networks['CNN']['held'][0]:,}"
    start = board.heading(0, "rebuilt from the cut after layer …", below)
    cuts = ["image", *networks["CNN"]["cuts"][1:]]
    line, gap = 32.0, 8.0
    pitch = width / len(cuts)
    side = min(pitch - gap, (top + height - start - line) / len(networks) - line - gap)
    for column, cut in enumerate(cuts):
        point = (left + (column + 0.5) * pitch, start)
        board.sheet.text(point, cut.removeprefix("layer "), align="center top")
    for row, (kind, values) in enumerate(networks.items()):
        y = start + line + row * (side + line + gap)
        for column in range(len(cuts)):
            x = left + (column + 0.5) * pitch
            axes = board.sheet.axes(x - side / 2, y, side, side)
            axes.set_axis_off()
            packed = values["pictures"][column] if column else measured["image"]
            axes.imshow(_unpacked(packed, measured["channels"]), cmap="gray", vmin=0, vmax=255)
            name, weight = (f"{values['held'][column]:,}", "normal") if column else (kind, "bold")
            board.sheet.text((x, y + side + 2), name, align="center top", weight=weight)
