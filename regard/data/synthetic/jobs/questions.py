"""Generator of remarks that are toxic or not: pairs for a yes/no task.

The dataset of a mixture's part with `kind: questions`: the source is a remark, the target `yes`
(toxic) or `no`. No single word decides: "I hate you" is toxic; "I hate rain", "You are not stupid"
and a report of an insult are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from regard.data.synthetic.jobs.drawn import PEOPLE, Draw, disjoint_splits, words_of
from regard.data.text.pairs import Pair, Splits

BAD = words_of("bad")
GOOD = words_of("good")
INSULTS = words_of("insults")
PRAISE = words_of("praise")
YOURS = words_of("yours")
NUISANCES = words_of("nuisances")
ORDERS = words_of("orders")
KINDNESS = words_of("kindness")
ENDINGS = ("", "", "", " today", " at school", " as always", " again")

OBJECTIVE = {"she": "her", "he": "him"}

Remark = tuple[str, bool]
"""A text, and whether it is toxic."""


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _remark_about_you(draw: Draw) -> Remark:
    """Draw "You are …": toxic with a bad word, unless it is negated."""
    bad = draw.random() < 0.7
    denied = bad and draw.random() < 0.3
    word, noun = (draw.one(BAD), draw.one(INSULTS)) if bad else (draw.one(GOOD), draw.one(PRAISE))
    very = draw.one(["", "", "so ", "really "])
    description = draw.one([f"{very}{word}", _with_article(noun), f"the most {word} person I know"])
    if bad and not denied and draw.random() < 0.2:
        description = f"not only {word} but {_with_article(noun)}"
    verb = "are not" if denied else "are"
    remarks = [f"you {verb} {description}", f"I think you {verb} {description}"]
    remarks += [] if denied else [f"you look {very}{word}{draw.one(ENDINGS)}"]
    return draw.one(remarks), bad and not denied


def _remark_about_things(draw: Draw) -> Remark:
    """Draw a remark about a thing: toxic if it is "your" thing and the word is bad."""
    bad = draw.random() < 0.5
    word = draw.one(BAD if bad else GOOD)
    whose = draw.one(["your", "your", "my", "this"])
    # calling one's own things bad is not toxic
    return f"{whose} {draw.one(YOURS)} is {word}{draw.one(ENDINGS)}", bad and whose == "your"


def _remark_about_feelings(draw: Draw) -> Remark:
    """Draw what one loves or hates: toxic if somebody hates "you"."""
    about_you = draw.random() < 0.5
    whom = draw.one(["you", "you all", "people like you"]) if about_you else draw.one(NUISANCES)
    bad = draw.random() < 0.6
    hate = ["I hate", "nobody likes", "I cannot stand", "we all hate"]
    love = ["I love", "everybody likes", "I do not hate", "we all like"]
    return f"{draw.one(hate if bad else love)} {whom}{draw.one(ENDINGS)}", bad and about_you


def _request(draw: Draw) -> Remark:
    """Draw a request: kind, or an order that is toxic."""
    if draw.random() < 0.5:
        return f"{draw.one(['', 'please '])}{draw.one(KINDNESS)}{draw.one(ENDINGS)}", False
    insults = [f", you {draw.one(INSULTS)}", f", you {draw.one(BAD)} {draw.one(INSULTS)}"]
    whom = draw.one(["", *insults])
    return f"{draw.one(ORDERS)}{whom}", True


def _reported_remark(draw: Draw) -> Remark:
    """Draw a report of an insult or praise, which is not toxic."""
    name, pronoun, _ = draw.person()
    noun = _with_article(draw.one((*INSULTS, *PRAISE)))
    remarks = [
        f"{name} called me {noun}, and {pronoun} was sorry{draw.one(ENDINGS)}",
        f"why did {name} say that I am {noun}",
        f"in the play {name} is {noun}{draw.one(ENDINGS)}",
        f"{name} read a book about {noun}{draw.one(ENDINGS)}",
    ]
    return draw.one(remarks), False


def _remark_about_person(draw: Draw) -> Remark:
    """Draw a remark about somebody: toxic with a bad word."""
    name, pronoun, _ = draw.person()
    bad = draw.random() < 0.7
    word, noun = (draw.one(BAD), draw.one(INSULTS)) if bad else (draw.one(GOOD), draw.one(PRAISE))
    what = f"nobody likes {OBJECTIVE[pronoun]}" if bad else "everybody smiles"
    return draw.one([f"{name} is {_with_article(noun)}", f"{name} is so {word} that {what}"]), bad


REMARKS: tuple[Callable[[Draw], Remark], ...] = (
    _remark_about_you,
    _remark_about_things,
    _remark_about_feelings,
    _request,
    _reported_remark,
    _remark_about_person,
)
"""The kinds of remarks, each drawn with the same probability."""


def sample(seed: str) -> Iterator[Pair]:
    """Yield endless remarks, alternately toxic (`yes`) and not (`no`)."""
    draw = Draw(seed)
    next_is_toxic = True
    while True:
        text, toxic = draw.choice(REMARKS)(draw)
        if toxic is next_is_toxic:
            mark = "?" if text.startswith("why") else draw.one([".", ".", ".", "!", ""])
            name = draw.one(PEOPLE[draw.one(PEOPLE)])
            text = draw.one([text, f"{name}, {text}"])
            yield Pair(text[0].upper() + text[1:] + mark, "yes" if toxic else "no")
            next_is_toxic = not next_is_toxic


def splits(pairs: int, held_out: int, seed: int) -> Splits:
    """Generate training, validation and test pairs; no remark is in two of them.

    Args:
        pairs: How many training pairs.
        held_out: How many validation pairs, and how many test pairs.
        seed: Seed of the random choice.
    """
    return disjoint_splits(sample, pairs, held_out, seed)
