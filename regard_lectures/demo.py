"""`regard demo`: a guided tour with the user's own sentences, a pronoun test, and a training.

It needs only the package. It prints explanations on the terminal and writes a folder with an HTML
page, pictures and the trained run. Without a terminal it never waits for input.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from regard import Pipeline, load, setup, train
from regard.data import Splits, grammar, load_splits
from regard.draw import render, write_file
from regard.errors import InputError, Interrupted
from regard.explain import (
    Look,
    Looks,
    Picture,
    Prose,
    Section,
    Table,
    compare,
    draw_moments,
    in_words,
    save_page,
)
from regard.recipes import shipped
from regard.tasks import pronoun_accuracy, score_translations
from regard_lectures.figures.pronouns import Carriers
from regard_lectures.figures.sentences import MODEL, Intervention, intervene

MOMENTS = (20, 100, 300)
"""Training steps at which the alignment is shown, besides the finished model."""
TRANSLATORS = ("small/translate", MODEL)
"""English-German translators, the better one first."""
RARE = "serendipity"
"""A rare word: a vocabulary without sub-words does not know it."""
SCORED = 200
"""Sentences of each held-out set that the demo translates; `regard eval` translates all."""
NAMES = {
    "combinations": "unseen combinations of known words",
    "pronouns": 'unseen nouns and predicates for "it"',
    "natural_gender": 'unseen "her" and "him" for a teacher',
    "long": "longer than 90% of training",
    "unpunctuated": "without their full stop",
}


def run(
    out: Path,
    *,
    quick: bool = False,
    quiet: bool = False,
    threads: int | None = None,
    device: str = "auto",
) -> None:
    """Run the tour and write its folder.

    Args:
        out: The output folder.
        quick: Skip the training.
        quiet: Print nothing.
        threads: The number of threads; None for the default.
        device: The device, as for `load`.
    """
    setup(threads, 0)
    console = Console(quiet=quiet, highlight=False, soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)
    asking = sys.stdin.isatty() and sys.stdout.isatty() and not quiet
    if asking:
        _own_sentence(load(translator(), device=device), console)
    pipeline = load(MODEL, device=device)
    intervention = _one_word(pipeline, console)
    _draw_one_word(intervention, out)
    page = out / "index.html"
    save_page(page, "One word flips the pronoun", _first_act(intervention))
    console.print(f"\n  The page {page} shows it: hover, switch layer and head.")
    if not quick:
        trained, moments = _train(out, console, quiet=quiet, threads=threads, device=device)
        splits = load_splits(trained.recipe.data).splits
        rows = _scores(trained, splits, console)
        samples = _samples(trained, splits, console)
        write_file(out / "alignment.png", render(draw_moments(moments), ".png"))
        sections = [*_first_act(intervention), *_second_act(out, rows, samples)]
        save_page(page, "One word flips the pronoun", sections)
        if asking:
            _own_sentence(trained, console, "Your own sentence, by the model just trained")
    _next(out, intervention, console, trained=not quick)


def translator() -> str:
    """The name of the best shipped translator."""
    return next(name for name in TRANSLATORS if name in shipped())


def _one_word(pipeline: Pipeline, console: Console) -> Intervention:
    """Part one: two sentences that differ in one word, translated by the shipped model."""
    console.rule("One word flips the pronoun", align="left")
    intervention = intervene(pipeline)
    shift, carriers = intervention.shift, intervention.carriers
    for look in intervention.looks:
        console.print(f"  {look.source}\n    → {look.target}")
    console.print(
        f"\n  At “{shift.query}”, {in_words(shift.head)} puts {shift.before[0]:.0%} of its weight "
        f"on animal and {shift.before[1]:.0%} on street\n  when it is tired, {shift.after[0]:.0%} "
        f"on animal and {shift.after[1]:.0%} on street when it is wide."
    )
    console.print(f"\n  Without {_named(carriers.heads)}:")
    for look in intervention.broken:
        console.print(f"    → {look.target}")
    console.print(f"  Without as many others, drawn at random ({_named(carriers.others[0])}):")
    for text in intervention.unharmed:
        console.print(f"    → {text}")
    console.print(
        f"  Of {carriers.pairs} unseen pronouns {carriers.right_before:.1f}% are right; without "
        f"these heads {carriers.right_without:.1f}%, where a guess is right half of the time;\n"
        f"  without others, in {len(carriers.others)} draws, {_range(carriers)}%."
    )
    return intervention


def _range(carriers: Carriers) -> str:
    """The accuracies of the worst and the best random draw of other heads, as text."""
    shares = carriers.right_without_others
    return f"{min(shares):.1f} to {max(shares):.1f}"


def _named(heads: Sequence[str]) -> str:
    return "; ".join(map(in_words, heads))


def _draw_one_word(intervention: Intervention, out: Path) -> None:
    """Draw the head whose weights change most, for both sentences side by side."""
    site, _, head = intervention.shift.head.rpartition(".")
    kind = "alignment" if site.endswith("cross") else "self"
    tired, wide = (replace(look, title="One word flips the pronoun") for look in intervention.looks)
    both = compare(tired, wide, ("… too tired", "… too wide"))
    both.save(out / "one-word.png", kind, site, int(head))


def _first_act(intervention: Intervention) -> list[Section]:
    """The first half of the page: the pronoun test."""
    tired, wide = intervention.looks
    site, _, head = intervention.shift.head.rpartition(".")
    shift, carriers = intervention.shift, intervention.carriers
    word = shift.query.split("/")[0]
    return [
        Prose(
            f"“{tired.source}” becomes “{tired.target}” “{wide.source}” becomes “{wide.target}” "
            "Only one word of the English differs, and the German pronoun flips: what gets tired "
            "is the animal, das Tier, es; what is wide is the street, die Straße, sie.\n\n"
            f"The weights of {in_words(shift.head)} move from one noun to the other. At "
            f"“{shift.query}” it puts "
            f"{shift.before[0]:.0%} of its weight on animal and {shift.before[1]:.0%} on street "
            f"when the animal is tired, {shift.after[0]:.0%} and {shift.after[1]:.0%} when the "
            "street is wide. Switch between the two sentences and see."
        ),
        Looks([("tired", tired), ("wide", wide)], site, int(head), word, "sentence"),
        Prose(
            "An attention map only suggests what a head does; knocking the head out tests it. The "
            f"smallest set found without which a pronoun fails is {_named(carriers.heads)}. "
            "Knocking out as many other heads, drawn at random, changes nothing.",
            "Knock the heads out",
        ),
        Table(
            ["heads knocked out", "tired", "wide", "unseen pronouns right, %"],
            [
                ["none", tired.target, wide.target, round(carriers.right_before, 1)],
                [
                    ", ".join(carriers.heads),
                    intervention.broken[0].target,
                    intervention.broken[1].target,
                    round(carriers.right_without, 1),
                ],
                [
                    ", ".join(carriers.others[0]),
                    *intervention.unharmed,
                    round(carriers.right_without_others[0], 1),
                ],
            ],
            f"The last row is one of {len(carriers.others)} draws; over all of them "
            f"{_range(carriers)}% of the pronouns stay right. A guess is right half of the time.",
        ),
        Looks(
            [
                ("tired, knocked out", intervention.broken[0]),
                ("wide, knocked out", intervention.broken[1]),
            ],
            site,
            int(head),
        ),
    ]


def _train(
    out: Path, console: Console, *, quiet: bool, threads: int | None, device: str
) -> tuple[Pipeline, list[tuple[str, Look]]]:
    """Part two: train the same model from scratch, and show the alignment at several steps."""
    console.rule("The same model, from scratch", align="left")
    folder = out / "run"
    if (folder / "recipe.yaml").is_file() and (folder / "checkpoints").is_dir():
        shutil.rmtree(folder)  # the run of an earlier demo
    pair = grammar.DEMO[1]
    moments: list[tuple[str, Look]] = []

    def watch(step: int, pipeline: Pipeline) -> None:
        if step in MOMENTS:
            moments.append((f"step {step}", pipeline.look(pair.source, target=pair.target)))
            _print_alignment(moments[-1], console)

    began = time.perf_counter()
    try:
        trained = train(MODEL, folder, quiet=quiet, threads=threads, device=device, watch=watch)
    except Interrupted as stop:
        stop.args = (f"{stop.what}\ngo on with: regard train {MODEL} -o {folder} --resume",)
        raise
    moments.append(("trained", trained.look(pair.source, target=pair.target)))
    _print_alignment(moments[-1], console)
    console.print(f"  Trained in {time.perf_counter() - began:.0f} s; it is in {folder}.")
    return trained, moments


SHADES = " ░▒▓█"


def _print_alignment(moment: tuple[str, Look], console: Console) -> None:
    """Print a small map on the terminal: rows are German words, columns English words."""
    name, look = moment
    chosen = look.choose("alignment")
    weights, keys = chosen.map.matrix(chosen.head), chosen.map.keys
    console.print(f"\n  {name}: weights of each German word ({chosen.name})", markup=False)
    wide = max(map(len, chosen.map.queries))
    console.print(" " * (wide + 4) + " ".join(key[:5].ljust(5) for key in keys), markup=False)
    for word, row in zip(chosen.map.queries, weights, strict=True):
        cells = (SHADES[min(4, int(weight * 5))] * 5 for weight in row)
        console.print(f"  {word:>{wide}}  " + " ".join(cells), markup=False)


def _scores(
    trained: Pipeline, splits: Splits, console: Console
) -> list[tuple[str, float, float, float, str]]:
    """Part three: scores on held-out sentences, beside a word-for-word translation."""
    console.rule("Sentences it has never seen", align="left")
    console.print(f"  {'':<38}{'BLEU':>7}{'exact':>8}{'pronouns':>10}{'word for word':>16}")
    rows = []
    for name, pairs in splits.tests.items():
        chosen = pairs[:SCORED]
        evaluation = trained.evaluate(chosen)
        scores = evaluation.scores
        plain = [grammar.translate_words(pair.source) for pair in chosen]
        baseline = score_translations(plain, [pair.target for pair in chosen]).bleu
        right = pronoun_accuracy(chosen, evaluation.hypotheses)
        shown = "" if right is None else f"{right:.0f}%"
        rows.append((NAMES[name], scores.bleu, scores.exact, baseline, shown))
        console.print(
            f"  {NAMES[name]:<38}{scores.bleu:>7.1f}{scores.exact:>7.0f}%{shown:>10}"
            f"{baseline:>11.1f} BLEU"
        )
    return rows


def _samples(trained: Pipeline, splits: Splits, console: Console) -> list[tuple[str, str, str]]:
    """Print a few held-out translations with their references."""
    chosen = [pairs[i] for pairs in splits.tests.values() for i in (0, 1)]
    samples = []
    for pair in chosen:
        text = trained.translate(pair.source, allow_unknown=True)
        samples.append((pair.source, text, pair.target))
        mark = "=" if text == pair.target else "reference: " + pair.target
        console.print(f"\n  {pair.source}\n    → {text}\n      {mark}", markup=False)
    return samples


def _second_act(
    out: Path,
    rows: Sequence[tuple[str, float, float, float, str]],
    samples: Sequence[tuple[str, str, str]],
) -> list[Section]:
    """The second half of the page: training and scores."""
    table = [[name, round(bleu, 1), round(exact), right, round(base, 1)]
             for name, bleu, exact, base, right in rows]  # fmt: skip
    return [
        Prose(
            "The same model trained from nothing on this machine: the alignment of one sentence "
            "at a few moments, and the loss.",
            "From scratch",
        ),
        Picture((out / "alignment.png").read_bytes(), "The alignment as it forms"),
        Picture((out / "run" / "loss.png").read_bytes(), "Loss while training"),
        Prose("None of these sentences was in training.", "Sentences it has never seen"),
        Table(["held out", "BLEU", "exact, %", "pronouns right", "word for word, BLEU"], table),
        Table(["source", "translation", "reference"], samples),
    ]


def _own_sentence(pipeline: Pipeline, console: Console, title: str = "Your own sentence") -> None:
    """Translate sentences that the user types, until an empty line."""
    console.rule(title, align="left")
    tokenizer = pipeline.vocabulary.source
    words = " from the words it knows" if tokenizer.unknown_words(RARE) else ""
    console.print(f"  An English sentence{words}, or Enter to go on. For instance:")
    console.print("  The old woman opened the door because she heard a dog.")
    for text in _typed():
        if unknown := tokenizer.unknown_words(text):
            known = f"  It does not know: {', '.join(unknown)}. Try other words."
            console.print(known, markup=False)
            continue
        try:
            console.print(f"    → {pipeline.translate(text)}", markup=False)
        except InputError as error:
            console.print(f"  {error}", markup=False)


def _typed() -> Iterator[str]:
    """The lines that the user types, up to an empty line or the end of input."""
    while True:
        try:
            text = input("  > ").strip()
        except (EOFError, KeyboardInterrupt, UnicodeDecodeError):
            return
        if not text:
            return
        yield text


def _next(out: Path, intervention: Intervention, console: Console, *, trained: bool) -> None:
    """Print commands to try next."""
    model_name = out / "run" if trained else Path(MODEL)
    wide = grammar.DEMO[1].source
    console.rule("What next", align="left")
    regard = _command()
    for command in (
        f'translate {model_name} "The old dog didn\'t see the cat." --n-best 3',
        f'look {model_name} "{wide}" --word it -o it.html',
        f'look {MODEL} "{wide}" --knock-out {intervention.carriers.heads[0]} -o without.png',
        f"heads {MODEL}",
        f"eval {model_name}",
        "show",
        "recipe tiny/translate",
        f"compare tiny/compare -o {out / 'compare'}",
    ):
        console.print(f"  {regard} {command}", markup=False)


def _command() -> str:
    """How to call the program: `regard` if it is on the PATH, else as it was called."""
    if shutil.which("regard"):
        return "regard"
    called = Path(sys.argv[0])
    return str(called) if called.name == "regard" else f"{sys.executable} -m regard"
