"""Estimates the cost of a model before training: parameters, FLOPs, memory, time, money.

A recipe, or the name of a size or published model, and overrides come in; a `Plan` goes out, which
can be formatted as a table or as JSON. The model is not allocated; `regard/cost/count.py` counts.

Numbers of tokens include all tokens that are read, as in `train.batch_tokens`: for an
encoder-decoder, source and target together. An example is one text, or one pair of texts. A network
of convolutions alone has no tokens: its FLOPs are those of an image.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.cost.count import (
    TRAINING,
    VOCABULARY_PARTS,
    forward_flops,
    parameters,
    shared_parts,
)
from regard.cost.formulas import activation_floats, cache_floats, loss_floats
from regard.cost.names import (
    RECIPES,
    Budget,
    budget_of,
    find,
    lengths_of,
    published_models,
    published_recipe,
    relative_positions,
    targets_of,
    tokens_of,
    unit_of,
    unit_tokens,
)
from regard.cost.plan_table import plan_table
from regard.errors import InputError
from regard.models.meta_model import meta_model
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runtime.device import MOST_THREADS
from regard.tasks.base_task import max_lengths
from regard.train.optim import BYTES, BYTES_PER_PARAMETER

PAPER_TRAINING = {"base": (8, 12.0), "big": (8, 84.0)}
"""The number of P100 GPUs and of hours of the paper's trainings (section 5.2)."""

BENCHMARK_SIZE = 1024
BENCHMARK_SECONDS = 0.5


def paper_training_flops(gpus: int, hours: float, sustained: float = 9.5e12) -> float:
    """The paper's estimate: GPUs × time × sustained FLOP/s of one GPU (note 5: P100, 9.5e12).

    Example:
        >>> f"{paper_training_flops(8, 12):.1e}", f"{paper_training_flops(8, 84):.1e}"
        ('3.3e+18', '2.3e+19')
    """
    return gpus * hours * 3600 * sustained


def training_flops(size: str, tokens: float, *, length: int | None = None) -> float:
    """Our own count for a size or published model: training FLOPs per token × tokens.

    The paper's base saw 100,000 steps of 25,000 source and 25,000 target tokens: tokens=5e9.
    """
    return plan(size, tokens=tokens, flops=1.0, length=length).training_flops


def measure_rate(threads: int | None = None) -> float:
    """Measures the FLOP/s of this machine in a product of two large matrices.

    The result is the median over about half a second.

    Args:
        threads: The number of threads; None: torch's present setting.
    """
    before = torch.get_num_threads()
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InputError("--threads", got=threads, expected=f"from 1 to {MOST_THREADS}")
    torch.set_num_threads(threads or before)
    try:
        matrix = torch.ones(BENCHMARK_SIZE, BENCHMARK_SIZE)
        torch.mm(matrix, matrix)  # the first call sets the kernel up
        seconds: list[float] = []
        while len(seconds) < 3 or sum(seconds) < BENCHMARK_SECONDS:
            start = time.perf_counter()
            torch.mm(matrix, matrix)
            seconds.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return 2 * BENCHMARK_SIZE**3 / statistics.median(seconds)


