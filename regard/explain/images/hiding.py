"""The test that can contradict a map of an image: hide the patches that it shows as important.

Input: an image with its classifier, and a map of weights over its patches. Output: the probability
of the image's class as it is; with the patches of the largest weights hidden; with as many other
patches hidden, drawn at random; and with those of the smallest weights hidden. If hiding the
patches that are looked at most lowers the probability no more than hiding others, the map does not
show what the answer depends on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.order import generator
from regard.draw.labels import Weights
from regard.errors import InputError
from regard.tasks.trace import Classified

Fill = Literal["mean", "blur"]


@dataclass(frozen=True)
class Hiding:
    """How patches are hidden.

    Attributes:
        share: The share of the patches that is hidden, at most a half.
        fill: What replaces them: the `mean` colour of the image, or the image with a `blur`.
        draws: How many random choices of other patches are tried.
        seed: The seed of these choices.
    """

    share: float = 0.2
    fill: Fill = "mean"
    draws: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 0.5:  # else too few other patches are left to hide as many
            raise InputError("--hide", got=self.share, expected="a share above 0, at most 0.5")
        if self.fill not in get_args(Fill):
            raise InputError("--fill", got=self.fill, expected=" or ".join(get_args(Fill)))
        if self.draws < 1:
            raise InputError("--draws", got=self.draws, expected="1 or more")

    def count(self, patches: int) -> int:
        """How many of so many patches are hidden: at least one, at most a half."""
        return min(max(1, round(self.share * patches)), patches // 2)


@dataclass(frozen=True)
class HiddenPatches:
    """The probability of an image's class while patches are hidden.

    Attributes:
        label: The class: the likeliest for the image as it is.
        patches: The number of patches of the image.
        hidden: The number of patches that were hidden each time.
        before: The probability of the class with nothing hidden.
        most: That with the patches of the largest weights hidden.
        random: That with as many other patches hidden, for each draw.
        least: That with the patches of the smallest weights hidden.
        fill: What replaced the patches: `mean` or `blur`.
        seed: The seed of the draws.
    """

    label: str
    patches: int
    hidden: int
    before: float
    most: float
    random: tuple[float, ...]
    least: float
    fill: str
    seed: int

    @property
    def others(self) -> float:
        """The mean probability over the random draws."""
        return sum(self.random) / len(self.random)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends between which 95% of the random draws lie."""
        low, high = np.quantile(self.random, (0.025, 0.975))
        return float(low), float(high)

    @property
    def verdict(self) -> str:
        """One sentence: what the test says about the map."""
        low, high = self.interval
        return (
            f"Hiding the {self.hidden} of {self.patches} patches looked at most changes "
            f"P({self.label}) from {self.before:.2f} to {self.most:.2f}, as many others to "
            f"{self.others:.2f} ({low:.2f} to {high:.2f}): "
            f"{VERDICTS[judge(self.most, self.random)]}."
        )

    def to_json(self) -> dict[str, Any]:
        """All values, the mean and the interval of the random draws, and the verdict."""
        return {
            **asdict(self),
            "random": list(self.random),
            "random_mean": self.others,
            "random_interval": list(self.interval),
            "verdict": judge(self.most, self.random),
        }


Verdict = Literal["holds", "does not hold", "cannot tell"]
MARGIN = 0.05
"""The least difference of probabilities, of one image, that counts."""
FEWEST_DRAWS = 10
"""With fewer random draws, nothing is said of an image."""
VERDICTS: dict[Verdict, str] = {
    "holds": "the map holds, these patches matter more",
    "does not hold": "the map does not hold, these patches matter less",
    "cannot tell": "this image cannot tell whether these patches matter more",
}


