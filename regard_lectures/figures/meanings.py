"""Figure of part 6: contextual embeddings of a word with two meanings, layer by layer.

In the embedding layer a word has one vector, whatever its meaning. After the layers above, each
occurrence has its own: the "model" of machine learning and that of fashion separate. Computed for
a small BERT that is trained for the figure, or for a shipped one or the user's own, on the
sentences below or on the user's.
"""

from __future__ import annotations

import random
import re
from importlib import resources
from typing import Any

import torch

from regard.draw import BLUE, LINE_STYLES, MUTED, ORANGE, TEXT, Chart, LineStyle, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import Encoder, build
from regard_lectures.figures.encoders import SHIPPED, load_encoder
from regard_lectures.figures.senses import Homonym, Sense, flat, look
from regard_lectures.figures.topics import (
    HOMONYMS,
    SENTENCES,
    TOPICS,
    Pretrained,
    pretrain,
    sentence,
)
from regard_lectures.limits import model_line
from regard_lectures.tries import draw_spread, span, spread_of, trainings

SENSE_STYLES = (LineStyle(BLUE, "none", "o"), LineStyle(ORANGE, "none", "^"))
"""Colour and marker of the two meanings."""
OCCURRENCES = 40
"""New sentences per meaning in the artificial language."""
FEWEST = 2
"""The fewest sentences for a meaning."""
MARGIN = 0.1
"""A silhouette of less, or a smaller difference of two, is not called any."""
RARE, COMMON = 0.05, 0.2
"""If more than the first share of all groups are as far apart, the sentences cannot tell; if more
than the second, the meanings do not separate."""


