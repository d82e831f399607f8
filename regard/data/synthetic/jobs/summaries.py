"""Generator of reports with one-sentence summaries: pairs for a summarisation task.

The dataset of a mixture's part with `kind: summaries`. A record is drawn (a match, a journey, a
sale …) and written twice: as a report, with irrelevant sentences in between, and as one sentence
with the important facts. These are spread over several sentences of the report, so that its first
sentence alone is a poor summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from regard.data.synthetic.jobs.drawn import PEOPLE, Draw, disjoint_splits, meanings_of, words_of
from regard.data.text.pairs import Pair, Splits

CITIES = words_of("cities")
DAYS = words_of("days")
NUMBERS = words_of("numbers")
WEATHER = meanings_of("weather")
FAMILY = words_of("family")
WAYS = meanings_of("ways")
GOODS = words_of("goods")
PETS = words_of("pets")
PLACES = words_of("places")
TOPICS = words_of("topics")
DISHES = words_of("dishes")


def _match(draw: Draw) -> Pair:
    """Draw a report of a match, and its summary."""
    winner, loser = draw.two(CITIES)
    scorer, pronoun, _ = draw.person()
    goals = draw.randint(1, 5)
    against, day, weather = draw.randint(0, goals - 1), draw.one(DAYS), draw.one(WEATHER)
    first, second = draw.sample([winner, loser], 2)
    goals_of = {winner: str(goals), loser: str(against or "none")}
    facts = [
        f"On {day} {first} played against {second}.",
        weather,
        f"{second} scored {goals_of[second]} and {first} {goals_of[first]}.",
        f"The best player was {scorer}; after the match {pronoun} gave away a shirt.",
    ]
    asides = [
        f"About {draw.one(NUMBERS)} thousand people came.",
        f"Many of them had come from {second}.",
        "The tickets were expensive.",
        "The second half was better than the first.",
        f"The team of {first} has a new trainer.",
    ]
    brief = f"{winner} beat {loser} {goals} to {against} on {day} {WEATHER[weather]}."
    return Pair(draw.mixed(facts, draw.some(asides)), brief)


def _journey(draw: Draw) -> Pair:
    """Draw a report of a journey, and its summary."""
    name, pronoun, possessive = draw.person()
    start, goal = draw.two(CITIES)
    way, day, host = draw.one(WAYS), draw.one(DAYS), draw.one(FAMILY)
    facts = [
        f"{name} lives in {start}.",
        f"{possessive.capitalize()} {host} lives in {goal} and had invited {name}.",
        f"So on {day} {name} packed a bag and {way}.",
        f"In the evening {pronoun} was there, and they ate {draw.one(DISHES)}.",
    ]
    asides = [
        f"On the way {pronoun} read a book.",
        "The weather was not good.",
        f"{name} had forgotten an umbrella.",
        f"The journey took {draw.one(NUMBERS)} hours.",
        f"{pronoun.capitalize()} was tired.",
    ]
    report = [facts[0], *draw.some(asides[1:2], 0), *facts[1:3], *draw.some(asides), facts[3]]
    brief = f"On {day} {name} went to {goal} {WAYS[way]} to visit {possessive} {host}."
    return Pair(" ".join(report), brief)


def _sale(draw: Draw) -> Pair:
    """Draw a report of a sale, and its summary."""
    seller, pronoun, possessive = draw.person()
    buyer = draw.one([n for n in [*PEOPLE["she"], *PEOPLE["he"]] if n != seller])
    thing, city, price = draw.one(GOODS), draw.one(CITIES), draw.one(NUMBERS)
    price_asked = draw.one([number for number in NUMBERS if number != price])
    facts = [
        f"{seller} had an old {thing} that {pronoun} did not need.",
        f"{pronoun.capitalize()} wanted {price_asked} euros for it.",
        f"{buyer} from {city} came to look at it.",
        f"They talked for a long time, and in the end {buyer} paid {price} euros.",
    ]
    asides = [
        f"It had belonged to {possessive} grandmother.",
        "Nobody had called for weeks.",
        f"{possessive.capitalize()} neighbours had one like it.",
        "There was coffee and cake.",
        "One side of it was a little dirty.",
    ]
    report = [facts[0], *draw.some(asides[:2], 0), *facts[1:3], *draw.some(asides[2:], 0), facts[3]]
    brief = f"{seller} sold {possessive} old {thing} to {buyer} for {price} euros."
    return Pair(" ".join(report), brief)


def _search(draw: Draw) -> Pair:
    """Draw a report of a search, and its summary."""
    owner, pronoun, possessive = draw.person()
    finder = draw.one([n for n in [*PEOPLE["she"], *PEOPLE["he"]] if n != owner])
    pet, lost, day = draw.one(PETS), draw.one(DAYS), draw.one(DAYS)
    right_place, wrong_place = draw.sample(PLACES, 2)
    facts = [
        f"{owner} has a {pet}.",
        f"On {lost} it ran away.",
        f"{owner} looked for it in {wrong_place}, but it was not there.",
        f"On {day} {finder} heard a noise in {right_place}, and there it was.",
    ]
    asides = [
        f"{pronoun.capitalize()} put up a sign at every corner.",
        "The whole street helped.",
        f"{possessive.capitalize()} friends were sad, too.",
        "It was cold at night.",
        f"It is {draw.one(NUMBERS)} years old.",
    ]
    report = [facts[0], *draw.some(asides[4:], 0), *facts[1:3], *draw.some(asides[:4], 0), facts[3]]
    report += draw.some([f"{owner} was very happy.", "It was hungry."], 0)
    return Pair(" ".join(report), f"{finder} found {owner}'s {pet} in {right_place} on {day}.")


def _meeting(draw: Draw) -> Pair:
    """Draw a report of a meeting, and its summary."""
    city, topic, day = draw.one(CITIES), draw.one(TOPICS), draw.one(DAYS)
    name, pronoun, _ = draw.person()
    ayes, noes = draw.two(NUMBERS[:11])
    won = NUMBERS.index(ayes) > NUMBERS.index(noes)
    facts = [
        f"On {day} the people of {city} met in the town hall.",
        f"{name} had a plan for {topic}, and {pronoun} explained it.",
        f"In the end {ayes} people were for the plan and {noes} were against it.",
    ]
    asides = [
        "The room was too small for everyone.",
        f"It took {draw.one(NUMBERS)} hours.",
        "Some of them shouted.",
        "A child asked the best question.",
        "There was nothing to drink.",
    ]
    verdict = "accepted" if won else "rejected"
    brief = f"On {day} {city} {verdict} the plan of {name} for {topic}."
    return Pair(draw.mixed(facts, draw.some(asides)), brief)


REPORTS: tuple[Callable[[Draw], Pair], ...] = (_match, _journey, _sale, _search, _meeting)
"""The kinds of records, each drawn with the same probability."""


def sample(seed: str) -> Iterator[Pair]:
    """Yield reports with their summaries endlessly."""
    draw = Draw(seed)
    while True:
        yield draw.choice(REPORTS)(draw)


def splits(pairs: int, held_out: int, seed: int) -> Splits:
    """Generate training, validation and test pairs; no report is in two of them.

    The validation and test pairs do not depend on `pairs`.

    Args:
        pairs: How many training pairs.
        held_out: How many validation pairs, and how many test pairs.
        seed: Seed of the random choice.
    """
    return disjoint_splits(sample, pairs, held_out, seed)
