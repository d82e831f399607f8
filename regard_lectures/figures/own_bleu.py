"""The BLEU of a candidate and its references: n-gram matches, brevity penalty, and the score.

Counted here as defined (Papineni et al. 2002) and as sacrebleu does, whose score stands beside it:

    BLEU = min(1, e^(1 - r / c)) · (p₁ p₂ p₃ p₄)^(1/4)

with c and r the lengths of the candidate and of the reference closest in length, and p_n the share
of the candidate's n-grams that a reference has, each counted at most as often as there. An n
without a match counts half a match, the next such n a quarter, and so on (sacrebleu's smoothing
`exp`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from regard.draw import BLUE, INK, MUTED, ORANGE, SKY, TEXT, WIDTH, text_width
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words

ORDER = 4
"""The longest n-grams."""
SEPARATOR = " / "
HIGH, LOW = 0.5, 0.1
"""BLEU from which a candidate counts as near to a reference, and below which as far from all."""
LINES = 3
"""Lines of the candidate that are shown."""

Gram = tuple[str, ...]


def read_pair(text: str) -> tuple[str, list[str]]:
    """The candidate, and its references.

    Raises:
        InputError: If there is no reference or one of them is empty.
    """
    candidate, *references = (part.strip() for part in text.split(SEPARATOR.strip()))
    if not candidate or not references or not all(references):
        raise InputError(
            "--text",
            got=repr(text),
            expected="a candidate and one or more references, as 'a cat sat / the cat sat down'",
        )
    return candidate, references


def grams(tokens: Sequence[str], n: int) -> Counter[Gram]:
    """How often each n-gram occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def counts(
    candidate: Sequence[str], references: Sequence[Sequence[str]], n: int
) -> tuple[int, int]:
    """The n-grams of a candidate that a reference has, and all of them.

    Example:
        >>> counts(["the"] * 7, [["the", "cat", "on", "the", "mat"]], 1)
        (2, 7)
    """
    ngrams = grams(candidate, n)
    allowed: Counter[Gram] = Counter()
    for reference in references:
        allowed |= grams(reference, n)  # the largest count of each n-gram in any reference
    return (ngrams & allowed).total(), ngrams.total()


def closest_length(length: int, references: Sequence[Sequence[str]]) -> int:
    """The length of the reference that is closest to a length, of two the shorter."""
    return min((len(reference) for reference in references), key=lambda r: (abs(r - length), r))


def score(matches: Sequence[int], totals: Sequence[int], length: int, closest: int) -> float:
    """BLEU as defined above; 0 if there is no match at all, or no n-gram of some n."""
    if not any(matches) or not all(totals):
        return 0.0
    smooth, logarithms = 1.0, []
    for match, total in zip(matches, totals, strict=True):
        smooth = smooth if match else smooth / 2
        logarithms.append(math.log((match or smooth) / total))
    return brevity(length, closest) * math.exp(sum(logarithms) / len(logarithms))


def brevity(length: int, closest: int) -> float:
    """The brevity penalty min(1, e^(1 - r / c))."""
    return min(1.0, math.exp(1 - closest / length)) if length else 0.0


def numbers_of(text: str) -> Numbers:
    """What the picture shows and its words say."""
    candidate, references = read_pair(text)
    tokenize: Callable[[str], str] = Tokenizer13a()  # type: ignore[no-untyped-call]
    tokens = tokenize(candidate).split()
    reference_tokens = [tokenize(reference).split() for reference in references]
    pairs = [counts(tokens, reference_tokens, n) for n in range(1, ORDER + 1)]
    matches, totals = ([pair[side] for pair in pairs] for side in (0, 1))
    closest = closest_length(len(tokens), reference_tokens)
    theirs = BLEU().corpus_score([candidate], [[reference] for reference in references])
    return {
        "candidate": tokens,
        "references": reference_tokens,
        "in_a_reference": _marked(tokens, reference_tokens),
        "matches": matches,
        "totals": totals,
        "length": len(tokens),
        "closest_reference": closest,
        "brevity": brevity(len(tokens), closest),
        "bleu": score(matches, totals, len(tokens), closest),
        "sacrebleu": theirs.score / 100,
    }


def _marked(tokens: Sequence[str], references: Sequence[Sequence[str]]) -> list[bool]:
    """For each token whether it counts as a match, the first ones of a repeated word first."""
    allowed: Counter[str] = Counter()
    for reference in references:
        allowed |= Counter(reference)
    marks = []
    for token in tokens:
        marks.append(allowed[token] > 0)
        allowed[token] -= 1
    return marks


