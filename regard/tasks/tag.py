"""Tagging: sentences with a tag for each word -> loss, entity F1, tags.

Models read sub-words, but tags belong to words. The tag of a word is predicted at its first
sub-word; the other sub-words count neither in the loss nor in the prediction, so every word counts
once. The first sub-word is found by the characters that each token covers in the text, which works
for accents and emoji, too, and does not depend on marks such as `##`. A text that is too long for
the model is read in windows; each word is tagged in the window with the most context around it.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.text.annotations import TaggedWords
from regard.data.text.windows import LabelledRow, OnShare, evaluation, windows
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.base_task import loss_unit
from regard.tasks.labelled_task import LabelledTask, label_indices
from regard.tasks.measures.accuracy import Measures, entity_scores

NO_TAG = -1
"""The target of a token that has no tag."""
OUTSIDE = "O"
Span = tuple[int, int]


@dataclass(frozen=True)
class Tagged:
    """A word of a text with its tag."""

    word: str
    tag: str
    probability: float
    start: int
    """The word is `text[start:end]`."""
    end: int


class Tags(list[Tagged]):
    """The tagged words of a text, in order, with the text."""

    def __init__(self, text: str, words: Iterable[Tagged]) -> None:
        super().__init__(words)
        self.text = text


@dataclass(frozen=True, eq=False)
class Sentence(Encoded):
    """A text, read, with its words; `values` are its ids, without symbols around them."""

    text: str = ""
    words: Sequence[Span] = ()
    """The characters (start, end) of each word."""
    spans: Sequence[Span] = ()
    """The characters (start, end) of each token."""


class Tag(LabelledTask[TaggedWords]):
    """Tagging of words: training, evaluation and prediction."""

    noun = "training sentences"
    form = "tag"
    scored = "sentences"
    example_command = 'tag {} "Anna lives in Rome."'
    effect = loss_unit("word")
    unit = "words"

    def rows(
        self, examples: Sequence[TaggedWords], labels: Sequence[str], longest: int
    ) -> list[LabelledRow]:
        """Converts each sentence to one or more rows; rows without a target are dropped.

        The target of a word's first sub-word is the index of the word's tag.
        """
        rows: list[LabelledRow] = []
        for example in examples:
            numbers = label_indices(labels, example.tags)
            rows += self._window_rows(self.sentence(example.words), numbers, longest)
        return [row for row in rows if max(row.targets, default=NO_TAG) > NO_TAG]

    def sentence(self, item: str | Sequence[str]) -> Sentence:
        """Reads a text, which is split into words, or a list of words."""
        text, words = (item, words_in(item)) if isinstance(item, str) else join_words(item)
        ids, spans = self.tokenizer.spans(text)
        return Sentence(item, ids, text=text, words=words, spans=spans)

    def read(self, model: Encoder, items: Sequence[str | Sequence[str]], **_: Any) -> list[Encoded]:
        """Reads sentences; long ones are cut into windows later.

        Raises:
            InputError: A word of a list has spaces in it.
        """
        del model
        for word in (word for words in items if not isinstance(words, str) for word in words):
            if not word or set(word) & set(" \t\r\n"):
                fix = "for several texts: p.tag([text.split() for text in texts])"
                raise InputError("tag", got=f"the word {word!r}", expected="one word", fix=fix)
        return list(map(self.sentence, items))

    def _window_rows(
        self, sentence: Sentence, values: Sequence[int], longest: int
    ) -> Iterator[LabelledRow]:
        """Yields the windows of a sentence as rows.

        Args:
            sentence: The sentence.
            values: The target of each word, set at its first sub-word.
            longest: The maximal number of tokens that the model can read.
        """
        ids = sentence.values
        token_targets = [NO_TAG] * len(ids)
        for word, token in enumerate(first_pieces(sentence.words, sentence.spans)):
            if token is not None:
                token_targets[token] = values[word]
        around = self.tokenizer.template([NO_TAG])
        before = around.index(NO_TAG)
        size = self.max_row_tokens(longest) - len(around) + 1
        for window in windows(len(ids), size, self.options.overlap):
            window_ids = ids[window.start : window.stop]
            row = self.tokenizer.template(window_ids)
            targets = [NO_TAG] * len(row)
            for token in window.own_tokens:
                targets[before + token - window.start] = token_targets[token]
            yield LabelledRow(row, self.tokenizer.token_types(window_ids), targets)

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of words in a batch, each tagged at one sub-word."""
        return batch.target_positions.numel()

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the tags at the first sub-words, summed over the words: a scalar."""
        logits = model.tag(batch.source)[batch.target_positions]  # (words, tags)
        targets, smoothing = batch.known_targets, self.options.smoothing
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)

    def log_probabilities(
        self, model: Encoder, sentences: Sequence[Sentence], on_progress: OnShare | None = None
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the tags of the words of all sentences, one after the other.

        Args:
            model: The encoder.
            sentences: Sentences with their words.
            on_progress: Called with the share of the work that is done.

        Returns:
            The log-probabilities (words, tags), and a mask (words,) of the words that have a token:
            a word of characters that the tokenizer drops has none.
        """
        rows: list[LabelledRow] = []
        count = 0
        for sentence in sentences:
            numbers = range(count, count + len(sentence.words))
            rows += self._window_rows(sentence, numbers, model.config.max_length)
            count += len(sentence.words)
        log_probs = torch.zeros(count, len(model.config.head.tags))
        is_read = torch.zeros(count, dtype=torch.bool)
        with evaluating(model):
            for batch in evaluation(rows, self.options.batch_tokens, on_progress):
                logits = model.tag(batch.source.to(model.device))  # (tokens, tags)
                logits = logits.float().log_softmax(1).cpu()
                log_probs[batch.known_targets] = logits[batch.target_positions]
                is_read[batch.known_targets] = True
        return log_probs, is_read

    def tag(self, model: Encoder, encoded: Sequence[Sentence]) -> list[Tags]:
        """The tag of each word of each sentence."""
        model.require_head("tags")
        log_probs, is_read = self.log_probabilities(model, encoded)
        names = iter(self._tag_names(model, log_probs, is_read))
        probabilities = iter(torch.where(is_read, log_probs.exp().amax(1), 0.0).tolist())
        tagged_sentences = []
        for sentence in encoded:
            words = [
                Tagged(sentence.text[start:end], next(names), next(probabilities), start, end)
                for start, end in sentence.words
            ]
            tagged_sentences.append(Tags(sentence.text, words))
        return tagged_sentences

    def _tag_names(self, model: Encoder, log_probs: Tensor, is_read: Tensor) -> list[str]:
        """The most probable tag of each word; `O` (or the first tag) for a word without tokens."""
        tags = model.config.head.tags
        default_tag = OUTSIDE if OUTSIDE in tags else tags[0]
        return [
            tags[best] if has_token else default_tag
            for best, has_token in zip(log_probs.argmax(1).tolist(), is_read.tolist(), strict=True)
        ]

    def measure(
        self, model: Encoder, examples: Sequence[TaggedWords], on_progress: OnShare | None = None
    ) -> Measures:
        """Mean loss per word, accuracy and entity F1 as in conlleval, and scores per type."""
        model.require_head("tags")
        sentences = [self.sentence(example.words) for example in examples]
        log_probs, is_read = self.log_probabilities(model, sentences, on_progress)
        tags = model.config.head.tags
        targets = [number for example in examples for number in label_indices(tags, example.tags)]
        target_log_probs = log_probs[torch.arange(len(log_probs)), torch.tensor(targets)]
        loss = -float(target_log_probs[is_read].sum()) / max(1, int(is_read.sum()))
        names = iter(self._tag_names(model, log_probs, is_read))
        predicted = [[next(names) for _ in example.words] for example in examples]
        scores = entity_scores([example.tags for example in examples], predicted)
        return scores.with_loss(loss)


