"""The figure `question` for a translator of the grammar, `model=`.

Of all heads in the translator's encoder, we take the one with the largest mean weight from nouns to
the adjective before them, over sentences of the grammar. Each head is knocked out, one at a time,
and the German adjectives with a wrong ending are counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair, grammar
from regard.draw import BLUE, ORANGE, Chart, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Words, in_words
from regard.inputs import Ragged
from regard.layers import Tap, knock_out, split_head
from regard.models import evaluating
from regard_lectures.limits import model_line
from regard_lectures.own_words import MARK

ENDINGS = ("e", "en", "er", "es", "em")
"""The endings of a German adjective before a noun."""
TEXT = "The old dog saw a small cat."
USABLE = 40.0
"""The percentage of wrong endings up to which a translator's heads can be judged."""
UNKNOWN = "<unk>"
"""How a model reads a word that it does not know."""
MOST_WORDS, MOST_HEADS = 10, 12
"""The most words and heads in the picture."""
_STEMS = {
    adjective.english: adjective.stem for adjective in grammar.ADJECTIVES if adjective.attributive
}
_NOUNS = {word for noun in grammar.NOUNS for word in (noun.english, noun.english_plural)}
_WORDS = re.compile(r"[\w-]+|[^\w\s]")


@dataclass(frozen=True)
class Asked:
    """A sentence with an adjective before a noun, and the ending that it gets in German."""

    source: str
    noun: int
    """The index of the noun among the words of the source; the adjective is the word before."""
    before: str
    """The German words before the adjective."""
    stem: str
    ending: str

    def forms(self) -> list[str]:
        """The translation up to the adjective, with each ending."""
        return [f"{self.before} {self.stem}{ending}".strip() for ending in ENDINGS]


def asked_of(pair: Pair) -> Asked | None:
    """The adjective of a pair; None unless both sides have exactly one before a noun."""
    words = _WORDS.findall(pair.source)
    nouns = [
        index
        for index in range(1, len(words))
        if words[index] in _NOUNS and words[index - 1].lower() in _STEMS
    ]
    if len(nouns) != 1:
        return None
    stem = _STEMS[words[nouns[0] - 1].lower()]
    forms = rf"(.*)\b({stem})({'|'.join(ENDINGS)}) (?=[A-ZÄÖÜ])"
    matches = re.findall(forms, pair.target)
    if len(matches) != 1:
        return None
    before, _, ending = matches[0]
    return Asked(pair.source, nouns[0], before.strip(), stem, ending)


def measure_translator(text: str | None, model: str, pairs: int, seed: int) -> dict[str, Any]:
    """Measure the weights from nouns to adjectives, and the endings that fail without each head.

    Args:
        text: A sentence, whose weights in the head found are drawn.
        model: A translator from English to German.
        pairs: The number of sentences with an adjective.
        seed: The seed of the sentences.
    """
    pipeline = load(model, device="cpu")
    pipeline.translator()
    heads = [head for head in pipeline.model.heads() if head.startswith("encoder.")]
    if not heads:
        expected = "a model with self-attention in its encoder"
        raise InputError("model", got=model, expected=expected)
    asked = _sentences(pipeline, pairs, seed)
    looks, previous = noun_to_adjective(pipeline, asked, heads)
    batch = _forms(pipeline, asked)
    right = torch.tensor([ENDINGS.index(question.ending) for question in asked])
    without = {head: _effect(pipeline, batch, right, head) for head in ("none", *heads)}
    best_head = max(looks, key=looks.__getitem__)
    shown = TEXT if text is None else text
    look = pipeline.look(shown, beam=1, allow_unknown=True)
    seen = look.site(split_head(best_head)[0])
    return {
        "model": pipeline.name,
        "limits": model_line(pipeline),
        "text": shown,
        "unknown": pipeline.vocabulary.source.unknown_words(shown),
        "head": best_head,
        "sentences": len(asked),
        "weight": looks,
        "weight_on_token_before": previous,
        "without": {head: asdict(effect) for head, effect in without.items()},
        "queries": list(seen.queries),
        "keys": list(seen.keys),
        "map": seen.weights[split_head(best_head)[1]].tolist(),  # (query, key)
    }


