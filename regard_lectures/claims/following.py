"""Which heads of a Vision Transformer follow colour, shape or place, and what is lost without them.

For the scenes of `alike`, w_ij is a head's weight from object i to object j: the mean over the
patches of i of the sum over those of j. A head follows a question as much as it looks at the
partner p(i) by this question more than at the other two objects:

    follows = mean over i of ( w_i,p(i) - ½ Σ_other w_ij )

A linear probe reads the answer from the last layer's vector of an object, the mean of its patches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from regard.errors import InputError
from regard.inputs import Dense
from regard.layers import Tap, knock_out
from regard.models import ViTConfig, build
from regard.train import Adam
from regard_lectures.claims.alike import (
    CELLS,
    OBJECTS,
    QUESTIONS,
    Scenes,
    Tiles,
    draw_scenes,
    draw_tiles,
    names_of,
    share_of_patches,
)
from regard_lectures.claims.classifiers import Course
from regard_lectures.claims.layers import as_input, is_convolutional
from regard_lectures.progress import OnStep

TILE = 12
"""Side of a cell in the scenes that are trained on, and of a patch."""
DIM, HEADS, LAYERS = 48, 4, 3
RATE, BATCH = 2e-3, 64
SHARES = {"colour": 1.0, "shape": 1.0, "place": 2.0}
"""The weight of each question's loss: with equal ones, neighbours are not learned in 3,000 steps,
though in 400 if nothing else is asked."""
PROBED, TESTED = 3_000, 1_000
"""Scenes for fitting the probes, and for measuring."""
PENALTY = 1e-3
"""Of the squares of a probe's weights."""
AT_ONCE = 250
"""Scenes that are read at once."""


@dataclass(frozen=True)
class Seeing:
    """A ViT, and how it reads the pictures of scenes."""

    model: Any
    pixels: Callable[[Any], Tensor] = as_input
    """From bytes (scenes, 3, height, width) to what the model reads."""
    tile: int = TILE
    """Side of a cell of the scenes that it is shown."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        rows, columns = self.model.embed.grid
        return int(rows), int(columns)

    @property
    def heads(self) -> list[str]:
        """The names of all heads."""
        sites = self.model.sites().items()  # how many heads each has
        return [
            f"{site.removesuffix('.weights')}.{head}"
            for site, count in sites
            if site.startswith("encoder.") and site.endswith(".self.weights")
            for head in range(count)
        ]


def object_vectors(seeing: Seeing, scenes: Scenes, tap: Tap | None = None) -> Tensor:
    """The last layer's vector of each object: (scenes, 4, dim)."""
    source = Dense(seeing.pixels(scenes.pictures))
    hidden = seeing.model.hidden(source, tap)
    rows = hidden.view(len(scenes), -1, hidden.shape[-1])[:, seeing.model.embed.tokens_before :]
    inside = torch.from_numpy(share_of_patches(seeing.grid, scenes.cells))
    return inside @ rows


def train_seeing(steps: int, seed: int, on_step: OnStep) -> Seeing:
    """Train a ViT to answer the three questions about every object, with a linear layer for each.

    Args:
        steps: Training steps of `BATCH` scenes, which are drawn anew.
        seed: Of the weights and the scenes.
        on_step: Called after each step.
    """
    torch.manual_seed(seed)
    side = CELLS * TILE
    config = ViTConfig.model_validate({
        "image": (side, side), "patch": TILE, "dim": DIM, "heads": HEADS, "hidden": 2 * DIM,
        "layers": LAYERS, "class_token": False, "pool": "mean", "positions": "sinusoidal_2d",
        "dropout": 0.0,
    })  # fmt: skip
    model: Any = build(config)
    tiles, random = draw_tiles(TILE, seed, 0), np.random.default_rng((seed, 1))
    outputs = nn.ModuleDict({
        question: nn.Linear(DIM, len(names)) for question, names in names_of(tiles).items()
    })  # fmt: skip
    weights = [*model.parameters(), *outputs.parameters()]
    optimizer = Adam(weights, lr=RATE, fused=True)
    schedule = LambdaLR(optimizer, Course(BATCH * steps, batch=BATCH).share)
    seeing = Seeing(model)
    model.train()
    for _ in range(steps):
        scenes = draw_scenes(tiles, BATCH, random)
        vectors = object_vectors(seeing, scenes)
        losses = [
            SHARES[question]
            * F.cross_entropy(outputs[question](vectors).flatten(0, 1), answers.flatten())
            for question, answers in zip(QUESTIONS, torch.from_numpy(scenes.answers), strict=True)
        ]
        loss = torch.stack(losses).sum()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        on_step(float(loss.detach()), BATCH)
    model.eval()
    return seeing


