"""Open and save word vectors: checkpoint folders, and files for other programs.

A folder holds `model.safetensors` (the vectors, fp16 or fp32), `tokenizer.json` (the words),
`config.json`, `recipe.yaml` and `manifest.json`; see `regard/checkpoint/folder.py`.
"""

from __future__ import annotations

import io
import json
from importlib.resources import as_file
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.runtime.files import write_file
from regard.vectors.files import read_file
from regard.vectors.table import WordVectors

FAMILY = "vectors"
"""The `family` in the `config.json` of a folder of word vectors."""
TENSOR = "vectors"
ENDINGS = (".npz", ".txt", ".vec", ".bin")
"""The endings of files that `save` writes; any other name is a folder."""


def vectors(model_name: str | Path) -> WordVectors:
    """Open word vectors: shipped ones, a training run, or a file.

    Args:
        model_name: The name of shipped vectors, the folder of a run or checkpoint, or a file:
            word2vec text or binary, GloVe text, fastText `.vec` (plain or `.gz`), or `.npz` with
            `words` and `vectors`.

    Example:
        >>> vectors("words/glove").analogy("king - man + woman", 1)[0].word
        'queen'
    """
    from regard.checkpoint import run as checkpoint
    from regard.checkpoint.folder import read
    from regard.recipes.shelf import shipped

    path = Path(model_name)
    if path.is_dir():
        return from_snapshot(checkpoint.read_chosen(path), str(model_name))
    model = None if path.exists() else shipped().get(str(model_name))
    if model is not None:
        with as_file(model) as folder:
            return from_snapshot(read(folder), str(model_name))
    if not path.exists():
        shipped_names = ", ".join(name for name in shipped() if name.startswith("words/"))
        fix = f"name {shipped_names}, a run of own/vectors, or a file of vectors"
        raise InputError(f"{model_name}", got="no such file or folder", expected="vectors", fix=fix)
    return read_file(path)


def holds_vectors(model_name: str | Path) -> bool:
    """Whether a name is that of word vectors: any file, or a folder whose `config.json` says so."""
    from regard.checkpoint import run as checkpoint
    from regard.checkpoint.folder import CHECKPOINTS, CONFIG
    from regard.recipes.shelf import shipped
    from regard.runtime.files import read_json

    path = Path(model_name)
    if path.is_dir():
        if not (path / CONFIG).is_file() and not (path / CHECKPOINTS).is_dir():
            return False
        try:
            return read_json(checkpoint.newest(path) / CONFIG).get("family") == FAMILY
        except InputError:  # the error is reported when the folder is read
            return False
    if path.exists():
        return True
    model = shipped().get(str(model_name))
    if model is None:
        return False
    with as_file(model) as folder:
        return read_json(folder / CONFIG).get("family") == FAMILY


def from_snapshot(snapshot: Any, name: str) -> WordVectors:
    """The word vectors of a checkpoint.

    Raises:
        InputError: If it holds another kind of model, or broken vectors.
    """
    config = snapshot.config
    if config.get("family") != FAMILY:
        got = f"a model of the family {config.get('family')!r}"
        fix = f"regard words {name} compares one word in several sentences"
        raise InputError(name, got=got, expected="word vectors", fix=fix)
    words = words_in(snapshot.tokenizer, name)
    tensor = snapshot.weights.get(TENSOR)
    if tensor is None or tensor.ndim != 2 or len(tensor) != len(words):
        shape = None if tensor is None else tuple(tensor.shape)
        raise InputError(name, got=f"vectors of {shape}", expected=f"{len(words):,} rows")
    rows = tensor.float().numpy()
    if not np.isfinite(rows).all():
        raise InputError(name, got="nan or inf in the vectors", expected="finite numbers")
    return WordVectors(words, rows, name, config)


def words_in(tokenizer: str, name: str) -> list[str]:
    """The vocabulary of a folder, from the text of its `tokenizer.json`."""
    try:
        words = json.loads(tokenizer)["words"]
    except (ValueError, KeyError, TypeError, RecursionError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise InputError(f"{name}/tokenizer.json", got="no list of words", expected='"words"')
    return words


def words_json(words: list[str], counts: list[int] | None = None) -> str:
    """The text of `tokenizer.json` for a vocabulary and, if known, its word counts."""
    contents: dict[str, Any] = {"words": words}
    if counts is not None:
        contents["counts"] = counts
    return json.dumps(contents, ensure_ascii=False)


def save(table: WordVectors, out: str | Path, *, half: bool = False) -> Path:
    """Write word vectors in a format that `regard.vectors` and other programs read.

    Args:
        table: The word vectors.
        out: The output, by its ending: `.npz`; `.txt` or `.vec` for word2vec text (the same as
            fastText's); `.bin` for word2vec binary; any other name is a folder.
        half: Store fp16; only for a folder or `.npz`.
    """
    path = Path(out)
    if path.suffix == ".npz":
        buffer = io.BytesIO()
        rows = table.vectors.astype(np.float16 if half else np.float32)
        np.savez_compressed(buffer, words=np.array(table.words, str), vectors=rows)
        return write_file(path, buffer.getvalue())
    if path.suffix not in ENDINGS:
        return _save_folder(table, path, half=half)
    if half:
        raise InputError("half", got=f"a {path.suffix} file", expected="a folder or .npz")
    if path.suffix == ".bin":
        spaced = next((word for word in table.words if " " in word or "\n" in word), None)
        if spaced is not None:
            raise InputError(str(path), got=f"the word {spaced!r}", expected="none with a space")
        data = [word.encode() + b" " + row.astype("<f4").tobytes() for word, row in _entries(table)]
        return write_file(path, f"{len(table)} {table.dim}\n".encode() + b"".join(data))
    lines = [f"{len(table)} {table.dim}"]
    lines += [f"{word} {' '.join(map(str, row.tolist()))}" for word, row in _entries(table)]
    return write_file(path, ("\n".join(lines) + "\n").encode())


def _entries(table: WordVectors) -> Any:
    return zip(table.words, table.vectors, strict=True)


def _save_folder(table: WordVectors, folder: Path, *, half: bool) -> Path:
    """Write vectors as a folder of a model, which `vectors` opens."""
    import torch

    from regard.checkpoint.folder import Snapshot, write_folder

    snapshot = Snapshot(
        step=0,
        weights={TENSOR: torch.from_numpy(table.vectors)},
        config=config_of(len(table), table.dim, "fp16" if half else "fp32"),
        tokenizer=words_json(table.words),
        recipe=RECIPE_OF_OTHERS.format(dim=table.dim),
    )
    write_folder(folder, snapshot)
    return folder


def config_of(words: int, dim: int, stored: str = "fp32") -> dict[str, Any]:
    """The contents of `config.json` for a folder of word vectors."""
    return {"regard": 1, "family": FAMILY, "words": words, "dim": dim, "stored": stored}


RECIPE_OF_OTHERS = """\
version: 1
task: vectors
data:
  kind: none
model:
  family: vectors
  dim: {dim}
"""
"""The recipe stored with vectors that were not trained by Regard."""
