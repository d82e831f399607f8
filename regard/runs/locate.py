"""Finds the folder of a model: as a path, on the shelf, in the Hugging Face cache, on the hub.

In: the name of a model (`runs/mine`, `tiny/translate`, `gpt2`, `org/name@revision`). Out: a folder.
They are searched in this order; "the shelf" is the models that ship with Regard. The cache is read
directly from disk, without a network. The hub is asked last, only if `huggingface_hub` is
installed, only for names that cannot be Regard's own, and only for weights in safetensors, JSON
files and tokenizers. Repository and size are logged before a download.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from regard.checkpoint.folder import CONFIG
from regard.errors import NEAREST, InputError, did_you_mean, nearest
from regard.recipes import recipe as recipes
from regard.recipes.shelf import in_megabytes, shipped
from regard.runtime.device import check_memory
from regard.runtime.files import read_regular

ModelName = str | Path
Want = Literal["model", "tokenizer", "config"]
"""Which files of a model are needed; a cached model may have been downloaded in part."""

LIST_COMMAND = "regard ls"
"""The command that lists the shipped models."""
SHELVES = {"tiny", "small", "words", "own"}
"""First parts of names that are Regard's own, beside those of shipped models and recipes."""
ORGANISATIONS = ("openai-community", "google-bert", "google-t5", "FacebookAI", "distilbert",
                 "sentence-transformers")  # fmt: skip
"""Organisations on the hub whose models are also known without one, such as gpt2."""
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "*.model", "*.spm")
"""Patterns of the names of tokenizer files."""
TRUE_VALUES = {"1", "ON", "YES", "TRUE"}
"""The values of an environment variable that mean yes, in upper case."""
FILE_ENDINGS = {".json", ".jsonl", ".yaml", ".yml", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".npz",
                ".safetensors", ".txt", ".tsv", ".csv", ".gz", ".zip", ".git"}  # fmt: skip
"""Endings of file names, which a model's name on the hub does not have."""

_PART = r"[A-Za-z0-9](?:[\w.-]{0,94}\w)?"
"""An organisation, or a name without it."""
_NAME = re.compile(rf"(?:(?P<org>{_PART})/)?(?P<name>{_PART})(?:@(?P<revision>\w[\w./-]*))?", re.A)
_COMMIT = re.compile("[0-9a-f]{40}")
_HASH = re.compile("[0-9a-f]{7,40}")
"""The beginning of a commit's hash, or all of it."""

_logger = logging.getLogger(__name__)


class UnknownModel(InputError):
    """A name that no folder has, no shipped model, and none in the cache or on the hub."""


@contextmanager
def open_model(
    model_name: ModelName, want: Want = "model", *, download: bool = True
) -> Iterator[Path]:
    """Gives the folder, or the file, of a model for the body of a `with`.

    Args:
        model_name: A path or the name of a shipped model; a string may also be a name on the hub.
        want: Which files the folder must have.
        download: Whether to download from the hub.

    Raises:
        InputError: There is no such model.
    """
    folder = find(model_name, want, download=download)
    if isinstance(folder, Path):
        yield folder
    else:
        with as_file(folder) as path:
            yield path


def find(
    model_name: ModelName, want: Want = "model", *, download: bool = True
) -> Path | Traversable:
    """Finds the folder of a model; arguments and errors as for `open_model`."""
    if os.path.exists(model_name):  # noqa: PTH110 (a name that no file can have is no error)
        return Path(model_name)
    name = str(model_name)
    if name in (models := shipped()):
        return models[name]
    repo = None if isinstance(model_name, Path) else Repository.of(name)
    if is_ours(name) or repo is None:
        raise _unknown_model_error(name)
    if (cached := _cached_snapshot(repo, want)) is not None:
        return cached
    return _download_snapshot(repo, want, download=download)


def shelf_of(name: str) -> list[str]:
    """The names of the shipped models in a folder of the shelf, such as `small`.

    Example:
        >>> shelf_of("words/")
        ['words/glove']
    """
    return [model for model in shipped() if model.startswith(f"{name.rstrip('/')}/")]


def is_cached(model_name: str) -> bool:
    """Whether a name is that of a model in the Hugging Face cache; its weights are not read."""
    repo = None if is_ours(model_name) else Repository.of(model_name)
    return repo is not None and _cached_snapshot(repo, "config") is not None


def is_ours(name: str) -> bool:
    """Whether a name begins like those of shipped models and recipes.

    Such names are not searched in the Hugging Face cache or on the hub.

    Example:
        >>> is_ours("tiny/translat"), is_ours("gpt2")
        (True, False)
    """
    shelves = {entry.partition("/")[0] for entry in (*shipped(), *recipes.shipped())}
    return name.partition("/")[0] in SHELVES | shelves


