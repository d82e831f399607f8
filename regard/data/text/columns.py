"""The columns of a table: which line has their names, and which column is what.

In: the names of the columns, or the first rows of a file without a sure header, and the columns
that a recipe names. Out: the column of each role (text, label, source, …), or an error that lists
the columns and says what to add. Nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from statistics import mean

from regard.data.config import Column
from regard.errors import InputError

IDS = {"", "id", "idx", "index", "guid", "uid", "uuid", "row", "nr", "no", "unnamed:_0", "row_id",
       "example_id", "pair_id", "sentence_id", "text_id", "__index_level_0__"}  # fmt: skip
"""Names of columns that number the rows: never a text or a label."""
BESIDE = {"language", "lang", "side", "column", "line", "string", "id", "text", "sentence",
          "segment", "us", "gb", "uk", "br"}  # fmt: skip
"""Words that occur together with others in names of columns, as in "source text" or "en-US"."""
LANGUAGES = {
    "en": "english", "de": "german deutsch", "fr": "french français francais", "pl": "polish",
    "es": "spanish español espanol castellano", "it": "italian italiano", "nl": "dutch nederlands",
    "pt": "portuguese português portugues", "ru": "russian", "zh": "chinese", "ja": "japanese",
    "cs": "czech", "tr": "turkish türkçe", "ar": "arabic", "sv": "swedish svenska", "fi": "finnish",
    "da": "danish dansk", "uk": "ukrainian", "ro": "romanian", "hu": "hungarian", "ko": "korean",
    "el": "greek", "he": "hebrew", "hi": "hindi", "vi": "vietnamese", "id": "indonesian",
    "eng": "", "deu": "", "ger": "", "fra": "", "fre": "", "spa": "", "ita": "", "nld": "",
    "por": "", "rus": "", "zho": "",
}  # fmt: skip
"""Languages by code, with their names, as used in names of columns."""
LANGUAGE_WORDS = {name for code, more in LANGUAGES.items() for name in (code, *more.split())}
SENTENCES = 2.5
"""The fewest words of a mean cell from which a file holds sentences, not a dictionary."""
FEWEST = 3
"""The fewest rows below a first line that it is compared with."""
_NAME = re.compile(r"[^\W\d][\w .#:/()-]{0,39}")
_SUFFIX = re.compile(r"\.[A-Za-z]\w{1,4}$")
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")


@dataclass(frozen=True)
class Role:
    """What a column of a task's data is, such as its text or its label."""

    key: str
    """The key of `data:` that names the column."""
    names: tuple[str, ...]
    """Usual names of such columns."""
    optional: bool = False
    is_text: bool = True
    """Whether each of its values must be a text."""

    def fits(self, name: str) -> bool:
        """Whether a column of this name usually has this role."""
        return _folded(name) in self.names or self._described(name)

    def _described(self, name: str) -> bool:
        """Whether a name is one of the usual words with others beside it: "source text"."""
        words = _words(name)
        usual = words & {*self.names}
        return bool(usual - BESIDE) and words - usual <= BESIDE and len(words) <= 3


@dataclass(frozen=True)
class Layout:
    """The columns that the data of a task has."""

    roles: tuple[Role, ...]
    positions: Mapping[int, tuple[str, ...]]
    """The roles of the columns of a file without names, by the number of its columns."""
    strips: bool = False
    """Whether blanks around a cell of a CSV or TSV file are left out."""
    ragged: bool = False
    """Whether a row may have fewer columns, or more, than the others."""

    def __getitem__(self, key: str) -> Role:
        return next(role for role in self.roles if role.key == key)

    @property
    def required(self) -> tuple[Role, ...]:
        """The roles that every file needs a column for."""
        return tuple(role for role in self.roles if not role.optional)


TEXT = Role("text", ("text", "sentence", "review", "content", "comment", "tweet", "document",
                     "message", "utterance", "question", "premise", "sentence1", "text1",
                     "question1", "sentence_1", "text_1", "sentence_a", "text_a"))  # fmt: skip
PAIR = Role("pair", ("pair", "hypothesis", "sentence2", "text2", "question2", "sentence_2",
                     "text_2", "sentence_b", "text_b"), optional=True)  # fmt: skip
LABEL = Role("label", ("label", "labels", "class", "category", "sentiment", "target", "gold_label",
                       "is_duplicate"), is_text=False)  # fmt: skip
