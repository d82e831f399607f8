"""What the scenes of the gallery say: for each a verdict, a pure function of its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from regard.explain import Words, in_words
from regard_lectures.tries import listed

SAME, APART = 1e-3, 1.0
"""Percent of a vector's length: below SAME two vectors are equal, above APART they differ."""
MOST_LISTED = 6
"""The most pairs of words in a sentence."""
OFTEN = 0.8
"""The share of sentence beginnings in which two nouns must differ."""
TWICE = math.log(2)
"""Log-odds that differ by less are taken as equal."""
FAULTS = (
    # whom a question is asked is in the dative
    (re.compile(r"\b(stell\w*) die (\w+)(?= eine Frage)"), r"\1 der \2"),
    (re.compile(r"\b(stell\w*) (?:das|den) (\w+)(?= eine Frage)"), r"\1 dem \2"),
    (
        re.compile(r"\b(half|helfen|dankte|danken) (?:den|die) (\w+(?:schwester|in))\b"),
        r"\1 der \2",
    ),
    # a dog is walked with: mit meinem Hund spazieren gehen
    (re.compile(r"(?<!mit )\b([mds]ein|unser|ihr)en (\w+) spazieren"), r"mit \1em \2 spazieren"),
    (re.compile(r"\bdrehte(n?) sich (ihr|ihm) an\b"), r"drehte\1 sich nach \2 um"),
)
"""Faults in the models' German, each with what is right."""


class Verdict(NamedTuple):
    """What a scene shows.

    Attributes:
        holds: Whether the lectures' claim holds; None if nothing is claimed of this sentence.
        title: The verdict in a line.
        says: The numbers behind it.
    """

    holds: bool | None
    title: str
    says: str


def dogs(numbers: Mapping[str, Any]) -> Verdict:
    """Two equal words: equal without positions, different with them."""
    word, apart, without = (
        numbers[key] for key in ("word", "apart_with_positions", "apart_without")
    )
    equal, differ = max(without) < SAME, min(apart) > APART
    if equal and differ:
        title = f"Two “{word}”s: equal without positions, different with them"
    elif equal:
        title = (
            f"Two “{word}”s: equal without positions, and not different in every layer with them"
        )
    else:
        title = f"Two “{word}”s: different even without positions"
    most = "the same vector" if equal else f"vectors up to {max(without):.1f}% of a length apart"
    says = (
        f"Without positions the two have {most} in every layer; with them they differ by "
        f"{apart[0]:.0f}% of their length at the input and by {apart[-1]:.0f}% at the top."
    )
    return Verdict(equal and differ, title, says)


def her(numbers: Mapping[str, Any]) -> Verdict:
    """A pronoun looks at its noun, and the translation needs the head that does so."""
    word, noun, meant = (numbers[key] for key in ("word", "noun", "meant"))
    loss, others = numbers["log_p_lost"], numbers["log_p_lost_of_others"]
    changes = numbers["without"] != numbers["translation"]
    larger = sum(other >= loss for other in others)
    # of the heads, at most a tenth may matter as much
    needed = changes and larger <= 0.1 * len(others)
    looks = f"“{word}” looks at “{noun}”"
    if not numbers["is_largest"]:
        title = f"“{word}” looks at no noun more than at other words"
    elif meant and noun != meant:
        title = f"{looks}, not at “{meant}”"
    elif needed:
        title = f"{looks}, and the translation needs that head"
    else:
        title = f"{looks}, but the translation does not need that head"
    holds = numbers["is_largest"] and needed and (not meant or noun == meant)
    effect = f"{'changes' if changes else 'stays'}, its log p {'falls' if loss > 0 else 'rises'}"
    says = (
        f"{_capital(in_words(numbers['head']))}: “{word}” puts {numbers['weight']:.0%} on "
        f"“{noun}”. Without that head the translation {effect} "
        f"by {abs(loss):.1f}; without {larger} of {len(others)} others it ends as low or lower. "
        f"{german([numbers['translation']])}"
    )
    return Verdict(bool(holds), title, says.strip())


def gender(numbers: Mapping[str, Any]) -> Verdict:
    """A pronoun flips a word of the translation, and one head decides it."""
    first, second = numbers["words"]
    answer, other_answer = numbers["changed"]
    with_all, without = numbers["margins"], numbers["margins_without"]
    flips = answer != other_answer and with_all[0] > 0 > with_all[1]
    decides = (without[0] > 0) == (without[1] > 0)
    if flips and decides:
        title = f"“{first}” gives {answer}, “{second}” gives {other_answer}: one head decides"
    elif flips:
        title = f"“{first}” gives {answer}, “{second}” gives {other_answer}: no single head decides"
    else:
        title = f"No word of the translation flips between “{first}” and “{second}”"
    says = (
        f"Log-odds with “{first}” and “{second}”: {_signed(with_all)}; without "
        f"{in_words(numbers['head'])} {_signed(without)}: they "
        f"{'no longer' if decides else 'still'} follow the pronoun. "
        f"{german(numbers['translations'])}"
    )
    return Verdict(flips and decides, title, says.strip())


def walk(numbers: Mapping[str, Any]) -> Verdict:
    """Most German words look at one English word."""
    sure = [pair for pair in numbers["pairs"] if pair[2] > 0.5]
    count = len(numbers["pairs"])
    holds = 2 * len(sure) > count
    title = f"{'Most' if holds else 'Few'} German words look at one English word by more than half"
    told = ", ".join(f"{word} at {key}" for word, key, _ in sure[:MOST_LISTED])
    more = f" and {len(sure) - MOST_LISTED} more" if len(sure) > MOST_LISTED else ""
    says = f"{len(sure)} of {count}{': ' if told else ''}{told}{more}."
    return Verdict(holds, title, f"{says} {german([numbers['translation']])}".strip())


