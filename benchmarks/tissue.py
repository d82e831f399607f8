"""Gene activity from drawn tissue: what a small ResNet reads from it, and ResNet-50 with its head.

    python -m benchmarks.tissue
    python -m benchmarks.tissue --model runs/tissue --seeds 1 2 3
    python -m benchmarks.tissue --resnet-50

The first trains `small/tissue` and prints R² on tissue of other seeds, which no training image
has: the mean over all genes, and over those of each kind (cells alone; cells and pairs of
neighbours; pairs alone). Beside it stands a baseline that sees no places: ridge regression from the
histogram of an image's colours. The last builds the ResNet-50 with the head 2048-1024-512-256-306,
counts its parameters by hand and by the model, and times it forward and backward.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import regard
from regard.data.config import TissueData
from regard.data.images.labelled_images import LabelledImages
from regard.data.synthetic.tissue import Gene, gene_of, tissue_splits
from regard.inputs.arrays import Dense
from regard.models.families.resnet import FAMILY, ResNetConfig
from regard.models.meta_model import meta_model
from regard.recipes import recipe as recipes
from regard.tasks.measures.regression import regression_scores

Numbers = NDArray[np.float64]
COUNT = 1000
"""Images of each unseen seed."""
LEVELS = 4
"""Levels of red, of green and of blue in the histogram: 64 colours."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the ridge regression; the validation images choose."""


def measure(pipeline: Any, seeds: Sequence[int]) -> dict[str, Any]:
    """R² of a model on unseen tissue: the mean over seeds, and of each of them.

    Args:
        pipeline: The model, whose recipe draws tissue.
        seeds: Seeds of tissue other than that of its training.
    """
    data, reader = pipeline.recipe.data, pipeline.processor.source
    train, valid = (getattr(tissue_splits(data, reader), part) for part in ("train", "valid"))
    baseline = Ridge(train, valid)
    rows: dict[str, Any] = {"images": COUNT, "model": {}, "colours alone": {}}
    for seed in seeds:
        if seed == data.seed:
            raise ValueError(f"seed {seed} is that of the training images")
        unseen = TissueData(pairs=1, held_out=COUNT, genes=data.genes, seed=seed)
        test = tissue_splits(unseen, reader).tests["test"]
        rows["model"][seed] = by_kind(pipeline.measure(test).by_label)
        predicted = baseline.predict(test)
        scores = regression_scores(test.numbers, predicted, test.outputs)
        rows["colours alone"][seed] = by_kind(scores.by_label)
    for name in ("model", "colours alone"):
        runs = [*rows[name].values()]
        rows[name]["mean"] = {kind: float(np.mean([run[kind] for run in runs])) for kind in runs[0]}
    return rows


def by_kind(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """The mean R² over all genes, the smallest one, and the mean of each kind of gene."""
    kinds: dict[str, list[float]] = {"all": [], "smallest": []}
    for number, row in enumerate(scores.values()):
        kinds["all"].append(row["r2"])
        kinds.setdefault(kind_of(gene_of(number)), []).append(row["r2"])
    kinds["smallest"] = [min(kinds["all"])]
    return {kind: float(np.mean(values)) for kind, values in kinds.items()}


def kind_of(gene: Gene) -> str:
    """What a gene depends on."""
    return " and ".join(name for name in ("cells", "pairs") if getattr(gene, name))


class Ridge:
    """Ridge regression of the numbers from the histogram of colours, which knows no places."""

    def __init__(self, train: LabelledImages, valid: LabelledImages) -> None:
        x, y = histograms(train), np.asarray(train.numbers)
        self.mean, self.means = x.mean(0), y.mean(0)
        a, b = x - self.mean, y - self.means
        errors = []
        for penalty in PENALTIES:  # w = (XᵀX + λ n s I)⁻¹ Xᵀ y, with s the mean square of X
            ridge = penalty * len(a) * float(np.square(a).mean()) * np.eye(a.shape[1])
            self.weights = np.linalg.solve(a.T @ a + ridge, a.T @ b)
            errors.append((float(np.square(self.predict(valid) - valid.numbers).mean()), penalty))
            if errors[-1] == min(errors):
                best = self.weights
        self.weights = best

    def predict(self, images: LabelledImages) -> Numbers:
        """The numbers of some images, (images, numbers)."""
        predicted: Numbers = (histograms(images) - self.mean) @ self.weights + self.means
        return predicted


def histograms(images: LabelledImages) -> Numbers:
    """The share of each colour in each image, (images, colours)."""
    levels = images.values[:].astype(np.int64) * LEVELS // 256  # (images, 3, height, width)
    colours = (levels[:, 0] * LEVELS + levels[:, 1]) * LEVELS + levels[:, 2]
    rows = [np.bincount(image.ravel(), minlength=LEVELS**3) for image in colours]
    return np.array(rows) / colours[0].size


def measure_resnet_50(images: int) -> dict[str, Any]:
    """Parameters of ResNet-50 with the head for 306 genes, and its seconds on some images.

    Args:
        images: Images of 224 × 224 in a batch.
    """
    config = ResNetConfig.model_validate(FAMILY.named["resnet-50-genes"].model)
    plain = meta_model(ResNetConfig(size="50"))
    widths = (config.encoder.dim, *config.head.widths)
    # Linear: a·b weights and b biases; batch norm: a factor and a shift for each of the b numbers
    head = sum(a * b + b + 2 * b for a, b in pairwise(widths))
    head += widths[-1] * len(config.head.numbers) + len(config.head.numbers)
    by_hand = sum(parameter.numel() for parameter in plain.parameters()) + head
    model = FAMILY.build(config)
    source = Dense(torch.randn(images, 3, 224, 224))
    start = time.perf_counter()
    loss = model.train().standardised_numbers(source).square().mean()
    loss.backward()
    trained = time.perf_counter() - start
    start = time.perf_counter()
    with torch.inference_mode():
        numbers = model.eval().standardised_numbers(source)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "by hand": by_hand,
        "head": head,
        "output": list(numbers.shape),
        "with gradients": sum(weight.grad is not None for weight in model.parameters()),
        "tensors": sum(1 for _ in model.parameters()),
        "seconds forward and backward": trained,
        "seconds forward": time.perf_counter() - start,
    }


def main() -> None:
    """Train and measure a model of drawn tissue, or ResNet-50."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="a trained model; without one, small/tissue is trained")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="of the training; by default the recipe's")
    parser.add_argument("--resnet-50", action="store_true", help="build and time ResNet-50 instead")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    if options.resnet_50:
        result = measure_resnet_50(2)
    else:
        start = time.process_time()
        if options.model is None:
            changes = [] if options.steps is None else [f"train.steps={options.steps}"]
            pipeline = regard.train(recipes.load("small/tissue", changes), threads=1)
        else:
            pipeline = regard.load(options.model, device="cpu")
        result = {"minutes of one core": (time.process_time() - start) / 60}
        result |= measure(pipeline, options.seeds)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