@dataclass(frozen=True)
class Plan:
    """The cost of a model. Counts are exact; activations and times are estimates."""

    what: str
    recipe: Recipe
    recipe_name: str
    vocab: int
    vocab_from: str
    lengths: tuple[int, ...]
    """The number of tokens of source and target, or of the only text."""
    parameters: Mapping[str, int]
    shared: Mapping[str, str]
    """The parts that share a matrix, each with the part that the matrix belongs to."""
    forward: Mapping[str, float]
    """Forward FLOPs per token, or per image (`unit`), by part."""
    tokens: float
    """The number of training tokens, or images."""
    tokens_from: str
    rate: float
    """The rate of matrix products in FLOP/s."""
    rate_from: str
    price_per_hour: float | None = None

    def __str__(self) -> str:
        return self.table()

    @property
    def total(self) -> int:
        """The number of all parameters; shared ones count once."""
        return sum(self.parameters.values())

    @property
    def without_vocabulary(self) -> int:
        """The number of parameters without embeddings and output."""
        return self.total - sum(self.parameters.get(part, 0) for part in VOCABULARY_PARTS)

    @property
    def unit(self) -> str:
        """What FLOPs are counted for: an `image` if there are only convolutions, else a `token`."""
        return unit_of(self.recipe.model)

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds of a forward pass per token or image: each is two FLOPs."""
        return sum(self.forward.values()) / 2

    @property
    def layers(self) -> int:
        """The number of layers of all stacks."""
        return sum(self.recipe.model.stacks.values())

    @property
    def flops_per_token(self) -> float:
        """FLOPs per token, or per image, in training: forward and backward."""
        return TRAINING * sum(self.forward.values())

    @property
    def training_flops(self) -> float:
        """FLOPs of the whole training."""
        return self.flops_per_token * self.tokens

    @property
    def hours(self) -> float:
        """Hours of the whole training, if all time were spent in products at the matrix rate."""
        return self.training_flops / self.rate / 3600

    @property
    def training_memory(self) -> dict[str, int]:
        """Bytes in training: 16 per parameter, and the activations of a micro-batch.

        This is for one thread; each further thread that computes a part of the micro-batch needs
        another copy of the gradients.
        """
        model, tokens, length = self.recipe.model, self.recipe.train.batch_tokens, sum(self.lengths)
        targets = targets_of(model, self.lengths)
        example = activation_floats(model, *self.lengths, targets=targets)
        memory = {part: count * self.total for part, count in BYTES_PER_PARAMETER.items()}
        if example is None:  # no formula for a part of this model
            return memory
        loss = loss_floats(model, self.vocab, tokens * targets // length)
        return memory | {"activations": BYTES * (example * tokens // length + loss)}

    @property
    def rows(self) -> int:
        """The number of hypotheses in decoding one text."""
        decode = self.recipe.decode
        return decode.n_best if decode.sample else decode.beam

    @property
    def max_output_tokens(self) -> int:
        """The maximal number of tokens of a hypothesis, for a decoder including the prompt."""
        model, length = self.recipe.model, self.lengths[0]
        if not model.has_target:
            return length
        return min(
            self.recipe.decode.max_length or max_lengths([length])[0], model.last.front.max_length
        )

    @property
    def inference_memory(self) -> dict[str, int]:
        """Bytes to decode one text: weights, and the key-value cache unless it is an encoder."""
        rows, length, source = self.rows, self.max_output_tokens, self.lengths[0]
        floats = cache_floats(self.recipe.model, rows=rows, length=length, source=source)
        weights = {"weights": BYTES * self.total}
        return weights | ({"keys and values": BYTES * floats} if floats else {})

    @property
    def published(self) -> float | None:
        """The published FLOPs of this training, if there are any and model and tokens agree."""
        published = self.published_with_source
        return None if published is None else published[0]

    @property
    def published_with_source(self) -> tuple[float, str] | None:
        """The published FLOPs of this training, and their source."""
        size, published = self.recipe.model.size, published_models().get(self.what)
        if published is not None:
            original_recipe = published_recipe(self.what, published)
            count, note = published.flops, published.flops_source
        elif size in PAPER_TRAINING:
            gpus, hours = PAPER_TRAINING[size]
            original_recipe = recipes.load(RECIPES[size])
            count = paper_training_flops(gpus, hours)
            note = f"what {gpus} P100 can do in {hours:g} hours, at 9.5 TFLOP/s each"
        else:
            return None
        same_model = self.recipe.model == original_recipe.model
        is_same = same_model and self.tokens == tokens_of(original_recipe) / unit_tokens(
            original_recipe.model
        )
        return (count, note) if is_same and count is not None else None

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, in FLOPs, bytes and hours."""
        training, inference = self.training_memory, self.inference_memory
        price = self.price_per_hour
        return {
            "plan": self.what,
            "recipe": self.recipe_name,
            "vocab": self.vocab,
            "vocab_from": self.vocab_from,
            "length": self.lengths[0],
            "target_length": self.lengths[1] if len(self.lengths) > 1 else None,
            "parameters": {
                **_json_keys(self.parameters),
                "total": self.total,
                "without_embeddings_and_output": self.without_vocabulary,
            },
            f"flops_per_{self.unit}": {
                **_json_keys(self.forward),
                "forward": sum(self.forward.values()),
                "forward_multiply_adds": self.multiply_adds,
                "training": self.flops_per_token,
                "rule_6n": 6 * self.without_vocabulary,
            },
            "training_bytes": {**_json_keys(training), "total": sum(training.values())},
            "inference_bytes": {**_json_keys(inference), "total": sum(inference.values())},
            f"{self.unit}s": self.tokens,
            "training_flops": self.training_flops,
            "published_training_flops": self.published,
            "flops_per_second": self.rate,
            "rate_from": self.rate_from,
            "hours": self.hours,
            "hours_at_half": 2 * self.hours,
            "price_per_hour": price,
            "cost": None if price is None else price * self.hours,
            "cost_at_half": None if price is None else 2 * price * self.hours,
        }

    def table(self) -> str:
        """Formats the plan as an aligned table with units and the origin of each number."""
        return plan_table(self)


