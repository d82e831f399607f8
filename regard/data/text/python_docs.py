"""English text that every machine has: the documentation in Python's standard library.

In: the source files of the standard library, which are read and never run. Out: documents of plain
paragraphs: the docstrings and longer comments of each module, the topics of `help()`, and the text
files beside the modules. Examples, code, tables and repetitions are left out. The text depends on
the installed Python version, so it has a checksum like any other text.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from regard.data.text.documents import DocumentPiece, join_parts

SKIPPED_FOLDERS = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}
"""Folders that are skipped: not part of the library, or tests with little documentation."""
TEXTS = re.compile(r"README.*|.+\.rst|(?:LICENSE|NEWS.*|HISTORY|TODO)\.txt")
"""The names of text files beside the modules."""
TOPICS = "pydoc_data/topics.py"
RULES = 1
"""Version of the rules that separate prose from code; it is part of the corpus's cache key."""

WORDS = 5
"""The fewest words of a paragraph: shorter ones are headings and names."""
ORDINARY_SHARE = 0.75
"""The least share of plain words in prose; code has more names and punctuation."""

_COMMENT = re.compile(r"(?:^[ \t]*#[ \t].*\n|^[ \t]*#\n){2,}", re.MULTILINE)
_BULLET = re.compile(r"\s*(?:[-*+•]|\(?\w{1,2}[.)])\s+(?=\S)")
_TICKET = re.compile(r"^(?:(?:bpo-|gh-|[Ii]ssues? ?#|SF )\d+[:.,]? *)+")
_ROLE = re.compile(r":[\w:+-]+:`([^`]*)`")
_CODE = re.compile(r">>>|::=|\$ |\S {3,}\S|\t\S|[{}\\|]|==|;$|\b(?:Copyright|©)|https?:|^[.]{2}\s")
"""Not prose: doctests, grammars, shell lines, columns, code punctuation, copyright lines, links."""
_PLAIN = re.compile(
    r"[(\"'‘“]*(?:[A-Za-z]?[a-z]+(?:['’-][A-Za-z]?[a-z]+)*|[AI]|\d+)[.,;:!?)\"'’”]*"
)
_LOWER = re.compile(r"[a-z]+ [a-z]+ [a-z]+ ")
_BEGINS = re.compile(r"[(\"'‘“]*[A-Z]")
_ENDS = re.compile(r"[.!?:][)\"'’”]*$")
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (*_DEFINITIONS, ast.If, ast.Try, ast.With)
"""Nodes that may contain definitions; visiting every expression takes ten times as long."""


def python_text(library: Path | None = None) -> Iterator[tuple[str, str]]:
    """Yield the documents in a fixed order; no paragraph occurs twice.

    Args:
        library: The folder of the standard library; by default that of the running Python.

    Yields:
        The name of a module, topic or file, and its paragraphs, separated by line ends.
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if library is None else library
    used_paragraphs: set[str] = set()
    for name, texts in _sources(root):
        unique = dict.fromkeys(paragraph for text in texts for paragraph in paragraphs(text))
        new = [paragraph for paragraph in unique if paragraph not in used_paragraphs]
        used_paragraphs.update(new)
        if new:
            yield name, "\n".join(new)


def paragraphs(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of prose in a text, each on one line.

    Example:
        >>> list(paragraphs("Add two\nnumbers of any kind.\n\n>>> add(1, 2)\n3"))
        ['Add two numbers of any kind.']
    """
    for number, block in enumerate(re.split(r"\n[ \t]*\n", text.strip())):
        for lines in _items(block.split("\n")):
            if any(_CODE.search(line.strip()) for line in lines):
                continue
            joined = " ".join(" ".join(lines).split())
            joined = _ROLE.sub(r"\1", joined).replace("`", "").replace("::", ":")
            joined = _TICKET.sub("", joined, count=1)
            if _LOWER.match(joined):  # many comments begin with a small letter
                joined = joined[0].upper() + joined[1:]
            if number == 0 and not _ENDS.search(joined):
                joined += "."  # a summary line often has no full stop
            if _is_prose(joined):
                yield joined


class PythonText:
    """The documentation of Python's standard library as documents for a corpus."""

    def __init__(self) -> None:
        self._library = Path(sysconfig.get_paths()["stdlib"])

    def pieces(self, skipped: Counter[str]) -> Iterator[DocumentPiece]:  # noqa: ARG002 (nothing is bad)
        """Yield the pieces of all documents."""
        documents = python_text(self._library)
        return join_parts(part for _, text in documents for part in (text, None))

    def checksums(self) -> dict[str, str]:
        """SHA-256 of all files that are read: it changes with the Python version."""
        digest = hashlib.sha256()
        for path in _files(self._library):
            digest.update(path.relative_to(self._library).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return {"python": digest.hexdigest()}

    def settings(self) -> dict[str, Any]:
        """The version of the rules that separate prose from code."""
        return {"rules": RULES}


def _sources(root: Path) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the name of each module, topic and file, with the texts in it."""
    for path in _files(root):
        name, source = path.relative_to(root).as_posix(), _read(path)
        if name == TOPICS:
            yield from ((f"topics/{topic}", [text]) for topic, text in _topics(source))
        elif path.suffix == ".py":
            yield name, [*_docstrings(_parse_source(source)), *_comments(source)]
        else:
            yield name, [source]


def _files(root: Path) -> list[Path]:
    """List the modules and text files of the library, in the same order on every machine."""
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]  # they may be large
        texts = (name for name in names if name.endswith(".py") or TEXTS.fullmatch(name))
        paths += [Path(folder) / name for name in texts]
    return sorted(paths, key=lambda path: path.relative_to(root).as_posix())


def _read(path: Path) -> str:
    """Read a file in the encoding that it declares; an unreadable file counts as empty."""
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""


def _parse_source(source: str) -> ast.Module:
    """Parse a module; one that cannot be parsed counts as empty."""
    with warnings.catch_warnings(action="ignore"):  # old modules have invalid escape sequences
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            return ast.Module(body=[], type_ignores=[])


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions, in the file's order."""
    if isinstance(node, _DEFINITIONS):
        yield ast.get_docstring(node) or ""
    for child in getattr(node, "body", []) if isinstance(node, _BLOCKS) else []:
        yield from _docstrings(child)


def _comments(source: str) -> Iterator[str]:
    """Yield the comments of at least two lines."""
    for match in _COMMENT.finditer(source):
        yield re.sub(r"^[ \t]*#[ \t]?", "", match.group(), flags=re.MULTILINE)


def _topics(source: str) -> list[tuple[str, str]]:
    """Return the topics of `help()`, such as `help("if")`, from the module's dict of strings."""
    for node in _parse_source(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            topics: dict[str, str] = ast.literal_eval(node.value)
            return sorted(topics.items())
    return []


def _items(lines: list[str]) -> Iterator[list[str]]:
    """Cut a block before each bullet, and drop the bullets."""
    item: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        if bullet is not None and item:
            yield item
            item = []
        item.append(line if bullet is None else line[bullet.end() :])
    yield item


def _is_prose(text: str) -> bool:
    """Whether a text is a sentence or more of mostly ordinary words."""
    words = text.split()
    if len(words) < WORDS or not (_BEGINS.match(text) and _ENDS.search(text)):
        return False
    return sum(_PLAIN.fullmatch(word) is not None for word in words) >= ORDINARY_SHARE * len(words)