def loaded(viewer: Any) -> Seeing:
    """A person's model, shown the scenes as its own reader reads pictures.

    Raises:
        InputError: If it is no ViT whose patches all attend to each other, or they are too large.
    """
    model = viewer.model
    expected = f"a ViT of {CELLS} x {CELLS} patches or more, with attention over the whole image"
    fix = "small/fashion is included"
    if is_convolutional(model):
        raise InputError("model", got=f"{viewer.name}, a CNN", expected=expected, fix=fix)
    kinds = {sublayer.kind for sublayer in model.config.encoder.block}
    if "attention" not in kinds or "grid_attention" in kinds or min(model.embed.grid) < CELLS:
        rows, columns = model.embed.grid
        got = f"{viewer.name}, {rows} x {columns} patches"
        raise InputError("model", got=got, expected=expected, fix=fix)
    reader = viewer.pipeline.processor.source

    def pixels(pictures: Any) -> Tensor:
        images = [Image.fromarray(picture.transpose(1, 2, 0)) for picture in pictures]
        values = np.stack([image.values for image in reader.read(images)])
        return reader.normalised(torch.from_numpy(values))

    return Seeing(model, pixels, max(TILE, -(-reader.height // CELLS)))


@dataclass(frozen=True)
class Followed:
    """What was measured of a model.

    Attributes:
        heads: The names of its heads.
        follows: (questions, heads) How much each head follows, in points of attention.
        losses: (questions,) Of the probes, with all heads, in nats.
        without: (questions, heads) The same without each head.
        right: (questions,) The probes' accuracy with all heads, in percent.
    """

    heads: list[str]
    follows: list[list[float]]
    losses: list[float]
    without: list[list[float]]
    right: list[float]


def measure_followed(seeing: Seeing, seed: int, probed: int, tested: int) -> Followed:
    """Measure what the heads of a model follow, and what its probes lose without each of them."""
    random = np.random.default_rng((seed, 2))
    fitting = _parts(draw_tiles(seeing.tile, seed, 0), probed, random)
    testing = _parts(draw_tiles(seeing.tile, seed, 2), tested, random)
    with torch.no_grad():
        vectors = _vectors(seeing, fitting)
        probes = [fit_probe(vectors, answers) for answers in _answers(fitting)]
        targets = _answers(testing)
        plain = _vectors(seeing, testing)
        losses, right = zip(
            *(probe.measured(plain, answers)
              for probe, answers in zip(probes, targets, strict=True)), strict=True
        )  # fmt: skip
        without = []
        for head in seeing.heads:
            changed = _vectors(seeing, testing, head)
            without.append([
                probe.measured(changed, answers)[0]
                for probe, answers in zip(probes, targets, strict=True)
            ])  # fmt: skip
        follows = np.mean([_follows(seeing, scenes) for scenes in testing], axis=0)
    return Followed(
        seeing.heads, follows.tolist(), list(losses), np.transpose(without).tolist(), list(right)
    )


def _parts(tiles: Tiles, count: int, random: np.random.Generator) -> list[Scenes]:
    """Scenes in equal parts that are read at once."""
    size = min(AT_ONCE, count)
    return [draw_scenes(tiles, size, random) for _ in range(max(1, count // size))]


def _vectors(seeing: Seeing, parts: Sequence[Scenes], without: str = "") -> Tensor:
    """The vectors of all objects: (objects, dim), with all heads or without this one."""
    edits = [knock_out(without)] if without else []
    return torch.cat([object_vectors(seeing, part, Tap(edits=edits)) for part in parts]).flatten(
        0, 1
    )


def _answers(parts: Sequence[Scenes]) -> list[Tensor]:
    """The answers about all objects, by question: (objects,)."""
    answers = np.concatenate([part.answers for part in parts], axis=1)
    return [torch.from_numpy(row.ravel()) for row in answers]


def _follows(seeing: Seeing, scenes: Scenes) -> Any:
    """How much each head follows each question, in percent of attention: (questions, heads)."""
    tap = Tap("encoder.*.self.weights")
    object_vectors(seeing, scenes, tap)
    before = seeing.model.embed.tokens_before
    layers = range(len(seeing.model.encoder.blocks))
    records = [tap.records[f"encoder.{layer}.self.weights"] for layer in layers]
    weights = torch.cat(records, dim=1)[:, :, before:, before:]  # (scenes, heads, patch, patch)
    inside = torch.from_numpy(share_of_patches(seeing.grid, scenes.cells))[:, None]
    between = inside @ weights @ (inside > 0).float().transpose(2, 3)  # (scenes, heads, 4, 4)
    return np.stack([follow_share(between.numpy(), partners) for partners in scenes.partners])


def follow_share(between: Any, partners: Any) -> Any:
    """By how much heads prefer the partner to the other two objects, in percent of attention.

    Args:
        between: (scenes, heads, 4, 4) The weight from object to object.
        partners: (scenes, 4) The number of each object's partner.

    Example:
        >>> between = np.zeros((1, 1, 4, 4))
        >>> between[0, 0, 0, 1] = 1.0
        >>> follow_share(between, np.array([[1, 0, 3, 2]])).tolist()
        [25.0]
    """
    numbers = np.arange(OBJECTS)
    is_partner = partners[:, None, :, None] == numbers  # (scenes, 1, 4, 4)
    is_other = ~is_partner & ~np.eye(OBJECTS, dtype=bool)
    excess = (between * is_partner).sum(3) - (between * is_other).sum(3) / 2
    return 100 * excess.mean((0, 2))


@dataclass(frozen=True)
class Probe:
    """A linear classifier of vectors that were standardised."""

    mean: Tensor
    scale: Tensor
    weight: Tensor
    bias: Tensor

    def logits(self, vectors: Tensor) -> Tensor:
        """(objects, dim) -> (objects, answers)."""
        return (vectors - self.mean) / self.scale @ self.weight + self.bias

    def measured(self, vectors: Tensor, answers: Tensor) -> tuple[float, float]:
        """Loss in nats, and accuracy in percent."""
        logits = self.logits(vectors)
        right = (logits.argmax(1) == answers).double().mean()
        return float(F.cross_entropy(logits, answers)), 100 * float(right)


def fit_probe(vectors: Tensor, answers: Tensor) -> Probe:
    """Fit softmax regression by L-BFGS, with a small penalty on the squares of the weights."""
    mean, scale = vectors.mean(0), vectors.std(0).clamp_min(1e-6)
    x = ((vectors - mean) / scale).detach()
    count = int(answers.max()) + 1
    weight = torch.zeros(x.shape[1], count, requires_grad=True)
    bias = torch.zeros(count, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight + bias, answers) + PENALTY * weight.square().sum()
        torch.autograd.backward(loss)
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return Probe(mean, scale, weight.detach(), bias.detach())