PAIRS = Layout(
    (
        Role("source", ("source", "src", "input", "original", "prompt", "source_text")),
        Role("target", ("target", "tgt", "trg", "output", "translation", "translated", "reference",
                        "completion", "response", "summary", "label", "target_text")),
    ),
    {2: ("source", "target")},
)  # fmt: skip
TEXTS = Layout(
    (TEXT, PAIR, LABEL), {2: ("text", "label"), 3: ("text", "pair", "label")}, strips=True
)
WORDS = Layout(
    (
        Role("words", ("words", "tokens", "word", "token", "form"), is_text=False),
        Role("tags", ("tags", "tag", "ner_tags", "ner_tag", "ner", "pos_tags", "pos_tag", "pos",
                      "upos", "label", "labels"), is_text=False),
    ),
    {},
)  # fmt: skip
QUESTIONS = Layout(
    (
        Role("context", ("context", "passage", "paragraph")),
        Role("question", ("question", "query")),
        Role("answers", ("answers", "answer"), is_text=False),
        Role("start", ("start", "answer_start"), optional=True, is_text=False),
    ),
    {},
)
DOCUMENTS = Layout((TEXT,), {1: ("text",)})
IMAGES = Layout(
    (
        Role("image", ("path", "file", "file_name", "image", "filename", "img"), is_text=False),
        Role("label", ("label", "class", "category", "labels", "fine_label"), is_text=False),
        Role("caption", ("caption", "text"), optional=True, is_text=False),
        Role("split", ("split",), optional=True, is_text=False),
    ),
    {2: ("image", "label"), 3: ("image", "label", "caption")},
    strips=True,
    ragged=True,
)
LAYOUTS = (PAIRS, TEXTS, WORDS, QUESTIONS, DOCUMENTS, IMAGES)
BOTH_TEXTS = {"question", "sentence"}
"""Two usual names of texts that together name a pair of texts."""


def is_header(rows: Sequence[Sequence[str]], layout: Layout) -> bool:
    """Whether the first row of a file looks like the names of its columns.

    Args:
        rows: The first rows of the file.
        layout: The columns that the task needs.

    Example:
        >>> is_header([["id", "sentence", "label"], ["1", "So good.", "pos"]], TEXTS)
        True
    """
    first, *others = [[cell.strip() for cell in row] for row in rows]
    others = [row for row in others if len(row) == len(first)]
    if len(first) < min(layout.positions, default=2):
        return False
    if len(first) == 1:
        return _folded(first[0]) in TEXT.names and _mean_words(others) >= SENTENCES
    if layout is PAIRS and len(first) == 2:
        return _names_two_sides(first, others) or _numbers_below(first, others)
    return (
        _has_usual_names(first, others, layout)
        or (layout is IMAGES and _paths_below(first, others))
        or _numbers_below(first, others)
        or (layout is TEXTS and _labels_below(first, others))
    )


