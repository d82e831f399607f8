from __future__ import annotations

import doctest
import json
import re

import pytest

from regard import errors
from regard.errors import (
    NEAREST,
    FoundProblems,
    InputError,
    Interrupted,
    UserError,
    WriteError,
    did_you_mean,
    nearest,
)


def test_a_message_has_what_got_expected_and_fix_in_two_lines():
    error = InputError("--beam", got=0, expected="1 or more", fix="try --beam 4")
    assert str(error) == "--beam: got 0, expected 1 or more\ntry --beam 4"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "it"),
        ({"got": 0}, "it: got 0"),
        ({"got": False}, "it: got False"),
        ({"expected": "more"}, "it: expected more"),
        ({"fix": "do"}, "it\ndo"),
        ({"got": 0, "fix": "do"}, "it: got 0\ndo"),
    ],
)
def test_parts_that_were_not_given_leave_no_trace(parts, message):
    assert str(UserError("it", **parts)) == message


def test_the_parts_stay_readable_for_programs():
    error = WriteError("out", got="a full disk", expected="space", fix="make some")
    assert (error.what, error.got, error.expected, error.fix) == (
        "out", "a full disk", "space", "make some",
    )  # fmt: skip


def test_exit_codes_are_the_documented_ones():
    kinds = [InputError("x"), FoundProblems("x"), WriteError("x")]
    assert [kind.exit_code for kind in kinds] == [2, 1, 74]
    assert [Interrupted("x", signal=number).exit_code for number in (2, 15)] == [130, 143]
    assert all(isinstance(kind, UserError) for kind in [*kinds, Interrupted("x", signal=2)])


def test_the_docstring_example_runs():
    results = doctest.testmod(errors)
    assert results.attempted
    assert not results.failed


def test_a_name_out_of_a_hostile_file_is_printable_and_short():
    error = UserError("a\nb\x1b[31m", got="\ud800", expected="x" * 10**6, fix="one\ntwo\u202e")
    first, second = str(error).splitlines()
    assert first.startswith(r"a\nb\x1b[31m: got \ud800, expected xxx")
    assert len(first) < 600
    assert second == r"one\ntwo\u202e"
    assert str(error).replace("\n", "").isprintable()
    assert error.got == "\ud800"  # the parts stay as they were


def test_safe_text_cannot_control_a_terminal_and_stays_json():
    every = "".join(map(chr, range(0x20FF))) + "\udfff.\ud800🙂"
    text = json.dumps({every: [every]}, ensure_ascii=False)
    printed = errors.safe(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", printed)
    assert json.loads(printed) == json.loads(text)
    assert errors.safe("a\tb\r\nc\u200d🙂é") == "a\tb\r\nc\u200d🙂é"
    assert errors.safe("\x1b]0;x\x07\x9b1m\x7f") == r"\u001b]0;x\u0007\u009b1m\u007f"


def test_the_nearest_names_are_few_and_the_best_comes_first():
    names = [f"own/name-{number}" for number in range(100)]
    assert len(nearest("own/name", names)) == NEAREST
    assert nearest("Bert", ["gpt", "bert"]) == ["bert"]
    assert nearest("ti", ["Ti", "S"]) == ["Ti"]
    assert nearest("batch", ["steps", "batch_tokens"]) == ["batch_tokens"]
    assert nearest("xyz", ["steps", "batch_tokens"]) == []


def test_advice_names_what_was_meant_and_what_lists_all():
    assert did_you_mean([]) is None
    assert did_you_mean(["a"]) == "did you mean a?"
    assert did_you_mean(["a", "b", "c"]) == "did you mean a, b or c?"
    assert did_you_mean([], "regard show") == "`regard show` lists all"
