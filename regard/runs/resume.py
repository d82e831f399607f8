"""Finds the recipe and the folder of a training: of a new run, or of one to resume.

In: the recipe and the folder as a user names them, either of which `--resume` can do without. Out:
both. A resumed run that is named alone has its recipe in its folder. torch is not imported.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from regard.checkpoint.folder import CHECKPOINTS, CONFIG, MANIFEST, RECIPE
from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.vectors.recipe import FORM as VECTORS

Named = str | os.PathLike[str] | None


def recipe_and_run(recipe: Named, out: Named, *, resume: bool) -> tuple[str, str | None]:
    """The recipe to train, as a name or a file, and the folder of the run.

    Args:
        recipe: The name or file of a recipe; to resume, also a run's folder, or None.
        out: The run's folder; None: none was given, or it is the first argument.
        resume: Whether a run is to be resumed.

    Raises:
        InputError: There is no recipe, or no run to resume; the message says what to type.
    """
    name, run = (None if path is None else os.fspath(path) for path in (recipe, out))
    is_folder = name is not None and Path(name).is_dir() and name not in recipes.shipped()
    if not resume:
        if name is None:
            fix = "`regard recipe` lists some; `regard train RUN --resume` continues a run"
            raise InputError("train", got="no recipe", expected="a recipe's name or file", fix=fix)
        if is_folder and _is_run(Path(name)):
            anew = f"regard train {shlex.quote(str(Path(name) / RECIPE))} -o NEW"
            fix = f"continue it: {_resume_command(name)}; train its recipe anew: {anew}"
            raise InputError(f"{name} is a run, not a recipe", fix=fix)
        return name, run
    if name is not None and run is not None:
        if not is_folder:
            return name, run
        if Path(name).resolve() != Path(run).resolve():
            raise InputError("--resume", got=f"two folders, {name} and {run}", expected="one run")
    folder = Path(name or run or "")
    _check_run(folder, name, run)
    return str(folder / RECIPE), str(folder)


def _check_run(folder: Path, name: str | None, run: str | None) -> None:
    """Raises an error that says what to type if a folder is not a run that can be resumed."""
    if name is None and run is None:
        fix = "name the run: regard train RUN --resume"
        raise InputError("--resume", got="no folder", expected="a run", fix=fix)
    example = "name the folder that `regard train RECIPE -o RUN` wrote; `regard ls` lists runs"
    if not folder.is_dir():
        if name is not None and (name in recipes.shipped() or folder.is_file()):
            fix = f"add its folder: regard train {shlex.quote(name)} --resume -o RUN"
            raise InputError(f"--resume of {name}", got="no run", expected="-o RUN", fix=fix)
        raise InputError(f"--resume: no folder {folder}", fix=example)
    if (folder / MANIFEST).is_file() and folder.parent.name == CHECKPOINTS:
        fix = f"resume the run: {_resume_command(str(folder.parent.parent))}"
        raise InputError(f"--resume: {folder}", got="a checkpoint", expected="a run", fix=fix)
    if (folder / RECIPE).is_file() and _is_run(folder):
        return
    if _is_run(folder):
        fix = f"name its recipe: regard train RECIPE --resume -o {shlex.quote(str(folder))}"
        raise InputError(f"--resume: {folder} has no {RECIPE}", fix=fix)
    got = "a model" if (folder / CONFIG).is_file() else "a folder without checkpoints"
    fix = f"to train a model further: start.folder={folder}" if got == "a model" else example
    raise InputError(f"--resume: {folder}", got=got, expected="a run", fix=fix)


def _is_run(folder: Path) -> bool:
    """Whether a training wrote a folder: it has checkpoints, or a recipe with all defaults."""
    if (folder / CHECKPOINTS).is_dir():
        return True
    recipe = folder / RECIPE
    if not recipe.is_file() or (folder / MANIFEST).is_file():
        return False
    try:
        form = VECTORS if recipes.task_of(recipe) == "vectors" else recipes.FORM
    except InputError:
        return False
    return recipes.is_resolved(recipe, form)


def _resume_command(run: str) -> str:
    """The command that resumes a run."""
    return f"regard train {shlex.quote(run)} --resume"
