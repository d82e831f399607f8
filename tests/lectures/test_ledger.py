"""The ledger tells the truth: the commands of every row run, on input that is not the default."""

from __future__ import annotations

import json
import random
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from regard.data.synthetic.scenes import make_scene
from regard_lectures import FIGURES, parse_options

ROOT = Path(__file__).parents[2]
STATUSES = ("works", "in part", "planned")
SHORTER = {
    "train": ["train.steps=2", "train.evaluate_every=2", "--quiet"],
    "own/vectors": ["train.epochs=1", "--quiet"],
    "tiny/caption-rnn": ["data.pairs=40", "data.held_out=4", "train.steps=2", "--quiet"],
    "eval": ["--limit", "4"],
}
"""What is added to a command so that it ends soon: by recipe, or by verb."""
SLOW = (
    "regard train ", "regard plan ", "regard eval ", "regard show crossover ",
    "regard show laws file=", "regard show animal part=decoder ", "regard show attributes ",
)  # fmt: skip
"""Rows with these commands are not run by `make test-fast`."""
WORDS = ["dog", "cat", "man", "woman", "bird", "old", "small", "sleeps", "runs", "sees", "the", "a"]


@dataclass(frozen=True)
class Row:
    """A row of the ledger."""

    number: str
    title: str
    slides: str
    commands: tuple[str, ...]
    tests: tuple[str, ...]
    figures: tuple[str, ...]
    status: str


def ledger() -> list[Row]:
    rows = []
    for line in (ROOT / "docs/lectures.md").read_text().splitlines():
        if re.match(r"\| \d+\.\d+[a-z]? \|", line):
            number, title, slides, commands, tests, figures, status = line.strip("| ").split(" | ")
            quoted = tuple(re.findall(r"`(regard [^`]+)`", commands))
            named = tuple(re.findall(r"`(tests/[^`]+)`", tests))
            names = tuple(filter(None, figures.strip().split(", ")))
            rows.append(Row(number, title, slides, quoted, named, names, status))
    return rows


ROWS = ledger()
SHOWN = [row for row in ROWS if row.status != "planned"]


def test_every_row_has_a_status_and_what_works_has_a_command_and_a_test():
    assert len({row.number for row in ROWS}) == len(ROWS) >= 85
    assert {row.number.split(".")[0] for row in ROWS} == {str(part) for part in range(1, 10)}
    for row in ROWS:
        assert row.slides.startswith("D"), row
        assert row.status in STATUSES, row
        assert bool(row.commands) == bool(row.tests) == (row.status != "planned"), row


def test_tests_that_rows_name_exist():
    for row in ROWS:
        for name in row.tests:
            file, _, function = name.partition("::")
            text = (ROOT / file).read_text()
            assert not function or f"def {function}(" in text, f"{row.number}: {name}"


def takes_none(name: str) -> bool:
    """Whether a figure takes nothing but sizes and seeds of a person's own, and says why."""
    return "none" in FIGURES[name].takes


def is_own(command: str) -> bool:
    """Whether a command has input of a person's own, or a figure that cannot have any."""
    _, verb, *words = shlex.split(command)
    if verb != "show":
        return verb != "plan"
    name, *other_words = words
    settings = [word for word in other_words if "=" in word]
    parse_options(name, settings[: 0 if "--text" in other_words else None])
    return "--text" in other_words or bool(settings) or takes_none(name)


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row.number)
def test_every_row_has_a_command_with_input_of_ones_own(row):
    shown = [shlex.split(command)[2] for command in row.commands if "regard show" in command]
    assert any(map(is_own, row.commands)), row
    for name in shown:
        own_commands = [
            c for c in row.commands if c.startswith(f"regard show {name}") and is_own(c)
        ]
        assert own_commands, f"{row.number}: {name} has input of one's own: {FIGURES[name].takes}"


def test_every_figure_has_a_command_in_the_ledger_and_its_rows_name_it():
    commands = [command for row in ROWS for command in row.commands]
    for name in FIGURES:
        assert any(command.split()[1:3] == ["show", name] for command in commands), name
        rows = {row.number: row.figures for row in ROWS}
        for number in FIGURES[name].lectures:
            assert name in rows[number], f"{number}: {name}"


def write_files(folder: Path) -> None:
    """The files of a person's own that commands of the ledger name."""
    chance = random.Random(0)
    texts = [" ".join(chance.choices(WORDS, k=8)).capitalize() + "." for _ in range(2000)]
    (folder / "story.txt").write_text("\n".join(texts) + "\n")
    pairs = [
        ("The dog sleeps.", "Der Hund schläft."),
        ("The cat sleeps.", "Die Katze schläft."),
        ("The dog runs.", "Der Hund rennt."),
        ("The cat runs.", "Die Katze rennt."),
    ]
    (folder / "pairs.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in 8 * pairs))
    likes = [("a joy from start to end", "good"), ("dull and far too long", "bad")]
    reviews = [(f"{text} {number}", label) for number in range(20) for text, label in likes]
    (folder / "reviews.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in reviews))
    tagged = [
        {"words": [word, noun, "sleeps"], "tags": ["DET", "NOUN", "VERB"]}
        for word in ("The", "A")
        for noun in ("dog", "cat", "man", "bird")
    ]
    (folder / "tags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tagged))
    priced = [(chance.uniform(1, 9), chance.choice(["red", "blue"])) for _ in range(120)]
    rows = [f"{n:.2f},{colour},{3 * n + 5 * (colour == 'red'):.2f}\n" for n, colour in priced]
    (folder / "table.csv").write_text("length,colour,price\n" + "".join(rows))
    write_images(folder)


def write_images(folder: Path) -> None:
    """The images of a person's own that commands of the ledger name."""
    for number in range(64):
        scene = make_scene(0, 0, number, most=1)
        shape = folder / "shapes" / scene.labels["shape"]
        shape.mkdir(parents=True, exist_ok=True)
        scene.draw(24).save(shape / f"{number:02}.png")
    make_scene(0, 0, 99, most=3).draw(96).save(folder / "photo.jpg")
    for name, size in (("digit.png", (120, 160)), ("shirt.png", (140, 140))):
        image = Image.new("RGB", size, "white")
        ImageDraw.Draw(image).line([(30, 20), (90, 20), (50, 130)], fill="navy", width=9)
        image.save(folder / name)


def shortened(command: str) -> list[str]:
    """The words of a command, with what makes it end soon."""
    _, *words = shlex.split(command)
    shorter = SHORTER.get(words[1] if len(words) > 1 else "", SHORTER.get(words[0], []))
    return [*words, *shorter]


def marked(row: Row) -> object:
    slow = any(command.startswith(SLOW) for command in row.commands)
    return pytest.param(row, id=row.number, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("row", [*map(marked, SHOWN)])
def test_the_commands_of_a_row_run_one_after_the_other(row, regard, tmp_path):
    write_files(tmp_path)
    for command in row.commands:
        result = regard(*shortened(command))
        assert result.code == 0, f"{command}\n{result.err}"
        *_, name = [None, *re.findall(r"-o (\S+)", command)]
        output = tmp_path / name if name else None
        assert output is None or output.exists(), command
        assert result.out or output, command
