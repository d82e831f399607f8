"""Trains a recipe: prepares data, vocabulary and model, runs the training loop.

In: a recipe, and the run's folder if results are to be kept. Out: a `Pipeline` with the best model.
Resuming reads the run's last checkpoint and compares recipe and data with it first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, TypeAdapter

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import CONFIG, SEEN, TRAINING, Snapshot, folder_name
from regard.checkpoint.run import RunLock
from regard.config import Config, checked
from regard.data.checks import summary
from regard.data.seen import Seen
from regard.errors import InputError
from regard.models import build, describe, parse_description
from regard.models.meta_model import meta_model
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runs.load import load, recipe_of_run
from regard.runs.resume import recipe_and_run
from regard.runs.start import begin, with_model_of_run
from regard.runtime.cores import torch_threads
from regard.runtime.device import MOST_THREADS, Runtime, check_memory, setup
from regard.runtime.files import write_file
from regard.runtime.ranks import Ranks, first_process_reports, process_group
from regard.runtime.units import short
from regard.tasks.base_task import Prepared
from regard.tasks.specs import TASKS
from regard.tasks.teacher import Teacher
from regard.train.loop import Trainer
from regard.train.optim import BYTES_PER_PARAMETER
from regard.train.state import Job, read_count
from regard.vectors.recipe import FORM as VECTORS
from regard.vectors.training import check_device, train_vectors

MAY_CHANGE = {"train.steps", "train.log_every", "train.evaluate_every", "train.save_every",
              "train.keep", "train.patience", "train.average", "train.tensorboard",
              "data.workers"}  # fmt: skip
"""Keys of a recipe that may change when a run is resumed, beside those of `decode`. All other keys
influence the weights."""

Watch = Callable[[int, Pipeline], None]

_logger = logging.getLogger(__name__)


def train(
    recipe: str | Path | Recipe | None = None,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    threads: int | None = None,
    device: str | torch.device = "auto",
    dtype: str = "fp32",
    watch: Watch | None = None,
    **overrides: Any,
) -> Pipeline:
    """Trains a recipe and returns the best model; for `task: vectors`, the `WordVectors`.

    Processes started by torchrun train one model together.

    Args:
        recipe: A shipped name, a path, or a Recipe; to resume, the run's folder suffices.
        out: The run's folder; without one, nothing is kept on disk.
        resume: Continue from the run's last checkpoint.
        quiet: Show no progress.
        threads: How many threads to compute with.
        device: `auto`, `cpu`, `cuda` or `mps`; word vectors are trained on the CPU.
        dtype: `fp32`, or `bf16` for mixed precision: on cuda, and on a CPU with instructions for
            it.
        watch: Called after every step with its number and the pipeline with the present weights.
        **overrides: Sections of the recipe to change, such as `train={"steps": 100}`, or `seed=1`.
    """
    if not isinstance(recipe, Recipe):
        with first_process_reports():
            recipe, out = recipe_and_run(recipe, out, resume=resume)
    if not isinstance(recipe, Recipe) and recipes.task_of(recipe) == "vectors":
        check_device(device)
        form = recipes.load_form(VECTORS, recipe, flatten(overrides))
        thread_count = setup(threads, form.seed, quiet=quiet).threads
        vectors: Any = train_vectors(form, out, resume=resume, quiet=quiet, threads=thread_count)
        return vectors
    with first_process_reports():
        if not isinstance(recipe, Recipe):
            recipe = recipes.load(recipe, flatten(overrides))
        elif overrides:
            raise InputError("overrides", got="a Recipe and overrides", expected="one of the two")
        runtime = setup(
            threads, recipe.seed, quiet=quiet, device=device, dtype=dtype, training=True
        )
        if dtype == "fp16":
            fix = "its small gradients would be lost; bf16 has the range of fp32"
            raise InputError("dtype", got="fp16 to train", expected="fp32 or bf16", fix=fix)
    with process_group(runtime.device) as ranks:
        if out is None:
            return _train_model(recipe, None, None, runtime, ranks, watch)
        keep_threads = threads is not None or ranks.world > 1
        _train_in(
            Path(out), recipe, runtime, ranks, watch, resume=resume, keep_threads=keep_threads
        )
    return load(out, device=device, dtype="fp32" if runtime.device == "cpu" else dtype)


def _train_in(
    run: Path,
    recipe: Recipe,
    runtime: Runtime,
    ranks: Ranks,
    watch: Watch | None,
    *,
    resume: bool,
    keep_threads: bool,
) -> None:
    """Trains in a run's folder, which the first process locks for all of them.

    Args:
        run: The folder.
        recipe: The run's recipe.
        runtime: Device, dtype and threads.
        ranks: The processes.
        watch: As for `train`.
        resume: Continue from the last checkpoint.
        keep_threads: Whether to keep the number of threads even if the run began with another.
    """
    with RunLock(run) if ranks.first else nullcontext():
        snapshot = None
        if ranks.first:  # it holds the lock, and looks before the others do
            snapshot = _checkpoint_to_resume(run, recipe, resume=resume)
        ranks.wait()
        if not ranks.first and resume:
            snapshot = _checkpoint_to_resume(run, recipe, resume=resume)
        count = runtime.threads if keep_threads else _threads_of(snapshot, runtime.threads)
        with torch_threads(count):
            _train_model(recipe, run, snapshot, replace(runtime, threads=count), ranks, watch)


def _threads_of(snapshot: Snapshot | None, now: int) -> int:
    """The number of threads when the run began; for a new run, the present number."""
    first = None if snapshot is None else read_count(snapshot.training, "threads", MOST_THREADS)
    if first is None or first == now:
        return now
    _logger.warning("threads: %d, as when the run began, not %d; --threads changes it", first, now)
    return first


def flatten(overrides: dict[str, Any]) -> list[str]:
    """Converts nested overrides into those of the command line.

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


