"""A recipe -> data -> vocabulary -> model -> the one training loop -> a Pipeline."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, TypeAdapter

from regard import recipe as recipes
from regard.beginning import begin, continued
from regard.config import Config, checked
from regard.errors import InputError
from regard.files import read_regular, write_file
from regard.loading import load
from regard.materials import gather
from regard.models import build, describe, understood
from regard.models.cost import sides
from regard.pipeline import Pipeline
from regard.plan import check_training_memory
from regard.recipe import Recipe
from regard.runtime import MOST_THREADS, setup
from regard.train import checkpoint
from regard.train.checkpoint import RunLock, Snapshot
from regard.train.folder import CONFIG, TRAINING, folder_name
from regard.train.trainer import Job, Trainer, whole_number

MAY_CHANGE = {"train.steps", "train.log_every", "train.evaluate_every", "train.save_every",
              "train.keep", "train.patience", "train.average", "train.tensorboard"}  # fmt: skip
"""What a resumed run may set anew; the decoding section too. All else decides the weights."""

Watch = Callable[[int, Pipeline], None]

_logger = logging.getLogger(__name__)


def train(
    recipe: str | Path | Recipe,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    threads: int | None = None,
    watch: Watch | None = None,
    **overrides: Any,
) -> Pipeline:
    """Trains a recipe and returns the best model.

    Args:
        recipe: A shipped name, a path, or a Recipe.
        out: The run's folder; without one, nothing is kept on disk.
        resume: Go on from the run's last checkpoint.
        quiet: Show no progress.
        threads: How many threads to compute with.
        watch: Called after every step with its number and the pipeline as it is.
        **overrides: Sections of the recipe to change, such as `train={"steps": 100}`, or `seed=1`.
    """
    if not isinstance(recipe, Recipe):
        recipe = recipes.load(recipe, flatten(overrides))
    elif overrides:
        raise InputError("overrides", got="a Recipe and overrides", expected="one of the two")
    used = setup(threads, recipe.seed, quiet=quiet).threads
    if out is None:
        return _run(recipe, None, None, threads=used, quiet=quiet, watch=watch)
    run = Path(out)
    with RunLock(run) as lock:
        try:
            start = _where_to_start(run, recipe, resume=resume)
            with _threads_of(start, used, asked=threads is not None) as count:
                _run(recipe, run, start, threads=count, quiet=quiet, watch=watch)
        except InputError:
            if lock.created and not (run / "metrics.jsonl").exists():
                lock.remove()  # what was refused leaves nothing behind
            raise
    return load(out)


@contextmanager
def _threads_of(start: Snapshot | None, used: int, *, asked: bool) -> Iterator[int]:
    """The threads that a run computes with: those it began with, unless others are asked for."""
    began = None if start is None else whole_number(start.training, "threads", MOST_THREADS)
    if asked or began is None or began == used:
        yield used
        return
    _logger.warning("threads: %d, as when the run began, not %d; --threads changes it", began, used)
    torch.set_num_threads(began)
    try:
        yield began
    finally:
        torch.set_num_threads(used)


def flatten(overrides: dict[str, Any]) -> list[str]:
    """Nested overrides as the command line has them.

    Example:
        >>> flatten({"train": {"steps": 5}, "seed": 1})
        ['train.steps=5', 'seed=1']
    """
    flat = []
    for key, value in overrides.items():
        if isinstance(value, dict):
            flat += [f"{key}.{name}={json.dumps(inner)}" for name, inner in value.items()]
        else:
            flat.append(f"{key}={json.dumps(value)}")
    return flat


def _run(
    recipe: Recipe,
    run: Path | None,
    start: Snapshot | None,
    *,
    threads: int,
    quiet: bool,
    watch: Watch | None,
) -> Pipeline:
    if run is None and recipe.train.average > 1:
        _logger.warning("train.average needs a folder for the run: without one nothing is averaged")
    beginning = begin(recipe, start)
    known = beginning.vocabularies or (1,) * sides(beginning.recipe.model)
    check_training_memory(beginning.recipe, known)  # before minutes are spent on the data
    materials = gather(beginning.recipe, beginning.vocabulary)
    recipe, vocabulary = materials.recipe or beginning.recipe, materials.vocabulary
    facts = {"threads": threads, "torch": str(torch.__version__), "data": materials.checksums}
    if start is not None:
        _compare(facts, start)
        _check_config(recipe, start)
    sizes = [vocabulary.source.vocab, vocabulary.target.vocab]
    vocabularies = beginning.vocabularies or tuple(sizes[: sides(recipe.model)])
    check_training_memory(recipe, vocabularies)
    model = build(recipe.model, *vocabularies)
    beginning.prepare(model)
    pipeline = Pipeline(model, vocabulary, recipe, "model" if run is None else run.name)
    if run is not None:
        write_file(run / "recipe.yaml", recipes.dump(recipe).encode())
    job = Job(
        model=model,
        task=materials.task,
        config=recipe.train,
        dim=recipe.model.dim,
        describe=describe(model),
        tokenizer=vocabulary.to_json(),
        recipe=recipes.dump(recipe),
        run=run,
        facts=facts,
        watch=None if watch is None else lambda step, _: watch(step, pipeline),
        quiet=quiet,
        threads=threads,
        seed=recipe.seed,
    )
    place = Trainer(job, start).run()
    if start is not None and place.step == start.step:
        _logger.warning("the run was complete at step %d; nothing was left to do", place.step)
    return pipeline


def _where_to_start(run: Path, recipe: Recipe, *, resume: bool) -> Snapshot | None:
    """The checkpoint to go on from, if one is asked for and there."""
    if not resume:
        if (run / "checkpoints").is_dir() and any((run / "checkpoints").iterdir()):
            raise InputError(
                f"{run} already holds a run",
                fix="go on with --resume, or choose another folder with -o",
            )
        _spare_recipe(run)
        return None
    found = checkpoint.latest(run)
    if found is None:
        _logger.warning("no checkpoint was found in %s: training starts anew", run)
        return None
    folder, snapshot, messages = found
    for message in messages:
        _logger.warning(message)
    old = recipes.from_text(snapshot.recipe, str(folder / "recipe.yaml"))
    changed = [
        key
        for key in recipes.changed(old, continued(recipe, old))
        if key not in MAY_CHANGE and not key.startswith("decode.")
    ]
    if changed:
        raise InputError(
            f"--resume with another recipe: {_few(changed)} changed",
            fix="resume with the recipe of the run (its recipe.yaml), or choose another folder",
        )
    return snapshot


def _few(names: list[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _spare_recipe(run: Path) -> None:
    """Refuses a folder whose recipe.yaml somebody wrote: a run would put its own in its place."""
    path = run / "recipe.yaml"
    if not path.is_file():
        return
    try:
        text = read_regular(path, recipes.LARGEST).decode("utf-8", "replace")
        ours = recipes.dump(recipes.from_text(text, str(path))) == text
    except InputError:
        ours = False
    if not ours:
        raise InputError(
            f"{path} is not of a run, and would be overwritten",
            fix="choose another folder with -o",
        )


class _Facts(Config):
    """What `training.json` says beside the place."""

    threads: int = Field(ge=1, le=2**16)
    torch: str
    data: dict[str, str]
    parts: int | None = Field(default=None, ge=1, le=2**16)


def _facts(start: Snapshot) -> dict[str, Any]:
    """What a checkpoint says of the run it is of, beside its place."""
    found = {key: value for key, value in start.training.items() if key != "place"}
    what = f"{folder_name(start.step)}/{TRAINING}"
    return checked(TypeAdapter(_Facts), found, what).model_dump()


def _check_config(recipe: Recipe, start: Snapshot) -> None:
    """Refuses a checkpoint whose two descriptions of the model differ."""
    if understood(start.config)[0] != recipe.model:
        raise InputError(
            f"checkpoint {folder_name(start.step)}: {CONFIG}",
            got="another model than that of recipe.yaml",
            expected="the same",
            fix="take the two from one copy of the checkpoint",
        )


def _compare(facts: dict[str, Any], start: Snapshot) -> None:
    """Refuses other data; warns of what makes the last bits differ."""
    before = _facts(start)
    if before["data"] != facts["data"]:
        names = sorted(set(before["data"].items()) ^ set(facts["data"].items()))
        raise InputError(
            f"--resume with other data: {names[0][0]} changed since the run began",
            fix="put the data back as it was, or start a new run",
        )
    for what in ("threads", "torch"):
        if before[what] != facts[what]:
            _logger.warning(
                "%s: %s now, %s when the run began; the last bits of the weights may differ",
                what,
                facts[what],
                before[what],
            )
