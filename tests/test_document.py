from __future__ import annotations

import doctest

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.recipes import yaml as document
from regard.recipes.yaml import one_line, read, shown, write


def location(line):
    return f"my.yaml:{line}"


def value(text):
    return read(f"key: {text}", location).values["key"]


def message(text):
    with pytest.raises(InputError) as caught:
        read(text, location)
    assert str(caught.value).count("\n") <= 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("7", 7),
        ("-7", -7),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("1e-3", 1e-3),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("2.", 2.0),
        ("1.0e-09", 1e-9),
        ("[1, [a, 2.5]]", (1, ("a", 2.5))),
    ],
)
def test_a_value_is_read_as_yaml_1_2_has_it(text, expected):
    assert value(text) == expected
    assert type(value(text)) is type(expected)


@pytest.mark.parametrize(
    "text",
    ["no", "on", "Yes", "off", "y", "12:30", "2024-05-01", "1_000", ".inf", ".nan", "1e999", "<<",
     "=", "9" * 5000],
)  # fmt: skip
def test_what_looks_like_something_else_in_yaml_1_1_stays_text(text):
    assert value(text) == text


@pytest.mark.parametrize("text", ["'true'", '"12"', "'null'", "'1e-3'"])
def test_what_is_quoted_is_text(text):
    assert value(text) == text[1:-1]


def test_every_key_has_its_line():
    lines = read("a: 1\n\n# why\nb:\n  c: 2\n  d: {e: 3}\n", location).lines
    assert lines == {("a",): 1, ("b",): 4, ("b", "c"): 5, ("b", "d"): 6, ("b", "d", "e"): 6}


def test_a_key_that_occurs_twice_is_refused_with_both_lines():
    expected = "my.yaml:4: a.b: got the same key again, expected each key once\nline 2 has it too"
    assert message("a:\n  b: 1\n  c: 1\n  b: 2\n") == expected


@pytest.mark.parametrize("text", ["a: &x 1\nb: 2", "a: 1\nb: *x", "a: *.tsv", "a: &.tsv"])
def test_anchors_and_aliases_are_refused(text):
    line = 2 if "*x" in text else 1
    expected = f"my.yaml:{line}: got an anchor or alias, expected plain YAML\n"
    assert message(text) == expected + "quote a value that begins with & or *"


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!str", "!own", "!!binary"])
def test_tags_are_refused(tag):
    assert "the tag" in message(f"a: 1\nb: {tag} x")
    assert message(f"a: 1\nb: {tag} x").startswith("my.yaml:2: got the tag")


def test_a_deep_text_is_refused_before_it_exhausts_the_stack():
    expected = "my.yaml:1: got more than 20 levels, expected plain YAML\ncount the brackets"
    assert message("[" * 50_000) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\n\tb: 2", 2, "'\\t'"),
        ("a: 1\n b: 2", 2, "mapping values are not allowed here"),
        ("a: 'x", 1, "end of stream"),
        ("a: 1\n---\nb: 2", 2, "another document"),
    ],
)
def test_what_is_not_yaml_is_said_with_its_line_and_what_to_look_at(text, line, problem):
    first, second = message(text).split("\n")
    assert first.startswith(f"my.yaml:{line}: cannot be read as YAML: ")
    assert problem in first
    assert second == "check the indentation (spaces, not tabs), colons, brackets and quotes"


def test_a_control_character_is_refused_with_its_line():
    expected = "my.yaml:2: got the character U+0000, expected text that can be printed"
    assert message("a: 1\nb: \x00") == expected


def test_a_key_that_is_not_a_word_is_refused():
    assert message("a: 1\n[b]: 2") == "my.yaml:2: got a key in brackets, expected key: value"


def test_a_byte_order_mark_is_not_part_of_the_first_key():
    assert read("\ufeffa: 1", location).values == {"a": 1}


def test_a_text_without_content_is_none():
    assert read("# nothing\n", location) == (None, {})


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
WORDS = st.sampled_from(
    ["no", "1e-3", "08", "0o7", "12:30", "null", "", "*x", "a: b", "日本 😀", "a\nb"]
)
VALUES = SCALARS | st.text() | WORDS


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), VALUES | st.tuples(VALUES, VALUES), max_size=4))
@example({"next line": "a\x85b", "separator": "\u2028", "return": "a\r\nb", "tab": "\t"})
def test_what_is_written_is_read_back_unchanged(values):
    back = read(write(values), location).values
    assert back == values
    assert [type(item) for item in back.values()] == [type(item) for item in values.values()]


def test_a_value_that_occurs_twice_is_written_twice():
    pair = ("a", "b")
    assert write({"x": pair, "y": pair}) == "x: [a, b]\ny: [a, b]\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1e-9, "1e-09"),
        ("abc", "'abc'"),
        (("a", 1), "['a', 1]"),
        ({"a": 1, "b": 2}, "keys (a, b)"),
        ({}, "an empty mapping"),
    ],
)
def test_a_value_is_shown_as_the_user_would_write_it(given, expected):
    assert shown(given) == expected


def test_what_is_shown_is_one_line_and_not_too_long():
    assert shown("x" * 1000) == "'" + "x" * 78 + "…"
    assert one_line("a\nb") == "'a\\nb'"
    assert "\n" not in shown({"a\nb": 1})


def test_the_docstring_examples_run():
    results = doctest.testmod(document)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("part", ["{", "[", "? ", "- ", "[{", "{? ", "{a: ", "a: [", "[*a, "])
def test_a_file_of_brackets_is_refused_at_once(part):
    # the scanner looks back at every open bracket: 100,000 of them took hours
    assert message(part * 100_000).startswith("my.yaml:1: got more than 20 levels")


@pytest.mark.parametrize("text", ["0x" + "f" * 300, "9" * 300, "-" + "9" * 300, str(2**128)])
def test_a_number_of_hundreds_of_digits_is_text(text):
    assert value(text) == text
    assert value(str(10**30)) == 10**30