def judge(most: float, random: Sequence[float]) -> Verdict:
    """What hiding the patches that are looked at most says, beside random draws of others.

    Args:
        most: The probability of the class without the patches that are looked at most.
        random: The probabilities without as many others, one for each draw.

    Returns:
        `holds` or `does not hold` only if `most` is outside the interval of 95% of the draws, and
        `MARGIN` from their mean; else, or for fewer draws than `FEWEST_DRAWS`, `cannot tell`.

    Example:
        >>> judge(0.1, [0.5] * 20), judge(0.95, [0.95] * 20), judge(0.9, [0.2] * 20)
        ('holds', 'cannot tell', 'does not hold')
    """
    if len(random) < FEWEST_DRAWS:
        return "cannot tell"
    low, high = np.quantile(random, (0.025, 0.975))
    mean = float(np.mean(random))
    if most < low and most <= mean - MARGIN:
        return "holds"
    if most > high and most >= mean + MARGIN:
        return "does not hold"
    return "cannot tell"


def hide_patches(
    image: Classified, weights: Weights, hiding: Hiding, number: int = 0
) -> HiddenPatches:
    """Hide patches of one image by a map, and compute the probability of its class each time.

    Args:
        image: The image and its classifier.
        weights: (rows, columns) The map over the patches.
        hiding: How many patches are hidden, and how.
        number: The number of the image among several, so that each has its own random draws.
    """
    shares = image.shares(hidden_images(image.values, weights, hiding, number))
    return hidden_result(shares, weights, hiding, image.classes)


def hidden_images(values: Tensor, weights: Weights, hiding: Hiding, number: int = 0) -> Tensor:
    """The image as it is, and with patches hidden: the most and the least looked at, and others.

    Args:
        values: (channels, height, width) The image.
        weights: (rows, columns) The map over its patches.
        hiding: How many patches are hidden, and how.
        number: The number of the image among several.

    Returns:
        (3 + draws, channels, height, width).
    """
    if weights.size < 2:
        raise InputError("hiding patches", got="an image of one patch", expected="two or more")
    choices = _patches_to_hide(weights, hiding, number)
    return cover(values, torch.from_numpy(np.stack(choices)), hiding.fill)


def hidden_result(
    shares: Tensor, weights: Weights, hiding: Hiding, classes: Sequence[str]
) -> HiddenPatches:
    """The result of a test, from probabilities (3 + draws, classes).

    Their rows are those of `hidden_images`: the image as it is, most hidden, least hidden, draws.
    """
    best = int(shares[0].argmax())
    before, most, least, *random = shares[:, best].tolist()
    return HiddenPatches(
        label=classes[best], patches=weights.size, hidden=hiding.count(weights.size),
        before=before, most=most, random=tuple(random), least=least, fill=hiding.fill,
        seed=hiding.seed,
    )  # fmt: skip


def _patches_to_hide(weights: Weights, hiding: Hiding, number: int) -> list[Weights]:
    """Which patches are hidden: none, the most and the least looked at, and random others."""
    # stable: patches of equal weight keep their order, so that the choice does not vary
    order = np.argsort(-weights.ravel(), kind="stable")
    random, count = generator(hiding.seed, number), hiding.count(weights.size)
    choices = [order[:0], order[:count], order[-count:]]
    choices += [random.choice(order[count:], count, replace=False) for _ in range(hiding.draws)]
    covers = []
    for patches in choices:
        cover = np.zeros(weights.size, dtype=bool)
        cover[patches] = True
        covers.append(cover.reshape(weights.shape))
    return covers


