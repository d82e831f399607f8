"""Every command and code block of README and docs is run, in order, in one empty folder."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
import typer
import yaml

from docs.key_table import PAGE, with_table
from regard import __all__ as public
from regard import layers
from regard.cli.commands import app
from regard.models import FAMILIES
from regard.tasks.specs import TASKS, every_verb
from tests.commands import Result

ROOT = Path(__file__).parent.parent
MARKDOWN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = [
    str(page.relative_to(ROOT))
    for page in MARKDOWN
    if re.search(r"^```(sh|python)$", page.read_text(), re.M)
]
"""Pages with commands or code: each is run."""
SHORTER = {
    "train": ["train.steps=3", "train.evaluate_every=3"],
    "heads": ["--pairs", "4"],
    "induction": ["steps=3"],
    "laws": ["steps=3"],
}
"""What is added to a command so that it ends soon."""
PRETRAINING = {"tiny/generate", "tiny/fill", "tiny/restore", "tiny/rnn", "tiny/elmo"}
"""Recipes that read Python's documentation, which takes seconds; here they read one page."""


def blocks(page: str | Path) -> list[tuple[str, str, str]]:
    """The fenced blocks of a page: language, name of a file if it is one, and text."""
    return re.findall(r"^```(\w*) ?([\w.]*)\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def run_line(line: str, regard: Callable[..., Result]) -> None:
    """Runs one line of a shell block."""
    feed, _, command = line.rpartition("| ")
    text = shlex.split(feed)[1] + "\n" if feed else ""
    words = shlex.split(command, comments=True)
    assert words[0] == "regard", line
    named = words[2] if words[1] == "show" and len(words) > 2 else words[1]
    shorter = [] if "own/vectors" in words else SHORTER.get(named, [])
    if PRETRAINING & set(words) and not any(word.startswith("data.") for word in words):
        Path("english.txt").write_text((ROOT / "docs/tour.md").read_text())
        shorter = [*shorter, "data.files=english.txt", "data.held_out=0.2"]
    if words[1] == "compare" and "-o" in words:
        shorter = [*SHORTER["train"], "data.pairs=300", "data.held_out=4"]
    result = regard(*words[1:], *shorter, feed=text.encode())
    assert result.code == 0, f"{line}\n{result.err}"
    silent = {"train", "import", "export"}  # which speak on standard error
    assert result.out or words[1] in silent or "save" in words, line


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@mock.patch.dict(FAMILIES)  # restored even if a page fails before it cleans up
@mock.patch.dict(TASKS)
def test_everything_a_page_shows_works(
    page: str, regard: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names: dict[str, object] = {}
    examples = 0
    monkeypatch.syspath_prepend(tmp_path)
    for language, file, text in blocks(page):
        if file:
            assert text.count("\n") < 80, f"{file} is too long for a page"
            (tmp_path / file).write_text(text)
        elif language == "sh":
            for line in filter(None, text.splitlines()):
                run_line(line, regard)
                examples += 1
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, page, "exec", dont_inherit=True), names)  # noqa: S102 (our own)
                examples += 1
    assert examples


def test_blocks_that_are_not_run_are_right_as_far_as_that_can_be_told() -> None:
    """`text` shows a terminal, or needs a model of the hub; its commands exist all the same."""
    known = {*typer.main.get_command(app).commands, *every_verb()}  # type: ignore[attr-defined]
    for page in MARKDOWN:
        for language, file, text in blocks(page):
            assert language in {"", "sh", "python", "text", "yaml"}, f"{page}: {language}"
            if language == "yaml":
                assert yaml.safe_load(text), f"{page}: {file}"
            for verb in re.findall(r"^\$? ?regard (\w+)", text, re.M):
                assert verb in known, f"{page}: regard {verb}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_make_lines_are_targets(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make ([\w-]+)", (ROOT / page).read_text(), re.M)
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_files_that_the_tour_names_exist() -> None:
    named = re.findall(r"`(regard/[\w./]+\.\w+)`", (ROOT / "docs/tour.md").read_text())
    assert len(named) > 12
    for name in named:
        assert (ROOT / name).is_file(), name


MOST_LINES_OF_THE_TOUR = 3000


