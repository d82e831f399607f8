"""The words of the grammar, from `lexicon.txt`: tables with both languages side by side.

The start of the grammar. In: tables whose rows have an English word, its German translation,
irregular forms, and the words it goes with. Out: tuples of `Noun`, `Adjective`, `Verb` and
`Adverb`, which `german` and `phrases` inflect.

Each English word has one German translation, so that a sentence has one translation. A few nouns
for people have two, by gender (teacher: Lehrerin, Lehrer); a "he" or "she" in the sentence shows
which. Left out are nouns whose plural equals their singular (sheep), verbs whose past equals their
present (read), and German weak masculine nouns (der Junge, den Jungen).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from regard.data.synthetic.grammar.words import (
    Adjective,
    Adverb,
    Noun,
    Verb,
    english_past,
    english_plural,
)
from regard.data.synthetic.tables import read_tables

_TABLES = read_tables("grammar/lexicon.txt")


def _cells(row: str) -> list[str]:
    """Return the cells of a row, which colons separate."""
    return [cell.strip() for cell in row.split(":")]


GROUPS = {name: tuple(words.split()) for name, words in map(_cells, _TABLES["groups"])}
"""Names for groups of kinds or nouns."""
PERSON = GROUPS["person"]
"""The kinds of nouns for people: those with the pronoun "he" or "she", and children."""
WHERE = dict(map(_cells, _TABLES["where"]))
"""The preposition of place of a kind or noun: at the river, in the valley."""


def _parse_noun(row: str) -> Noun:
    """Parse a row: kind, English noun/plural, German noun, gender, German plural."""
    kind, names, german, gender, german_plural = row.split()
    english, _, plural = names.partition("/")
    plural = plural or english_plural(english)
    return Noun(kind, english, plural, german, german_plural, gender, mass=plural == "-")


NOUNS = tuple(_parse_noun(row) for row in _TABLES["nouns"])

_COUNTS = Counter(noun.english for noun in NOUNS)
TWO_GENDERS = tuple(noun for noun in NOUNS if _COUNTS[noun.english] > 1)
"""The nouns with a feminine and a masculine form in German; both forms."""


def nouns_of(names: str) -> tuple[Noun, ...]:
    """Return the nouns that a table's cell lists, by kind, group or English word."""
    members = {member for name in names.split() for member in GROUPS.get(name, (name,))}
    return tuple(noun for noun in NOUNS if noun.kind in members or noun.english in members)


def _parse_adjective(row: str) -> Adjective:
    """Parse a row: English, German/stem and marks, then after a colon its nouns."""
    words, _, nouns = row.partition(":")
    english, german, *marks = words.split()
    german, _, stem = german.partition("/")
    mark = "".join(marks)
    return Adjective(
        english,
        german,
        stem or german,
        nouns_of(nouns),
        attributive="-" not in mark,
        decides="!" in mark,
        graded="=" not in mark,
    )


def _parse_verb(row: str, case: str = "acc") -> Verb:
    """Parse a row: English verb/past, German forms, subjects and objects between colons."""
    names, parts, subjects, *objects = _cells(row)
    names, _, past = names.partition("/")
    english, *particles = names.split()
    infinitive, *strong = parts.split()
    prefix, _, german = infinitive.rpartition("+")
    stem = german.removesuffix("n").removesuffix("e")
    weak = stem + "e" if stem.endswith(("t", "d")) else stem  # er wart-e-t, but er lieb-t
    third, german_past = strong if strong else (weak + "t", weak + "te")
    return Verb(
        english=english,
        english_past=past or english_past(english),
        particle=" ".join(word for word in particles if word != "+"),
        splits="+" in particles,
        prefix=prefix,
        german=german,
        third=third,
        past=german_past,
        subjects=nouns_of(subjects),
        objects=nouns_of(objects[0]) if objects else (),
        case=case,
    )


def _parse_intransitive(row: str) -> Verb:
    """Parse a row: a verb without objects, then the kinds of places that it may have."""
    words, _, locations = row.rpartition(":")
    return replace(_parse_verb(words), locations=tuple(locations.split()))


def _parse_adverb(row: str) -> Adverb:
    """Parse a row: English, German and tenses between colons."""
    english, german, tenses = _cells(row)
    return Adverb(english, german, tuple(tenses.split()))


ADJECTIVES = tuple(_parse_adjective(row) for row in _TABLES["adjectives"])
TRANSITIVE = tuple(_parse_verb(row) for row in _TABLES["transitive"])
WAIT_FOR = replace(_parse_verb("wait for : warten : anyone : anyone"), preposition="auf")
"""The only verb whose German object has a preposition; its object is always a pronoun."""
DATIVE = tuple(_parse_verb(row, case="dat") for row in _TABLES["dative"])
GIVING = tuple(_parse_verb(row) for row in _TABLES["giving"])
TAKING = TRANSITIVE + DATIVE + GIVING
"""The verbs that take an object."""
INTRANSITIVE = tuple(_parse_intransitive(row) for row in _TABLES["intransitive"])
SAYING = tuple(_parse_verb(row) for row in _TABLES["saying"])
ADVERBS = tuple(_parse_adverb(row) for row in _TABLES["adverbs"])
PREPOSITIONS = {cells[0]: (cells[1], cells[2]) for cells in map(_cells, _TABLES["prepositions"])}
"""English preposition -> the German preposition and the case that it governs."""
FUNCTION_WORDS = dict(row.split(maxsplit=1) for row in _TABLES["function words"])
"""The most usual German form of articles, pronouns, auxiliaries and the like."""
VERBS = {verb.name: verb for verb in (*SAYING, *TAKING, *INTRANSITIVE, WAIT_FOR)}


_VERB_GROUPS = dict(map(_cells, _TABLES["verb groups"]))


def verbs_of(group: str) -> tuple[Verb, ...]:
    """Return the verbs of a group."""
    return tuple(VERBS[name.strip()] for name in _VERB_GROUPS[group].split(","))