def cover(image: Tensor, covered: Tensor, fill: str) -> Tensor:
    """Copies of an image with some of its patches replaced.

    Args:
        image: (channels, height, width)
        covered: (images, rows, columns) True for a patch that is replaced.
        fill: `mean`, the mean colour of the image, or `blur`.

    Returns:
        (images, channels, height, width).

    Example:
        >>> cover(torch.tensor([[[0.0, 2.0, 4.0]]]), torch.tensor([[[False, False, True]]]), "mean")
        tensor([[[[0., 2., 2.]]]])
    """
    _, height, width = image.shape
    _, rows, columns = covered.shape
    # the patch of each pixel: (images, 1, height, width)
    pixel_rows = torch.arange(height) * rows // height
    pixel_columns = torch.arange(width) * columns // width
    mask = covered[:, pixel_rows][:, :, pixel_columns][:, None]
    if fill == "blur":
        replacement = blurred(image, max(height // rows, width // columns))
    else:
        replacement = image.mean(dim=(1, 2), keepdim=True)
    return torch.where(mask, replacement, image)


def blurred(image: Tensor, patch: int) -> Tensor:
    """An image (channels, height, width) without details smaller than about two patches.

    Three means over a square of 2 patches, which together are nearly a Gaussian.
    """
    radius = min(patch, image.shape[1] - 1, image.shape[2] - 1)
    for _ in range(3):
        image = F.avg_pool2d(
            image[None], 2 * radius + 1, stride=1, padding=radius, count_include_pad=False
        )[0]
    return image


@dataclass(frozen=True)
class Mean:
    """A mean over images with its 95% interval, mean ± 1.96 s / √n."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """The mean of some values; the interval is the mean alone if there is only one."""
        array = np.asarray(values, dtype=float)
        reach = 1.96 * float(array.std(ddof=1)) / math.sqrt(len(array)) if len(array) > 1 else 0.0
        middle = float(array.mean())
        return cls(middle, middle - reach, middle + reach)

    def __str__(self) -> str:
        """Such as `0.31 (0.27 to 0.35)`."""
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})".replace("-", "−")


FEWEST_IMAGES = 10
"""With fewer images, nothing is said of a model's maps."""
MARGIN_OF_MEANS = 0.01
"""The least difference of probabilities, in the mean over images, that counts."""


@dataclass(frozen=True)
class HidingReport:
    """What hiding patches does over many images.

    Attributes:
        map: The map that was tested, such as `rollout`.
        hiding: How patches were hidden.
        tests: The test of each image.
    """

    map: str
    hiding: Hiding
    tests: tuple[HiddenPatches, ...]

    @property
    def drops(self) -> dict[str, Mean]:
        """By how much the probability falls if patches are hidden: most, random, least."""
        drops = {
            "most": [test.before - test.most for test in self.tests],
            "random": [test.before - test.others for test in self.tests],
            "least": [test.before - test.least for test in self.tests],
        }
        return {name: Mean.of(values) for name, values in drops.items()}

    @property
    def difference(self) -> Mean:
        """How much more the probability falls without the most looked at than without others."""
        return Mean.of([test.others - test.most for test in self.tests])

    @property
    def verdict(self) -> str:
        """One sentence: what the test says about such maps of this model."""
        if len(self.tests) < FEWEST_IMAGES:
            return f"too few images to tell: {FEWEST_IMAGES} or more are needed"
        if self.difference.low > MARGIN_OF_MEANS:
            return "the maps hold: what is looked at most matters more than other patches"
        if self.difference.high < -MARGIN_OF_MEANS:
            return "the maps mislead: what is looked at most matters less than other patches"
        if self.difference.high < MARGIN_OF_MEANS:
            return "the maps do not hold: what is looked at most matters no more than other patches"
        return f"these images cannot tell: the interval holds {MARGIN_OF_MEANS:g}, the margin"

    def to_json(self) -> dict[str, Any]:
        """Means and intervals, and the test of each image."""
        return {
            "map": self.map,
            **asdict(self.hiding),
            "images": len(self.tests),
            "hidden": self.tests[0].hidden,
            "patches": self.tests[0].patches,
            "before": asdict(Mean.of([test.before for test in self.tests])),
            "drop": {name: asdict(mean) for name, mean in self.drops.items()},
            "most_minus_random": asdict(self.difference),
            "tests": [test.to_json() for test in self.tests],
        }

    def table(self) -> str:
        """The means as text, with 95% intervals."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        first = self.tests[0]
        yield (
            f"{len(self.tests)} images, {first.hidden} of {first.patches} patches hidden "
            f"({'mean colour' if first.fill == 'mean' else 'blurred'}), by {self.map}"
        )
        yield f"{'hidden':<24}{'fall of P(class), mean (95% interval)'}"
        names = {"most": "looked at most", "least": "looked at least",
                 "random": f"others, {self.hiding.draws} draws"}  # fmt: skip
        for name, mean in self.drops.items():
            yield f"{names[name]:<24}{mean}"
        yield f"{'most − others':<24}{self.difference}"
        yield self.verdict