def _read_sentences() -> dict[str, Homonym]:
    """The sentences of `meanings.txt`, by ambiguous word."""
    text = (resources.files("regard_lectures") / "meanings.txt").read_text(encoding="utf-8")
    by_word: dict[str, dict[str, dict[str, list[str]]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            word, meaning, used, sentence = line.split(" | ")
            uses = by_word.setdefault(word, {}).setdefault(meaning, {})
            uses.setdefault(used, []).append(sentence)
    return {
        word: tuple(Sense(name, uses.pop(word), uses) for name, uses in meanings.items())
        for word, meanings in by_word.items()
    }


WRITTEN = _read_sentences()
"""Sentences for models that read English."""


WRITTEN = _read_sentences()
"""Sentences for models that read English."""


def read_own(text: str, word: str) -> tuple[str, Homonym]:
    """A word, and a person's own sentences with it in two meanings.

    Args:
        text: Sentences with the word in one meaning, a slash, and sentences with the other.
        word: The word; if empty, the longest one that is in every sentence.

    Raises:
        InputError: If there are no two groups of two sentences or more, or no word in all.

    Example:
        >>> read_own("The bank pays. A bank lends. / The bank is muddy. We sat on the bank.", "")[0]
        'bank'
    """
    groups = [
        [part.strip() for part in re.split(r"(?<=[.!?;])\s+|\n", side) if part.strip()]
        for side in text.split("/")
    ]
    if len(groups) != 2 or min(map(len, groups)) < FEWEST:
        counts = " and ".join(str(len(group)) for group in groups)
        raise InputError(
            "--text", got=f"{counts} sentences", expected=f"{FEWEST} or more, a slash, and as many",
            fix="such as 'The bank pays. A bank lends. / The bank is muddy. We sat on the bank.'",
        )  # fmt: skip
    words = [set(re.findall(r"[\w'’-]+", part.casefold())) for group in groups for part in group]
    shared = set.intersection(*words)
    if (word.casefold() if word else max(shared, key=len, default="")) not in shared or not shared:
        raise InputError(
            "word", got=repr(word), expected=f"a word of every sentence: {sorted(shared) or 'none'}"
        )
    chosen = word.casefold() or max(sorted(shared), key=len)
    names = ("before the slash", "after the slash")
    return chosen, tuple(Sense(*pair, {}) for pair in zip(names, groups, strict=True))


def measure(
    text: str | None, word: str, model: str, steps: int, tries: int, seed: int
) -> dict[str, Any]:
    """Compute the vectors of words with two meanings, in a BERT trained now or in the user's own.

    Returns:
        What is compared (`said`, `limits`, `senses`), the points of each group of vectors by layer
        (`points`, in two dimensions), and the measures of each word (`numbers`).
    """
    if text is not None or model:
        return _measure_given(text, word, model or SHIPPED, tries, seed)
    word = word or "model"
    _check_word(word, HOMONYMS)
    seeds = range(seed, seed + tries)
    lines: dict[str, list[list[float]]] = {name: [] for name in (*HOMONYMS, "not trained")}
    for one_seed in seeds:
        trained = pretrain(steps, one_seed)
        homonyms = {name: _drawn(name, one_seed) for name in HOMONYMS}
        tokenizer = trained.tokenizer
        seen = {name: look(trained.model, tokenizer, name, homonyms[name]) for name in HOMONYMS}
        before = look(_restored(trained), tokenizer, word, homonyms[word])
        for name, layers_seen in seen.items():
            lines[name].append(layers_seen.silhouettes())
        lines["not trained"].append(before.silhouettes())
        if one_seed == seed:
            shown, said, senses = seen[word], _said(trained, word), homonyms[word]
    limits = (
        f"A small BERT, {steps:,} steps on {SENTENCES:,} artificial sentences, {trainings(tries)}; "
        f"points: seed {seed}."
    )
    return _result(word, senses, shown, lines, said, limits, seed)


def _measure_given(
    text: str | None, word: str, model: str, tries: int, seed: int
) -> dict[str, Any]:
    """The same for a model that is trained already."""
    pipeline = load_encoder(model)
    assert pipeline.vocabulary is not None  # load_encoder refuses others
    encoder, tokenizer = pipeline.model, pipeline.vocabulary.source
    if text is None:
        word = word or "model"
        _check_word(word, WRITTEN)
        homonyms = WRITTEN
    else:
        word, senses = read_own(text, word)
        homonyms = {word: senses}
    seen = {name: look(encoder, tokenizer, name, senses) for name, senses in homonyms.items()}
    fresh = [
        look(_fresh(encoder, one_seed), tokenizer, word, homonyms[word]).silhouettes()
        for one_seed in range(seed, seed + tries)
    ]
    lines = {name: [layers_seen.silhouettes()] for name, layers_seen in seen.items()} | {
        "not trained": fresh
    }
    count = sum(len(sense.sentences) for sense in homonyms[word])
    said = f"{shorten(model, 500, TEXT)}, on {count} English sentences"
    limits = model_line(model if model == SHIPPED else pipeline)
    return _result(word, homonyms[word], seen[word], lines, said, limits, seed)


def _check_word(word: str, known: Any) -> None:
    if word not in known:
        raise InputError(
            "word", got=repr(word), expected=" or ".join(known),
            fix="or sentences of your own: --text 'The bank pays. A bank lends. / The bank is …'",
        )  # fmt: skip


def _result(
    word: str, senses: Homonym, shown: Any, lines: dict[str, Any], said: str, limits: str, seed: int
) -> dict[str, Any]:
    same, between = shown.cosines()
    layers, (splits, chance) = len(same) - 1, shown.by_chance(seed)
    return {
        "said": said,
        "limits": limits,
        "senses": [sense.name for sense in senses],
        "points": {str(layer): flat(shown, layer) for layer in sorted({0, 1, layers})},
        "numbers": {
            "word": word,
            "sentences": [len(sense.sentences) for sense in senses],
            "silhouettes": lines,
            "cosine_same": same,
            "cosine_between": between,
            "towards_their_like": shown.near(),
            "groups_tried": splits,
            "groups_as_far_apart": chance,
        },
    }


def words_meanings(numbers: Numbers) -> Words:
    """Whether the meanings separate, by more than chance and than before training."""
    word, lines = numbers["word"], numbers["silhouettes"]
    last = [line[-1] for line in lines[word]]
    before = [line[-1] for line in lines["not trained"]]
    chance, splits = numbers["groups_as_far_apart"], numbers["groups_tried"]
    if min(last) < MARGIN or chance > COMMON:
        title = f"The vectors of “{word}” do not separate by these meanings"
    elif chance > RARE:
        who = "So few sentences" if 2 / splits > RARE else "These sentences"
        title = f"{who} cannot tell whether “{word}” separates by meaning"
    elif min(last) - max(before) >= MARGIN:
        title = f"After the last layer the vectors of “{word}” separate by meaning"
    else:
        title = f"The vectors of “{word}” separate, but not more than with new weights"
    is_one_vector = min(numbers["cosine_between"][0], numbers["cosine_same"][0]) > 0.999
    vectors = "one vector" if is_one_vector else "several vectors"
    caption = (
        f"The embedding has {vectors} for “{word}”; after the last layer the silhouette of its "
        f"meanings is {span(last, '.2f')} (at most 1), with new weights {span(before, '.2f')}. "
        f"Of {splits} groupings of the sentences {chance:.1%} reach it."
    )
    return Words(title, caption)


def meanings(
    measured: dict[str, Any], word: str, model: str, steps: int, tries: int, seed: int
) -> Drawing:
    """Draw the vectors of a word with two meanings: in the embedding, and after the layers."""
    del word, model, steps, tries  # the result has them
    numbers, (first, second) = measured["numbers"], measured["senses"]
    details = (
        f"{measured['said']}; seed {seed}. After the last layer, the mean cosine of two "
        f"occurrences is {numbers['cosine_same'][-1]:.2f} with the same meaning and "
        f"{numbers['cosine_between'][-1]:.2f} with different meanings. The silhouette compares "
        f"each occurrence's distances within {first} and to {second} (Rousseeuw 1987). Hollow: "
        "related words of each meaning. Each panel shows its own first two principal components. "
        "Layers are counted from 0. Lines: the mean over the seeds, from the least to the largest."
    )
    if numbers["towards_their_like"] is not None:
        like = numbers["towards_their_like"]
        details += f" {like:.0%} are closer to related words of their own meaning."
    points = {int(layer): groups for layer, groups in measured["points"].items()}
    words, widths = words_meanings(numbers), [1] * len(points) + [1.25]
    with Board(words, widths, details, limits=measured["limits"]) as board:
        names = dict(zip((first, second), SENSE_STYLES, strict=True))
        if numbers["towards_their_like"] is not None:
            names["hollow: related words"] = LineStyle(MUTED, "none", "")
        board.legend(names)
        for panel, (layer, groups) in enumerate(points.items()):
            heading = f"after layer {layer - 1}" if layer else "embedding"
            _scatter(board.chart(panel, heading, ticks=6), groups, layer)
        _draw_scores(board, len(points), numbers["silhouettes"])
        return board.drawing(**numbers)


def _drawn(word: str, seed: int) -> Homonym:
    """New sentences of the artificial language with a word, and with other nouns of its topics."""
    dice = random.Random(f"{seed} meanings {word}")

    def draw(topic: str, noun: str, count: int) -> list[str]:
        return [sentence(dice, topic, noun) for _ in range(count)]

    senses = []
    for topic in HOMONYMS[word]:
        others = {noun: draw(topic, noun, 4) for noun in TOPICS[topic].nouns}
        senses.append(Sense(topic, draw(topic, word, OCCURRENCES), others))
    return tuple(senses)


def _said(trained: Pretrained, word: str) -> str:
    size = sum(parameter.numel() for parameter in trained.model.parameters())
    return (
        f"A BERT of {size:,} parameters, trained by masked language modelling on "
        f"{SENTENCES:,} sentences of an artificial language of four topics "
        f"({len(trained.losses)} steps, {trained.right:.0f}% of masked tokens in new sentences "
        f"predicted correctly); {2 * OCCURRENCES} new sentences with “{word}”"
    )


def _fresh(model: Encoder, seed: int) -> Encoder:
    """A model of the same config with new initial weights."""
    torch.manual_seed(seed)
    fresh: Encoder = build(model.config, model.vocab)
    return fresh


def _restored(trained: Pretrained) -> Encoder:
    """The same model with its weights before training."""
    fresh: Encoder = build(trained.model.config, trained.model.vocab)
    fresh.load_state_dict(trained.fresh)
    return fresh


def _scatter(axes: Chart, groups: list[list[list[float]]], layer: int) -> None:
    """Draw both meanings, and the related words as hollow markers."""
    for number in (2, 3):
        style = SENSE_STYLES[number - 2]
        axes.curve(*groups[number], style=style, marker=style.marker, mfc="none", alpha=0.7, ms=7)
    for number in (0, 1):
        style = SENSE_STYLES[number]
        # A larger marker below, so that both are visible where all points coincide.
        size = 13 - 5 * number if layer == 0 else 9
        axes.curve(*groups[number], style=style, marker=style.marker, alpha=0.75, ms=size)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.12)


def _draw_scores(board: Board, panel: int, lines: dict[str, list[list[float]]]) -> None:
    """Draw the silhouette of each word's meanings by layer."""
    axes = board.chart(panel, "silhouette", "after layer", "")
    styles = [*LINE_STYLES[2 : 1 + len(lines)], LineStyle(MUTED, ":", "s")]
    for (name, tries), style in zip(lines.items(), styles, strict=True):
        layers = range(len(tries[0]))
        draw_spread(axes, layers, spread_of(tries), style)
        label = name if name == "not trained" else f"“{shorten(name, 180, TEXT)}”"
        axes.plot(
            [], [], color=style.colour, linestyle=style.dash, marker=style.marker, label=label
        )
    step = 1 + len(layers) // 7
    axes.set_xticks(layers[::step], ["emb.", *map(str, range(len(layers) - 1))][::step])
    axes.set_ylim(min(-0.05, *(min(line) for tries in lines.values() for line in tries)), 1.6)
    axes.set_yticks([0, 0.5, 1])
    axes.draw_legend("upper left")
