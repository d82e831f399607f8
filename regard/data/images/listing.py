"""A folder, a list in a file, or an archive -> which images there are, with labels and splits.

No image is decoded here, and no archive unpacked to the disk. Links that lead out of a folder are
not followed.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from regard.data.config import ALL_FOUND, Columns
from regard.data.images import arrays
from regard.data.images.archives import ARCHIVES, members
from regard.data.images.arrays import Source
from regard.data.text import arrow, records, tables
from regard.data.text.arrow import SPLITS
from regard.data.text.records import Problem
from regard.data.text.roles import CAPTIONS, IMAGES, Layout
from regard.errors import InputError, escaped
from regard.inputs.images.opening import MOST_BYTES, SUFFIXES

LISTS = (
    "captions.jsonl",
    "captions.csv",
    "captions.tsv",
    "labels.csv",
    "labels.jsonl",
    "metadata.csv",
    "metadata.jsonl",
)
"""Files that list the images of a folder without folders of classes."""
MOST_MEMBERS = 2**31
"""The most bytes of all images of an archive or a table together; they are kept in memory."""
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
LONGEST_LABEL = 1000
"""The most characters of a label."""


@dataclass(frozen=True, eq=False)
class ImageFile:
    """One image that was found."""

    name: str
    """Its path below the folder, for messages."""
    source: Source
    """A path, the bytes of a file, or an array."""
    label: str
    split: str = ""
    """train, valid or test; empty if the data does not say."""
    captions: tuple[str, ...] = ()
    line: int = 0
    """The line of the table that first names it; 0: no table does."""
    numbers: tuple[float, ...] = ()
    """The numbers to predict from it."""

    @property
    def named(self) -> str:
        """Its name for messages, with its line in the table."""
        return f"{self.name}, line {self.line}" if self.line else self.name


@dataclass(eq=False)
class Listing:
    """The images that were found, and what was left out."""

    files: list[ImageFile] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    """Files that cannot be used: name -> what is wrong."""
    others: list[str] = field(default_factory=list)
    """Files that are no images by their names, such as a README."""
    outputs: tuple[str, ...] = ()
    """The names of the numbers of each image."""


def find_images(path: str, columns: Columns = ALL_FOUND, *, captions: bool = False) -> Listing:
    """List the images of a folder or file, with their labels or captions.

    Args:
        path: A folder of folders, a folder of IDX files; a table (`.csv`, `.tsv`, `.jsonl`,
            `.parquet`, a dataset folder), an `.npz` or IDX file; or a `.tar` or `.zip` archive of
            a folder of folders.
        columns: Which columns of a table are read.
        captions: Whether images are listed for their captions: they need no labels, and a table
            may name an image in several rows.

    Raises:
        InputError: It does not exist, or has no images with labels.
    """
    if captions:
        return _find_captioned(path, columns)
    location = Path(path)
    if not location.exists() and not glob.glob(path):  # noqa: PTH207 (a pattern of Parquet files)
        raise InputError(
            f"{path}: no such file or folder",
            expected="images with classes",
            fix="name them with data.folder=FOLDER or data.file=FILE; for a trained model, "
            "with --data FOLDER",
        )
    list_images = _list_folder if location.is_dir() else _list_file
    is_table = arrow.is_table(path)
    listing = _list_splits(path, columns) if is_table else list_images(location, path, columns)
    if not listing.files:
        got = f"no image; {len(listing.problems) + len(listing.others)} other files"
        raise InputError(path, got=got, expected="a folder of images for each class")
    longest = max((file.label for file in listing.files), key=len)
    if len(longest) > LONGEST_LABEL:
        expected = f"at most {LONGEST_LABEL:,} characters"
        raise InputError(f"{path}: a label", got=longest, expected=expected)
    listing.files[:] = map(escape_controls, listing.files)
    return listing


def _find_captioned(path: str, columns: Columns) -> Listing:
    """List the images of a table of captions, or of a folder that has one.

    Raises:
        InputError: It does not exist, or has no images with captions.
    """
    location, fix = Path(path), "a table has a row for each caption: data.file=captions.csv"
    if not location.exists() and not glob.glob(path):  # noqa: PTH207 (a pattern of Parquet files)
        what, expected = f"{path}: no such file or folder", "images with captions"
        raise InputError(what, expected=expected, fix=fix)
    if not arrow.is_table(path) and location.is_dir():
        table = list_in(path)
        if table == path:
            expected = f"a file of captions in it: {', '.join(LISTS[:3])}"
            raise InputError(path, got="a folder without a list", expected=expected, fix=fix)
        listing = _list_table(table, columns, CAPTIONS)
        _add_uncaptioned(location, listing)
    elif arrow.is_table(path):
        parts = arrow.splits_in(path) or {"": path}
        listing = merge_listings(
            {split: _list_table(part, columns, CAPTIONS) for split, part in parts.items()}
        )
    elif tables.is_table(location.name.lower()):
        listing = _list_table(path, columns, CAPTIONS)
    else:
        expected = "images with captions: .csv, .tsv, .jsonl, .parquet, or a folder with one"
        raise InputError(path, got="another kind of file", expected=expected, fix=fix)
    if not listing.files:
        got = f"no image with a caption; {len(listing.problems)} without"
        raise InputError(path, got=got, expected="images with captions", fix=fix)
    listing.files[:] = map(escape_controls, listing.files)
    return listing


def _add_uncaptioned(folder: Path, listing: Listing) -> None:
    """Report the images of a folder that its list does not name."""
    named = {os.path.normpath(folder / file.name) for file in listing.files}
    named |= {os.path.normpath(folder / name.partition(", line ")[0]) for name in listing.problems}
    for parts, path in _walk(folder, listing):
        if path.name.lower().endswith(SUFFIXES) and os.path.normpath(path) not in named:
            listing.problems["/".join(parts)] = "no caption"


def escape_controls(file: ImageFile) -> ImageFile:
    """Escape control characters in name and label, which come from a table or an archive."""
    texts = (file.name, file.label)
    name, label = (escaped(text) if CONTROLS.search(text) else text for text in texts)
    return replace(file, name=name, label=label)


def has_images(path: str) -> bool:
    """Whether a path leads to a folder, array, archive or list of images, not of texts."""
    location = Path(path)
    name = location.name.lower()
    if arrow.is_table(path):
        return _table_has_images(path)
    if location.is_dir() or name.endswith((".npz", *ARCHIVES)):
        return True
    if not location.is_file():
        return False
    if not tables.is_table(name):
        return arrays.is_idx(location)
    with records.opened(path) as file:
        start = file.read(2**12).decode("utf-8", "replace").lower().splitlines()[:2]
    return any(re.search(rf"{re.escape(suffix)}\b", line) for line in start for suffix in SUFFIXES)


def has_captions(path: str, columns: Columns = ALL_FOUND) -> bool:
    """Whether a table, or the list in a folder, has captions of images and no labels."""
    path = list_in(path)
    if columns.named.keys() & {"caption", "label"}:
        return "label" not in columns.named
    if not arrow.is_table(path) and not tables.is_table(path.lower()):
        return False
    table = next(iter(arrow.splits_in(path).values()), path)
    names = tables.names_of(table, columns, "images")
    tops = {name.partition(".")[0] for name in names}  # of objects within objects
    caption, label = (any(map(CAPTIONS[key].fits, tops)) for key in ("caption", "label"))
    return caption and not label


def list_in(folder: str) -> str:
    """The list of images in a folder that has one; else the folder or file itself."""
    location = Path(folder)
    if not location.is_dir() or arrow.is_table(folder):
        return folder
    lists = [location / name for name in LISTS if (location / name).is_file()]
    return str(lists[0]) if lists else folder


def _table_has_images(path: str) -> bool:
    """Whether a Parquet file or dataset folder has a column of images, or of their paths."""
    part = next(iter(arrow.splits_in(path).values()), path)
    names = arrow.column_names(part)
    return any(name.lower() in ("image", "img") for name in names)


def _list_splits(path: str, columns: Columns) -> Listing:
    """Read a Parquet file, or a dataset folder with all of its splits."""
    parts = arrow.splits_in(path) or {"": path}
    return merge_listings({split: _list_table(part, columns) for split, part in parts.items()})


def merge_listings(listings: dict[str, Listing]) -> Listing:
    """Join the images of several folders or files, by split; a split that is named decides.

    Args:
        listings: The images of each split; "" for those of a folder or file that has several.
    """
    merged = Listing()
    for split, listing in listings.items():
        for file in listing.files:
            if split:
                file = replace(file, name=f"{split}: {file.name}", split=split)
            if split or file.split not in listings or not file.split:
                merged.files.append(file)
        merged.problems |= listing.problems
        merged.others += listing.others
        merged.outputs = merged.outputs or listing.outputs
    return merged


def _list_file(location: Path, path: str, columns: Columns = ALL_FOUND) -> Listing:
    """List the images of a table, an archive, an `.npz` or an IDX file."""
    name = location.name.lower()
    if tables.is_table(name):
        return _list_table(path, columns)
    if name.endswith(ARCHIVES):
        return _list_archive(location, path)
    if name.endswith(".npz"):
        splits = arrays.read_npz(location)
    elif arrays.is_idx(location):
        splits = arrays.read_idx_and_others(location)
    else:
        expected = ".csv, .tsv, .jsonl, .parquet, .npz, .tar, .zip or an IDX file"
        raise InputError(path, got="another kind of file", expected=expected)
    files = [
        ImageFile(f"{split or 'image'} {number}", image, label, split)
        for split, part in splits.items()
        for number, (image, label) in enumerate(zip(part.images, part.labels, strict=True))
    ]
    return Listing(files)


def _list_folder(folder: Path, path: str, columns: Columns) -> Listing:
    """Find the images below a folder: by its folders of classes, IDX files, or a list."""
    listing = Listing()
    files = list(_walk(folder, listing))
    if any(len(parts) > 1 for parts, _ in files):
        _add_by_folder(files, listing)
        return listing
    idx = arrays.first_idx(folder)
    if idx is not None:
        return _list_file(idx, str(idx))
    for name in LISTS:
        if (folder / name).is_file():
            return _list_table(str(folder / name), columns)
    if not files:
        return listing
    raise InputError(
        path,
        got=f"{len(files)} files and no folders",
        expected="a folder for each class",
        fix="put the images of a class into a folder, or list paths and labels: data.file=FILE.csv",
    )


def _walk(folder: Path, listing: Listing) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield the parts of the relative path of each file, in order; hidden files are left out."""
    real = folder.resolve()
    for where, folders, names in os.walk(folder):
        below = Path(where).relative_to(folder).parts
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__MACOSX")))
        for name in [*folders]:
            if (Path(where) / name).is_symlink():  # os.walk does not follow it
                listing.problems[escaped("/".join((*below, name)))] = "a link to a folder"
                folders.remove(name)
        for name in sorted(names):
            # bytes of a name that are not UTF-8, and control characters, are spelled out
            path, parts = Path(where) / name, (*map(escaped, below), escaped(name))
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(real):
                listing.problems["/".join(parts)] = "a link out of the folder"
                continue
            yield parts, path


