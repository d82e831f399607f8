"""Commands for the slides of one's own lecture: how a file is divided, and what fits a slide."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from regard_lectures.own_slides import read_slides, topics
from tests.commands import is_refused

TALK = [
    "Sequence models\nA lecture, by me",
    "Positional encoding\nsines and cosines of many wavelengths",
    "Multi-Head Attention\nseveral heads, each with its own queries and keys",
    "Thank you",
]
EXPECTED = [(), ("regard show waves", "regard show shift"), ("regard show heads",), ()]


def divided(kind: str) -> str:
    texts = {
        "form feeds": "\f".join(TALK) + "\f",  # as pdftotext ends every page
        "rules": "\n---\n".join(TALK),
        "front matter": "---\nmarp: true\ntheme: plain\n---\n" + "\n---\n".join(TALK),
        "headings": "\n\n".join(f"# {text}" for text in TALK),
        "smaller headings": "# My talk\n" + "\n".join(f"## {text}" for text in TALK),
        "Windows": "\r\n---\r\n".join(text.replace("\n", "\r\n") for text in TALK),
    }
    return texts[kind]


KINDS = ["form feeds", "rules", "front matter", "headings", "smaller headings", "Windows"]


@pytest.mark.parametrize("kind", KINDS)
def test_slides_are_divided_as_tools_write_them(tmp_path, kind):
    path = tmp_path / "talk.txt"
    path.write_bytes(divided(kind).encode())
    deck = read_slides(path)
    slides = deck.slides[1:] if kind == "smaller headings" else deck.slides  # its own title page
    assert [slide.title for slide in slides] == [text.partition("\n")[0] for text in TALK]
    assert (deck.name, deck.count) == ("talk", len(deck.slides))
    for slide, commands in zip(slides, EXPECTED, strict=True):
        assert slide.commands[: len(commands)] == commands
        assert bool(slide.commands) == bool(commands)
        assert slide.reason == ("" if commands else "no command fits")


@pytest.mark.parametrize(
    ("slide", "command"),
    [
        ("Softmax\nexp(x) / sum", "regard show softmax"),
        ("Why divide by the square root of d_k?", "regard show scaling"),
        ("LSTMs and GRUs", "regard show cells"),
        ("Residual connections\nand layer normalization", "regard show residuals"),
        ("**BERT**: masked language models", "regard show objectives"),
        ("Vision Transformers", "regard show patches"),
        ("A title\nScaling laws, once; scaling-law exponents", "regard show laws"),
    ],
)
def test_words_of_a_slide_choose_its_commands(tmp_path, slide, command):
    (tmp_path / "talk.md").write_text(f"Title\n---\n{slide}\n")
    assert command in read_slides(tmp_path / "talk.md").slides[1].commands


def test_a_word_in_a_title_counts_more_and_parts_of_words_do_not(tmp_path):
    text = "Softmax\nbias bias\n---\nMasks\nsoftmax softmax\n---\nunmasked keyboards monkeys"
    (tmp_path / "talk.md").write_text(text)
    first, second, third = read_slides(tmp_path / "talk.md").slides
    assert first.commands == ("regard show softmax",)
    assert second.commands[0] == "regard show mask"
    assert third.commands == ()


def test_no_phrase_belongs_to_two_topics():
    text = (resources.files("regard_lectures") / "topics.txt").read_text("utf-8")
    lines = [line.partition(" | ")[0] for line in text.splitlines() if " | " in line]
    phrases = [phrase.lower() for line in lines for phrase in line.split(", ")]
    assert len(lines) == len(topics())
    assert len(phrases) == len(set(phrases))


def test_a_file_is_listed_and_shown(regard, tmp_path, monkeypatch):
    (tmp_path / "talk.txt").write_text("Title\f1. Softmax\f")
    result = regard("lecture", "--slides", "talk.txt")
    assert result.out.splitlines() == [
        "   1  Title", "      no command fits", "   2  1. Softmax", "      regard show softmax",
    ]  # fmt: skip
    rows = [json.loads(line) for line in
            regard("lecture", "--slides", "talk.txt", "--json").out.splitlines()]  # fmt: skip
    assert [row["deck"] for row in rows] == ["talk", "talk"]
    monkeypatch.setattr("regard_lectures.commands._open", lambda _: None)
    shown = regard("lecture", "--slides", "talk.txt", "--show", "-o", "page", "--quiet")
    assert shown.out == "page/index.html\n", shown.err
    assert "regard show softmax" in (tmp_path / "page/index.html").read_text()


def test_a_wrong_file_is_refused_with_what_to_do(regard, tmp_path):
    (tmp_path / "talk.pdf").write_bytes(b"%PDF-1.7 ...")
    (tmp_path / "talk.pptx").write_bytes(b"PK\x03\x04 ...")
    (tmp_path / "latin.txt").write_bytes("Schlüssel\fWert".encode("latin-1"))
    (tmp_path / "one.txt").write_text("One page of text\nwithout any division\n")
    (tmp_path / "empty.txt").write_text("\f\f\n")
    (tmp_path / "zeros.txt").write_bytes(bytes(100))
    for file, *said in (
        ("talk.pdf", "got a PDF, expected its text", "pdftotext talk.pdf slides.txt"),
        ("talk.pptx", "got a PowerPoint file", "pdftotext talk.pdf slides.txt"),
        ("latin.txt", "got no UTF-8"),
        ("one.txt", "got one slide, expected slides divided by form feeds"),
        ("empty.txt", "got no text, expected slides divided by"),
        ("zeros.txt", "got no text, expected a text file"),
        ("missing.txt", "No such file", "regard lecture D4 --slides 12-20"),
        ("12-20", "No such file", "regard lecture D4 --slides 12-20"),
        (".", "got a folder, expected a regular file"),
    ):
        is_refused(regard("lecture", "--slides", file), *said)
    is_refused(regard("lecture", "D0", "--slides", "one.txt"), "regard lecture --slides FILE")
