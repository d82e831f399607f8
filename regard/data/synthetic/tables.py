"""Text files of words -> their tables, which the generators of sentences draw from."""

from __future__ import annotations

from importlib.resources import files


def read_tables(name: str) -> dict[str, list[str]]:
    """Read the rows of each table of a file, by the table's name: `[nouns]` begins a table.

    An indented line continues the row before it; a line that begins with `#` is a comment.

    Args:
        name: The path of the file below this folder.
    """
    text = (files("regard.data.synthetic") / name).read_text("utf-8")
    tables: dict[str, list[str]] = {}
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line)
    return tables