@dataclass(frozen=True)
class Repository:
    """A model's name and revision on the hub."""

    name: str
    """The name with its organisation, if it has one."""
    revision: str | None

    @classmethod
    def of(cls, text: str) -> Repository | None:
        """Parses a name; None if no repository can have it.

        Example:
            >>> Repository.of("openai-community/gpt2@main")
            Repository(name='openai-community/gpt2', revision='main')
            >>> Repository.of("../gpt2")
        """
        match = _NAME.fullmatch(text)
        if match is None or ".." in text or "--" in text or "//" in text:
            return None
        name = text.partition("@")[0]
        if len(name) > 96 or Path(name).suffix.lower() in FILE_ENDINGS:
            return None
        return cls(name, match["revision"])

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name}@{self.revision}"

    def names(self) -> list[str]:
        """All names that the cache may have it under, with and without organisation."""
        organisation, _, name = self.name.rpartition("/")
        if not organisation:
            return [name, *(f"{prefix}/{name}" for prefix in ORGANISATIONS)]
        return [self.name, *([name] if organisation in ORGANISATIONS else [])]


def cache() -> Path:
    """The folder of Hugging Face's cache, by the same rules as `huggingface_hub`."""
    for variable, subfolder in (
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ):
        if value := os.environ.get(variable):
            return Path(os.path.expandvars(value)).expanduser() / subfolder
    return Path("~/.cache/huggingface/hub").expanduser()