def once(numbers: Mapping[str, Any]) -> Verdict:
    """The next words, each read back in before the next."""
    words, expected = numbers["words"], numbers["expected"]
    read = f"“{numbers['text']} {' '.join(words)}”"
    holds = None if expected is None else words == expected
    title = f"{read}: word by word"
    if expected is not None:
        lecture = "as in the lecture" if holds else f"in the lecture, “{' '.join(expected)}”"
        title = f"{read}: {lecture}"
    chances = ", ".join(
        f"“{word}” {guesses[0][1]:.0%}"
        for word, guesses in zip(words, numbers["suggestions"], strict=True)
    )
    says = f"After “{numbers['text']}” come {chances}: each is read back in before the next."
    return Verdict(holds, title, says)


def hello(numbers: Mapping[str, Any]) -> Verdict:
    """The likeliest next words, as on a phone."""
    guesses, expected = numbers["suggestions"], numbers["expected"]
    first = guesses[0][0]
    holds = None if expected is None else first == expected
    title = f"After “{numbers['text']}” the likeliest word is “{first}”"
    if holds is not None:
        title += ", as in the lecture" if holds else f", in the lecture it is “{expected}”"
    three = ", ".join(f"“{word}” {share:.0%}" for word, share in guesses[:3])
    return Verdict(holds, title, f"The three likeliest words are {three}.")


def nurse(numbers: Mapping[str, Any]) -> Verdict:
    """After one noun rather “he”, after another rather “she”."""
    nouns, odds = numbers["nouns"], numbers["log_odds"]  # (nouns, beginnings): of she and he
    gains = [b - a for a, b in zip(*odds, strict=True)]
    low, high = (0, 1) if median(gains) >= 0 else (1, 0)  # “she” is likelier after the second
    count = len(gains)
    twice = sum(abs(gain) > TWICE and (gain > 0) == (high == 1) for gain in gains)
    he_leads, she_leads = sum(x < 0 for x in odds[low]), sum(x > 0 for x in odds[high])
    clear = twice >= OFTEN * count
    holds = clear and min(he_leads, she_leads) >= OFTEN * count
    if holds:
        title = f"The model expects “he” after “{nouns[low]}” and “she” after “{nouns[high]}”"
    elif clear:
        title = (
            f"“she” is likelier after “{nouns[high]}” than after “{nouns[low]}”, but does not lead"
        )
    else:
        title = f"“{nouns[0]}” or “{nouns[1]}”: “he” and “she” do not clearly depend on it"
    says = (
        f"Of {count} beginnings “he” leads after “{nouns[low]}” in {he_leads}, “she” after "
        f"“{nouns[high]}” in {she_leads}; the odds of “she” are at least twice as high after "
        f"“{nouns[high]}” in {twice}."
    )
    return Verdict(holds, title, says)


VERDICTS = {
    "dogs": dogs, "her": her, "gender": gender, "walk": walk, "once": once, "hello": hello,
    "nurse": nurse,
}  # fmt: skip


def words_gallery(numbers: Mapping[str, Any]) -> Words:
    """What one scene says; of all of them, how many claims hold, and which ones do not."""
    if "scene" in numbers:
        verdict = VERDICTS[numbers["scene"]](numbers)
        return Words(verdict.title, verdict.says)
    verdicts = {
        name: VERDICTS[name](scene).holds for name, scene in numbers.items() if "scene" in scene
    }
    right = [name for name, holds in verdicts.items() if holds]
    wrong = [name for name, holds in verdicts.items() if holds is False]
    silent = [name for name, holds in verdicts.items() if holds is None]
    none = [name for name in numbers if name not in verdicts]
    count = len(right) + len(wrong)
    if not count:
        title = "No claim of the lectures can be tested here"
    elif not wrong:
        title = f"What the lectures say of these sentences holds: {_all(count)}"
    elif not right:
        title = f"What the lectures say of these sentences does not hold: {_all(count)}"
    else:
        title = f"{len(right)} of {count} claims about these sentences hold in these models"
    groups = {"Holds": right, "does not": wrong, "no claim": silent, "not drawn": none}
    parts = [f"{what}: {listed(names)}" for what, names in groups.items() if names]
    caption = "; ".join(parts) + ". regard show gallery scene=her draws one."
    return Words(title, caption[0].upper() + caption[1:])


def verdict_numbers(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a scene with its verdict, `holds` and `says`, which is computed from them."""
    verdict = VERDICTS[numbers["scene"]](numbers)
    return {**numbers, "holds": verdict.holds, "says": verdict.says}


def german(translations: Sequence[str]) -> str:
    """A sentence about a fault in the model's German; empty if none of `FAULTS` is in it.

    Example:
        >>> german(["Sie stellte die Klasse eine Frage."])
        'Its German is wrong: “stellte die Klasse”, right is “stellte der Klasse”.'
        >>> german(["Sie stellte der Klasse eine Frage."])
        ''
    """
    for text in translations:
        for fault, right in FAULTS:
            if match := fault.search(text):
                return f"Its German is wrong: “{match[0]}”, right is “{match.expand(right)}”."
    return ""


def _all(count: int) -> str:
    return "the one claim" if count == 1 else f"all {count} claims"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _signed(values: Sequence[float]) -> str:
    return " and ".join(f"{value:+.1f}" for value in values).replace("-", "−")
