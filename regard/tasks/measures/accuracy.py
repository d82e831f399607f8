"""Metrics of labels: accuracy and F1 of classes, F1 of entities, exact match and F1 of answers.

Each is computed as by the usual tool: classes as scikit-learn's macro F1, entities as CoNLL's
conlleval, answers as SQuAD's evaluation script. All are percentages.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Numbers = dict[str, float]

_ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")
_SAME_AS = {"L": "E", "U": "S"}
"""Maps BILOU to BIOES: the letters for the last word of an entity and for a one-word entity."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Confusion:
    """How often each class was taken for each."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """For each right class, the number of examples by predicted class."""

    def to_json(self) -> dict[str, object]:
        """The names of the classes, and the rows of counts."""
        return {"classes": list(self.classes), "counts": [list(row) for row in self.counts]}


@dataclass(frozen=True)
class Measures:
    """The metrics of a model on some examples."""

    overall: Numbers
    by_label: dict[str, Numbers] = field(default_factory=dict)
    """The metrics of each class or type of entity, with its number of examples as `count`."""
    confusion: Confusion | None = None
    """How often each class was taken for each; None if the labels are no classes."""


@dataclass(frozen=True)
class Entity:
    """A named entity: the words `words[first:last]`."""

    kind: str
    first: int
    last: int
    """The index after its last word."""


def class_scores(wanted: Sequence[str], found: Sequence[str], classes: Sequence[str]) -> Measures:
    """Accuracy, macro-averaged F1, and precision, recall and F1 of each class, in percent.

    Args:
        wanted: The right class of each example.
        found: The predicted class of each example.
        classes: The names of all classes.

    Example:
        >>> class_scores(["a", "a", "b", "b"], ["a", "a", "a", "b"], ["a", "b"]).overall["accuracy"]
        75.0
    """
    pairs = Counter(zip(wanted, found, strict=True))
    by_label = {
        name: _scores(
            right=pairs[name, name],
            found=sum(count for (_, predicted), count in pairs.items() if predicted == name),
            wanted=sum(count for (right, _), count in pairs.items() if right == name),
        )
        for name in classes
    }
    right = sum(count for (one, other), count in pairs.items() if one == other)
    # A class that neither occurs nor is predicted does not count.
    seen = {name for pair in pairs for name in pair}
    mean = sum(by_label[name]["f1"] for name in seen) / max(1, len(seen))
    names = tuple(classes)
    places = {name: place for place, name in enumerate(names)}
    rows = [[0] * len(names) for _ in names]
    for (one, other), count in pairs.items():
        if one in places and other in places:
            rows[places[one]][places[other]] = count
    counts = tuple(map(tuple, rows))
    overall = {"accuracy": _percent(right, len(wanted)), "f1": mean}
    return Measures(overall, by_label, Confusion(names, counts))


def has_entities(tags: Iterable[str]) -> bool:
    """Whether tags mark entities (`B-person`, `I-person`, `O`), unlike part-of-speech tags."""
    tags = list(tags)
    return any(tag != "O" for tag in tags) and all(_ENTITY_TAG.fullmatch(tag) for tag in tags)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that tags in BIO, BIOES or BILOU mark, as conlleval reads them.

    A new entity begins with B or S, after O, E or S, and where the type changes. Sequences that no
    scheme allows are accepted: an I after O begins an entity.

    Example:
        >>> entities(["B-per", "I-per", "O", "I-loc", "B-loc"])[1]
        Entity(kind='loc', first=3, last=4)
    """
    found: list[Entity] = []
    before, kind_before, first = "O", "", 0
    for place, tag in enumerate([*tags, "O"]):
        letter, _, kind = tag.partition("-")
        letter = _SAME_AS.get(letter, letter)
        begins = letter != "O" and (
            letter in "BS" or before in ("O", "E", "S") or kind != kind_before
        )
        if before != "O" and (begins or letter == "O"):
            found.append(Entity(kind_before, first, place))
        if begins:
            first = place
        before, kind_before = letter, kind
    return found


def entity_scores(wanted: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Measures:
    """Accuracy of the tags, and precision, recall and F1 of whole entities, overall and by type.

    An entity is right if its type, its first and its last word are. Tags that do not mark entities
    have only the accuracy.

    Args:
        wanted: The right tags of each sentence.
        found: The predicted tags of each sentence.
    """
    words = [
        pair for sentence in zip(wanted, found, strict=True) for pair in zip(*sentence, strict=True)
    ]
    right = sum(one == other for one, other in words)
    overall = {"accuracy": _percent(right, len(words))}
    if not has_entities(tag for pair in words for tag in pair):
        return Measures(overall)
    counts: dict[str, Counter[str]] = {"right": Counter(), "found": Counter(), "wanted": Counter()}
    for one, other in zip(wanted, found, strict=True):
        marked, predicted = set(entities(one)), set(entities(other))
        for name, some in (("right", marked & predicted), ("found", predicted), ("wanted", marked)):
            counts[name].update(entity.kind for entity in some)
    kinds = sorted({kind for counter in counts.values() for kind in counter})
    by_label = {
        kind: _scores(**{name: counter[kind] for name, counter in counts.items()}) for kind in kinds
    }
    total = _scores(**{name: counter.total() for name, counter in counts.items()})
    return Measures(overall | total, by_label)


def normalised(answer: str) -> str:
    """Normalises an answer as SQuAD does: lower case, no punctuation, articles or extra spaces.

    Example:
        >>> normalised("The  Denver Broncos!")
        'denver broncos'
    """
    plain = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1.0 if the normalised answer equals an accepted one, else 0.0.

    If there is no accepted answer, the empty answer is right.
    """
    return float(normalised(answer) in {normalised(each) for each in accepted or [""]})


def overlap(answer: str, accepted: Sequence[str]) -> float:
    """F1 of the words that an answer shares with an accepted one; the best of all accepted ones."""
    return max(_word_f1(normalised(answer).split(), normalised(each).split())
               for each in accepted or [""])  # fmt: skip


def answer_scores(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> Measures:
    """Mean exact match and F1, in percent.

    If some questions have no answer, `by_label` has the means of answerable and of unanswerable
    questions.

    Args:
        answers: The predicted answer to each question.
        accepted: The accepted answers to each question; empty if it has no answer.
    """

    def means(places: Sequence[int]) -> Numbers:
        pairs = [(answers[place], accepted[place]) for place in places]
        exact = sum(exact_match(*pair) for pair in pairs)
        shared = sum(overlap(*pair) for pair in pairs)
        return {"exact": _percent(exact, len(pairs)), "f1": _percent(shared, len(pairs))}

    groups: dict[str, list[int]] = {"answerable": [], "unanswerable": []}
    for place, each in enumerate(accepted):
        groups["answerable" if each else "unanswerable"].append(place)
    apart = groups["unanswerable"] != []
    by_label = {name: means(places) | {"count": len(places)}
                for name, places in groups.items() if apart and places}  # fmt: skip
    return Measures(means(range(len(answers))), by_label)


def _word_f1(found: list[str], wanted: list[str]) -> float:
    if not found or not wanted:
        return float(found == wanted)
    shared = (Counter(found) & Counter(wanted)).total()
    return 2 * shared / (len(found) + len(wanted))


def _scores(right: int, found: int, wanted: int) -> Numbers:
    """Precision, recall and F1 = 2 P R / (P + R) = 2 right / (found + wanted), in percent."""
    return {
        "precision": _percent(right, found),
        "recall": _percent(right, wanted),
        "f1": _percent(2 * right, found + wanted),
        "count": wanted,
    }


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