def _train_model(
    recipe: Recipe,
    run: Path | None,
    snapshot: Snapshot | None,
    runtime: Runtime,
    ranks: Ranks,
    watch: Watch | None,
) -> Pipeline:
    """Prepares data, vocabulary and model, trains, and returns the pipeline.

    Args:
        recipe: The run's recipe.
        run: The run's folder; None keeps nothing on disk.
        snapshot: The checkpoint to resume from; None for a new run.
        runtime: Device, dtype and threads.
        ranks: The processes.
        watch: As for `train`.
    """
    if run is None and recipe.train.average > 1:
        _logger.warning("train.average needs a folder for the run: without one nothing is averaged")
    start = begin(recipe, snapshot)
    least_sizes = start.vocabularies or (1,) * len(start.recipe.model.VOCABULARIES)
    _check_memory(start.recipe, least_sizes)  # before the data is prepared, which can take minutes
    if snapshot is None and ranks.first and (line := summary(recipe.data, recipe.task)):
        _logger.warning("data: %s", line)
    task_class = TASKS[recipe.task].class_for(start.recipe.model)
    prepared = task_class.prepare(start.recipe, start.vocabulary)
    recipe, vocabulary = start.recipe, prepared.vocabulary
    if prepared.model is not None:  # the data decides some of the config: the names of classes
        recipe = recipe.model_copy(update={"model": prepared.model})
    threads = runtime.threads * ranks.world  # a resumed run may have another number of processes
    teacher = _load_teacher(recipe, prepared.task, runtime)
    checksums = prepared.checksums | ({} if teacher is None else {"teacher": teacher.checksum()})
    facts = {"threads": threads, "torch": str(torch.__version__), "data": checksums}
    if runtime.dtype != "fp32":
        facts["dtype"] = runtime.dtype
    if snapshot is not None:
        _compare_facts(facts, snapshot)
        _check_config(recipe, snapshot)
    sizes = vocabulary.vocabulary_sizes[: len(recipe.model.VOCABULARIES)]
    vocabularies = start.vocabularies or sizes
    _check_memory(recipe, vocabularies)
    model = build(recipe.model, *vocabularies)
    start.prepare(model)
    runtime.move(model)
    ranks.check_alike("the data", f"{facts['data']} {vocabulary.to_json()}")
    seen = _training_record(prepared, snapshot)
    pipeline = Pipeline(model, vocabulary, recipe, "model" if run is None else run.name, seen)
    if run is not None and ranks.first:
        write_file(run / "recipe.yaml", recipes.dump(recipe).encode())
    job = Job(
        model=model,
        task=prepared.task,
        config=recipe.train,
        dim=recipe.model.dim,
        describe=describe(model),
        tokenizer=vocabulary.to_json(),
        recipe=recipes.dump(recipe),
        seen=b"" if seen is None else seen.to_bytes(),
        run=run,
        facts=facts,
        watch=None if watch is None else lambda step, _: watch(step, pipeline),
        quiet=runtime.quiet,
        threads=runtime.threads,
        seed=recipe.seed,
        ranks=ranks,
    )
    state = Trainer(job, snapshot).run()
    if snapshot is not None and state.step == snapshot.step:
        _logger.warning("the run was complete at step %d; nothing was left to do", state.step)
    return pipeline


def _training_record(prepared: Prepared, snapshot: Snapshot | None) -> Seen | None:
    """The record of the training examples; a resumed run keeps that of its checkpoint."""
    if snapshot is not None and snapshot.seen:
        return Seen.from_bytes(snapshot.seen, f"{folder_name(snapshot.step)}/{SEEN}")
    return prepared.seen


