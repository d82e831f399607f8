"""The pictures of the pages: `make docs` draws them, by the commands that the pages show.

A page asks for a picture in a comment, which only the site turns into one:

    <!-- picture: regard look tiny/translate "The dog sleeps." -o heads.png -->
    <!-- picture: gpt.png -->

The first form runs the command. The second is a file that Python code of the page above writes.
Drawn pictures are in `build/pictures`, and are drawn again if a command or the code has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import multiprocessing
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "pictures"
COMMENT = re.compile(r"^<!-- picture: (.+?) -->$", re.M)
READ = ("*.py", "*.json", "*.txt", "*.yaml", "*.md", "*.safetensors", "*.npz")
"""Files of the packages on which a picture may depend."""


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes:
        page: The page that asks for it, such as `looking`.
        asked: A command with `-o FILE`, or the name of a file that the page's code writes.
        code: The Python blocks of the page that write the file, or a file that the command reads.
    """

    page: str
    asked: str
    code: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that draws it; empty if the page's code does."""
        return self.asked if self.asked.startswith("regard ") else ""

    @property
    def file(self) -> str:
        """The name of the file."""
        words = shlex.split(self.asked)
        return words[words.index("-o") + 1] if self.command else self.asked

    @property
    def path(self) -> Path:
        """Where it is, within the folder of all pictures."""
        return Path(self.page) / self.file

    def checksum(self, code: str) -> str:
        """A checksum of what it is drawn by; `code` is that of the packages."""
        return hashlib.sha256("\n".join([code, self.asked, *self.code]).encode()).hexdigest()


def pictures_of(page: str, text: str) -> list[Picture]:
    """The pictures that the text of a page asks for."""
    return [
        Picture(page, comment[1], _code_for(comment[1], text[: comment.start()]))
        for comment in COMMENT.finditer(text)
    ]


def _code_for(asked: str, above: str) -> tuple[str, ...]:
    """The Python blocks up to the one that saves the first file that is needed; else none."""
    blocks = re.findall(r"^```python\n(.*?)^```", above, re.M | re.S)
    for file in re.findall(r"[\w-]+\.(?:png|html)", asked):
        saving = [i for i, block in enumerate(blocks) if f'.save("{file}"' in block]
        if saving:
            return tuple(blocks[: saving[0] + 1])
    return ()


def code_checksum() -> str:
    """A checksum of the packages: their code, and the sizes of their models and results."""
    total = hashlib.sha256()
    for package in ("regard", "regard_lectures"):
        files = sorted(path for kind in READ for path in (ROOT / package).rglob(kind))
        for path in files:
            small = path.suffix in (".py", ".txt", ".yaml", ".json")
            content = path.read_bytes() if small else str(path.stat().st_size).encode()
            total.update(str(path.relative_to(ROOT)).encode() + content)
    return total.hexdigest()


def draw_all(pictures: Iterable[Picture], folder: Path = FOLDER) -> tuple[set[str], list[str]]:
    """Draw the pictures that are not there yet, or have become old.

    Args:
        pictures: The pictures of all pages.
        folder: The folder to draw into.

    Returns:
        The pages with pictures that were drawn, and what went wrong, a line for each picture.
    """
    code, wanted = code_checksum(), list(pictures)
    known_file = folder / "drawn.json"
    known = json.loads(known_file.read_text()) if known_file.is_file() else {}
    new = [p for p in wanted if _is_old(p, known, code, folder)]
    if not new:
        return set(), []
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{len(new)} pictures are drawn", file=sys.stderr)  # noqa: T201 (takes minutes)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as workers:
        drawn = zip(new, workers.map(_draw, new, [folder] * len(new)), strict=True)
        failed = []
        for picture, error in drawn:
            if error:
                failed.append(f"{picture.page}: {picture.asked}: {error}")
            else:  # noted at once: who stops here goes on from here
                known[str(picture.path)] = picture.checksum(code)
                known_file.write_text(json.dumps(known, indent=1, sort_keys=True))
    return {picture.page for picture in new}, failed


def _is_old(picture: Picture, known: Mapping[str, str], code: str, folder: Path) -> bool:
    there = (folder / picture.path).is_file()
    return not there or known.get(str(picture.path)) != picture.checksum(code)


def _draw(picture: Picture, folder: Path) -> str:
    """Draw one picture; what went wrong, or nothing."""
    os.environ["REGARD_THREADS"] = "1"  # each of the processes has a core of its own
    path = folder / picture.path
    path.parent.mkdir(parents=True, exist_ok=True)
    out, aside = io.StringIO(), io.StringIO()  # status and progress go aside
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(aside)
    try:
        with TemporaryDirectory() as work, contextlib.chdir(work), redirected[0], redirected[1]:
            names: dict[str, object] = {}
            for block in picture.code:
                exec(compile(block, picture.page, "exec", dont_inherit=True), names)  # noqa: S102
            if picture.command:
                run(shlex.split(picture.command)[1:])
            shutil.move(picture.file, path)
    except Exception as error:  # what it is, is for the person who builds the pages
        return f"{type(error).__name__}: {error}".splitlines()[0]
    path.with_suffix(".txt").write_text(out.getvalue(), encoding="utf-8")
    return ""


def run(words: Sequence[str]) -> None:
    """Run a command of regard in this process, with its output on standard output."""
    import typer

    from regard.cli.commands import app

    logging.getLogger("regard").setLevel(logging.ERROR)
    typer.main.get_command(app).main(list(words), standalone_mode=False)


def said(picture: Picture, folder: Path = FOLDER) -> str:
    """What the command printed: title, caption and limits, in one line."""
    text = (folder / picture.path).with_suffix(".txt")
    if not picture.command or not text.is_file():
        return f"drawn by the code above: {picture.file}"
    return " ".join(text.read_text(encoding="utf-8").split())


def with_pictures(page: str, text: str, folder: Path = FOLDER) -> str:
    """The text of a page with pictures in the places of its comments."""
    pictures = {picture.asked: picture for picture in pictures_of(page, text)}

    def replaced(comment: re.Match[str]) -> str:
        return image(pictures[comment[1]], folder)

    return COMMENT.sub(replaced, text)


def image(picture: Picture, folder: Path = FOLDER) -> str:
    """The Markdown of a picture; what was printed is the text for those who cannot see it."""
    words = re.sub(r"([\\\[\]*_`<>])", r"\\\1", said(picture, folder))
    up = "../" * (1 + picture.page.count("/"))
    return f"![{words}]({up}{(folder / picture.path).relative_to(ROOT).as_posix()})"
