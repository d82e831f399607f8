"""The commands that answer lines of text: one line in, one line out, whatever a line holds."""

from __future__ import annotations

import json
import math

import pytest

from regard import lines
from regard.loading import load
from tests.commands import is_refused
from tests.test_other_peoples_models import add_tokenizer
from tests.their_models import save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
LINES = b"the cat\n\nthe \xff cat\na dog\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of transformers for each kind of question."""
    root = tmp_path_factory.mktemp("theirs")
    kinds = {"generate": "gpt2", "fill": "bert-masked", "classify": "bert-classes",
             "tag": "bert-tags", "answer": "bert-spans"}  # fmt: skip
    for name, kind in kinds.items():
        save(kind, root / name)
        if name == "generate":
            add_tokenizer(root / name, SPECIALS[:-1])
        else:
            add_tokenizer(root / name, SPECIALS, post="<s> $A </s>")
    return root


COMMANDS = {
    "generate": ("--tokens", "3", "--greedy"),
    "suggest": (),
    "classify": (),
    "tag": (),
    "answer": ("--context", "the cat sat on the mat"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stream_gives_one_line_for_each_line(regard, folders, command):
    place = str(folders / ("generate" if command == "suggest" else command))
    found = regard(command, place, *COMMANDS[command], feed=LINES)
    assert found.code == 0, found.err
    lines = found.out.split("\n")
    assert len(lines) == 5
    assert not lines[1]
    assert not lines[2]
    assert lines[3]
    assert not lines[4]
    assert "line 3: not UTF-8" in found.err
    told = regard(command, place, *COMMANDS[command], "--json", feed=LINES)
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert [row["text"] for row in rows] == ["the cat", "", "the \ufffd cat", "a dog"]
    assert [len(row) > 1 for row in rows] == [True, False, False, True]


def test_a_line_without_a_mask_is_a_warning_on_a_stream_and_an_error_as_an_argument(
    regard, folders
):
    found = regard("fill", str(folders / "fill"), feed=b"the <mask> sat\nthe cat\n")
    assert found.code == 0
    assert "line 2" in found.err
    assert [bool(line) for line in found.out.split("\n")] == [True, False, False]
    alone = regard("fill", str(folders / "fill"), "the cat")
    is_refused(alone)


def test_vectors_of_lines_are_those_of_each_alone(regard, folders):
    found = regard("embed", str(folders / "fill"), feed=b"the cat\n\na dog ran\n")
    rows = found.out.split("\n")
    assert len(rows) == 4
    assert not rows[1]
    p = load(str(folders / "fill"))
    for row, text in ((rows[0], "the cat"), (rows[2], "a dog ran")):
        assert [float(each) for each in row.split()] == pytest.approx(p.embed(text), abs=2e-5)


def test_greedy_sets_aside_how_the_recipe_samples(regard, folders, tmp_path):
    p = load(str(folders / "generate"))
    drawing = p.recipe.decode.model_copy(update={"sample": True, "temperature": 0.8, "top_k": 5})
    p.recipe = p.recipe.model_copy(update={"decode": drawing})
    p.save(tmp_path / "drawn")
    greedy = regard("generate", str(tmp_path / "drawn"), "the cat", "--tokens", "4", "--greedy")
    assert greedy.code == 0, greedy.err
    plain = regard("generate", str(folders / "generate"), "the cat", "--tokens", "4", "--greedy")
    assert greedy.out == plain.out


@pytest.mark.parametrize(
    "words", [("translate", "x"), ("eval",), ("suggest", "x"), ("tag", "x"), ("restore", "a ___")]
)
def test_what_a_model_cannot_do_is_refused_with_what_it_can(regard, folders, words):
    command, *rest = words
    found = regard(command, str(folders / "fill"), *rest)
    is_refused(found, "eval" if command == "eval" else "embed, fill")


def test_nothing_is_written_before_wrong_options_are_refused(regard, folders):
    place = str(folders / "generate")
    is_refused(regard("generate", place, "the cat", "--greedy", "--temperature", "2"), "temp")


def test_masked_tokens_of_a_text_are_scored(regard, folders, tmp_path):
    (tmp_path / "my.txt").write_text("the cat sat on the mat\n" * 20)
    found = regard("eval", str(folders / "fill"), "--data", "my.txt", "--json")
    assert found.code == 0, found.err
    row = json.loads(found.out)
    assert row["loss"] == pytest.approx(math.log(row["perplexity"]))
    assert 0 <= row["masked"] <= 100


def test_of_a_line_without_end_no_more_is_kept_than_a_line_may_have(regard, folders, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    place, feed = str(folders / "classify"), b"the cat\n" + b"x" * 300_000 + b"\na dog\n"
    found = regard("classify", place, feed=feed)
    first, second, third, end = found.out.split("\n")
    assert first
    assert third
    assert (found.code, second, end) == (0, "", "")
    assert "line 2: too long: expected at most 1,000 bytes; gave an empty line" in found.err


def test_a_context_may_come_through_a_pipe_and_is_bounded(regard, folders, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.text.LONGEST_LINE", 1000)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    (tmp_path / "context").write_text("the cat sat on the mat")
    place = str(folders / "answer")
    with (tmp_path / "context").open() as opened:
        through = f"/dev/fd/{opened.fileno()}"
        assert regard("answer", place, "the", "--context-file", through).code == 0
    (tmp_path / "context").write_text("the " * 1000)
    found = regard("answer", place, "the", "--context-file", "context")
    is_refused(found, "context: too long: expected at most 1,000 bytes")