def _add_by_folder(files: Sequence[tuple[tuple[str, ...], Source]], listing: Listing) -> None:
    """Add files to a listing, with the class and split that their folders name."""
    tops = {parts[0] for parts, _ in files if len(parts) > 1}
    deep = {parts[0] for parts, _ in files if len(parts) > 2}
    # A class may be called "train", too: only folders of splits, with folders in them, are splits
    by_split = tops <= SPLITS.keys() and deep == tops and "train" in map(SPLITS.get, tops)
    depth = 1 if by_split else 0
    for parts, source in files:
        name = "/".join(parts)
        if not name.lower().endswith(SUFFIXES) or len(parts) < depth + 2:
            listing.others.append(name)
            continue
        split = SPLITS[parts[0]] if by_split else ""
        listing.files.append(ImageFile(name, source, parts[depth], split))


def _list_archive(location: Path, path: str) -> Listing:
    """Read the images of a `.tar` or `.zip` file of a folder of folders into memory, packed."""
    listing = Listing()
    files: list[tuple[tuple[str, ...], Source]] = []
    total = 0
    for member in members(location):
        # control characters are spelled out, as in the names of a folder's files
        parts = tuple(map(escaped, PurePosixPath(member.name).parts))
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            continue
        if not member.name.lower().endswith(SUFFIXES):
            listing.others.append("/".join(parts))
            continue
        total += member.size
        if member.size > MOST_BYTES or total > MOST_MEMBERS:
            expected = f"at most {MOST_MEMBERS:,} bytes of images: unpack it into a folder"
            raise InputError(path, got="a larger archive", expected=expected)
        files.append((parts, member.content()))
    while files and len({parts[0] for parts, _ in files}) == 1 and len(files[0][0]) > 2:
        files = [(parts[1:], source) for parts, source in files]  # one folder around all of them
    _add_by_folder(sorted(files, key=lambda file: file[0]), listing)
    return listing


