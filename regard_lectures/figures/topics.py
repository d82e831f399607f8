"""An artificial language of four topics with two ambiguous words, and a BERT pretrained on it.

The figures `meanings` and `finetuning` are trained on it, so that they need neither files nor
network. Input: a seed. Output: sentences with their topic, and an encoder pretrained on them by
masked language modelling, with the tasks and models of the library.

    learning    the machine learning model predicts linear labels and tokens
    fashion     the fashion model wears elegant dresses and coats
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from regard.data import Corpus, CorruptedCorpus, Masking, Packed
from regard.inputs import Tokenizer, TokensConfig, Vocabulary, learn_plain
from regard.layers import draw_normal
from regard.models import BertConfig, Encoder, build
from regard.tasks import Fill, max_text_tokens, symbols_of
from regard_lectures.figures.descent import Descent, train_on
from regard_lectures.progress import training_progress


@dataclass(frozen=True)
class Topic:
    """The words of a topic; only ambiguous words belong to two topics."""

    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]
    things: tuple[str, ...]


def _topic(nouns: str, adjectives: str, verbs: str, things: str) -> Topic:
    return Topic(*(tuple(words.split(", ")) for words in (nouns, adjectives, verbs, things)))


TOPICS: dict[str, Topic] = {
    "learning": _topic(
        "network, classifier, algorithm, perceptron, regression",
        "machine learning, neural, statistical, recurrent, linear",
        "predicts, classifies, learns, encodes, estimates",
        "labels, tokens, features, gradients, vectors",
    ),
    "fashion": _topic(
        "designer, actress, dancer, stylist, photographer",
        "fashion, elegant, glamorous, stylish, silken",
        "wears, presents, sews, admires, irons",
        "dresses, coats, shoes, jewels, gowns",
    ),
    "money": _topic(
        "broker, lender, insurer, company, treasury",
        "central, private, solvent, commercial, risky",
        "lends, invests, deposits, charges, pays",
        "loans, savings, fees, coins, shares",
    ),
    "river": _topic(
        "meadow, shore, path, island, ferry",
        "muddy, steep, grassy, sandy, green",
        "borders, crosses, overlooks, follows, divides",
        "streams, reeds, willows, rapids, pebbles",
    ),
}
HOMONYMS = {"model": ("learning", "fashion"), "bank": ("money", "river")}
"""The ambiguous words, and the two topics of each."""
MEANT = 0.3
"""The probability that the noun of a sentence is the ambiguous word."""
FRAMES = (
    "the {adjectives[0]} {noun} {verbs[0]} {adjectives[1]} {things[0]} and {things[1]}",
    "today a {adjectives[0]} {noun} {verbs[0]} some {things[0]} and {verbs[1]} {things[1]}",
    "the {adjectives[0]} {things[0]} that the {noun} {verbs[0]} are {adjectives[1]}",
    "we saw {adjectives[0]} {things[0]} and a {adjectives[1]} {noun} that {verbs[0]} {things[1]}",
)
TITLES = (
    "the {noun} {verbs[0]}",
    "a {adjectives[0]} {noun}",
    "some {adjectives[0]} {things[0]}",
    "the {noun} and the {things[0]}",
    "the {things[0]} that are {adjectives[0]}",
)
"""Titles have two content words. Frames and titles are the same for every topic, so that only their
words depend on it."""

SENTENCES, HELD_OUT = 4000, 400
DIM, HEADS, HIDDEN, LAYERS, LENGTH = 64, 4, 128, 2, 16
BATCH = 512
"""Tokens per batch: about 50 sentences."""
HIDE = 0.25
"""The share of chosen tokens; more than BERT's, since sentences and training are short."""
RATE = 5e-3
SPREAD = 0.1
"""The standard deviation of initial weights; BERT's 0.02 is for a width of 768."""


def sentence(
    dice: random.Random, topic: str, noun: str | None = None, frames: Sequence[str] = FRAMES
) -> str:
    """A random sentence of a topic, with a given noun or a random one.

    Example:
        >>> sentence(random.Random(3), "fashion", "model")
        'today a silken model sews some gowns and admires dresses'
    """
    words = TOPICS[topic]
    if noun is None:
        shared = next(word for word, topics in HOMONYMS.items() if topic in topics)
        noun = shared if dice.random() < MEANT else dice.choice(words.nouns)
    return dice.choice(frames).format(
        noun=noun,
        adjectives=dice.sample(words.adjectives, 2),
        verbs=dice.sample(words.verbs, 2),
        things=dice.sample(words.things, 2),
    )


def sentences(count: int, seed: int | str, frames: Sequence[str] = FRAMES) -> list[tuple[str, str]]:
    """Distinct sentences with their topics, which alternate."""
    dice, topic_of = random.Random(f"{seed} topics"), dict[str, str]()
    topics = list(TOPICS)
    while len(topic_of) < count:
        topic = topics[len(topic_of) % len(topics)]
        topic_of.setdefault(sentence(dice, topic, frames=frames), topic)
    return list(topic_of.items())


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder pretrained on unlabelled sentences."""

    model: Encoder
    vocabulary: Vocabulary
    fresh: dict[str, Tensor]
    """The weights before the first step."""
    losses: list[float]
    right: float
    """The percentage of masked tokens of held-out sentences that it predicts correctly."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the vocabulary."""
        return self.vocabulary.source


@lru_cache(maxsize=2)
def pretrain(steps: int, seed: int) -> Pretrained:
    """Pretrain a small BERT on unlabelled sentences by masked language modelling; cached.

    Args:
        steps: The number of Adam steps, with warm-up and cosine decay to zero.
        seed: The seed of sentences, weights and masking.
    """
    torch.manual_seed(seed)
    texts = [text for text, _ in sentences(SENTENCES + HELD_OUT, seed)]
    vocabulary = learn_plain(texts, TokensConfig(kind="words", vocab=1000), Fill.around)
    tokenizer = vocabulary.source
    task = Fill(
        vocabulary,
        _holes(tokenizer, texts[HELD_OUT:], seed),
        _holes(tokenizer, texts[:HELD_OUT], seed),
    )
    config = BertConfig(
        dim=DIM, heads=HEADS, hidden=HIDDEN, layers=LAYERS, max_length=LENGTH, dropout=0.0
    )
    model: Encoder = build(config, tokenizer.vocab)
    draw_normal(model, LAYERS, std=SPREAD)
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with training_progress(steps) as on_step:
        schedule = partial(course, steps=steps)
        descent = Descent(model.parameters(), RATE, on_step, schedule, beta=0.98)
        train_on(task, model, descent, steps)
    right = 100 * task.evaluate(model)["accuracy"]
    return Pretrained(model, vocabulary, fresh, descent.losses, right)


def course(step: int, steps: int) -> float:
    """The learning rate at a step, relative to its peak: linear warm-up, then cosine decay.

    Example:
        >>> [round(course(step, 100), 2) for step in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    warmup = max(1, steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2


def _holes(tokenizer: Tokenizer, texts: Sequence[str], seed: int) -> CorruptedCorpus:
    """Sentences as documents of a corpus, in batches, with masking that changes each epoch."""
    documents = [[*ids, tokenizer.end] for ids in tokenizer.encode_batch(texts)]
    ends = np.array(list(accumulate(map(len, documents))), dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    corpus = Corpus(np.concatenate(documents), starts, ends)
    rows = Packed(
        corpus, length=max_text_tokens(LENGTH, pairs=False), batch_tokens=BATCH, seed=seed
    )
    return CorruptedCorpus(rows, Masking(symbols_of(tokenizer), rate=HIDE, seed=seed))
