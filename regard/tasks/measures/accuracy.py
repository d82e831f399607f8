"""Metrics of labels: accuracy and F1 of classes, F1 of entities, exact match and F1 of answers.

Each is computed as by the usual tool: classes as scikit-learn's macro F1, entities as CoNLL's
conlleval, answers as SQuAD's evaluation script. All are percentages.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

Numbers = dict[str, float]
Labels = Sequence[str]

_ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")
_BILOU_TO_BIOES = {"L": "E", "U": "S"}
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

    def with_loss(self, loss: float) -> Measures:
        """The metrics with the mean loss before them."""
        return replace(self, overall={"loss": loss, **self.overall})


@dataclass(frozen=True)
class Entity:
    """A named entity: the words `words[first:last]`."""

    kind: str
    first: int
    last: int
    """The index after its last word."""


def class_scores(right_classes: Labels, predicted: Labels, classes: Labels) -> Measures:
    """Accuracy, macro-averaged F1, and precision, recall and F1 of each class, in percent.

    Args:
        right_classes: The right class of each example.
        predicted: The predicted class of each example.
        classes: The names of all classes.

    Example:
        >>> class_scores(["a", "a", "b", "b"], ["a", "a", "a", "b"], ["a", "b"]).overall["accuracy"]
        75.0
    """
    pairs = Counter(zip(right_classes, predicted, strict=True))
    by_label = {
        name: _scores(
            right=pairs[name, name],
            predicted=sum(count for (_, guess), count in pairs.items() if guess == name),
            wanted=sum(count for (label, _), count in pairs.items() if label == name),
        )
        for name in classes
    }
    right = sum(count for (label, guess), count in pairs.items() if label == guess)
    # A class that neither occurs nor is predicted does not count.
    used_classes = {name for pair in pairs for name in pair}
    mean = sum(by_label[name]["f1"] for name in used_classes) / max(1, len(used_classes))
    counts = tuple(tuple(pairs[label, guess] for guess in classes) for label in classes)
    overall = {"accuracy": _percent(right, len(right_classes)), "f1": mean}
    return Measures(overall, by_label, Confusion(tuple(classes), counts))


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
    spans: list[Entity] = []
    before, kind_before, first = "O", "", 0
    for index, tag in enumerate([*tags, "O"]):
        letter, _, kind = tag.partition("-")
        letter = _BILOU_TO_BIOES.get(letter, letter)
        begins = letter != "O" and (
            letter in "BS" or before in ("O", "E", "S") or kind != kind_before
        )
        if before != "O" and (begins or letter == "O"):
            spans.append(Entity(kind_before, first, index))
        if begins:
            first = index
        before, kind_before = letter, kind
    return spans


def entity_scores(right_tags: Sequence[Labels], predicted: Sequence[Labels]) -> Measures:
    """Accuracy of the tags, and precision, recall and F1 of whole entities, overall and by type.

    An entity is right if its type, its first and its last word are. Tags that do not mark entities
    have only the accuracy.

    Args:
        right_tags: The right tags of each sentence.
        predicted: The predicted tags of each sentence.
    """
    sentences = list(zip(right_tags, predicted, strict=True))
    words = [pair for sentence in sentences for pair in zip(*sentence, strict=True)]
    right = sum(tag == guess for tag, guess in words)
    overall = {"accuracy": _percent(right, len(words))}
    if not has_entities(tag for pair in words for tag in pair):
        return Measures(overall)
    right_kinds, predicted_kinds, wanted_kinds = Counter[str](), Counter[str](), Counter[str]()
    for tags, guesses in sentences:
        right_entities, guesses_found = set(entities(tags)), set(entities(guesses))
        right_kinds.update(entity.kind for entity in right_entities & guesses_found)
        predicted_kinds.update(entity.kind for entity in guesses_found)
        wanted_kinds.update(entity.kind for entity in right_entities)
    by_label = {
        kind: _scores(right_kinds[kind], predicted_kinds[kind], wanted_kinds[kind])
        for kind in sorted({*predicted_kinds, *wanted_kinds})
    }
    total = _scores(right_kinds.total(), predicted_kinds.total(), wanted_kinds.total())
    return Measures(overall | total, by_label)


def normalise_answer(answer: str) -> str:
    """Normalises an answer as SQuAD does: lower case, no punctuation, articles or extra spaces.

    Example:
        >>> normalise_answer("The  Denver Broncos!")
        'denver broncos'
    """
    letters = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1.0 if the normalised answer equals an accepted one, else 0.0.

    If there is no accepted answer, the empty answer is right.
    """
    return float(normalise_answer(answer) in {normalise_answer(text) for text in accepted or [""]})


def overlap(answer: str, accepted: Sequence[str]) -> float:
    """F1 of the words that an answer shares with an accepted one; the best of all accepted ones."""
    return max(_word_f1(normalise_answer(answer).split(), normalise_answer(text).split())
               for text in accepted or [""])  # fmt: skip


def answer_scores(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> Measures:
    """Mean exact match and F1, in percent.

    If some questions have no answer, `by_label` has the means of answerable and of unanswerable
    questions.

    Args:
        answers: The predicted answer to each question.
        accepted: The accepted answers to each question; empty if it has no answer.
    """

    def means(indices: Sequence[int]) -> Numbers:
        """Mean exact match and F1 of the questions of some indices, in percent."""
        pairs = [(answers[index], accepted[index]) for index in indices]
        exact = sum(exact_match(*pair) for pair in pairs)
        shared = sum(overlap(*pair) for pair in pairs)
        return {"exact": _percent(exact, len(pairs)), "f1": _percent(shared, len(pairs))}

    groups: dict[str, list[int]] = {"answerable": [], "unanswerable": []}
    for index, texts in enumerate(accepted):
        groups["answerable" if texts else "unanswerable"].append(index)
    has_unanswerable = groups["unanswerable"] != []
    by_label = {name: means(indices) | {"count": len(indices)}
                for name, indices in groups.items() if has_unanswerable and indices}  # fmt: skip
    return Measures(means(range(len(answers))), by_label)


def _word_f1(predicted: list[str], reference: list[str]) -> float:
    """F1 of the words that two answers share; 1 if both are empty, 0 if one is."""
    if not predicted or not reference:
        return float(predicted == reference)
    shared = (Counter(predicted) & Counter(reference)).total()
    return 2 * shared / (len(predicted) + len(reference))


def _scores(right: int, predicted: int, wanted: int) -> Numbers:
    """Precision, recall and F1 = 2 P R / (P + R) = 2 right / (predicted + wanted), in percent."""
    return {
        "precision": _percent(right, predicted),
        "recall": _percent(right, wanted),
        "f1": _percent(2 * right, predicted + wanted),
        "count": wanted,
    }


def _percent(part: float, total: float) -> float:
    """The percentage of a part in a total; 0 if the total is 0."""
    return 100 * part / total if total else 0.0
