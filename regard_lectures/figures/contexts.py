"""Figure of part 5: one word's vector from layer to layer, described by what is near it.

Before the first layer a word has the vector of the embedding matrix, the same in every sentence.
Each layer adds what the word gathers from its context. Input: a text, one of its words, a model,
and a bank of other sentences. At each layer the word's vector is compared by cosine with the
vectors of all words of the bank at that layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Pipeline, load
from regard.draw import LINE_STYLES, SMALLEST, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.inputs import Ragged, Tokenizer
from regard.layers import Tap
from regard.models import evaluating
from regard.recipes import shipped

TEXT, WORD = "The King doth wake tonight and takes his rouse", "King"
MODELS = ("small/fill", "small/translate", "tiny/translate")
"""Models to read the text with: the first that is on the shelf."""
SENTENCES = Path(__file__).parents[1] / "contexts.txt"
NEAREST = 3


@dataclass(frozen=True, eq=False)
class Read:
    """A text as a model reads it: its words, and the vectors of each at every layer."""

    words: list[str]
    vectors: Tensor
    """(layers + 1, words, dim) The embedding without positions, then what leaves each block; the
    mean over the tokens of a word."""

    def shown(self, word: int) -> str:
        """The text with a word in brackets."""
        return " ".join(f"[{w}]" if n == word else w for n, w in enumerate(self.words))


@dataclass(frozen=True)
class Near:
    """A word of the bank, and the cosine of its vector with that of the word in question."""

    cosine: float
    word: str
    sentence: str


def layers(text: str | None, word: str, model: str, bank: str) -> Drawing:
    """Draw the words of other sentences that are nearest to a word, layer by layer.

    Args:
        text: The text.
        word: The word; by default the last one, and King in the lecture's line.
        model: A model that reads text; by default one that is shipped.
        bank: A file of sentences, one on each line.
    """
    name = model or next(candidate for candidate in MODELS if candidate in shipped())
    pipeline = load(name, device="cpu")
    sentences = _sentences(bank)
    asked_for = word or (WORD if text is None else "")
    sentence = _in_fewest_tokens(pipeline, TEXT if text is None else text, asked_for)
    query, *others = read(pipeline, [sentence, *sentences])
    index = _index_of(query, asked_for)
    asked = query.words[index]
    near = [nearest(query, index, others, layer) for layer in range(len(query.vectors))]
    lines = _lines(query, index, others)
    to_itself = lines["its embedding"]
    size = f"{pipeline.parameters / 1e6:.1f} million parameters"
    unlike = [nearest(query, index, others, layer, other=True) for layer in range(len(near))]
    first, last = near[0][0], near[-1][0]
    caption = (
        f"Layer by layer “{asked}” takes on its context: the cosine with its plain embedding falls "
        f"to {to_itself[-1]:.2f}, and at the top it is nearest to “{last.sentence}”."
    )
    details = (
        f"{name}, {size}: “{query.shown(index)}”. The vector of the word before the first layer "
        "(without its position) and after each layer, beside those of all "
        f"{sum(len(text.words) for text in others)} words of {len(others)} sentences at the same "
        f"layer. In the embedding a word is the same everywhere: the nearest is “{first.word}” "
        f"with {first.cosine:.2f}. Curves: cosine with its embedding; with the same word in the "
        "other sentences, on average; with all other words, on average: vectors of a model often "
        "point in similar directions, so compare with that. A word of several tokens is their mean."
    )
    shown = sorted({0, len(near) // 3, 2 * len(near) // 3, len(near) - 1})
    title = f"“{asked}” from layer to layer: what is near it"
    with Board(caption, (1.75, 1), details, title) as board:
        width = board.panel_box(0)[2]
        rows: list[list[str]] = []
        for layer in shown:
            rows.append([f"after layer {layer}" if layer else "in the embedding"])
            said = [f"{neighbour.cosine:.2f}  {neighbour.sentence}" for neighbour in near[layer]]
            words = ", ".join(
                f"{neighbour.word} {neighbour.cosine:.2f}" for neighbour in unlike[layer]
            )
            said.append(f"other words: {words}")
            rows.extend([shorten(line, width, SMALLEST + 1)] for line in said)
        bold = range(0, len(rows), len(rows) // len(shown))
        board.table(0, "", [("nearest words, in their sentences", 0)], rows, bold)
        axes = board.chart(1, f"cosine of “{shorten(asked, 150, SMALLEST)}” with", "after layer")
        for (label, line), style in zip(lines.items(), LINE_STYLES, strict=False):
            axes.curve(line, style=style, marker=style.marker, label=label)
        axes.set_xticks(range(len(to_itself)))
        axes.set_ylim(min(0.0, *(min(line) for line in lines.values())) - 0.05, 1.5)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.draw_legend("upper right")
        return board.drawing(
            **{
                "model": name,
                "word": asked,
                "layers": shown,
                **{
                    f"nearest_{layer}": [neighbour.sentence for neighbour in neighbours]
                    for layer, neighbours in enumerate(near)
                },
                **{
                    f"other_words_{layer}": [neighbour.word for neighbour in neighbours]
                    for layer, neighbours in enumerate(unlike)
                },
                "cosines": [[neighbour.cosine for neighbour in neighbours] for neighbours in near],
                **{f"cosine_{key.replace(' ', '_')}": line for key, line in lines.items()},
            }
        )


def _sentences(bank: str) -> list[str]:
    """The lines of a file, without comments and empty ones."""
    try:
        lines = Path(bank or SENTENCES).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("bank", got=bank, expected="a file of sentences, one on a line") from error
    sentences = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not sentences:
        raise InputError("bank", got=f"{bank}, which is empty", expected="a sentence on each line")
    return sentences


def _in_fewest_tokens(pipeline: Pipeline, text: str, word: str) -> str:
    """The text with a capitalised word in lower case, if the model has fewer tokens for it so.

    A tokenizer may know “king” as one token and cut “King” into letters, which mean nothing.
    """
    encode, small = pipeline.vocabulary.source.encode, text.replace(word, word.lower())
    return small if word and len(encode(small)) < len(encode(text)) else text


def read(pipeline: Pipeline, texts: Sequence[str]) -> list[Read]:
    """The vectors of all words of some texts at every layer.

    Raises:
        InputError: If the model reads no text, or a text has no words or is too long.
    """
    model, tokenizer = pipeline.model, pipeline.vocabulary.source
    rows = [tokenizer.template(tokenizer.encode(text)) for text in texts]
    longest, most = max(map(len, rows)), model.config.max_length
    if longest > most:
        raise InputError("a text", got=f"{longest} tokens", expected=f"at most {most}")
    return [
        _read(tokenizer, ids, vectors)
        for ids, vectors in zip(rows, layer_vectors(model, rows), strict=True)
    ]


def layer_vectors(model: Any, rows: Sequence[list[int]]) -> list[Tensor]:
    """The vectors of all tokens of each text at every layer: (layers + 1, tokens, dim).

    The first is the embedding without positions, the others are what leaves each block.
    """
    tap = Tap(f"{model.reader}.*.residual")
    with evaluating(model):
        model.hidden(Ragged.of(rows), tap)
    embedding = model.embeds()[0].get_parameter("weight").detach()
    count = len(tap.records)
    blocks = [tap.records[f"{model.reader}.{layer}.residual"] for layer in range(count)]
    return [
        torch.stack([embedding[ids], *(block[row, : len(ids)] for block in blocks)])
        for row, ids in enumerate(rows)
    ]


def _read(tokenizer: Tokenizer, ids: list[int], vectors: Tensor) -> Read:
    """Join tokens to words, without punctuation and special symbols.

    Args:
        tokenizer: The tokenizer.
        ids: The tokens.
        vectors: (layers + 1, tokens, dim)
    """
    words, index = tokenizer.words(ids)
    positions = [[p for p, at in enumerate(index) if at == number] for number in range(len(words))]
    chosen = [
        number
        for number, tokens in enumerate(positions)
        if any(letter.isalnum() for letter in tokenizer.decode([ids[p] for p in tokens]))
    ]
    if not chosen:
        raise InputError("a text", got="no words", expected="some words")
    means = [vectors[:, positions[number]].mean(1) for number in chosen]
    return Read([words[number].strip() for number in chosen], torch.stack(means, dim=1))


def _index_of(query: Read, word: str) -> int:
    """The index of a word in the text; by default the last one.

    Raises:
        InputError: If the text does not have it.
    """
    folded = [candidate.casefold() for candidate in query.words]
    if not word:
        return len(folded) - 1
    if word.casefold() not in folded:
        raise InputError("word", got=repr(word), expected=f"one of {' '.join(query.words)}")
    return folded.index(word.casefold())


def nearest(
    query: Read, index: int, others: Sequence[Read], layer: int, *, other: bool = False
) -> list[Near]:
    """The words of other sentences with the largest cosines at a layer, largest first.

    Args:
        query: The text.
        index: The index of the word in it.
        others: The other sentences.
        layer: The layer; 0 is the embedding.
        other: Only words that are spelled differently, each once.
    """
    vector, asked = query.vectors[layer, index], query.words[index].casefold()
    neighbours = [
        Near(float(cosine), text.words[at], text.shown(at))
        for text in others
        for at, cosine in enumerate(F.cosine_similarity(text.vectors[layer], vector, dim=-1))
    ]
    neighbours.sort(key=lambda neighbour: -neighbour.cosine)
    if other:
        best = {neighbour.word.casefold(): neighbour for neighbour in reversed(neighbours)}
        best.pop(asked, None)
        neighbours = sorted(best.values(), key=lambda neighbour: -neighbour.cosine)
    return neighbours[:NEAREST]


def _lines(query: Read, index: int, others: Sequence[Read]) -> dict[str, list[float]]:
    """The cosines by layer: with the embedding, the same word elsewhere, and all other words."""
    vector = query.vectors[:, index]  # (layers + 1, dim)
    words = [word.casefold() for text in others for word in text.words]
    every = torch.cat([text.vectors for text in others], dim=1)  # (layers + 1, words, dim)
    cosines = F.cosine_similarity(every, vector[:, None], dim=-1)  # (layers + 1, words)
    same = torch.tensor([word == query.words[index].casefold() for word in words])
    lines: dict[str, Any] = {
        "its embedding": F.cosine_similarity(vector, vector[:1], dim=-1).tolist()
    }
    if same.any():
        lines["the word elsewhere"] = cosines[:, same].mean(1).tolist()
    if not same.all():
        lines["other words"] = cosines[:, ~same].mean(1).tolist()
    return lines