def plan(
    what: str,
    overrides: Sequence[str] = (),
    *,
    tokens: float | None = None,
    flops: float | None = None,
    price_per_hour: float | None = None,
    vocab: int | None = None,
    threads: int | None = None,
    length: int | None = None,
) -> Plan:
    """Estimates the cost of a recipe, a size or a published model, without allocating it.

    Args:
        what: A size of `RECIPES`, a name of `published_models()`, a shipped recipe, a recipe file,
            or the folder of a model: a run, a checkpoint, or a Hugging Face model.
        overrides: Changes of the recipe, such as `model.dim=1024`.
        tokens: The number of training tokens, source and target together, or of images for a
            network of convolutions; by default that of the recipe's steps.
        flops: The rate of matrix products in FLOP/s; by default it is measured.
        price_per_hour: The price of an hour, for the cost.
        vocab: The size of each vocabulary; by default that of the model that the recipe starts
            from, or else the maximum that the recipe allows.
        threads: The number of threads of the measurement; by default torch's present setting.
        length: The number of tokens of each text; by default that of the model or recipe.

    Raises:
        InputError: There is no such size or recipe, or a number is not positive and finite.

    Example:
        >>> plan("base", flops=1e12).without_vocabulary
        44138496
        >>> plan("gpt2", flops=1e12).total
        124439808
    """
    numbers = {
        "--tokens": tokens,
        "--flops": flops,
        "--price-per-hour": price_per_hour,
        "--vocab": vocab,
        "length": length,
    }
    for option, value in numbers.items():
        if value is not None and not 0 < value < math.inf:  # nan fails the comparison, too
            raise InputError(option, got=value, expected="a number above 0")
    name, recipe, vocabularies, vocab_from = find(what, overrides, vocab)
    recipe = _with_numbers_of_data(recipe)
    config = recipe.model
    model = meta_model(config, *vocabularies)
    lengths = lengths_of(recipe, published_models().get(what), length)
    forward = forward_flops(model, *lengths, targets=targets_of(config, lengths))
    counts = parameters(model) | relative_positions(what, config)
    used = threads or torch.get_num_threads()
    budget = Budget(tokens, "--tokens") if tokens else budget_of(what, recipe, overrides, counts)
    return Plan(
        what=what,
        recipe=recipe,
        recipe_name=name,
        vocab=vocabularies[-1] if vocabularies else 0,
        vocab_from=vocab_from,
        lengths=lengths,
        parameters=counts,
        shared=shared_parts(model),
        forward={
            part: count * unit_tokens(config) / sum(lengths) for part, count in forward.items()
        },
        tokens=budget.tokens,
        tokens_from=budget.source,
        rate=flops or measure_rate(threads),
        rate_from="--flops" if flops else f"measured, {used} thread{'s' if used > 1 else ''}",
        price_per_hour=price_per_hour,
    )


def _json_keys(parts: Mapping[str, float]) -> dict[str, float]:
    """The parts with names that are JSON keys: `self-attention` -> `self_attention`."""
    return {part.replace(" ", "_").replace("-", "_"): value for part, value in parts.items()}


def _with_numbers_of_data(recipe: Recipe) -> Recipe:
    """The recipe with the head for the numbers of its data, if these are known without reading."""
    count = getattr(recipe.data, "genes", 0)
    if recipe.task != "predict" or not count or recipe.model.numbers:
        return recipe
    names = tuple(f"gene {number}" for number in range(1, count + 1))
    return recipe.model_copy(update={"model": recipe.model.changed(numbers=names)})
