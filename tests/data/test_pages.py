from __future__ import annotations

import sys
from collections import Counter

import pytest

from regard.data.text.python_docs import PythonText, paragraphs, python_text

MODULE = '''#!/usr/bin/env python
# Copyright (c) 2001 by a person with a very long name indeed.
"""Tools that open doors of
every kind"""

raise SystemExit("this is read, and never run")

# The lock is held while a door is open, so that
# nobody else can close it meanwhile.

def open_door():
    r"""Open the door and wait until it stands still.

    >>> open_door()
    True

    -h   help        show this help
    -v   verbose     say more than is good

    See :class:`Door` and ``close`` for the other way; it is slower.

    - The first of two points, which goes on
      over the end of its line.
    - The second of the two points is short.

        door = open_door(1)
        print(door)
    """
    class Door:
        """Open the door and wait until it stands still."""
'''


@pytest.fixture
def library(tmp_path):
    for name, text in {
        "doors.py": MODULE,
        "a/broken.py": "def (:\n    '''Nobody will ever see this text here.'''",
        "site-packages/other.py": '"""Nobody will ever see this text here."""',
        "test/test_doors.py": '"""Nobody will ever see this text here."""',
        "pydoc_data/topics.py": "topics = {'if': 'The \"if\" statement\\n***\\n\\n"
        'The "if" statement is used for\\nconditional execution:\\n\\n   if_stmt ::= x\'}\n',
        "LICENSE.txt": "You may do with these doors what you like.\n",
        "notes.txt": "Nobody will ever see this text here.",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "a" / "bytes.py").write_bytes(b'"""Nobody will ever see \xff this text here."""')
    return tmp_path


def test_prose_of_a_library_is_gathered_without_running_it(library):
    assert list(python_text(library)) == [
        ("LICENSE.txt", "You may do with these doors what you like."),
        (
            "doors.py",
            "Tools that open doors of every kind.\n"
            "Open the door and wait until it stands still.\n"
            "See Door and close for the other way; it is slower.\n"
            "The first of two points, which goes on over the end of its line.\n"
            "The second of the two points is short.\n"
            "The lock is held while a door is open, so that nobody else can close it meanwhile.",
        ),
        ("topics/if", 'The "if" statement is used for conditional execution:'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x = open_door(1) + open_door(2) + y.",
        ">>> This is what a person would type here.",
        "Two words.",
        "+-----+-----+ | This | is | a | table. |",
        "Visit https://example.org for a good many other doors.",
    ],
)
def test_code_tables_and_headings_are_no_prose(text):
    assert list(paragraphs(f"A summary that stands before it.\n\n{text}")) == [
        "A summary that stands before it."
    ]


def test_tickets_and_small_letters_at_the_beginning_are_corrected():
    assert list(paragraphs("gh-1234: fix a bug in the previous fix.")) == [
        "Fix a bug in the previous fix."
    ]


def test_the_text_of_this_python_is_a_text_for_a_corpus(library, monkeypatch):
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(library)})
    text = PythonText()
    pieces = list(text.pieces(Counter()))
    assert [piece.last for piece in pieces] == [True] * 3
    assert [piece.text for piece in pieces] == [document for _, document in python_text(library)]
    before = text.checksums()
    assert before == PythonText().checksums()
    (library / "doors.py").write_text("'''A door is a door is a door.'''")
    assert text.checksums() != before


@pytest.mark.slow
def test_this_python_has_more_than_a_million_letters_of_english():
    before = set(sys.modules)
    documents = list(python_text())
    imported = set(sys.modules) - before  # nothing is imported but what a file is encoded in
    assert all(name.startswith("encodings.") for name in imported), imported
    text = "\n".join(document for _, document in documents)
    lines = text.split("\n")
    assert len(lines) == len(set(lines))
    assert ">>>" not in text
    if len(text) < 10**6:
        pytest.skip(f"only {len(text)} letters: this Python comes without its sources")
    assert text.count(" the ") > 10_000