def words_pair(numbers: Numbers) -> Words:
    """How near the candidate is, which n-grams match, and whether it is too short."""
    bleu, shares = numbers["bleu"], [
        f"{match} of {total}"
        for match, total in zip(numbers["matches"], numbers["totals"], strict=True)
    ]  # fmt: skip
    near = (
        "the same as a reference" if numbers["candidate"] in numbers["references"]
        else "near a reference" if bleu >= HIGH
        else "far from every reference" if bleu < LOW
        else "partly like a reference"
    )  # fmt: skip
    title = f"BLEU {100 * bleu:.1f}: the candidate is {near}"
    short = numbers["brevity"] < 1
    length = (
        f"{numbers['length']} tokens against {numbers['closest_reference']}: "
        f"{'too short' if short else 'not too short'}, times {numbers['brevity']:.2f}"
    )
    equal = abs(bleu - numbers["sacrebleu"]) < 5e-4
    theirs = f"sacrebleu has {'the same' if equal else format(100 * numbers['sacrebleu'], '.1f')}"
    caption = f"Matches of 1 to {ORDER} tokens: {', '.join(shares)}. {length}; {theirs}."
    if not all(numbers["totals"]):
        caption += f" Fewer than {ORDER} tokens have no BLEU."
    return Words(title, caption)


def draw_pair(text: str) -> Drawing:
    """Draw the candidate with its matching tokens, the matches of each n, and the calculation."""
    numbers = numbers_of(text)
    details = (
        "Tokens as by sacrebleu's `13a`. A match counts at most as often as in one reference. "
        "BLEU is the brevity penalty times the geometric mean of the four shares; an n without a "
        "match counts 1/2 match, the next such n 1/4 (smoothing `exp`). One sentence's BLEU says "
        "little: it is meant for a whole test set."
    )
    limits = (
        "Computed from the texts shown: no model, no training. BLEU is meant for whole test sets."
    )
    with Board(words_pair(numbers), (1, 1), details, limits=limits) as board:
        _write_tokens(board, numbers)
        _draw_matches(board, numbers)
        _draw_calculation(board, numbers)
        return board.drawing(**numbers)


def _write_tokens(board: Board, numbers: Numbers) -> None:
    """Write the candidate, with tokens of no reference in another colour, and the references."""
    marks = numbers["in_a_reference"]
    y = _write_line(board, "candidate", numbers["candidate"], marks, board.top)
    for reference in numbers["references"][:2]:
        y = _write_line(board, "reference", reference, [], y)
    more = len(numbers["references"]) - 2
    if more > 0:
        board.sheet.text((24, y), f"and {more} more", colour=MUTED)
        y += 34
    board.top = y + 10


def _write_line(
    board: Board, label: str, tokens: Sequence[str], marks: Sequence[bool], y: float
) -> float:
    """Write tokens after a label, in up to `LINES` lines; returns the y where they end."""
    x, left, space = 170.0, 170.0, text_width(" ", TEXT)
    board.sheet.text((24, y), label, colour=MUTED)
    line = 1
    for index, token in enumerate(tokens):
        matched = marks[index] if marks else None
        weight = "bold" if matched is False else "normal"
        width = text_width(token, TEXT, weight)
        if x + width > WIDTH - 170 and line == LINES:
            left_out = len(tokens) - index
            board.sheet.text((x, y), f"… {left_out} more", colour=MUTED)
            break
        if x + width > WIDTH - 24 and x > left:
            x, y, line = left, y + 34, line + 1
        colour = INK if matched is None else BLUE if matched else ORANGE
        board.sheet.text((x, y), token, weight=weight, colour=colour)
        x += width + space
    return y + 36


def _draw_matches(board: Board, numbers: Numbers) -> None:
    """Bars of the n-grams of the candidate, and of those that a reference has."""
    axes = board.chart(0, "n-grams of the candidate", "n", "dark: found in a reference")
    totals, matches = numbers["totals"], numbers["matches"]
    across = range(1, ORDER + 1)
    axes.bar(across, totals, 0.6, color=SKY)
    axes.bar(across, matches, 0.6, color=BLUE)
    for n, match, total in zip(across, matches, totals, strict=True):
        axes.write((n, total + 0.03 * max(totals)), f"{match} of {total}", ha="center")
    axes.set_xticks(list(across))
    axes.set_ylim(0, 1.25 * max(totals))


def _draw_calculation(board: Board, numbers: Numbers) -> None:
    rows: list[tuple[str, str]] = []
    smooth = 1.0
    for n, (match, total) in enumerate(
        zip(numbers["matches"], numbers["totals"], strict=True), start=1
    ):
        smooth = smooth if match else smooth / 2
        share: Any = "none" if not total else f"{(match or smooth) / total:.3f}"
        note = "" if match or not total else f" ({smooth:g} match)"
        rows.append((f"share of n = {n}{note}", share))
    length, closest = numbers["length"], numbers["closest_reference"]
    rows.append(("brevity", f"min(1, e^(1 − {closest}/{length})) = {numbers['brevity']:.3f}"))
    rows.append(("BLEU", f"{100 * numbers['bleu']:.2f}"))
    rows.append(("sacrebleu", f"{100 * numbers['sacrebleu']:.2f}"))
    board.table(1, "the score", (("", 0.0), ("", 1.0)), rows, (ORDER + 1,))
