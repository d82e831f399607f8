"""Figure of part 5: one word's vector from layer to layer, described by what is near it.

Before the first layer a word has the vector of the embedding matrix, the same in every sentence.
Each layer adds what the word gathers from its context. Input: a text, one of its words, a model,
and a bank of other sentences. At each layer the word's vector is compared by cosine with the
vectors of all words of the bank at that layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Pipeline, load
from regard.draw import LINE_STYLES, SMALLEST, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Table, Words
from regard.inputs import Ragged, Tokenizer
from regard.layers import Tap
from regard.models import evaluating
from regard.recipes import shipped
from regard_lectures.bank import FEWEST, contexts_of
from regard_lectures.limits import model_line

TEXT, WORD = "The King doth wake tonight and takes his rouse", "King"
MODELS = ("small/fill", "small/translate", "tiny/translate")
"""Models to read the text with: the first that is on the shelf."""
NEAREST = 2
APART = 0.2
"""A word takes on its context if its cosines with itself elsewhere differ by this."""
SAME = 0.9
"""A word is cut into the same tokens elsewhere if this is the mean cosine of its embeddings."""
LINES = {
    "its embedding": "cosine_its_embedding",
    "the word elsewhere": "cosine_the_word_elsewhere",
    "other words": "cosine_other_words",
}
"""The curves, and the names of their numbers."""


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
        bank: A file of sentences, one on each line; by default the shipped sentences.
    """
    name = model or next(candidate for candidate in MODELS if candidate in shipped())
    pipeline = load(name, device="cpu")
    asked_for = word or (WORD if text is None else "")
    sentence = _in_fewest_tokens(pipeline, TEXT if text is None else text, asked_for)
    numbers = measure_layers(pipeline, sentence, asked_for, bank)
    details = (
        f"“{numbers['text']}”. The vector of the word before the first layer (without its "
        f"position) and after each layer, beside those of all {numbers['words']:,} words of "
        f"{numbers['contexts']} sentences with this word, of {numbers['contexts_in_bank']:,} in "
        f"{numbers['bank']}, and {numbers['other_sentences']} without it, at the same layer. "
        "Curves: cosine with its embedding; with the same word in the other sentences, on average "
        "(vertical lines: from the least to the largest); with all other words, on average: "
        "vectors of a model often point in similar directions, so compare with that. A word of "
        f"several tokens is their mean. {numbers['unknown_share']:.0%} of the tokens of these "
        "sentences are unknown to the model."
    )
    with Board(words_layers(numbers), (1.75, 1), details, limits=model_line(pipeline)) as board:
        _draw_nearest(board, numbers)
        _draw_cosines(board, numbers)
        return board.drawing(**numbers)