def join_words(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Joins words with spaces, and returns the characters (start, end) of each word.

    Example:
        >>> join_words(["New", "York"])
        ('New York', [(0, 3), (4, 8)])
    """
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans


def words_in(text: str) -> list[Span]:
    """The characters (start, end) of the words of a text, split at spaces.

    Punctuation at the edges of a word becomes words of one character.

    Example:
        >>> [("(Bob's) cat, @sue!"[start:end]) for start, end in words_in("(Bob's) cat, @sue!")]
        ['(', "Bob's", ')', 'cat', ',', '@sue', '!']
    """
    spans: list[Span] = []
    end = 0
    for chunk in text.split():
        start = text.index(chunk, end)
        end = start + len(chunk)
        inner, outer = start, end
        while inner < outer and _is_mark(text[inner]) and text[inner] not in "@#":
            inner += 1
        while outer > inner and _is_mark(text[outer - 1]):
            outer -= 1
        spans += [(mark, mark + 1) for mark in range(start, inner)]
        spans += [(inner, outer)] if inner < outer else []
        spans += [(mark, mark + 1) for mark in range(outer, end)]
    return spans


def _is_mark(letter: str) -> bool:
    """Whether a character is punctuation."""
    return unicodedata.category(letter).startswith("P")


def first_pieces(words: Sequence[Span], pieces: Sequence[Span]) -> list[int | None]:
    """For each word the index of the first token that begins in it; None if there is none.

    Example:
        >>> first_pieces([(0, 3), (4, 8)], [(0, 2), (2, 3), (4, 8)])
        [0, 2]
    """
    first: list[int | None] = [None] * len(words)
    starts = [start for start, _ in words]
    for index, (start, end) in enumerate(pieces):
        word = bisect_right(starts, start) - 1
        # A token that covers no characters, such as a mere space, does not begin a word.
        if start < end and word >= 0 and start < words[word][1] and first[word] is None:
            first[word] = index
    return first