def _list_table(table: str, columns: Columns, layout: Layout = IMAGES) -> Listing:
    """Read a table: image and label, or with the layout `CAPTIONS` image and caption."""
    listing = Listing()
    path, needed = Path(table), "caption" if layout is CAPTIONS else "label"
    folder = path if path.is_dir() else path.parent
    total, rows = 0, dict[str, int]()
    for number, row in tables.read_rows(table, layout, columns, dict, f"paths and {needed}s"):
        where = f"{table}:{number}"
        if isinstance(row, Problem):
            if row.what == records.EMPTY:
                continue
            unquoted = layout is CAPTIONS and row.what == records.COLUMNS
            fix = (
                "a caption with commas stands in quotes; other columns need names in the first line"
            )
            expected = f"a path and a {needed}"
            raise InputError(str(row), expected=expected, fix=fix if unquoted else "")
        name, source = name_and_source(row.get("image"), folder, number)
        label = "" if row.get("label") is None else str(row["label"])
        captions = _captions(row.get("caption"), where if layout is CAPTIONS else "")
        if layout is CAPTIONS and name and not captions:
            listing.problems[f"{name}, line {number}"] = "an empty caption"
            continue
        if not name or not (label or captions):
            missing = "path" if not name else needed
            raise InputError(where, got=f"no {missing}", expected=f"a path and a {needed}")
        total += len(source) if isinstance(source, bytes) else 0
        if total > MOST_MEMBERS:
            expected = f"at most {MOST_MEMBERS:,} bytes of images in a table"
            raise InputError(table, got="a larger table", expected=expected)
        split = str(row.get("split") or "").lower()
        if split and split not in SPLITS:
            raise InputError(f"{where}: split", got=split, expected="train, valid or test")
        file = ImageFile(name, source, label, SPLITS.get(split, ""), captions, number)
        if layout is CAPTIONS and isinstance(source, Path) and name in rows:
            listing.files[rows[name]] = _with_captions(listing.files[rows[name]], file, where)
        else:
            rows[name] = len(listing.files)
            listing.files.append(file)
    return listing


