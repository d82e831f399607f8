"""`regard vectors`, and `regard train` and `regard eval` for word vectors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli.options import AsJson, Quiet, Seed
from regard.errors import InputError
from regard.runtime.printing import print_result, print_status

if TYPE_CHECKING:
    from regard.vectors.table import Neighbour, WordVectors

QUESTIONS = {"nearest": 1, "analogy": 1, "difference": 4, "odd": 3, "map": 2, "save": 0}
"""The questions, each with the least number of words it takes."""


def vectors(
    model_name: Annotated[
        str,
        Argument(metavar="MODEL", help="words/glove, a run of own/vectors, or a file of vectors."),
    ],
    question: Annotated[str, Argument(metavar="|".join(QUESTIONS))],
    words: Annotated[
        list[str] | None,
        Argument(metavar="[WORD]...", help="Words; for analogy, with + and - between them."),
    ] = None,
    top: Annotated[
        int | None, Option(help="Number of neighbours, by default 10; for save, of words.", min=1)
    ] = None,
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="map: x.png, x.svg; save: x.npz, .txt, .bin, a folder."),
    ] = None,
    method: Annotated[str, Option(help="map: pca or tsne.")] = "pca",
    also: Annotated[
        list[str] | None, Option(help="save: add the words of another model or file.")
    ] = None,
    half: Annotated[bool, Option("--half", help="save: store 16-bit numbers.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    seed: Seed = None,
) -> None:
    """Query word vectors: neighbours, analogies, differences, the odd one out, a map.

    nearest tower | analogy king - man + woman | difference mother father woman man |
    odd breakfast lunch table dinner | map cat dog car bus -o map.png | save -o mine.npz
    """
    from regard.vectors.store import vectors as load_vectors

    if question not in QUESTIONS:
        raise InputError("vectors", got=question, expected=f"one of {', '.join(QUESTIONS)}")
    words = words or []
    _check_count(question, words)
    picture = out or Path("map.png")
    if question == "map":
        from regard.vectors.projection import map_ending

        map_ending(picture)  # raises for a wrong ending, before the vectors are read
    table = load_vectors(model_name)
    if question == "map":
        _plot(table, words, picture, method, seed or 0, as_json=as_json)
        print_status(f"{picture} is drawn", quiet=quiet)
    elif question == "save":
        print_status(_save_vectors(table, out, also or [], top, half=half), quiet=quiet)
    elif question == "difference":
        _print_difference(table, words, as_json=as_json)
    else:
        _print_neighbours(table, question, words, top, as_json=as_json)


def _check_count(question: str, words: list[str]) -> None:
    """Raises an error for too few or too many words, before anything is loaded."""
    least = QUESTIONS[question]
    if len(words) < least or (question in ("difference", "save") and len(words) > least):
        expected = {0: "none", 1: "one or more", 4: "four"}.get(least, f"{least} or more")
        raise InputError(f"vectors … {question}", got=f"{len(words)} words", expected=expected)


def _print_neighbours(
    table: WordVectors, question: str, words: list[str], top: int | None, *, as_json: bool
) -> None:
    """Answers `nearest`, `analogy` or `odd`: prints words and their cosines."""
    from regard.vectors.table import TOP

    answers: list[tuple[str, list[Neighbour]]]
    if question == "nearest":
        table.rows(words)  # raises one error that names all unknown words
        answers = [(word, table.nearest(word, top or TOP)) for word in words]
    elif question == "analogy":
        answers = [(" ".join(words), table.analogy(words, top or TOP))]
    else:
        answers = [(" ".join(words), table.odd(words))]
    for query, neighbours in answers:
        key = {"nearest": "word", "analogy": "terms", "odd": "words"}[question]
        rows = [{"word": entry.word, "cosine": round(entry.cosine, 4)} for entry in neighbours]
        width = max((len(entry.word) for entry in neighbours), default=0)
        lines = [f"{entry.word:<{width}}  {entry.cosine:6.3f}" for entry in neighbours]
        title = [f"{query}:"] if len(answers) > 1 else []
        print_result("\n".join([*title, *lines]), {key: query, question: rows}, as_json=as_json)


def _print_difference(table: WordVectors, words: list[str], *, as_json: bool) -> None:
    """Answers `difference`: compares the differences of two pairs of words."""
    first, second, third, fourth = words
    result = table.difference(first, second, third, fourth)
    text = (
        f"cosine of {first} − {second} and {third} − {fourth}: {result.cosine:.3f}\n"
        f"lengths {result.lengths[0]:.3f} and {result.lengths[1]:.3f}, apart {result.apart:.3f}\n"
        f"two differences of words drawn at random: {result.by_chance:.3f} on average, either way"
    )
    print_result(text, {"words": words, **result.to_json()}, as_json=as_json)


def _plot(
    table: WordVectors, words: list[str], out: Path, method: str, seed: int, *, as_json: bool
) -> None:
    """Answers `map`: draws words in two dimensions, and prints their coordinates."""
    points = table.map(words, out, method=method, seed=seed)
    for word, (x, y) in points.items():
        line = f"{word:<16}{x:9.3f}{y:9.3f}"
        print_result(line, {"word": word, "x": x, "y": y}, as_json=as_json)


def _save_vectors(
    table: WordVectors, out: Path | None, also: list[str], top: int | None, *, half: bool
) -> str:
    """Answers `save`: writes the first `top` words, with those of the models in `also`.

    Returns:
        The line that says where they are.
    """
    from regard.vectors.store import save
    from regard.vectors.store import vectors as load_vectors

    if out is None:
        raise InputError("save", got="no -o", expected="a file or folder", fix="add -o mine.npz")
    table = table.first(top) if top is not None else table
    for model_name in also:
        table = table.joined(load_vectors(model_name))
    path = save(table, out, half=half)
    return f"{len(table):,} words of {table.dim} numbers are in {path}"


def train_vectors(
    recipe: str,
    overrides: list[str],
    out: str,
    *,
    resume: bool,
    quiet: bool,
    threads: int | None,
    device: str = "auto",
) -> None:
    """Runs `regard train` for a recipe with `task: vectors`."""
    from regard.recipes import recipe as recipes
    from regard.runtime.device import setup
    from regard.vectors.recipe import FORM
    from regard.vectors.training import check_device
    from regard.vectors.training import train_vectors as run

    form = recipes.load_form(FORM, recipe, overrides)
    check_device(device)
    thread_count = setup(threads, form.seed, quiet=quiet).threads
    table = run(form, out, resume=resume, quiet=quiet, threads=thread_count)
    word = next((word for word in table.words if len(word) > 4), table.words[0])
    quoted_run, quoted_word = shlex.quote(out), shlex.quote(word)
    commands = f"regard vectors {quoted_run} nearest {quoted_word}   regard eval {quoted_run}"
    print_status(f"{table} is in {out}\ntry: {commands}", quiet=quiet)


def evaluate_vectors(
    model_name: str, analogies: list[str], similarity: list[str], flags: list[str], *, as_json: bool
) -> bool:
    """Runs `regard eval` for word vectors; returns False if the model is something else.

    Args:
        model_name: The name, run or file to load.
        analogies: Files of analogy questions.
        similarity: Files of word pairs with scores.
        flags: Given options that do not apply to word vectors, for the error.
        as_json: Whether to print JSON.
    """
    from regard.vectors.store import holds_vectors
    from regard.vectors.store import vectors as load_vectors

    if not (analogies or similarity or holds_vectors(model_name)):
        return False
    if flags:
        expected = "--analogies FILE, --similarity FILE, or neither"
        raise InputError(f"eval {model_name}", got=flags[0], expected=expected)
    from regard.vectors.scores import evaluate

    scores = evaluate(load_vectors(model_name), analogies, similarity)
    print_result(scores.table(), *scores.to_json(), as_json=as_json)
    return True