def _names_two_sides(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether two cells name the sides of pairs: by role, by language, or as `de_text`."""
    sides = [_words(cell) for cell in first]
    known = {name for role in PAIRS.roles for name in role.names} | BESIDE | LANGUAGE_WORDS
    sentences = _mean_words(others) >= SENTENCES
    if all(re.fullmatch(r"[^\W\d]+(_[^\W_]+)+", cell) for cell in first) and sentences:
        return True  # no sentence has underscores
    if not all(side and len(side) <= 3 and side <= known for side in sides):
        return False
    source, target = ([role.fits(cell) for cell in first] for role in PAIRS.roles)
    named = (source[0] and target[1]) or (target[0] and source[1])
    # in a dictionary, "English" and "Englisch" may be a pair as others are
    return named or (sentences and sides[0] != sides[1])


def _has_usual_names(first: Sequence[str], others: Sequence[Sequence[str]], layout: Layout) -> bool:
    """Whether the cells are names that the columns of such data usually have."""
    hits = {role.key for role in layout.roles for cell in first if role.fits(cell)}
    if layout is PAIRS:
        hits |= {cell for cell in first if _is_language(cell)}
    if not _could_be_names(first, others):
        return False
    if layout is IMAGES and any(_folded(cell) in layout["image"].names for cell in first):
        return True  # the path of an image has a suffix
    if all(_folded(cell) in IDS or _is_usual(cell) for cell in first):
        return bool(hits) or len(first) > 2
    single = all(re.fullmatch(r"[\w#:-]*", cell) for cell in first)
    return len(hits) > 1 or (bool(hits) and single and len(first) > 2)


def _numbers_below(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a column has only numbers, and a name above them."""
    if len(others) < FEWEST or not _could_be_names(first, others):
        return False
    columns = ([row[place] for row in others if row[place]] for place in range(len(first)))
    return any(len(cells) >= FEWEST and all(map(_NUMBER.fullmatch, cells)) for cells in columns)


def _labels_below(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether texts stand below a single word, and a few labels below another that is none."""
    labels = {row[-1] for row in others}
    return (
        len(others) >= 10
        and len(labels) <= len(others) // 5
        and all(cell.isidentifier() for cell in first)
        and _could_be_names(first, others)
        and _mean_words([row[:-1] for row in others]) >= SENTENCES
    )


def _paths_below(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a column has only names of files, and another name above them."""
    columns = ([row[place] for row in others] for place in range(len(first)))
    return _could_be_names(first, others) and any(
        cells and not _SUFFIX.search(first[place]) and all(map(_SUFFIX.search, cells))
        for place, cells in enumerate(columns)
    )


def _could_be_names(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether cells look like names, and none of them occurs again below."""
    cells = [*first[1:], *([first[0]] if first[0] else [])]  # pandas leaves the index unnamed
    below = [{row[place] for row in others} for place in range(len(first))]
    repeated = any(cell in seen for cell, seen in zip(first, below, strict=True) if cell)
    return not repeated and all(_NAME.fullmatch(cell) for cell in cells)


def choose_columns(
    file: str,
    names: Sequence[str],
    layout: Layout,
    named: Mapping[str, Column],
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
    chosen = {role: find_column(file, names, role, column) for role, column in named.items()}
    free = [place for place in range(len(names)) if place not in chosen.values()]
    _choose_usual(names, layout, chosen, free, guess_optional=not named)
    if layout is PAIRS:
        _choose_sides(names, chosen, free)
    missing = [role.key for role in layout.required if role.key not in chosen]
    left = [place for place in free if _folded(names[place]) not in IDS]
    if len(missing) == 1 and len(left) == 1:
        chosen[missing[0]] = left[0]
    return {role.key: chosen[role.key] for role in layout.roles if role.key in chosen}


def _choose_usual(
    names: Sequence[str],
    layout: Layout,
    chosen: dict[str, int],
    free: list[int],
    *,
    guess_optional: bool,
) -> None:
    """Add the columns whose names are usual for their roles to those chosen."""
    for role in sorted(layout.roles, key=lambda role: not role.optional):
        if role.key in chosen or (role.optional and not guess_optional):
            continue
        usual = [place for place in free if role.fits(names[place])]
        exact = [place for place in usual if _folded(names[place]) == role.key]
        if layout is TEXTS and role is TEXT and {names[place] for place in usual} == BOTH_TEXTS:
            if guess_optional and "pair" not in chosen:
                chosen["text"], chosen["pair"] = usual
                free[:] = [place for place in free if place not in usual]
            continue
        usual = exact or usual
        if layout is IMAGES:  # a list of images may have several names for one thing
            order = [
                place for name in role.names for place in free if _folded(names[place]) == name
            ]
            usual = order[:1]
        if len(usual) == 1:
            chosen[role.key] = usual[0]
            free.remove(usual[0])


def _choose_sides(names: Sequence[str], chosen: dict[str, int], free: list[int]) -> None:
    """Choose the sides of pairs by languages, or the only two columns in their order."""
    missing = [role for role in ("source", "target") if role not in chosen]
    # the keys of an object are sorted: their order does not say which is the source
    languages = [at for at in free if _is_language(names[at]) and "." not in names[at]]
    if len(languages) > len(missing):  # "id" is a language, too
        languages = [place for place in languages if _folded(names[place]) not in IDS]
    only_two = len(names) == len(missing) == 2 and not any("." in name for name in names)
    sides = free if only_two else languages
    if len(sides) == len(missing):
        chosen |= dict(zip(missing, sides, strict=True))
        free[:] = [place for place in free if place not in sides]


def find_column(file: str, names: Sequence[str], role: str, column: Column) -> int:
    """Find a column by its name, or by its number from 1.

    Raises:
        InputError: There is none, or there are several of that name.
    """
    wanted = str(column)
    places = [place for place, name in enumerate(names) if name == wanted]
    folded = [place for place, name in enumerate(names) if _folded(name) == _folded(wanted)]
    places = places or folded
    if not places and isinstance(column, int) and 0 < column <= len(names):
        return column - 1
    if len(places) == 1:
        return places[0]
    what = f"{file} has the columns {listed(names)}"
    if places:
        numbers = " or ".join(f"data.{role}={place + 1}" for place in places)
        raise InputError(f"{what}: several are called {wanted}", fix=f"use the number: {numbers}")
    near = get_close_matches(wanted, names, n=1, cutoff=0.5)
    fix = f"did you mean data.{role}={near[0]}?" if near else f"name one of them: data.{role}=NAME"
    raise InputError(f"{what}: none is called {wanted}, which data.{role} names", fix=fix)


def which_columns(
    file: str,
    names: Sequence[str],
    layout: Layout,
    chosen: Mapping[str, int],
    rows: Sequence[Sequence[str]],
) -> InputError:
    """Return the error that asks for the columns that are not clear.

    Args:
        file: Its name.
        names: The names of the columns, or their numbers in a file without names.
        layout: The roles of the task.
        chosen: The columns that are known.
        rows: Some rows, to suggest columns by their contents.
    """
    missing = [role.key for role in layout.required if role.key not in chosen]
    free = [place for place in range(len(names)) if place not in chosen.values()]
    questions = ", which the ".join(missing)
    fix = "add " + " ".join(
        f"data.{role}={shell_word(names[place], place, names)}"
        for role, place in _suggested(missing, names, free, rows).items()
    )
    if all(name.isdecimal() for name in names):
        shown = listed([cell[:30] for cell in rows[0]]) if rows else "empty"
        what = f"{file} has {len(names)} columns without names (the first line: {shown})"
    else:
        what = f"{file} has the column{'s' if len(names) > 1 else ''} {listed(names)}"
    if len(free) < len(missing):
        return InputError(f"{what}, but no column for the {missing[-1]}")
    return InputError(f"{what}: which is the {questions}?", fix=fix)


def _suggested(
    missing: Sequence[str], names: Sequence[str], free: Sequence[int], rows: Sequence[Sequence[str]]
) -> dict[str, int]:
    """Suggest columns by their contents: the longest are texts, one of few values the label."""
    rows = [row for row in rows if len(row) == len(names)]
    length = {place: mean([len(row[place]) for row in rows] or [0]) for place in free}
    kinds = {place: len({row[place] for row in rows}) for place in free}
    left = [place for place in free if _folded(names[place]) not in IDS] or list(free)
    left += [place for place in free if place not in left]
    suggested: dict[str, int] = {}
    if "label" in missing and len(left) > 1:
        likely = min(left, key=lambda place: (kinds[place] < 2, kinds[place], length[place]))
        suggested["label"] = likely
        left.remove(likely)
    longest = sorted(left, key=lambda place: -length[place])[: len(missing) - len(suggested)]
    texts = [role for role in missing if role not in suggested]
    suggested |= dict(zip(texts, sorted(longest), strict=False))
    return {role: suggested[role] for role in missing if role in suggested}


def shell_word(name: str, place: int, names: Sequence[str]) -> str:
    """A column as one writes it in a shell: its name, in quotes if need be, or its number."""
    if list(names).count(name) > 1 or not name.strip() or "'" in name:
        return str(place + 1)
    return name if re.fullmatch(r"[\w.:-]+", name) else f"'{name}'"


def listed(names: Sequence[str]) -> str:
    """Names in one line; of many, the first."""
    shown = [name or "(none)" for name in names[:20]]
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _is_usual(name: str) -> bool:
    """Whether a name is usual in the data of any task, or the name of a language."""
    return _is_language(name) or any(role.fits(name) for each in LAYOUTS for role in each.roles)


def _is_language(name: str) -> bool:
    words = _words(name.rpartition(".")[2])
    return bool(words & LANGUAGE_WORDS) and words <= LANGUAGE_WORDS | BESIDE and len(words) <= 3


def _mean_words(rows: Sequence[Sequence[str]]) -> float:
    return mean([len(cell.split()) for row in rows for cell in row] or [0])


def _folded(name: str) -> str:
    """A name without case and surrounding blanks, with _ for blanks and hyphens within."""
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", text.lower()))
