"""The columns of a table: which line has their names, and which column is what.

In: the names of the columns, or the first rows of a file without a sure header, and the columns
that a recipe names. Out: the column of each role (text, label, source, …), or an error that lists
the columns and says what to add. Nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import mean

from regard.data.config import Column
from regard.data.text import roles
from regard.data.text.roles import (
    CAPTIONS,
    IDS,
    IMAGES,
    PAIRS,
    TEXT,
    TEXTS,
    Layout,
    fold,
    is_language,
)
from regard.errors import InputError, nearest

Names = Sequence[str]
Rows = Sequence[Sequence[str]]
"""The cells of some rows."""
SENTENCES = 2.5
"""The fewest words of a mean cell from which a file holds sentences, not a dictionary."""
FEWEST = 3
"""The fewest rows below a first line that it is compared with."""
_NAME = re.compile(r"[^\W\d][\w .#:/()-]{0,39}")
_SUFFIX = re.compile(r"\.[A-Za-z]\w{1,4}$")
_ID = re.compile(r"\S*\d\S*")
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")


def is_header(rows: Rows, layout: Layout) -> bool:
    """Whether the first row of a file looks like the names of its columns.

    Args:
        rows: The first rows of the file.
        layout: The columns that the task needs.

    Example:
        >>> is_header([["id", "sentence", "label"], ["1", "So good.", "pos"]], TEXTS)
        True
    """
    first, *below = [[cell.strip() for cell in row] for row in rows]
    below = [row for row in below if len(row) == len(first)]
    if len(first) < min(layout.positions, default=2):
        return False
    if len(first) == 1:
        return fold(first[0]) in TEXT.names and _mean_words(below) >= SENTENCES
    if layout is PAIRS and len(first) == 2:
        return _names_two_sides(first, below) or _numbers_below(first, below)
    return (
        _has_usual_names(first, below, layout)
        or ((layout is IMAGES or layout is CAPTIONS) and _paths_below(first, below))
        or _numbers_below(first, below)
        or (layout is TEXTS and _labels_below(first, below))
    )


def _names_two_sides(first: Names, below: Rows) -> bool:
    """Whether two cells name the sides of pairs: by role, by language, or as `de_text`."""
    sides = [roles.words_of(cell) for cell in first]
    sentences = _mean_words(below) >= SENTENCES
    if all(re.fullmatch(r"[^\W\d]+(_[^\W_]+)+", cell) for cell in first) and sentences:
        return True  # no sentence has underscores
    if not all(side and len(side) <= 3 and side <= roles.SIDE_WORDS for side in sides):
        return False
    source, target = ([role.fits(cell) for cell in first] for role in PAIRS.roles)
    names_roles = (source[0] and target[1]) or (target[0] and source[1])
    # in a dictionary, "English" and "Englisch" may be a pair as others are
    return names_roles or (sentences and sides[0] != sides[1])


def _has_usual_names(first: Names, below: Rows, layout: Layout) -> bool:
    """Whether the cells are names that the columns of such data usually have."""
    hits = {role.key for role in layout.roles for cell in first if role.fits(cell)}
    if layout is PAIRS:
        hits |= {cell for cell in first if is_language(cell)}
    if not _could_be_names(first, below):
        return False
    if layout is IMAGES and any(fold(cell) in layout["image"].names for cell in first):
        return True  # the path of an image has a suffix
    if all(map(roles.is_usual, first)):
        return bool(hits) or len(first) > 2
    single = all(re.fullmatch(r"[\w#:-]*", cell) for cell in first)
    return len(hits) > 1 or (bool(hits) and single and len(first) > 2)


def _numbers_below(first: Names, below: Rows) -> bool:
    """Whether a column has only numbers, and a name above them."""
    if len(below) < FEWEST or not _could_be_names(first, below):
        return False
    columns = ([row[index] for row in below if row[index]] for index in range(len(first)))
    return any(len(cells) >= FEWEST and all(map(_NUMBER.fullmatch, cells)) for cells in columns)


def may_be_names(rows: Rows) -> bool:
    """Whether single words stand above sentences: names of columns, or an example of two words.

    Numbers from 0 are names, too: pandas writes them above columns that have none.

    Example:
        >>> may_be_names([["Satz", "Übersetzung"], *[["Wo ist er?", "Where is he?"]] * 3])
        True
    """
    first, *below = [[cell.strip() for cell in row] for row in rows]
    below = [row for row in below if len(row) == len(first)]
    if len(first) < 2 or len(below) < FEWEST:
        return False
    words = all(map(str.isidentifier, first)) and _could_be_names(first, below)
    numbers = first[first[0] == "" :] == [str(at) for at in range(len(first) - (first[0] == ""))]
    alike = sum(all(map(str.isidentifier, row)) for row in below)
    columns = ([[row[index]] for row in below] for index in range(len(first)))
    sentences = max(map(_mean_words, columns)) >= SENTENCES
    return (words or numbers) and sentences and alike <= len(below) // 10


def may_name_tags(rows: Rows) -> bool:
    """Whether a word and a tag stand above others, neither seen again, the tag in another case.

    Example:
        >>> may_name_tags([["Wort", "Etikett"], *[["Anna", "noun"], ["schläft", "verb"]] * 5])
        True
    """
    first, *below = [[cell.strip() for cell in row] for row in rows]
    below = [row for row in below if len(row) == len(first)]
    if len(first) < 2 or len(below) < 10 or not all(map(str.isidentifier, first)):
        return False
    cases = (str.isupper, str.islower, str.istitle)
    same = any(is_case(first[-1]) and is_case(row[-1]) for is_case in cases for row in below)
    return not same and _could_be_names(first, below)


def is_out_of_order(layout: Layout, rows: Rows) -> bool:
    """Whether columns without names are not in their usual order: ids first, or texts as labels.

    Args:
        layout: Texts with labels, or words with tags.
        rows: The first rows of the file.
    """
    width = len(rows[0])
    rows = [row for row in rows if len(row) == width]
    if width < 2 or len(rows) < FEWEST:
        return False
    first, *_, last = ([row[index].strip() for row in rows] for index in range(width))
    if width > 2 and _are_ids(first, distinct=layout is TEXTS):
        return True
    words = [_mean_words([[cell] for cell in column]) for column in (first, last)]
    texts_last = words[0] < SENTENCES <= words[1] and len({*last}) > len(rows) // 2
    return layout is TEXTS and texts_last


def _are_ids(cells: Names, *, distinct: bool) -> bool:
    """Whether cells are numbers, or (if ids must be distinct) other words with digits."""
    if all(map(_NUMBER.fullmatch, cells)):
        return True
    return distinct and len({*cells}) == len(cells) and all(map(_ID.fullmatch, cells))


def _labels_below(first: Names, below: Rows) -> bool:
    """Whether texts stand below a single word, and a few labels below another that is none."""
    labels = {row[-1] for row in below}
    return (
        len(below) >= 10
        and len(labels) <= len(below) // 5
        and all(cell.isidentifier() for cell in first)
        and _could_be_names(first, below)
        and _mean_words([row[:-1] for row in below]) >= SENTENCES
    )


def _paths_below(first: Names, below: Rows) -> bool:
    """Whether a column has only names of files, and another name above them."""
    columns = ([row[index] for row in below] for index in range(len(first)))
    return _could_be_names(first, below) and any(
        cells and not _SUFFIX.search(first[index]) and all(map(_SUFFIX.search, cells))
        for index, cells in enumerate(columns)
    )


def _could_be_names(first: Names, below: Rows) -> bool:
    """Whether cells look like names, and none of them occurs again below.

    The first may have no name, as pandas leaves the index, and so may a column that is empty.
    """
    columns = [{row[index] for row in below} for index in range(len(first))]
    for index, (cell, cells) in enumerate(zip(first, columns, strict=True)):
        if not cell and (index == 0 or cells <= {""}):
            continue
        if cell in cells or not _NAME.fullmatch(cell):
            return False
    return any(first)


def choose_columns(
    file: str, names: Names, layout: Layout, named: Mapping[str, Column]
) -> dict[str, int]:
    """Choose the column of each role: as named, else by the usual names if they are clear.

    Args:
        file: Its name, for errors.
        names: The names of the columns.
        layout: The roles of the task.
        named: The columns that the user names, by role.

    Returns:
        The index of the column of each role. A role for which no column is clear is left out.

    Raises:
        InputError: There is no column of a given name.
    """
    indices = {role: find_column(file, names, role, column) for role, column in named.items()}
    free = [index for index in range(len(names)) if index not in indices.values()]
    _choose_by_name(names, layout, indices, free, guess_optional=not named)
    if layout is PAIRS:
        _choose_sides(names, indices, free)
    missing = [role.key for role in layout.required if role.key not in indices]
    candidates = [index for index in free if fold(names[index]) not in IDS]
    if len(missing) == 1 and len(candidates) == 1:
        indices[missing[0]] = candidates[0]
    return {role.key: indices[role.key] for role in layout.roles if role.key in indices}


def _choose_by_name(
    names: Names, layout: Layout, indices: dict[str, int], free: list[int], *, guess_optional: bool
) -> None:
    """Add the columns whose names are usual for their roles to those chosen."""
    for role in sorted(layout.roles, key=lambda role: not role.optional):
        if role.key in indices or (role.optional and not guess_optional):
            continue
        matching = [index for index in free if role.fits(names[index])]
        exact = [index for index in matching if fold(names[index]) == role.key]
        names_both_texts = {names[index] for index in matching} == roles.BOTH_TEXTS
        if layout is TEXTS and role is TEXT and names_both_texts:
            if guess_optional and "pair" not in indices:
                indices["text"], indices["pair"] = matching
                free[:] = [index for index in free if index not in matching]
            continue
        matching = exact or matching
        if layout is IMAGES:  # a list of images may have several names for one thing
            order = [index for name in role.names for index in free if fold(names[index]) == name]
            matching = order[:1]
        if len(matching) == 1:
            indices[role.key] = matching[0]
            free.remove(matching[0])


def _choose_sides(names: Names, indices: dict[str, int], free: list[int]) -> None:
    """Choose the sides of pairs by languages, or the only two columns in their order."""
    missing = [role for role in ("source", "target") if role not in indices]
    # the keys of an object are sorted: their order does not say which is the source
    languages = [at for at in free if is_language(names[at]) and "." not in names[at]]
    if len(languages) > len(missing):  # "id" is a language, too
        languages = [index for index in languages if fold(names[index]) not in IDS]
    only_two = len(names) == len(missing) == 2 and not any("." in name for name in names)
    sides = free if only_two else languages
    if len(sides) == len(missing):
        indices |= dict(zip(missing, sides, strict=True))
        free[:] = [index for index in free if index not in sides]


def find_column(file: str, names: Names, role: str, column: Column) -> int:
    """Find a column by its name, or by its number from 1.

    Raises:
        InputError: There is none, or there are several of that name.
    """
    key = str(column)
    indices = [index for index, name in enumerate(names) if name == key]
    similar = [index for index, name in enumerate(names) if fold(name) == fold(key)]
    indices = indices or similar
    if not indices and isinstance(column, int) and 0 < column <= len(names):
        return column - 1
    if len(indices) == 1:
        return indices[0]
    what = f"{file} has the columns {names_text(names)}"
    if indices:
        numbers = " or ".join(f"data.{role}={index + 1}" for index in indices)
        raise InputError(f"{what}: several are called {key}", fix=f"use the number: {numbers}")
    hits = nearest(key, names)
    fix = f"did you mean data.{role}={hits[0]}?" if hits else f"name one of them: data.{role}=NAME"
    raise InputError(f"{what}: none is called {key}, which data.{role} names", fix=fix)


def unclear_columns_error(
    file: str, names: Names, layout: Layout, indices: Mapping[str, int], rows: Rows, note: str = ""
) -> InputError:
    """Return the error that asks for the columns that are not clear.

    Args:
        file: Its name.
        names: The names of the columns, or their numbers in a file without names.
        layout: The roles of the task.
        indices: The column of each role, where it is known.
        rows: Some rows, to suggest columns by their contents.
        note: What else to do about it.
    """
    missing = [role.key for role in layout.required if role.key not in indices]
    free = [index for index in range(len(names)) if index not in indices.values()]
    questions = ", which the ".join(missing)
    suggested = [
        f"data.{role}={shell_word(names[index], index, names)}"
        for role, index in _suggest_columns(missing, names, free, rows).items()
    ]
    fix = f"add {' '.join(suggested)}{note}"
    if all(name.isdecimal() for name in names):
        first_cells = names_text([cell[:30] for cell in rows[0]]) if rows else "empty"
        what = f"{file} has {len(names)} columns without names (the first line: {first_cells})"
    else:
        what = f"{file} has the column{'s' if len(names) > 1 else ''} {names_text(names)}"
    if len(free) < len(missing):
        return InputError(f"{what}, but no column for the {missing[-1]}")
    return InputError(f"{what}: which is the {questions}?", fix=fix)


def _suggest_columns(missing: Names, names: Names, free: list[int], rows: Rows) -> dict[str, int]:
    """Suggest columns by their contents: the longest are texts, one of few values the label."""
    rows = [row for row in rows if len(row) == len(names)]
    length = {index: mean([len(row[index]) for row in rows] or [0]) for index in free}
    kinds = {index: len({row[index] for row in rows}) for index in free}
    candidates = [index for index in free if fold(names[index]) not in IDS] or list(free)
    candidates += [index for index in free if index not in candidates]
    suggested: dict[str, int] = {}
    if "label" in missing and len(candidates) > 1:
        likely = min(candidates, key=lambda index: (kinds[index] < 2, kinds[index], length[index]))
        suggested["label"] = likely
        candidates.remove(likely)
    longest = sorted(candidates, key=lambda index: -length[index])[: len(missing) - len(suggested)]
    texts = [role for role in missing if role not in suggested]
    suggested |= dict(zip(texts, sorted(longest), strict=False))
    return {role: suggested[role] for role in missing if role in suggested}


def shell_word(name: str, index: int, names: Names) -> str:
    """A column as one writes it in a shell: its name, in quotes if need be, or its number."""
    if list(names).count(name) > 1 or not name.strip() or "'" in name:
        return str(index + 1)
    return name if re.fullmatch(r"[\w.:-]+", name) else f"'{name}'"


def names_text(names: Names) -> str:
    """Names in one line; of many, the first."""
    first_names = [name or "(none)" for name in names[:20]]
    return ", ".join(first_names) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _mean_words(rows: Rows) -> float:
    """Return the mean number of words of a cell."""
    return mean([len(cell.split()) for row in rows for cell in row] or [0])
