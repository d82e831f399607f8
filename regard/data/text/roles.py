"""The roles of columns: what a task's data has, and the usual names of it.

A `Role` is what a column is for (text, label, source, …), a `Layout` the roles of a task's data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

IDS = {"", "id", "idx", "index", "guid", "uid", "uuid", "row", "nr", "no", "unnamed:_0", "row_id",
       "example_id", "pair_id", "sentence_id", "text_id", "__index_level_0__"}  # fmt: skip
"""Names of columns that number the rows: never a text or a label."""
FILLERS = {"language", "lang", "side", "column", "line", "string", "id", "text", "sentence",
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
        return fold(name) in self.names or self._has_role_word(name)

    def _has_role_word(self, name: str) -> bool:
        """Whether a name is one of the usual words with others beside it: "source text"."""
        words = words_of(name)
        role_words = words & {*self.names}
        return bool(role_words - FILLERS) and words - role_words <= FILLERS and len(words) <= 3


@dataclass(frozen=True)
class Layout:
    """The columns that the data of a task has."""

    roles: tuple[Role, ...]
    positions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The roles of the columns of a file without names, by the number of its columns."""
    strips: bool = False
    """Whether blanks around a cell of a CSV or TSV file are left out."""
    ragged: bool = False
    """Whether a row may have fewer columns, or more, than the others."""
    may_be_wider: bool = True
    """With `ragged`: whether a row may have more; a sentence with commas and no quotes has."""

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
    )
)  # fmt: skip
QUESTIONS = Layout(
    (
        Role("context", ("context", "passage", "paragraph")),
        Role("question", ("question", "query")),
        Role("answers", ("answers", "answer"), is_text=False),
        Role("start", ("start", "answer_start"), optional=True, is_text=False),
    )
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
CAPTIONS = Layout(
    (
        Role("image", (*IMAGES.roles[0].names, "photo", "picture", "image_name"), is_text=False),
        Role(
            "caption",
            ("caption", "captions", "text", "sentence", "description", "comment"),
            is_text=False,
        ),
        Role("label", IMAGES.roles[1].names, optional=True, is_text=False),
        Role("split", ("split",), optional=True, is_text=False),
    ),
    {2: ("image", "caption")},
    strips=True,
    ragged=True,
    may_be_wider=False,
)
"""Images with captions: one caption in a row, or several as a list."""
SIDE_WORDS = {name for role in PAIRS.roles for name in role.names} | FILLERS | LANGUAGE_WORDS
"""The words in names of the sides of pairs."""
LAYOUTS = (PAIRS, TEXTS, WORDS, QUESTIONS, DOCUMENTS, IMAGES)
BOTH_TEXTS = {"question", "sentence"}
"""Two usual names of texts that together name a pair of texts."""


def is_usual(name: str) -> bool:
    """Whether a name is usual in the data of any task, numbers rows, or names a language."""
    has_role = any(role.fits(name) for layout in LAYOUTS for role in layout.roles)
    return has_role or fold(name) in IDS or is_language(name)


def is_language(name: str) -> bool:
    """Whether a name is that of a language, perhaps of a key within an object."""
    words = words_of(name.rpartition(".")[2])
    return bool(words & LANGUAGE_WORDS) and words <= LANGUAGE_WORDS | FILLERS and len(words) <= 3


def fold(name: str) -> str:
    """A name without case and surrounding blanks, with _ for blanks and hyphens within."""
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def words_of(text: str) -> set[str]:
    """Return the words of a name, in lower case and without numbers."""
    return set(re.findall(r"[^\W\d_]+", text.lower()))