def test_the_tour_is_an_hour_long_and_its_numbers_of_lines_are_right() -> None:
    """Each row names a file, or lines of it with what they define, and their number."""
    page, total = (ROOT / "docs/tour.md").read_text(), 0
    rows = re.findall(r"^\| \d+ \| `([\w./]+)`(.*?) \| ([\d,]+) \|", page, re.M)
    assert len(rows) >= 15
    for name, part, listed in rows:
        text = (ROOT / name).read_text()
        length = len(text.splitlines())
        ranges = [(int(a), int(b)) for a, b in re.findall(r"(\d+)–(\d+)", part)] or [(1, length)]
        assert all(first < last <= length for first, last in ranges), f"{name}: {ranges}"
        for defined in re.findall(r"`(\w+)`", part):
            pattern = rf"^ *(?:class|def) {defined}\b"
            matches = re.finditer(pattern, text, re.M)
            defining = [text.count("\n", 0, match.end()) + 1 for match in matches]
            inside = [first <= line <= last for line in defining for first, last in ranges]
            assert any(inside), f"{name}: {defined} is in line {defining}, not in {ranges}"
        lines = sum(last - first + 1 for first, last in ranges)
        assert abs(int(listed) - lines) <= lines / 10, f"{name}: {listed} listed, but {lines}"
        total += lines
    together = re.search(r"^\| \| together \| ([\d,]+) \|", page, re.M)
    assert together is not None
    assert abs(int(together[1].replace(",", "")) - total) <= total / 10
    assert total <= MOST_LINES_OF_THE_TOUR


def test_links_between_pages_lead_somewhere() -> None:
    for page in MARKDOWN:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
            if ":" in link:
                assert re.fullmatch(r"https://[\w.-]+\.\w+(/[\w.~/+%-]*)?", link), link
            else:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_nothing_of_the_network(tmp_path) -> None:
    """Links within the site, headings included, are checked while it is built."""
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", tmp_path / "site"]
    command += ["-D", "draw_pictures=0"]  # they take minutes: tests/test_pictures.py draws some
    built = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 50
    for page in [*pages, *(tmp_path / "site").rglob("*.css")]:
        loaded = (
            r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"' >]+)"""
        )
        addresses = re.findall(loaded, page.read_text()) if page.suffix == ".html" else []
        addresses += re.findall(
            r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""", page.read_text()
        )
        assert not addresses, f"{page.name}: {addresses}"
    api = (tmp_path / "site" / "api").glob("*.html")
    names = "".join(page.read_text() for page in api)
    for name in {*public, *layers.__all__} - {"__version__", "POSITIONS"}:
        assert f'id="regard.{name}"' in names or f'id="regard.layers.{name}"' in names, name


def test_the_table_of_the_keys_of_model_is_that_of_the_classes() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "run python -m docs.key_table --write"


def test_every_key_of_a_recipe_is_on_the_reference_page() -> None:
    from regard.data.config import (
        DigitsData,
        FileData,
        GrammarData,
        LabelledData,
        MixtureData,
        PartData,
        PythonData,
        TextData,
        ToyData,
    )
    from regard.decode.config import DecodeConfig
    from regard.inputs.text.config import TokensConfig
    from regard.layers.short import short_fields
    from regard.models.families import CONFIGS
    from regard.train.config import StartConfig, TrainConfig
    from regard.vectors.recipe import (
        SentencesData,
        VectorsConfig,
        VectorsTrainConfig,
        WordsConfig,
    )

    page = (ROOT / "docs/recipes.md").read_text()
    for kind in (
        FileData, GrammarData, ToyData, TextData, PythonData, LabelledData, DigitsData, MixtureData,
        PartData, TokensConfig, StartConfig, TrainConfig,
        DecodeConfig, SentencesData, WordsConfig, VectorsConfig, VectorsTrainConfig,
    ):  # fmt: skip
        for key in kind.model_fields:
            assert re.search(rf"`{key}[:`]", page), f"{kind.__name__}.{key}"
    for kind in CONFIGS.values():
        for key in short_fields(kind).keys() - {"family"}:
            assert re.search(rf"`{key}[:`]", page), f"{kind.__name__}.{key}"
