"""German inflection: articles, adjective endings, noun forms, verb forms.

In: words of `lexicon`. Out: inflected strings. Cases are "nom", "acc" and "dat" (the grammar has no
genitive); genders are "m", "f", "n", and "p" is the plural of all three.
"""

from __future__ import annotations

from regard.data.synthetic.grammar.words import Noun, Verb

CASES = ("nom", "acc", "dat")
FIRST, THIRD, PLURAL = 0, 1, 2
"""The verb form that agrees with a subject: ich, er/sie/es, or wir/sie."""


def _table(rows: str) -> dict[str, dict[str, str]]:
    """Read a table of forms: a row for each of `CASES`, a column for each of m, f, n and p."""
    forms = [dict(zip("mfnp", row.split(), strict=True)) for row in rows.split("/")]
    return dict(zip(CASES, forms, strict=True))


DEFINITE = _table("der die das die / den die das die / dem der dem den")
STRONG = _table("er e es e / en e es e / em er em en")
"""Endings of dieser, and of an adjective without an article."""
MIXED = _table("er e es en / en e es en / en en en en")
"""Endings of an adjective after ein, kein, mein: strong if the article has no ending."""
WEAK = _table("e e e en / en e e en / en en en en")
"""Endings of an adjective after der and dieser."""
RELATIVE = {case: {**DEFINITE[case]} for case in CASES}
RELATIVE["dat"]["p"] = "denen"
"""The relative pronouns: as the article, except denen."""

STEMS = {"a": "ein", "no": "kein", "my": "mein", "his": "sein", "her": "ihr", "our": "unser"}
"""The determiners that are inflected like ein."""
BARE = (("m", "nom"), ("n", "nom"), ("n", "acc"))
"""Gender and case in which these have no ending: ein Hund, ein Pferd."""
COUNTS = {"two": "zwei", "three": "drei", "many": "viel"}
CONTRACTED = {("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am",
              ("zu", "dem"): "zum", ("zu", "der"): "zur"}  # fmt: skip
BE = {"present": ("bin", "ist", "sind"), "past": ("war", "war", "waren")}


def determiner(word: str, gender: str, case: str) -> str:
    """Return the German determiner for an English one; "" for none ("a" has no plural)."""
    if word == "the":
        return DEFINITE[case][gender]
    if word == "this":
        return "dies" + STRONG[case][gender]
    if word in COUNTS:
        return COUNTS[word] + (STRONG[case][gender] if word == "many" else "")
    if word == "" or (word == "a" and gender == "p"):
        return ""
    return STEMS[word] + ("" if (gender, case) in BARE else STRONG[case][gender])


def adjective_ending(word: str, gender: str, case: str) -> str:
    """Return the ending of an adjective between the determiner `word` and a noun."""
    if word in ("the", "this"):
        return WEAK[case][gender]
    if word == "" or word in COUNTS or (word == "a" and gender == "p"):
        return STRONG[case][gender]
    return MIXED[case][gender]


def noun_form(noun: Noun, plural: bool, case: str) -> str:
    """Inflect a noun; a dative plural gets -n unless the plural ends in -n or -s."""
    if not plural:
        return noun.german
    dative = case == "dat" and not noun.german_plural.endswith(("n", "s"))
    return noun.german_plural + "n" if dative else noun.german_plural


def verb_forms(verb: Verb, tense: str) -> tuple[str, str, str]:
    """Return the finite forms for ich, er and wir, without the separable prefix.

    Wissen is the only verb of the lexicon whose ich form equals its er form, as with modals.
    """
    if tense == "past":
        return verb.past, verb.past, verb.past + ("n" if verb.past.endswith("e") else "en")
    first = verb.third if verb.german == "wissen" else verb.german[:-2] + "e"
    return first, verb.third, verb.german


MODALS = {
    "can": {"present": ("kann", "kann", "können"), "past": ("konnte", "konnte", "konnten")},
    "must": {"present": ("muss", "muss", "müssen"), "past": ("musste", "musste", "mussten")},
    "want": {"present": ("will", "will", "wollen"), "past": ("wollte", "wollte", "wollten")},
}