def _load_teacher(recipe: Recipe, task: Any, runtime: Runtime) -> Teacher | None:
    """Loads the teacher that `train.teacher` names, and gives it to the task.

    Raises:
        InputError: The task or the teacher does not classify images, or the classes differ.
    """
    model_name, settings = recipe.train.teacher, recipe.train
    if model_name is None:
        return None
    expected = "a classifier of images"
    if not hasattr(task, "learn_from"):
        got = f"task {recipe.task} with a {recipe.model.family} model to be taught"
        raise InputError("train.teacher", got=got, expected=expected)
    with torch.random.fork_rng(devices=[]):  # loading must not change how the model is drawn
        pipeline = load(model_name, device="cpu", download=False)
    if not pipeline.reads_images or not pipeline.model.config.classes:
        raise InputError(f"train.teacher {model_name}", got=str(pipeline), expected=expected)
    runtime.move(pipeline.model)
    teacher = Teacher(
        pipeline.model,
        pipeline.processor.source,
        distillation=settings.distillation,
        weight=settings.teacher_weight,
        temperature=settings.temperature,
    )
    task.learn_from(teacher)
    return teacher


def _checkpoint_to_resume(run: Path, recipe: Recipe, *, resume: bool) -> Snapshot | None:
    """The checkpoint to resume from; None if the run starts from step 0.

    Raises:
        InputError: The folder is in use, or the recipe differs from the run's in a key that may not
            change.
    """
    if not resume:
        recipes.check_unused(run)
        return None

    def changed_keys(text: str, file: str) -> list[str]:
        old = recipe_of_run(text, file)
        changed = recipes.changed(old, with_model_of_run(recipe, old))
        return [key for key in changed if key not in MAY_CHANGE and not key.startswith("decode.")]

    return checkpoint.to_resume(run, changed_keys)


class _Facts(Config):
    """The values of `training.json` beside "place"."""

    threads: int = Field(ge=1, le=2**16)
    torch: str
    data: dict[str, str]
    parts: int | None = Field(default=None, ge=1, le=2**16)
    dtype: str = "fp32"


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """Reads and validates the values of a checkpoint's `training.json` beside "place"."""
    facts = {key: value for key, value in snapshot.training.items() if key != "place"}
    what = f"{folder_name(snapshot.step)}/{TRAINING}"
    return checked(TypeAdapter(_Facts), facts, what).model_dump()


def _check_config(recipe: Recipe, snapshot: Snapshot) -> None:
    """Refuses a checkpoint whose `config.json` describes another model than its recipe."""
    if parse_description(snapshot.config)[0] != recipe.model:
        what = f"checkpoint {folder_name(snapshot.step)}: {CONFIG}"
        got = "another model than that of recipe.yaml"
        fix = "take the two from one copy of the checkpoint"
        raise InputError(what, got=got, expected="the same", fix=fix)


def _compare_facts(facts: dict[str, Any], snapshot: Snapshot) -> None:
    """Compares a resumed run's data, threads and PyTorch version with those when it began.

    Other data is refused. Other threads or another version only cause a warning, since they change
    no more than the last bits of the weights.
    """
    before = _facts(snapshot)
    teacher = facts["data"].get("teacher")
    if teacher is not None and snapshot.config.get("regard") == 1:
        before["data"]["teacher"] = teacher  # version 1 hashed another form of the teacher's config
    if before["data"] != facts["data"]:
        (name, _), *_ = sorted(set(before["data"].items()) ^ set(facts["data"].items()))
        fix = "put the data back as it was, or start a new run"
        raise InputError(f"--resume with other data: {name} changed since the run began", fix=fix)
    facts = {"dtype": "fp32"} | facts
    message = "%s: %s now, %s when the run began; the last bits of the weights may differ"
    for what in ("threads", "torch", "dtype"):
        if before[what] != facts[what]:
            _logger.warning(message, what, facts[what], before[what])


def _check_memory(recipe: Recipe, vocabularies: Sequence[int]) -> None:
    """Refuses a training whose weights, gradients and moments do not fit into the memory.

    Activations are not counted: the texts may be shorter, or fewer, than the recipe allows.

    Args:
        recipe: The recipe of the training.
        vocabularies: Size of each vocabulary; a smaller number as long as it is not known.
    """
    model = meta_model(recipe.model, *vocabularies)
    count = sum(parameter.numel() for parameter in model.parameters())
    what = f"a training of {short(count)} parameters ({recipe.model.summary})"
    fix = "take a smaller model.dim, model.hidden or number of layers; `regard plan` counts them"
    check_memory(what, count * sum(BYTES_PER_PARAMETER.values()), fix)
