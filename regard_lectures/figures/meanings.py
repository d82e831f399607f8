"""Figure of part 6: contextual embeddings of a word with two meanings, layer by layer.

In the embedding layer a word has one vector, whatever its meaning. After the layers above, each
occurrence has its own: the "model" of machine learning and that of fashion separate. Computed for
a small BERT that is trained for the figure, or for the user's own BERT on the sentences below.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import load
from regard.draw import BLUE, LINE_STYLES, MUTED, ORANGE, Chart, LineStyle
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers
from regard.inputs import Tokenizer
from regard.models import Encoder, build
from regard_lectures.figures.contexts import layer_vectors
from regard_lectures.figures.topics import (
    HOMONYMS,
    SENTENCES,
    TOPICS,
    Pretrained,
    pretrain,
    sentence,
)

SENSE_STYLES = (LineStyle(BLUE, "none", "o"), LineStyle(ORANGE, "none", "^"))
"""Colour and marker of the two meanings."""
OCCURRENCES = 40
"""New sentences per meaning in the artificial language."""


@dataclass(frozen=True)
class Sense:
    """One meaning of a word."""

    name: str
    sentences: Sequence[str]
    """Sentences with the word in this meaning."""
    others: Mapping[str, Sequence[str]]
    """Related unambiguous words, each with sentences that contain it."""


Homonym = tuple[Sense, ...]


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


@dataclass(frozen=True, eq=False)
class Seen:
    """The vectors of a word in both meanings, before the first layer and after each layer."""

    vectors: tuple[Tensor, Tensor]
    """For each meaning (layers + 1, occurrences, dim)."""
    others: tuple[Tensor, Tensor]
    """For each meaning, the vectors of related words (layers + 1, occurrences, dim)."""

    def silhouettes(self) -> list[float]:
        """The silhouette of the two meanings, before the first layer and after each layer."""
        return [silhouette(first, second) for first, second in zip(*self.vectors, strict=True)]

    def cosines(self) -> tuple[list[float], list[float]]:
        """The mean cosine of two occurrences with the same meaning and with different meanings."""
        first, second = (F.normalize(vectors, dim=-1) for vectors in self.vectors)
        same = [(_pairs(a) + _pairs(b)) / 2 for a, b in zip(first, second, strict=True)]
        between = (first @ second.transpose(1, 2)).mean((1, 2))
        return same, between.tolist()

    def near(self) -> float:
        """The share of occurrences whose last-layer vector points to related words of its meaning.

        Vectors are taken relative to the mean of all occurrences, which removes the word itself.
        """
        groups = [F.normalize(vectors[-1], dim=-1) for vectors in self.vectors]
        means = [F.normalize(vectors[-1], dim=-1).mean(0) for vectors in self.others]
        middle = (groups[0].mean(0) + groups[1].mean(0)) / 2
        right = [
            (vectors - middle) @ (means[number] - means[1 - number]) > 0
            for number, vectors in enumerate(groups)
        ]
        return float(torch.cat(right).float().mean())


def measure(word: str, model: str, steps: int, seed: int) -> dict[str, Any]:
    """Compute the vectors of words with two meanings, in a BERT trained now or in the user's own.

    Returns:
        What is compared (`said`, `layers`, `senses`), the points of each group of vectors by layer
        (`points`, in two dimensions), and the measures of each word (`numbers`).
    """
    if model:
        encoder, tokenizer, homonyms = *_load_encoder(model), WRITTEN
        count = sum(len(sense.sentences) for sense in WRITTEN[word])
        fresh, said = _fresh(encoder, seed), f"{model}, on {count} English sentences"
    else:
        trained = pretrain(steps, seed)
        encoder, tokenizer = trained.model, trained.tokenizer
        homonyms = {name: _drawn(name, seed) for name in HOMONYMS}
        fresh, said = _restored(trained), _said(trained, word)
    seen = {name: _look(encoder, tokenizer, name, senses) for name, senses in homonyms.items()}
    before = _look(fresh, tokenizer, word, homonyms[word])
    layers = encoder.config.layers
    return {
        "said": said,
        "layers": layers,
        "senses": [sense.name for sense in homonyms[word]],
        "points": {str(layer): _flat(seen[word], layer) for layer in sorted({0, 1, layers})},
        "numbers": _numbers(seen, word, before),
    }


def meanings(measured: dict[str, Any], word: str, model: str, steps: int, seed: int) -> Drawing:
    """Draw the vectors of a word with two meanings: in the embedding, and after the layers."""
    del model, steps  # `said` has them
    numbers, (first, second) = measured["numbers"], measured["senses"]
    scores = {name: numbers[f"silhouette_{name}"] for name in HOMONYMS}
    before = numbers["silhouette_not_trained"]
    caption = (
        f"The embedding has one vector for “{word}”; after the layers each occurrence has its own, "
        f"and the silhouette of the two meanings is {scores[word][-1]:.2f} (at most 1)."
    )
    details = (
        f"{measured['said']}; seed {seed}. After the last layer, the mean cosine of two "
        f"occurrences is {numbers[f'cosine_same_{word}'][-1]:.2f} with the same meaning and "
        f"{numbers[f'cosine_between_{word}'][-1]:.2f} with different meanings. The "
        f"silhouette of {first} and {second} (1: two distant points, 0: one cloud) is "
        f"{scores[word][0]:.2f} in the embedding, {scores[word][-1]:.2f} after the last layer, and "
        f"{before[-1]:.2f} there with the weights before training. Hollow: related words of each "
        f"meaning; {numbers[f'towards_their_like_{word}']:.0%} of the occurrences are closer to "
        "those of their own meaning. Each panel shows its own first two principal components."
    )
    points = {int(layer): groups for layer, groups in measured["points"].items()}
    title = f"Contextual embeddings separate the meanings of “{word}”"
    with Board(caption, [1] * len(points) + [1.25], details, title) as board:
        board.legend(dict(zip((first, second), SENSE_STYLES, strict=True)))
        for panel, (layer, groups) in enumerate(points.items()):
            axes = board.chart(panel, f"after layer {layer}" if layer else "embedding", ticks=6)
            _scatter(axes, groups, layer)
        _draw_scores(board, len(points), scores, before)
        return board.drawing(**numbers)


def silhouette(first: Tensor, second: Tensor) -> float:
    """The silhouette of two clusters (Rousseeuw 1987): the mean of (b - a) / max(a, b).

    For each point, a is the mean distance to its own cluster and b that to the other; distances
    are 1 - cosine. Both clusters are (points, dim).

    Example:
        >>> east, north = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[0.0, 1.0]] * 2)
        >>> silhouette(east, north), silhouette(east, east)
        (1.0, 0.0)
    """
    points = F.normalize(torch.cat([first, second]).double(), dim=-1)
    apart = (1 - points @ points.T).clamp(min=0)  # (point, point)
    kind = torch.arange(len(points)) >= len(first)
    same_cluster = kind[:, None] == kind
    mates = same_cluster.sum(1) - 1  # without the point itself
    a = (apart * same_cluster).sum(1) / mates.clamp(min=1)
    b = (apart * ~same_cluster).sum(1) / (~same_cluster).sum(1)
    most = torch.maximum(a, b)
    same = most < 1e-9  # all points coincide: the silhouette is 0
    return float(torch.where(same, torch.zeros_like(a), (b - a) / most.clamp(min=1e-9)).mean())


def _pairs(vectors: Tensor) -> float:
    """The mean cosine of two different unit vectors of (occurrences, dim)."""
    count = len(vectors)
    return float(((vectors @ vectors.T).sum() - count) / max(1, count * (count - 1)))


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


def _load_encoder(folder: str) -> tuple[Encoder, Tokenizer]:
    """The user's own encoder and its tokenizer.

    Raises:
        InputError: If the model is not an encoder with a tokenizer.
    """
    pipeline = load(folder, device="cpu")
    tokenizer = None if pipeline.vocabulary is None else pipeline.vocabulary.source
    if "decoder" in pipeline.model.config.sides or tokenizer is None:
        raise InputError(
            "model", got=f"{folder}, a {pipeline.model.config.family}", expected="a BERT's folder"
        )
    return pipeline.model, tokenizer


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


def _look(model: Encoder, tokenizer: Tokenizer, word: str, senses: Homonym) -> Seen:
    vectors = [_vectors(model, tokenizer, word, sense.sentences) for sense in senses]
    others = [
        torch.cat(
            [_vectors(model, tokenizer, other, texts) for other, texts in sense.others.items()], 1
        )
        for sense in senses
    ]
    return Seen((vectors[0], vectors[1]), (others[0], others[1]))


def _vectors(model: Encoder, tokenizer: Tokenizer, word: str, sentences: Sequence[str]) -> Tensor:
    """The vectors of a word in each sentence: (layers + 1, sentences, dim).

    The first is the embedding vector without positions, the others are the layers' outputs. For a
    word of several sub-words it is their mean.
    """
    max_length = model.config.max_length - len(tokenizer.template([]))
    read = [tokenizer.template(tokenizer.encode(text)[:max_length]) for text in sentences]
    means = [
        vectors[:, _positions_of(tokenizer, ids, word)].mean(1)
        for ids, vectors in zip(read, layer_vectors(model, read), strict=True)
    ]
    return torch.stack(means, dim=1)


def _positions_of(tokenizer: Tokenizer, ids: list[int], word: str) -> list[int]:
    """The positions of the sub-words of a word.

    Raises:
        InputError: If the word is not among the words of the text.
    """
    words, index = tokenizer.words(ids)
    folded = [name.strip().casefold() for name in words]
    if word not in folded:
        raise InputError(
            "the model's tokenizer", got=" ".join(folded), expected=f"“{word}” as one of the words"
        )
    return [position for position, at in enumerate(index) if at == folded.index(word)]


def _flat(seen: Seen, layer: int) -> list[list[list[float]]]:
    """Vectors of a layer on the first two principal components of all.

    Returns:
        For both meanings of the word, then for the related words of both: x and y of each vector.
    """
    groups = [F.normalize(vectors[layer], dim=-1) for vectors in (*seen.vectors, *seen.others)]
    together = torch.cat(groups)
    centre = together.mean(0)
    _, _, across = torch.linalg.svd(together - centre, full_matrices=False)
    flat = [(group - centre) @ across[:2].T for group in groups]  # (occurrences, 2)
    if flat[0][:, 0].mean() > flat[1][:, 0].mean():  # the sign of an axis is arbitrary
        flat = [points * torch.tensor([-1.0, 1.0]) for points in flat]
    return [points.T.tolist() for points in flat]


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


def _draw_scores(
    board: Board, panel: int, scores: dict[str, list[float]], before: list[float]
) -> None:
    """Draw the silhouette of each word's meanings by layer."""
    axes = board.chart(panel, "silhouette", "after layer", "")
    for (name, line), style in zip(scores.items(), LINE_STYLES[2:4], strict=True):
        axes.curve(line, style=style, marker="D", label=f"“{name}”")
    axes.plot(before, color=MUTED, linestyle=":", marker="s", linewidth=1.8, label="not trained")
    axes.set_xticks(range(len(before)))
    axes.set_ylim(min(-0.05, *before), 1.6)
    axes.draw_legend("upper left")


def _numbers(seen: dict[str, Seen], word: str, before: Seen) -> Numbers:
    numbers: Numbers = {"silhouette_not_trained": before.silhouettes()}
    for name, vectors in seen.items():
        same, between = vectors.cosines()
        numbers |= {
            f"silhouette_{name}": vectors.silhouettes(),
            f"cosine_same_{name}": same,
            f"cosine_between_{name}": between,
            f"towards_their_like_{name}": vectors.near(),
        }
    return {"word": word, **numbers}