def offline() -> bool:
    """Whether the environment variables forbid access to the hub."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in TRUE_VALUES


def _cached_snapshot(repo: Repository, want: Want) -> Path | None:
    """The first snapshot in the cache that has all wanted files; None if there is none."""
    snapshots = (_snapshot(folder, repo.revision) for folder in _cache_folders(repo))
    return next((path for path in snapshots if path is not None and _has_files(path, want)), None)


def _cache_folders(repo: Repository) -> list[Path]:
    """The folders in which the cache may have a model; they need not exist."""
    return [cache() / f"models--{name.replace('/', '--')}" for name in repo.names()]


def _snapshot(folder: Path, revision: str | None) -> Path | None:
    """The folder of a revision in the cache; None if it cannot be determined.

    Without a revision it is `main`, or the only snapshot there is. A revision may also be the
    beginning of a commit's hash.
    """
    try:
        data = read_regular(folder / "refs" / (revision or "main"), most=100)
        commit = data.decode("ascii", "replace").strip()
    except (OSError, InputError):
        commit = ""
    if _COMMIT.fullmatch(commit):
        return folder / "snapshots" / commit
    paths = _snapshots(folder)
    if revision is not None:
        is_hash = _HASH.fullmatch(revision)
        paths = [path for path in paths if is_hash and path.name.startswith(revision)]
    return paths[0] if len(paths) == 1 else None


def _snapshots(folder: Path) -> list[Path]:
    """The folders of all snapshots that the cache has of a repository."""
    try:
        paths = sorted((folder / "snapshots").iterdir())
    except OSError:  # there are none, or reading is not permitted
        return []
    return [path for path in paths if _COMMIT.fullmatch(path.name) and path.is_dir()]


def _has_files(folder: Path, want: Want) -> bool:
    """Whether a snapshot has the wanted files; incomplete downloads are not linked there."""
    from regard.hub.folder import has_weights  # here, because it imports torch

    if want == "tokenizer":
        return any(file.is_file() for name in TOKENIZERS for file in folder.glob(name))
    return (folder / CONFIG).is_file() and (want == "config" or has_weights(folder))


def _download_snapshot(repo: Repository, want: Want, *, download: bool) -> Path:
    """Downloads the wanted files into the cache, after logging their number and size."""
    if (reason := _reason_not_to_ask(repo, download=download)) is not None:
        raise _not_cached_error(repo, want, reason)
    if (hub := _hub_library()) is None:
        raise _not_cached_error(repo, want, "`pip install huggingface_hub` downloads such names")
    try:
        model_info = hub.HfApi().model_info(repo.name, revision=repo.revision, files_metadata=True)
        sizes = {file.rfilename: int(file.size or 0) for file in model_info.siblings or ()}
    except Exception as error:
        raise _hub_error(repo, error) from error
    files = _files_to_download(repo, sizes, want)
    total = sum(sizes[name] for name in files)
    check_memory(f"{repo}: its files", total)
    _logger.warning(
        "%s: downloading %d files, %s, from the Hugging Face hub into %s",
        repo, len(files), in_megabytes(total), cache(),
    )  # fmt: skip
    try:
        folder = hub.snapshot_download(
            repo.name, revision=repo.revision, cache_dir=str(cache()), allow_patterns=files
        )
    except Exception as error:
        raise _hub_error(repo, error) from error
    return Path(folder)


def _reason_not_to_ask(repo: Repository, *, download: bool) -> str | None:
    """The reason why the hub is not asked; None if it may be asked."""
    if not download:
        return f"from the hub, `regard import {repo} -o FOLDER` downloads it first"
    if offline():
        return "HF_HUB_OFFLINE is set: unset it to download such names"
    if "/" in repo.name and Path(repo.name).parent.is_dir():
        return "its first part is a folder here, so the hub is not asked"
    return None


def _hub_library() -> Any:
    """`huggingface_hub`, if it is installed."""
    try:
        return import_module("huggingface_hub")
    except ImportError:
        return None


def _files_to_download(repo: Repository, sizes: dict[str, int], want: Want) -> list[str]:
    """The files of a repository to download: safetensors, JSON, tokenizers; none in subfolders.

    Raises:
        InputError: There are no weights in safetensors.
    """
    names = sorted(name for name in sizes if re.fullmatch(r"\w[\w.+-]*", name, re.A))
    files = [name for name in names
             if any(fnmatchcase(name, kind) for kind in (*TOKENIZERS, "*.json"))]  # fmt: skip
    if want == "model":
        from regard.hub.folder import INDEX, WEIGHTS

        parts = [name for name in names if fnmatchcase(name, "model-*.safetensors")]
        weights = [WEIGHTS] if WEIGHTS in sizes else parts if INDEX in sizes else []
        if not weights:
            other_files = [name for name in names if name.endswith((".bin", ".safetensors", ".h5"))]
            got = f"weights in {', '.join(other_files)}" if other_files else "no weights"
            fix = "download it yourself and name its folder: .bin files are read from there"
            what = f"{repo} on the Hugging Face hub"
            raise InputError(what, got=got, expected=WEIGHTS, fix=fix)
        files += weights
    return files


def _unknown_model_error(name: str) -> InputError:
    """The error for a name that is no folder and no shipped model, and cannot be on the hub."""
    shipped_recipes = recipes.shipped()
    if name in shipped_recipes:
        run = f"runs/{Path(name).name}"
        override = shipped_recipes[name].partition(": add ")[2]
        override = override or ("data.train=FILE" if name.startswith("own/") else "")
        command = " ".join(["regard train", name, *([override] if override else []), "-o", run])
        advice = f"train it ({command}), then name {run}"
        return InputError(f"{name} is a recipe, not a model", fix=advice)
    names = [*shipped(), *shipped_recipes]
    in_folder = [known for known in names if known.startswith(f"{name}/")]
    guesses = shelf_of(name) or nearest(name, names) or in_folder[:1]
    if is_ours(name) and guesses:
        fix = did_you_mean(guesses[:NEAREST], LIST_COMMAND)
        return UnknownModel(f"no folder {name}, and no such shipped model", fix=fix)
    return UnknownModel(f"no folder {name}", fix=f"name {_advice(name)}")


def _advice(name: str) -> str:
    """Advice on what can be named instead, similar shipped models first if there are any."""
    guesses = nearest(name, shipped())
    suggestion = f"{' or '.join(guesses)} (did you mean that?), or " if guesses else ""
    return f"{suggestion}a run, a checkpoint, or a shipped model (`{LIST_COMMAND}` lists them)"


def _not_cached_error(repo: Repository, want: Want, reason: str) -> InputError:
    """The error for a name that is not in the cache, with the reason why the hub is not asked."""
    what = f"no folder {repo}, no such shipped model, nor one in the Hugging Face cache {cache()}"
    paths = [path for folder in _cache_folders(repo) for path in _snapshots(folder)]
    commits = [path.name[:12] for path in paths if _has_files(path, want)]
    names = [folder.name.removeprefix("models--").replace("--", "/", 1)
            for folder in sorted(cache().glob(f"models--*--{repo.name}"))]  # fmt: skip
    if paths:
        missing = {"model": "config.json or weights", "config": "config.json"}.get(want, want)
        what = f"{repo} is in the Hugging Face cache only in part: {paths[-1]} has no {missing}"
    if commits:
        return InputError(what, fix=f"a complete one is there: {repo.name}@{commits[-1]}")
    if names and not paths:
        return InputError(what, fix=f"the cache has {', '.join(names)}: did you mean {names[0]}?")
    return UnknownModel(what, fix=f"{reason}; or name {_advice(repo.name)}")


def _hub_error(repo: Repository, error: Exception) -> InputError:
    """The error for a request that the hub has refused or that failed."""
    problem = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "RepositoryNotFoundError" in kinds and "GatedRepoError" not in kinds:
        what = f"no folder {repo}, no such shipped model, nor one in the cache or on the hub"
        return UnknownModel(what, fix=f"name {_advice(repo.name)}, or a repository of the hub")
    what = f"no folder {repo}, no such shipped model, nor one in the cache; the Hugging Face hub"
    return InputError(what, got=problem, fix=f"try again later, or name {_advice(repo.name)}")