def _sentences(pipeline: Pipeline, count: int, seed: int) -> list[Asked]:
    """Sentences of the grammar with one adjective, of words that the model knows.

    Raises:
        InputError: If the model does not know the words of the grammar.
    """
    questions = []
    unknown = pipeline.vocabulary.source.unknown_words
    for pair in grammar.sample(40 * count, seed):
        question = asked_of(pair)
        if question is not None and not unknown(pair.source):
            questions.append(question)
        if len(questions) == count:
            return questions
    raise InputError(
        f"show question: {pipeline.name}",
        got=f"a model that knows {len(questions)} of the sentences",
        expected=f"one trained on the grammar, which knows {count}",
    )


def _tokens(pipeline: Pipeline, question: Asked) -> tuple[list[int], list[int], list[int]]:
    """The ids of a source, and the positions of the tokens of the noun and of the adjective."""
    tokenizer = pipeline.vocabulary.source
    ids = tokenizer.template(tokenizer.encode(question.source))
    words, index = tokenizer.words(ids)
    wanted = _WORDS.findall(question.source)[question.noun - 1 : question.noun + 1]
    stripped = [word.strip() for word in words]
    start = next(at for at in range(len(words) - 1) if stripped[at : at + 2] == wanted)
    adjective, noun = ([p for p, at in enumerate(index) if at == start + n] for n in (0, 1))
    return ids, noun, adjective


