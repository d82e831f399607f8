"""Figure of part 5: the lectures' sentences, translated by the shipped model.

"The animal didn't cross the street because it was too tired", and "… too wide": to which noun does
the model attend for the pronoun, and what happens without the heads that do so?
"""

from __future__ import annotations

from dataclasses import dataclass

from regard import Pipeline, load
from regard.data import grammar
from regard.draw import BLUE, MUTED, ORANGE, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Look, in_words
from regard_lectures.figures.pronouns import (
    PRONOUNS,
    Carriers,
    Shift,
    find_carriers,
    strongest_shift,
)

MODEL = "tiny/translate"
UNSEEN = 250
"""The number of held-out pronouns: 50 to find the heads, 200 to report."""
NOUNS = ("animal", "street")


@dataclass(frozen=True, eq=False)
class Intervention:
    """Two sentences that differ in one word, the heads behind the pronoun, and their knock-out."""

    looks: tuple[Look, Look]
    shift: Shift
    """The head whose weights move from one noun to the other."""
    carriers: Carriers
    """The smallest set of heads found without which the pronoun fails."""
    broken: tuple[Look, Look]
    """The two sentences without the carriers."""
    unharmed: tuple[str, str]
    """The two translations without as many other heads (the first random draw)."""


def intervene(pipeline: Pipeline, seed: int = 0) -> Intervention:
    """Record both sentences, find the carriers, and knock out these and as many other heads.

    Args:
        pipeline: An English–German translator trained on the grammar.
        seed: The seed of the draws of other heads.
    """
    tired, wide = (pair.source for pair in grammar.DEMO)
    looks = pipeline.look(tired), pipeline.look(wide)
    queries = {"encoder.self": ("it", "it"), "decoder.cross": _pronouns(looks)}
    unseen = grammar.splits(pairs=2000, held_out=UNSEEN, seed=0).tests["pronouns"]
    carriers = find_carriers(pipeline.model, pipeline.task, grammar.DEMO, unseen, seed=seed)
    return Intervention(
        looks=looks,
        shift=strongest_shift(*looks, NOUNS, queries),
        carriers=carriers,
        broken=(
            pipeline.look(tired, knock_out=carriers.heads),
            pipeline.look(wide, knock_out=carriers.heads),
        ),
        unharmed=(
            pipeline.translate(tired, knock_out=carriers.others[0]),
            pipeline.translate(wide, knock_out=carriers.others[0]),
        ),
    )


def _pronouns(looks: tuple[Look, Look]) -> tuple[str, str]:
    """The pronoun of each translation, or its last word if it has none."""

    def one(look: Look) -> str:
        words = look.target.replace(",", " ").replace(".", " ").split()
        return next((word for word in words if word in ("er", "sie", "es")), words[-1])

    return one(looks[0]), one(looks[1])


def _translator(model_name: str) -> Pipeline:
    """Load a translator that knows all words of both sentences and has each pronoun as one token.

    Raises:
        InputError: If the model is not such a translator.
    """
    pipeline = load(model_name, device="cpu")
    pipeline.translator()
    vocabulary = pipeline.vocabulary
    words = [word for pair in grammar.DEMO for word in vocabulary.source.unknown_words(pair.source)]
    split = [word for word in PRONOUNS if len(vocabulary.target.encode(word)) != 1]
    if words or split or any(vocabulary.target.unknown_words(word) for word in PRONOUNS):
        raise InputError(
            f"show animal: {model_name}",
            got="a vocabulary without " + ", ".join(words or split or PRONOUNS),
            expected="a translator trained on the same sentences, such as tiny/translate",
        )
    return pipeline


def animal(model: str, seed: int) -> Drawing:
    """Draw one head's weights in both sentences, and the pronoun accuracy without the carriers."""
    result = intervene(_translator(model), seed)
    shift, carriers = result.shift, result.carriers
    site, _, head = shift.head.rpartition(".")
    maps = [look.site(site) for look in result.looks]
    rows = [m.queries.index(q) for m, q in zip(maps, shift.query.split("/") * 2, strict=False)]
    gaze = [m.weights[int(head), row].tolist() for m, row in zip(maps, rows, strict=True)]
    others = carriers.right_without_others
    count = len(carriers.heads)
    these = "this head" if count == 1 else f"these {count} heads"
    other_heads = "another head" if count == 1 else f"{count} other heads"
    caption = (
        f"Of {carriers.pairs} unseen pronouns {carriers.right_before:.1f}% are right; without the "
        f"{count} heads that carry them {carriers.right_without:.1f}%, without {other_heads} at "
        f"least {min(others):.1f}%."
    )
    details = (
        f"{result.looks[0].source} → {result.looks[0].target} {result.looks[1].source} → "
        f"{result.looks[1].target} Left: the head of {model} whose weights change most. Right: the "
        f"share of {carriers.pairs} unseen pronouns that are right with all heads; without "
        f"{these}, which carry the pronoun ({'; '.join(map(in_words, carriers.heads))}); and "
        f"without {other_heads}, drawn at random {len(others)} times (seed {seed}; the bar is the "
        "worst draw). Two pronouns are possible each time, so a guess is right half of the time "
        f"(dotted line). Without these heads: {result.broken[0].target} {result.broken[1].target}"
    )
    with Board(caption, (1.9, 1), details) as board:
        names = [f"… {look.source.split()[-1]}" for look in result.looks]
        words = [*maps[0].keys[:-2], "tired / wide", maps[0].keys[-1]]
        board.matrix(
            0,
            f"weights of “{shift.query}”: {in_words(shift.head)}",
            gaze,
            positive_scale(),
            (names, words),
            ("", "the words attended to"),
            ".2f",
        )
        right = board.chart(1, "pronouns right, %", " ", "")
        shares = [carriers.right_before, carriers.right_without, min(others)]
        right.bar(range(3), shares, 0.6, color=[BLUE, ORANGE, BLUE])
        for index, share in enumerate(shares):
            right.write((index, share + 1.5), f"{share:.1f}", ha="center")
        right.axhline(50, color=MUTED, linestyle=":", linewidth=1.8)
        right.write((1, 51), "a guess", ha="center", va="bottom")
        bars = ["all heads", f"without\nthe {count}", f"without\n{count} others"]
        right.set_xticks(range(3), bars)
        right.set_ylim(0, 112)
        return board.drawing(
            head=shift.head,
            before=list(shift.before),
            after=list(shift.after),
            carriers=list(carriers.heads),
            right=carriers.right_before,
            right_without_carriers=carriers.right_without,
            right_without_others=list(others),
            translations=[look.target for look in result.looks],
            broken=[look.target for look in result.broken],
        )
