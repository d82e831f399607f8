"""The index of slides: every slide of the five decks, and every command that it names exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from regard.cli.commands import app
from regard.errors import InputError
from regard.recipes import recipe as recipes
from regard.recipes.shelf import shipped
from regard.tasks.specs import every_verb
from regard_lectures import FIGURES, find, parse_options
from regard_lectures import lectures as index
from regard_lectures.own_slides import topics

ROOT = Path(__file__).parents[2]
COUNTS = {"D0": 36, "D1": 48, "D2": 42, "D3": 54, "D4": 170}
"""Slides with text of their own in the five decks."""


def commands() -> list[str]:
    slides = [slide for deck in index.decks().values() for slide in deck.slides]
    lines = [command for slide in (*slides, *topics()) for command in slide.commands]
    return list(dict.fromkeys(lines))


def test_every_slide_of_the_five_decks_is_in_the_index():
    decks = index.decks()
    assert {name: deck.count for name, deck in decks.items()} == COUNTS
    for deck in decks.values():
        assert [slide.number for slide in deck.slides] == list(range(1, deck.count + 1))


def test_every_slide_has_a_title_and_a_command_or_a_reason():
    for deck in index.decks().values():
        for slide in deck.slides:
            assert slide.title, slide
            assert slide.commands or slide.reason, slide
            # what is planned says what is not there; beside commands it is what they do not show
            reason = "(planned: .+)?" if slide.commands else "text only(: .+)?|planned: .+"
            assert re.fullmatch(reason, slide.reason), slide
            if slide.reason.startswith("planned"):
                assert slide.rows, slide


def test_a_slide_that_is_shown_in_part_says_what_is_missing():
    deck = index.find_deck("D1")
    [slide] = index.chosen(deck, "11")
    assert slide.commands == ("regard show slicing",)
    missing = "planned: an autoencoder is not there yet"
    assert slide.reason == missing
    assert f"      {missing} (7.9, 7.9b)" in index.listing([slide]).splitlines()
    page = index.page_of(deck, [slide], {"regard show slicing": index.Shown(None, "drawn")})
    assert page.count('<section class="slide"') == 2
    assert missing in page


def test_no_slide_is_shown_by_a_table_of_costs_alone():
    for deck in index.decks().values():
        for slide in deck.slides:
            verbs = {command.split()[1] for command in slide.commands}
            assert verbs != {"plan"}, slide


ANY_PART = ("steps", "architecture")
"""Figures with an option for any part of any model; others show the rows that they name."""


def test_every_figure_of_a_slide_is_one_for_its_rows():
    for deck in index.decks().values():
        for slide in deck.slides:
            shown = [c.split()[2] for c in slide.commands if c.startswith("regard show ")]
            for name in set(shown) - set(ANY_PART):
                assert set(find(name).lectures) & set(slide.rows), f"{slide}: {name}"


def test_slides_that_a_figure_is_about_are_shown_by_it():
    """Words of titles, and the figures without which such a slide is not shown."""
    needed = {"batch norm": "batchnorm", "feed-forward": "feedforward", "bottleneck": "compare"}
    for words, name in needed.items():
        slides = [s for deck in index.decks().values() for s in deck.slides if words in s.title]
        assert slides
        for slide in slides:
            assert any(name in command for command in slide.commands), slide


def test_every_row_that_a_slide_names_is_in_the_ledger():
    rows = set(
        re.findall(r"^\| (\d+\.\d+[a-z]?) \|", (ROOT / "docs/lectures.md").read_text(), re.M)
    )
    for deck in index.decks().values():
        for slide in deck.slides:
            assert set(slide.rows) <= rows, slide


def test_a_slide_with_a_command_has_a_row_that_is_not_planned():
    lines = re.findall(
        r"^\| (\d+\.\d+[a-z]?) \|.*\| ([a-z ]+) \|$", (ROOT / "docs/lectures.md").read_text(), re.M
    )
    status = dict(lines)
    for deck in index.decks().values():
        for slide in deck.slides:
            shown = {status[row] for row in slide.rows} - {"planned"}
            assert shown or not slide.commands, slide


def ledger() -> list[str]:
    """The commands of the ledger."""
    quoted = re.findall(r"`(regard [^`]+)`", (ROOT / "docs/lectures.md").read_text())
    told = {"regard show NAME", "regard lecture D4"}  # in the text above the tables
    return [command for command in dict.fromkeys(quoted) if command not in told]


@pytest.mark.parametrize("command", [*commands(), *ledger()])
def test_every_command_has_arguments_that_its_verb_takes(command):
    _, verb, *words = shlex.split(command)
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known[verb].make_context(verb, words)  # an error for a missing argument or unknown option


def _first_option(words: list[str]) -> int:
    """Where options begin, such as --text and -o."""
    return next((i for i, word in enumerate(words) if word.startswith("-")), len(words))


@pytest.mark.parametrize("command", commands())
def test_every_command_exists(command):
    regard, verb, *words = shlex.split(command)
    assert regard == "regard"
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert verb in known | set(every_verb())
    if verb == "show":
        name, *settings = words
        if "--text" in words:
            assert find(name).text
        settings = settings[: _first_option(settings)]
        assert name in FIGURES
        parse_options(name, settings)
    for model_name in re.findall(r"\b(?:tiny|small|words)/[\w-]+", command):
        of_recipes = verb in ("plan", "compare", "train") or "architecture" in words
        assert model_name in (recipes.shipped() if of_recipes else shipped())
    if verb == "plan" and "/" in words[0]:
        recipes.load(words[0], [word for word in words[1:] if "=" in word])
    for run in re.findall(r"\bruns/\w+", command):
        assert run in index.RUNS or verb == "compare"


@pytest.mark.parametrize("run", index.RUNS)
def test_every_run_that_commands_use_has_its_training(run):
    assert any(run in command for command in commands())
    _, verb, recipe, *words = shlex.split(index.RUNS[run])
    assert verb in index.MAKERS
    assert words[-2] == "-o"
    if verb == "train":
        assert words[-1] == run
        recipes.load(recipe, words[:-2])
    else:
        assert run.startswith(f"{words[-1]}/")
    assert index.needed_first(f"regard eval {run}") == [index.RUNS[run]]
    assert index.needed_first(index.RUNS[run].replace(run, "elsewhere")) == []


def test_what_a_command_needs_is_said_beside_it():
    [slide] = index.chosen(index.find_deck("D0"), "32")
    said = index.listing([slide])
    assert (
        "first: regard train tiny/digits -o runs/digits; digit.png: a digit that you draw" in said
    )
    assert "not on the shelf" not in index.listing(index.chosen(index.find_deck("D2"), "14-16"))


def test_a_training_comes_first_and_once_and_a_digit_is_drawn(regard, monkeypatch):
    ran = []

    def printed(_, words, folder):
        ran.append(words[0])
        assert words[0] == "train" or (folder / "digit.png").is_file()
        if "-o" in words and words[0] != "train":
            (folder / words[words.index("-o") + 1]).write_bytes(b"picture")
        return "printed"

    monkeypatch.setattr("regard_lectures.commands._printed", printed)
    monkeypatch.setattr("regard_lectures.commands._open", print)
    for fresh in ([], ["--fresh"]):
        result = regard("lecture", "D0", "--slides", "32-33", "--show", "-o", "out", *fresh)
        assert result.code == 0, result.err
    assert ran == ["train", *["look"] * 6]


def test_the_decks_and_their_slides_are_listed(regard):
    result = regard("lecture")
    assert result.code == 0
    assert "D4  170 slides" in result.out
    result = regard("lecture", "d0", "--slides", "15-16")
    assert result.out.splitlines()[:2] == [
        "  15  step by step: query, key, value",
        "      regard show steps step=q",
    ]
    assert len(regard("lecture", "D4", "--json").out.splitlines()) == COUNTS["D4"]


def test_a_lecture_or_slide_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no such lecture: got D7, expected one of D0, D1"):
        index.find_deck("D7")
    deck = index.find_deck("D1")
    with pytest.raises(InputError, match="within 1-48"):
        index.chosen(deck, "40-50")
    with pytest.raises(InputError, match="12-20"):
        index.chosen(deck, "all")


def test_listing_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys; from regard_lectures.lectures import decks, listing;"
        "print(listing(decks()['D4'].slides));"
        "assert not {'torch', 'matplotlib', 'numpy'} & set(sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_the_page_has_every_slide_and_what_failed_is_said(tmp_path):
    deck = index.find_deck("D0")
    slides = index.chosen(deck, "9-11")
    ran = []

    def run(words, folder):
        ran.append((list(words), folder))
        if words[0] == "suggest":
            raise InputError("small/write", got="no such place")
        if "-o" in words:
            (folder / words[words.index("-o") + 1]).write_bytes(b"picture")
        return "printed <here>\n"

    asked = [command for slide in slides for command in slide.commands]
    shown = {command: index.draw(command, tmp_path, run, fresh=False) for command in asked}
    page = index.page_of(deck, slides, shown)
    assert page.count('<section class="slide"') == len(asked) == 5
    assert "<pre>printed &lt;here&gt;</pre>" in page
    assert "small/write: got no such place" in page
    assert not re.search(r"(src|href)=.?https?:|url\(", page)
    before = len(ran)
    index.draw("regard show architecture", tmp_path, run, fresh=False)
    assert len(ran) == before  # what is there is not made again
    index.draw("regard show architecture", tmp_path, run, fresh=True)
    assert len(ran) == before + 1


@pytest.mark.slow
def test_a_lecture_is_shown(regard, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = regard("lecture", "D0", "--show", "--slides", "17-18", "-o", "out", "--quiet")
    assert result.code == 0, result.err
    page = tmp_path / "out" / "index.html"
    assert opened == [page.as_uri()]
    assert page.read_text().count("data:image/svg+xml;base64,") == 2
    assert (tmp_path / "out" / "show-steps-step-scaled.svg").is_file()
