from __future__ import annotations

import gc
import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.sources import pairs_of
from regard.data.text import records
from regard.data.text.files import Lengths, Problem, check, load_pairs, read_pairs
from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.recipes.recipe import load as load_recipe

GOOD = [Pair("a dog", "ein Hund"), Pair("a cat", "eine Katze")]


@pytest.fixture
def write(tmp_path):
    """Write a file into the test's folder and give its name."""

    def _write(name: str, content: bytes | str) -> str:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return str(path)

    return _write


def as_files(write, form: str, pairs: list[Pair], end: str = "\n"):
    name, _, packed = form.partition("+")
    packed = f".{packed}" if packed else ""
    if name == "two":
        return tuple(
            write(f"{side}.txt{packed}", "".join(getattr(pair, side) + end for pair in pairs))
            for side in ("source", "target")
        )
    if name == "tsv":
        return write(f"all.tsv{packed}", "".join(f"{p.source}\t{p.target}{end}" for p in pairs))
    rows = [json.dumps({"source": p.source, "target": p.target}) for p in pairs]
    return write(f"all.jsonl{packed}", "".join(row + end for row in rows))


@pytest.mark.parametrize("form", ["two", "tsv", "jsonl", "two+gz", "tsv+gz", "jsonl+gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_format_gives_the_pairs(write, form, end):
    assert list(read_pairs(as_files(write, form, GOOD, end), max_words=9)) == GOOD


@pytest.mark.parametrize("form", ["two", "tsv", "jsonl"])
def test_a_byte_order_mark_and_a_missing_last_newline_change_nothing(write, form, tmp_path):
    as_files(write, form, GOOD)
    for path in tmp_path.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().removesuffix(b"\n"))
    names = sorted(map(str, tmp_path.iterdir()))
    files = (names[0], names[1]) if form == "two" else names[0]
    assert list(read_pairs(files, max_words=9)) == GOOD


@pytest.mark.parametrize("form", ["two", "tsv", "jsonl"])
def test_only_newlines_end_lines(write, form):
    odd = [Pair("a\u2028b\x85c", "d\x0be\x0cf\u2029g"), Pair("h\ri", "\x1cj\x1dk\x1e")]
    assert list(read_pairs(as_files(write, form, odd), max_words=9)) == odd


any_text = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\n\0")).filter(str.strip)


@pytest.mark.slow
@given(rows=st.lists(st.tuples(any_text, any_text), min_size=1))
@settings(max_examples=50, deadline=None)
def test_any_text_without_tabs_and_newlines_is_read_as_it_stands(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "all.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in rows).encode())
    expected = [Pair(*row) for row in rows]
    expected[0] = Pair(expected[0].source.removeprefix("\ufeff"), expected[0].target)
    if expected[0].source.strip():
        assert list(read_pairs(str(path), max_words=10**6)) == expected


@pytest.fixture
def no_garbage_collection():
    """What is collected where the recursion is deepest would fail there, too."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.parametrize(
    ("name", "line", "what", "detail"),
    [
        ("x.tsv", b"", "empty line", ""),
        ("x.tsv", b"  \t ", "empty line", ""),
        ("x.tsv", b"a\t", "empty target", ""),
        ("x.tsv", b"\tb", "empty source", ""),
        ("x.csv", b"", "empty line", ""),
        ("x.csv", b" , ", "empty line", ""),
        ("x.csv", b"a,", "empty target", ""),
        ("x.csv", b'"",b', "empty source", ""),
        ("x.csv", b"a", "wrong number of columns", "1, not 2"),
        ("x.csv", b"a;b", "wrong number of columns", "semicolons"),
        ("x.csv", b"a,b,c", "wrong number of columns", "3, not 2"),
        ("x.csv", b"a,b\xff", "not UTF-8", ""),
        ("x.csv", b'"a"b,c', "not CSV", "expected after"),
        ("x.csv", b'"a\nb",c', "a control character in the text", "\\n"),
        ("x.tsv", b"a", "wrong number of columns", "1, not 2"),
        ("x.tsv", b"a\tb\tc", "wrong number of columns", "3, not 2"),
        ("x.tsv", b"a\tb\xff", "not UTF-8", "byte 0xff at 4"),
        ("x.tsv", b"a b c d e\tb", "over-long", "5 words, at most 4"),
        ("x.tsv", b"a\ta b c d e", "over-long", "5 words, at most 4"),
        ("x.jsonl", b"", "empty line", ""),
        ("x.jsonl", b"{", "not JSON", "Expecting"),
        ("x.jsonl", b"[" * 100_000, "not JSON", ""),
        ("x.jsonl", b"[1]", "not JSON", "a list, not an object"),
        ("x.jsonl", b'{"src": "a", "target": "b"}', "wrong keys", "'src', 'target'"),
        ("x.jsonl", b'{"source": "a"}', "wrong keys", "'source', not 'target'"),
        (
            "x.jsonl",
            b'{"source": "a\\nb", "target": "b"}',
            "a control character in the text",
            "\\n",
        ),
        ("x.tsv", b"a\0b\tc", "a control character in the text", "\\x00"),
        ("x.jsonl", b'{"source": "a", "target": 1}', "wrong keys", "'target' is not a text"),
        ("x.jsonl", b'{"source": "\\ud800", "target": "b"}', "not UTF-8", "'source'"),
        ("x.jsonl", b'{"source": " ", "target": "b"}', "empty source", ""),
    ],
)
def test_a_bad_line_is_named(write, name, line, what, detail):
    good = {"x.tsv": b"a\tb\n", "x.csv": b'a,"b"\n'}.get(
        name
    ) or b'{"source": "a", "target": "b"}\n'
    file = write(name, good + line + b"\n" + good)
    rows = list(read_pairs(file, max_words=4))
    assert rows[0] == rows[2] == Pair("a", "b")
    assert isinstance(rows[1], Problem)
    assert (rows[1].file, rows[1].line, rows[1].what) == (file, 2, what)
    assert detail in rows[1].detail
    with pytest.raises(InputError) as caught:
        load_pairs(file, 4, "stop")
    assert str(caught.value).startswith(f"{file}:2: {what}")
    assert "data.on_bad=skip" in str(caught.value)
    assert load_pairs(file, 4, "skip") == ([Pair("a", "b")] * 2, {what: 1})


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bad", [b"", b"\xc3", b"1 2 3 4 5"])
def test_a_bad_line_of_two_files_names_its_own_file(write, side, bad):
    lines = [b"a", b"a", b"a"]
    broken = [b"a", b"a", bad]
    files = tuple(
        write(f"{at}.txt", b"\n".join(broken if at == side else lines) + b"\n") for at in (0, 1)
    )
    problem = list(read_pairs(files, max_words=4))[2]
    assert isinstance(problem, Problem)
    assert (problem.file, problem.line) == (files[side], 3)


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
def test_files_of_unequal_length_always_stop(write, on_bad):
    files = (write("en.txt", "a\n\nc\n"), write("de.txt", "a\nb\n"))
    with pytest.raises(InputError) as caught:
        load_pairs(files, 9, on_bad)
    message = str(caught.value)
    assert files[0] in message
    assert files[1] in message
    assert "3 and 2 lines" in message


def test_the_error_for_an_unreadable_file_says_why(write, tmp_path):
    good = write("good.txt", "a\n")
    cases = {
        str(tmp_path / "missing.tsv"): "no such file.*\n.*good.txt",
        str(tmp_path / "no" / "missing.tsv"): "no folder",
        good: r"unknown file suffix.*\.tsv, \.csv or \.jsonl",
        write("empty.tsv", ""): "an empty file",
        write("empty.tsv.gz", ""): "an empty file",
        write("wide.tsv", "a\tb\n".encode("utf-16")): "UTF-16.*\niconv",
        "x" * 5000 + ".tsv": "too long",
    }
    (tmp_path / "folder.tsv").mkdir()
    cases[str(tmp_path / "folder.tsv")] = "a directory"
    for file, message in cases.items():
        with pytest.raises(InputError, match=message) as caught:
            check(file, 9)
        assert str(caught.value).startswith(file[:200])  # a name of 5000 is shortened
        assert len(str(caught.value).splitlines()) <= 2
    with pytest.raises(InputError, match="an empty file"):
        check((good, write("empty.txt", "")), 9)


def test_a_damaged_gz_is_a_user_error(tmp_path):
    packed = gzip.compress(b"a b c\td e f\n" * 5000)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    for name, content in {
        "plain": b"a\tb\n",
        "cut": packed[:-9],
        "flipped": bytes(flipped),
        "trailing": packed[:-8] + b"\0" * 8,
    }.items():
        path = tmp_path / f"{name}.tsv.gz"
        path.write_bytes(content)
        with pytest.raises(InputError, match="gzip"):
            load_pairs(str(path), 9, "skip")


def test_nothing_left_is_a_user_error(write):
    file = write("bad.tsv", "a\n\nb\n")
    with pytest.raises(InputError, match="no usable pair in 3 lines") as caught:
        load_pairs(file, 9, "skip")
    assert f"{file}:3" in str(caught.value)


def test_a_report_counts_pairs_problems_and_repeats(write):
    lines = ["a b\tc", "a b\tc", "", "x", "a b\tc", "a\tc d e", "", "y", "a b c d e f\tz"]
    file = write("all.tsv", "\n".join(lines) + "\n")
    report = check(file, max_words=4, shown=3)
    assert report.pairs == 4
    assert report.duplicates == 2
    assert "4 pairs can be used, 2 of them duplicates" in report.describe()
    assert report.problems == {"empty line": 2, "wrong number of columns": 2, "over-long": 1}
    assert [problem.line for problem in report.first] == [3, 4, 7]
    assert str(report.first[1]) == f"{file}:4: wrong number of columns (1, not 2)"
    assert report.source == Lengths(mean=1.75, median=2, longest=2)
    assert report.target == Lengths(mean=1.5, median=1, longest=3)


def test_a_report_of_only_bad_lines_has_no_lengths(write):
    report = check(write("bad.tsv", "\n\n"), max_words=4)
    assert (report.pairs, report.problems) == (0, {"empty line": 2})
    assert report.source == Lengths(0.0, 0, 0)


def test_jsonl_may_have_other_keys(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 7, "source": "a", "target": "b"}\n')
    pairs, skipped = load_pairs(str(tmp_path / "x.jsonl"), 10, "stop")
    assert [(pair.source, pair.target) for pair in pairs] == [("a", "b")]
    assert not skipped


def test_a_tab_inside_a_sentence_is_a_blank(write):
    files = write("a.de", "in einer \tFontäne\n"), write("a.en", "in a\tfountain\n")
    assert list(read_pairs(files, 10)) == [Pair("in einer  Fontäne", "in a fountain")]


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_that_would_fill_the_memory_is_a_problem_with_its_number(write, monkeypatch, end):
    monkeypatch.setattr(records, "LONGEST_LINE", 1000)
    long = "x" * 3_000_000  # larger than what is thrown away at once
    fits = "y" * 997 + "\tz"
    file = write("bomb.tsv.gz", f"a\tb\n{fits}\n{long}\nc\td\n{long}{end}")
    with pytest.raises(InputError, match=r"bomb\.tsv\.gz:3: over-long \(more than 1,000 bytes\)"):
        load_pairs(file, 9, "stop")
    pairs, skipped = load_pairs(file, 9, "skip")
    assert [len(pair.source) for pair in pairs] == [1, 997, 1]
    assert skipped == {"over-long": 2}
    sides = write("a.txt", f"a\n{long}\n"), write("b.txt", "b\nc\n")
    assert load_pairs(sides, 9, "skip")[1] == {"over-long": 1}
    table = write("bomb.csv", f'a,b\n"{long}",c\nd,e\n')
    assert load_pairs(table, 9, "skip") == ([Pair("a", "b"), Pair("d", "e")], {"over-long": 1})


def test_csv_has_commas_and_quotes_inside_quotes(write):
    file = write("x.csv", '"a, b","c ""d"" e"\r\nf,g\n')
    assert list(read_pairs(file, 9)) == [Pair("a, b", 'c "d" e'), Pair("f", "g")]
    packed = write("x.csv.gz", '"a, b",c\n')
    assert list(read_pairs(packed, 9)) == [Pair("a, b", "c")]


def test_an_unclosed_quote_is_reported_where_it_opens_and_bounded(write):
    file = write("x.csv", 'a,b\nc,"d\n' + "e,f\n" * 3)
    first, bad = read_pairs(file, 9)
    assert first == Pair("a", "b")
    assert (bad.line, bad.what) == (2, "not CSV")
    long = write("long.csv", 'a,b\nc,"' + "x" * 200_000 + '"\ng,h\n')
    rows = list(read_pairs(long, 9))
    assert (rows[1].line, rows[1].what) == (2, "not CSV")
    assert "field limit (131072)" in rows[1].detail
    assert rows[2] == Pair("g", "h")


ENGLISH = ["The dog sees the cat.", "A man walks through the old street.", "She was too tired.",
           "The children play with a ball.", "We were at home all day.", "This is not my house.",
           "What do you want to eat?", "The bird sings in the morning.", "He reads a long book.",
           "Tom is here."]  # fmt: skip
GERMAN = ["Der Hund sieht die Katze.", "Ein Mann geht durch die alte Straße.", "Sie war zu müde.",
          "Die Kinder spielen mit einem Ball.", "Wir waren den ganzen Tag zu Hause.",
          "Das ist nicht mein Haus.", "Was willst du essen?", "Der Vogel singt am Morgen.",
          "Er liest ein langes Buch.", "Tom ist hier."]  # fmt: skip
PAIRS = [*zip(ENGLISH, GERMAN, strict=True)]


def looked_through(write, pairs, name="x.tsv"):
    report = check(write(name, "".join(f"{source}\t{target}\n" for source, target in pairs)), 99)
    return [(problem.line, problem.what) for problem in report.first]


@pytest.mark.parametrize(
    "header",
    [("source", "target"), ("en", "de"), ("English", "German"), ("SRC", "TGT"), ("en-US", "de_DE"),
     ("source text", "target text"), ("english sentence", "Deutsch"), ("input", "output")],
)  # fmt: skip
def test_a_header_row_is_no_pair(write, header):
    file = write("x.tsv", "".join(f"{source}\t{target}\n" for source, target in [header, *PAIRS]))
    report = check(file, 99)
    assert (report.pairs, report.problems) == (len(PAIRS), {})
    first = f"first line of {file} taken as names of columns: {', '.join(header)}"
    roles = f"; source from {header[0]}, target from {header[1]}"
    assert report.columns == first + ("" if header == ("source", "target") else roles)
    last = write("y.tsv", "".join(f"{source}\t{target}\n" for source, target in [*PAIRS, header]))
    assert check(last, 99).pairs == len(PAIRS) + 1  # only a first line can be one


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        PAIRS * 5,
        [("Hi.", "Hallo!"), *PAIRS],
        [("it", "es"), ("dog", "Hund"), ("cat", "Katze"), ("German", "Deutsch"), ("no", "nein")],
        [("German", "Deutsch"), ("dog", "Hund"), ("bird", "Vogel")],
        [("A text about the target.", "Ein Text."), *PAIRS],
        [(text, text) for text in ENGLISH],
        [(text, text.split()[0]) for text in ENGLISH],
        [(text, "Tom " + text.lower()) for text in ENGLISH],
        [*PAIRS, ("Tom and Maria", "Tom und Maria"), ("New York", "New York"), ("42", "42")],
        [*PAIRS, ("The dog sees the cat.", "The dog sees the cat.")],  # left untranslated
    ],
)
def test_ordinary_pairs_raise_no_suspicion(write, pairs):
    assert looked_through(write, pairs) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["translate", "copy", "reverse", "sort"])
def test_shipped_data_raises_no_suspicion(write, kind):
    pairs = pairs_of(load_recipe(f"tiny/{kind}", ["data.pairs=400"]).data, "train")
    assert looked_through(write, [(pair.source, pair.target) for pair in pairs]) == []


@pytest.mark.slow
@pytest.mark.parametrize("lines", [(3,), (12, 40), (0, 7, 69)])
def test_lines_with_swapped_sides_are_reported(write, lines):
    generated = pairs_of(load_recipe("tiny/translate", ["data.pairs=60"]).data, "train")
    pairs = [*PAIRS, *((pair.source, pair.target) for pair in generated)]
    pairs = [pair[::-1] if i in lines else pair for i, pair in enumerate(pairs)]
    problems = looked_through(write, pairs)
    assert problems == [(i + 1, "sides that look swapped") for i in lines]


def test_swapped_files_are_reported_by_their_names(write):
    english, german = ("\n".join(text * 5) + "\n" for text in (ENGLISH, GERMAN))
    right = check((write("a.en", english), write("a.de", german)), 99)
    wrong = check((write("b.en", german), write("b.de", english)), 99)
    assert not right.problems
    assert wrong.problems == {"sides that look swapped": 1}
    assert "the text looks like de and en" in str(wrong.first[0])
    assert looked_through(write, [pair[::-1] for pair in PAIRS] * 5, "my.en-de.tsv") == [
        (1, "sides that look swapped")
    ]