def noun_to_adjective(
    pipeline: Pipeline, asked: Sequence[Asked], heads: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """The mean weight of each head from nouns to their adjectives, and to the token before.

    If a word has several tokens: the sum over the adjective's, the mean over the noun's.

    Returns:
        By head: the mean over the sentences, and for comparison the mean weight of all tokens but
        the first on the token before.
    """
    read = [_tokens(pipeline, question) for question in asked]
    tap = Tap("encoder.*.self.weights")
    with evaluating(pipeline.model):
        pipeline.model.encode(Ragged.of([ids for ids, _, _ in read]), tap)
    weights_to_adjective, previous = {}, {}
    for head in heads:
        layer, number = split_head(head)
        weights = tap.records[f"{layer}.weights"][:, number]  # (batch, query, key)
        means = [
            float(weights[row][noun][:, adjective].sum(-1).mean())
            for row, (_, noun, adjective) in enumerate(read)
        ]
        weights_to_adjective[head] = sum(means) / len(means)
        steps = [weights[row].diagonal(-1)[: len(ids) - 1] for row, (ids, _, _) in enumerate(read)]
        previous[head] = float(torch.cat(steps).mean())
    return weights_to_adjective, previous


def _forms(pipeline: Pipeline, asked: Sequence[Asked]) -> Any:
    """A batch of all sentences, each with the five forms of its adjective."""
    pairs = [Pair(question.source, form) for question in asked for form in question.forms()]
    return pipeline.translator().encode(pairs).batch(range(len(pairs)))


def form_scores(pipeline: Pipeline, batch: Any, without: str) -> Tensor:
    """log p of each form after the same words, up to a constant of the sentence: (pairs, 5)."""
    edits = [] if without == "none" else [knock_out(without)]
    with evaluating(pipeline.model):
        logits = pipeline.model(*batch.sides, Tap(edits=edits))  # (target tokens, vocab)
    token_scores = logits.log_softmax(-1).gather(1, batch.targets.ids[:, None])[:, 0]
    parts = token_scores.split(list(batch.targets.lengths))
    # The last token is the end symbol, which does not belong to the form.
    return torch.stack([part[:-1].sum() for part in parts]).view(-1, len(ENDINGS))


@dataclass(frozen=True)
class Effect:
    """How well the endings are predicted without a head."""

    failed: float
    """The percentage of adjectives for which another ending is more probable than the right one."""
    margin: float
    """log p(right ending) - log p(best other ending), the mean of all sentences."""


def _effect(pipeline: Pipeline, batch: Any, right: Tensor, without: str) -> Effect:
    scores = form_scores(pipeline, batch, without)  # (pairs, 5)
    of_right = scores.gather(1, right[:, None])[:, 0]
    best_other = scores.scatter(1, right[:, None], float("-inf")).amax(1)
    margin = of_right - best_other
    return Effect(100 * float((margin < 0).float().mean()), float(margin.mean()))


def stands_out(larger: float, smaller: float, count: int) -> bool:
    """Whether one percentage of a count is larger than another by more than two deviations.

    Example:
        >>> stands_out(10, 2, 100), stands_out(3, 2, 100)
        (True, False)
    """
    first, second = (share * count / 100 for share in (larger, smaller))
    return first - second > 2 * (first + second) ** 0.5


def words_translator(numbers: Mapping[str, Any]) -> Words:
    """Whether more endings fail without the head that looks from nouns to adjectives."""
    name, count, failed = numbers["model"], numbers["sentences"], numbers["failed_without"]
    whole, most = numbers["failed_with_all"], numbers["most_failed_of_others"]
    head = in_words(numbers["head"])
    if whole > USABLE:
        title = f"{name} gets {whole:.0f}% of German endings wrong: its heads cannot be judged"
    elif numbers["stands_out"]:
        title = f"{name}: endings fail without the head that looks from nouns to adjectives"
    else:
        title = f"{name}: no single head that looks from nouns to adjectives is needed"
    verdict = "clearly more" if numbers["stands_out"] else "not clearly more"
    caption = (
        f"{head[0].upper()}{head[1:]} attends most from nouns to adjectives (weight "
        f"{max(numbers['weight']):.2f}). Of {count} German endings {failed:.1f}% are wrong without "
        f"it, with all heads {whole:.1f}%: {verdict} than without any other (at most {most:.1f}%)."
    )
    if numbers["unknown"]:
        caption += f" {MARK} unknown to the model: {', '.join(numbers['unknown'])}."
    return Words(title, caption)


def draw_translator(measured: dict[str, Any], seed: int) -> Drawing:
    """Draw the weights from nouns to adjectives, and the endings that fail without each head."""
    numbers = _numbers_of(measured)
    heads, best_head = numbers["heads"], numbers["head"]
    lost, failed = numbers["margin_lost"], numbers["failed"]
    most = heads[lost.index(max(lost))]
    previous = numbers["weight_on_token_before"][heads.index(best_head)]
    details = (
        f"{numbers['model']}, {numbers['sentences']} sentences of a small grammar with one "
        f"adjective, seed {seed}. Weight: from a noun to the adjective before it, the mean of all "
        f"sentences; most in {in_words(best_head)}, which puts {previous:.2f} on the token before, "
        "averaged over all tokens. A German adjective has one of five endings; given the source "
        "and the German words before it, it fails if another is more probable than the right one. "
        "Bars on the right: how much of log p(right) − log p(best other), "
        f"{numbers['margin_with_all']:.1f} with all heads, is lost without a head, and the share "
        f"that fails; most is lost without {in_words(most)}. A map suggests what a head does; only "
        "removing the head tests that."
    )
    # the heads with the largest weight, and the one without which most endings fail
    order = sorted(range(len(heads)), key=lambda index: -numbers["weight"][index])
    others = [index for index in order if heads[index] != best_head]
    worst = max(others, key=failed.__getitem__, default=order[0])
    chosen = sorted({*order[: MOST_HEADS - 1], worst})
    part = "" if len(chosen) == len(heads) else f": {len(chosen)} of {len(heads)}"
    short = [heads[index].removeprefix("encoder.").replace("self.", "") for index in chosen]
    words = words_translator(numbers)
    with Board(words, (1.1, 1, 1), details, limits=measured["limits"]) as board:
        _draw_map(board, numbers)
        colours = [ORANGE if heads[index] == best_head else BLUE for index in chosen]
        values = [numbers["weight"][index] for index in chosen]
        axes = board.chart(1, "weight", "", f"noun to adjective{part}", ticks=48)
        draw_bars(axes, short, values, [f"{value:.2f}" for value in values], colours)
        values = [lost[index] for index in chosen]
        rounded = [round(value, 2) + 0.0 for value in values]  # + 0.0: no -0.00
        said = [
            f"{value:.2f} ({failed[index]:.1f}%)".replace("-", "−")
            for value, index in zip(rounded, chosen, strict=True)
        ]
        axes = board.chart(2, "without the head", "", "log-odds lost (wrong)", ticks=48)
        draw_bars(axes, short, values, said, colours)
        return board.drawing(**numbers)


def _numbers_of(measured: Mapping[str, Any]) -> dict[str, Any]:
    """What the picture shows and its words say."""
    best_head, count, looks = measured["head"], measured["sentences"], measured["weight"]
    without = {head: Effect(**effect) for head, effect in measured["without"].items()}
    whole = without["none"]
    failed = {head: without[head].failed for head in looks}
    most = max((share for head, share in failed.items() if head != best_head), default=0.0)
    return {
        **{key: measured[key] for key in ("model", "text", "unknown", "head", "sentences")},
        **{key: measured[key] for key in ("queries", "keys", "map")},
        "stands_out": stands_out(failed[best_head], max(most, whole.failed), count),
        "heads": list(looks),
        "weight": list(looks.values()),
        "weight_on_token_before": list(measured["weight_on_token_before"].values()),
        "failed": list(failed.values()),
        "failed_without": failed[best_head],
        "most_failed_of_others": most,
        "margin_lost": [whole.margin - without[head].margin for head in looks],
        "failed_with_all": whole.failed,
        "margin_with_all": whole.margin,
    }


def _draw_map(board: Board, numbers: Mapping[str, Any]) -> None:
    """Draw the map of the head found, of the first words of the sentence, without its marks."""
    words = numbers["keys"]
    of_words = [index for index, word in enumerate(words) if any(map(str.isalnum, word))]
    chosen = of_words[:MOST_WORDS]
    marked = _marked(words, numbers["unknown"])
    named = [marked[index] for index in chosen]
    table = [[numbers["map"][query][key] for key in chosen] for query in chosen]
    left_out = len(of_words) - len(chosen)
    key = f"key: {len(chosen)} of {len(of_words)} words" if left_out else "key"
    board.matrix(
        0, in_words(numbers["head"]), table, positive_scale(), (named, named), ("query", key)
    )


def _marked(words: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """The words that a model read; those that it does not know are named, and marked.

    Example:
        >>> _marked(["The", "<unk>", "sleeps"], ["emu"])
        ['The', 'emu*', 'sleeps']
    """
    count = sum(word == UNKNOWN for word in words)
    names = iter(unknown if len(unknown) == count else [UNKNOWN] * count)
    return [next(names) + MARK if word == UNKNOWN else word for word in words]


def draw_bars(
    axes: Chart, names: list[str], values: list[float], said: list[str], colours: list[str]
) -> None:
    """Draw a bar for each head, with its number beside it."""
    low, high = min(0.0, *values), max(values)
    axes.barh(range(len(values)), values, 0.65, color=colours)
    for row, (value, text) in enumerate(zip(values, said, strict=True)):
        axes.write((max(value, 0) + 0.02 * (high - low), row), text, va="center")
    axes.set(xlim=(1.1 * low, high + 0.8 * (high - low or 1)), ylim=(len(values) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), names)
    axes.grid(visible=False, axis="y")
