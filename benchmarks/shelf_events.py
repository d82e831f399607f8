"""Generated news reports of storms, fires and accidents, with one-line summaries.

Real headlines are few here, and a small model that has only seen those writes a fluent headline
about something else. These reports teach it to take what happened, where, and how many were hurt
from the text: places are made up of syllables, so that they cannot be learned by heart.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


def words(text: str) -> tuple[str, ...]:
    """Splits a text into words."""
    return tuple(text.split())


EVENTS = {
    "storm": ("severe weather", "heavy storms", "strong winds and heavy rain", "thunderstorms"),
    "tornado": ("a tornado", "several tornadoes", "violent winds"),
    "flood": ("heavy rain", "days of rain", "rising water", "flash floods"),
    "fire": ("a large fire", "a fast-moving blaze", "flames and thick smoke"),
    "earthquake": ("an earthquake", "a series of tremors", "a strong quake"),
    "explosion": ("a gas explosion", "a loud blast", "an explosion at a factory"),
    "train crash": ("a train derailment", "a collision of two trains"),
    "snowstorm": ("heavy snow", "a blizzard", "freezing rain and snow"),
}  # fmt: skip
"""What a summary calls an event, and what a report does."""
AREAS = words(
    "Alabama Texas Georgia Kansas Ohio Florida Oregon Iowa Nebraska Kentucky Maine Nevada Utah "
    "Virginia Missouri Louisiana Tennessee Scotland Bavaria Ontario Queensland Mississippi"
)
NUMBERS = words("two three four five six seven eight nine ten eleven twelve fifteen twenty")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
WHO = ("Local officials", "The governor", "Police", "Rescue services", "The authorities",
       "Emergency services", "County officials", "Firefighters", "State officials")  # fmt: skip
SENT = ("sent rescue teams", "called out crews", "dispatched teams", "sent out workers",
        "called in helpers", "sent emergency teams")  # fmt: skip
AIMS = ("to assess the damage", "to look for survivors", "to clear the roads", "to check homes",
        "to survey what was left", "to help people out of their houses")  # fmt: skip
HURT = {
    "hospitalized": ("were taken to hospital", "were hospitalized", "were brought to a hospital",
                     "are in hospital"),
    "injured": ("were injured", "were hurt", "suffered injuries"),
    "killed": ("were killed", "died", "lost their lives"),
    "missing": ("were missing", "could not be found", "are still missing"),
    "homeless": ("lost their homes", "were left homeless"),
}  # fmt: skip
UNSEEN = "attala"
"""The place of the lecture's own report: it is in no other."""
TIMES = ("at night", "in the afternoon", "without warning", "early in the morning")
KINDS = ("County", "County", "County", "", "", "Valley", "Springs")
ASIDE = (
    "Power was out in many homes.",
    "Schools stayed closed.",
    "Several roads were blocked by fallen trees.",
    "No one had expected it.",
    "Neighbours helped each other through the night.",
    "It was the worst such day in years.",
    "Roofs were torn off, and cars were turned over.",
    "The mayor asked people to stay at home.",
    "More bad weather is expected.",
    "The cause was not known.",
    "Damage was put at several million dollars.",
    "Help also came from nearby towns.",
)
BEGIN = words(
    "At Bel Bar Car Cal Dor Del Hat Har Kel Lan Lor Mar Mon Nor Or Per Ros San Sto Tal Ver Wil Win"
)
MIDDLE = words("a e i o en al er ing ber der mor ta la li ro")
END = words("la na ton ville ford ham field by wood ley dale burg mont stead ta don")


def place(random: Random) -> str:
    """A made-up name of a place."""
    return random.choice(BEGIN) + random.choice(["", *MIDDLE]) + random.choice(END)


def event(random: Random) -> tuple[str, str]:
    """A report and its summary."""
    what = random.choice(list(EVENTS))
    cause, area, day = random.choice(EVENTS[what]), random.choice(AREAS), random.choice(DAYS)
    number, harm = random.choice(NUMBERS), random.choice(list(HURT))
    name, kind = place(random), random.choice(KINDS)
    where = f"{name} {kind}".strip()
    who, sent, aim = random.choice(WHO), random.choice(SENT), random.choice(AIMS)
    upper = cause[0].upper() + cause[1:]
    opening = random.choice([
        f"{who} {sent} {day} {aim} after {cause} in {area}.",
        f"After {cause} in {area}, {who.lower()} {sent} on {day} {aim}.",
        f"{upper} struck parts of {area} on {day}, and {who.lower()} {sent} {aim}.",
        f"{upper} hit {where} in {area} on {day}.",
    ])  # fmt: skip
    hurt = random.choice(HURT[harm])
    count = random.choice([number, number, f"at least {number}", f"about {number}"])
    fact = random.choice([
        f"{count} people {hurt} in {where}",
        f"in {where}, {count} people {hurt}",
        f"{count} people {hurt} when the {what} hit {where}",
        f"officials said {count} people {hurt} in {where}",
        f"the {what} hit {where}, where {count} people {hurt}",
    ])  # fmt: skip
    facts = [opening, fact[0].upper() + fact[1:] + "."]
    if what not in f"{opening} {fact}":
        facts.insert(random.choice([1, 2]), f"The {what} came {random.choice(TIMES)}.")
    for sentence in random.sample(ASIDE, random.randint(0, 3)):
        facts.insert(random.randint(1, len(facts)), sentence)
    article = "an" if what[0] in "aeiou" else "a"
    brief = f"{number} people {harm} after {article} {what} in {where}"
    text, brief = " ".join(facts), brief[0].upper() + brief[1:]
    return (text, brief) if random.random() < 0.8 else (text.lower(), brief)


def events(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Different reports with their summaries."""
    random, seen = Random(seed), set[str]()
    while len(seen) < count:
        text, brief = event(random)
        if text not in seen and UNSEEN not in text.lower():
            seen.add(text)
            yield text, brief
