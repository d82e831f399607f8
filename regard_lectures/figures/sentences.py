"""The lectures' sentences about an animal and a street, and the heads behind their pronoun.

"The animal didn't cross the street because it was too tired", and "… too wide": to which noun does
the model attend for the pronoun, and what happens without the heads that do so?
"""

from __future__ import annotations

from dataclasses import dataclass

from regard import Pipeline, load
from regard.data import grammar
from regard.errors import InputError
from regard.explain import Look
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


def translator(model_name: str, text: str = "") -> Pipeline:
    """Load a translator that knows the words to be read.

    Args:
        model_name: The model.
        text: The text to be read; by default both sentences.

    Raises:
        InputError: If the model is not such a translator.
    """
    pipeline = load(model_name, device="cpu")
    pipeline.translator()
    texts = [text] if text else [pair.source for pair in grammar.DEMO]
    words = [word for read in texts for word in pipeline.vocabulary.source.unknown_words(read)]
    if words:
        raise InputError(
            f"show animal: {model_name} does not know",
            got=", ".join(dict.fromkeys(words)),
            expected="words of its vocabulary",
            fix="other words, or model=small/translate, which knows most",
        )
    return pipeline


def has_pronouns(pipeline: Pipeline) -> bool:
    """Whether each pronoun is one token of the target side, so that its logits can be compared."""
    target = pipeline.vocabulary.target
    return all(
        len(target.encode(word)) == 1 and not target.unknown_words(word) for word in PRONOUNS
    )


def check_pronouns(pipeline: Pipeline) -> None:
    """Reject a translator in which a pronoun is not one token.

    Raises:
        InputError: If it is such a translator.
    """
    if not has_pronouns(pipeline):
        got = "a vocabulary with er, sie, es in several tokens, or without them"
        expected = "a translator trained on the same sentences, such as tiny/translate"
        raise InputError(f"show animal: {pipeline.name}", got=got, expected=expected)