def _captions(value: Any, where: str = "") -> tuple[str, ...]:
    """The captions in a cell: a text, or a list of texts; blank ones are left out.

    Raises:
        InputError: One is no text; only if `where`, its line, is given.
    """
    texts = value if isinstance(value, list | tuple) else [value]
    other = next((text for text in texts if text is not None and not isinstance(text, str)), None)
    if where and other is not None:
        raise InputError(f"{where}: a caption", got=repr(other)[:60], expected="a text")
    return tuple(" ".join(str(text).split()) for text in texts if text and str(text).strip())


def _with_captions(first: ImageFile, second: ImageFile, where: str) -> ImageFile:
    """An image with the captions of two rows.

    Raises:
        InputError: The rows put it into two splits.
    """
    if second.split != first.split:
        splits = [file.split or "no split" for file in (first, second)]
        got = f"{first.name} in {splits[1]}"
        expected = f"{splits[0]}, as in line {first.line}"
        raise InputError(where, got=got, expected=expected, fix="an image is in one split")
    return replace(first, captions=first.captions + second.captions)


def name_and_source(value: Any, folder: Path, number: int) -> tuple[str, Source]:
    """Return the name and source of an image: a path, bytes, or what `datasets` has for it."""
    path = value.get("path") if isinstance(value, dict) else value
    content = value.get("bytes") if isinstance(value, dict) else value
    if isinstance(content, bytes):
        return (path if isinstance(path, str) else f"image {number}"), content
    return (path, folder / path) if isinstance(path, str) else ("", b"")