def measure_layers(pipeline: Pipeline, text: str, word: str, bank: str) -> Numbers:
    """What is near a word of a text at each layer of a model, and how near.

    Raises:
        InputError: If the model reads no text or does not know the word, if the text has no such
            word, or if the word is in too few sentences of the bank.
    """
    tokenizer = pipeline.vocabulary.source
    [query] = read(pipeline, [text])
    index = _index_of(query, word)
    asked = query.words[index]
    if tokenizer.unknown_words(asked):
        fix = "another word, or another model="
        raise InputError("word", got=f"{asked!r}, unknown to {pipeline.name}",
                         expected="a word of its vocabulary", fix=fix)  # fmt: skip
    contexts = contexts_of(asked, text, bank)
    with_word, without = (
        [sentence for sentence in group if _is_readable(pipeline, sentence)]
        for group in (contexts.with_word, contexts.others)
    )
    fewest = 1 if bank else FEWEST
    if len(with_word) < fewest:
        raise InputError(
            "word",
            got=f"{asked!r}, in {len(with_word)} sentences of which {pipeline.name} knows the half",
            expected=f"{fewest} or more",
            fix="model=small/fill knows more words, bank=FILE names your own sentences",
        )
    sentences = [*with_word, *without]
    others = read(pipeline, sentences)
    count = len(query.vectors)
    near = [nearest(query, index, others, layer) for layer in range(count)]
    unlike = [nearest(query, index, others, layer, other=True) for layer in range(count)]
    ids = [token for sentence in sentences for token in tokenizer.encode(sentence)]
    return {
        "model": pipeline.name,
        "text": query.shown(index),
        "word": asked,
        "bank": bank or "the shipped sentences",
        "contexts": len(with_word),
        "contexts_in_bank": contexts.total,
        "sentences_in_bank": contexts.sentences,
        "other_sentences": len(without),
        "words": sum(len(text.words) for text in others),
        "unknown_share": sum(token == tokenizer.unknown for token in ids) / len(ids),
        "shown": sorted({0, count // 2, count - 1}),
        "nearest": [[asdict(neighbour) for neighbour in row] for row in near],
        "other_words": [[asdict(neighbour) for neighbour in row] for row in unlike],
        **_cosines(query, index, others),
    }


def _is_readable(pipeline: Pipeline, sentence: str) -> bool:
    """Whether the model knows half of the sentence's tokens, and has room for all of them."""
    tokenizer = pipeline.vocabulary.source
    ids = tokenizer.encode(sentence)
    known = sum(token != tokenizer.unknown for token in ids)
    return (
        2 * known >= len(ids) and len(tokenizer.template(ids)) <= pipeline.model.config.max_length
    )


def words_layers(numbers: Mapping[str, Any]) -> Words:
    """Whether the vector of a word takes on its context, and what it is nearest to at the top."""
    word, top = shorten_words(numbers["word"], 20), len(numbers["nearest"]) - 1
    least, largest = (numbers[f"elsewhere_{end}"] for end in ("least", "largest"))
    contexts = numbers["contexts"]
    if contexts < 2:
        title = f"“{word}”: one other sentence with it cannot tell what the context adds"
    elif numbers["cosine_the_word_elsewhere"][0] < SAME:
        title = f"“{word}” is other tokens here than elsewhere: cannot tell what context adds"
    else:
        takes = "takes" if largest[-1] - least[-1] >= APART else "hardly takes"
        title = f"“{word}” {takes} on its context: other “{word}”s have cosines of "
        title += f"{least[-1]:.2f} to {largest[-1]:.2f}"
    best = numbers["nearest"][-1][0]
    is_same = best["word"].casefold() == numbers["word"].casefold()
    which = "still the same word" if is_same else f"another word, “{best['word']}”"
    begin = least[0]
    same = f"all {begin:.2f}" if largest[0] - begin < 0.005 else f"{begin:.2f} to {largest[0]:.2f}"
    caption = (
        f"Before the first layer its cosines with the {contexts} others are {same}. After layer "
        f"{top - 1} the nearest of {numbers['words']:,} words is {which}, in "
        f"“{shorten_words(best['sentence'], 60)}”; its cosine with its own embedding is "
        f"{numbers['cosine_its_embedding'][-1]:.2f}."
    ).replace("-0.", "−0.")
    return Words(title.replace("-0.", "−0."), caption)


def shorten_words(text: str, most: int) -> str:
    """A text of at most so many letters, with an ellipsis if some are left out.

    Example:
        >>> shorten_words("The dog sleeps.", 8)
        'The dog…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _named(layer: int) -> str:
    """The name of a row of vectors: layers count from 0."""
    return f"after layer {layer - 1}" if layer else "in the embedding"


def _draw_nearest(board: Board, numbers: Numbers) -> None:
    """Draw a table of the nearest words at some layers, in their sentences."""
    width = board.panel_box(0)[2]
    rows: list[list[str]] = []
    for layer in numbers["shown"]:
        rows.append([_named(layer)])
        lines = [f"{near['cosine']:.2f}  {near['sentence']}" for near in numbers["nearest"][layer]]
        words = [f"{near['word']} {near['cosine']:.2f}" for near in numbers["other_words"][layer]]
        lines.append(f"other words: {', '.join(words)}")
        rows.extend([shorten(line.replace("-0.", "−0."), width, SMALLEST + 1)] for line in lines)
    bold = range(0, len(rows), len(rows) // len(numbers["shown"]))
    left_out = len(numbers["nearest"]) - len(numbers["shown"])
    head = f"without {left_out} layers between, which are in .html" if left_out else ""
    board.table(0, "nearest words, in their sentences", [(head, 0)], rows, bold)
    every = [
        (_named(layer), f"{near['cosine']:.2f}", near["word"], near["sentence"])
        for layer, both in enumerate(zip(numbers["nearest"], numbers["other_words"], strict=True))
        for near in (*both[0], *both[1])
    ]
    columns = ("layer", "cosine", "word", "sentence")
    board.tables.append(Table(columns, every, "The nearest words, and the nearest other words."))


def _draw_cosines(board: Board, numbers: Numbers) -> None:
    """Draw the cosines by layer as curves, with the range over the other sentences."""
    word = shorten(numbers["word"], 150, SMALLEST)
    axes = board.chart(1, f"cosine of “{word}” with", "after layer (E: embedding)")
    layers = range(-1, len(numbers["nearest"]) - 1)  # -1: the embedding
    lines = {label: numbers[key] for label, key in LINES.items() if key in numbers}
    for (label, line), line_style in zip(lines.items(), LINE_STYLES, strict=False):
        axes.curve(layers, line, style=line_style, marker=line_style.marker, label=label)
    least, largest = numbers["elsewhere_least"], numbers["elsewhere_largest"]
    axes.vlines(layers, least, largest, color=LINE_STYLES[1].colour, linewidth=2)
    axes.set_xticks([*layers], ["E", *map(str, layers[1:])])
    axes.set_ylim(min(0.0, *(min(line) for line in (*lines.values(), least))) - 0.05, 1.62)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.draw_legend("upper right")


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


def _cosines(query: Read, index: int, others: Sequence[Read]) -> Numbers:
    """The cosines by layer: with the embedding, the same word elsewhere, and all other words."""
    vector = query.vectors[:, index]  # (layers + 1, dim)
    words = [word.casefold() for text in others for word in text.words]
    every = torch.cat([text.vectors for text in others], dim=1)  # (layers + 1, words, dim)
    cosines = F.cosine_similarity(every, vector[:, None], dim=-1)  # (layers + 1, words)
    same = torch.tensor([word == query.words[index].casefold() for word in words])
    elsewhere = cosines[:, same]
    result: Numbers = {
        "cosine_its_embedding": F.cosine_similarity(vector, vector[:1], dim=-1).tolist(),
        "cosine_the_word_elsewhere": elsewhere.mean(1).tolist(),
        "elsewhere_least": elsewhere.amin(1).tolist(),
        "elsewhere_largest": elsewhere.amax(1).tolist(),
    }
    if not same.all():
        result["cosine_other_words"] = cosines[:, ~same].mean(1).tolist()
    return result
