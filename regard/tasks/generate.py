"""Language modelling: plain text and a decoder -> loss, perplexity, continuations, next words.

Rows of plain text come in for training and evaluation; prompts come in for prediction, and go out
as continuations (`generate`) or as the most probable next words (`suggest`).
"""

from __future__ import annotations

import heapq
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.data.text.corpus import Corpus
from regard.data.text.packing import BatchedCorpus
from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.decode.search import Forbidden, check_finite
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.inputs.text import TaskSymbols, Tokenizer
from regard.layers import KVCache, Tap
from regard.models.decoder import Decoder
from regard.models.mode import evaluating
from regard.tasks.base_task import Settings
from regard.tasks.head_batches import HeadBatch, batch_of_ids, in_batches, of_tokens
from regard.tasks.measures.plain_text import WordAccuracy
from regard.tasks.measures.report import Scoring, count_progress
from regard.tasks.plain_text import MakeRows, PlainTextMethods, id_rows
from regard.tasks.trace import Trace, trace_single_stack
from regard.tasks.writing_task import WritingTask

_WORD = re.compile(r"[^\W_][\w'’-]*")
"""A word of a text whose next words are asked for in an evaluation."""
WORDS_AT_ONCE = 16
"""Partial words per batch in the search for the next word."""
MAX_BRANCHES = 64
"""The search for the next word extends a partial word by this many of the most probable tokens."""
TOKENS_OF_A_WORD = 32
"""The last n words of a text are looked for among its last 32·n tokens."""
TOKENS_DROPPED_AT_CUT = 32
"""Tokens dropped where a long text is cut: the first word may be cut off and tokenize otherwise."""
LONGEST_WORD = 12
"""The maximal number of tokens of a suggested word."""
MAX_SUGGESTED = 1000
"""The maximal number of suggested words; the model has to read each of them."""
MAX_PARTIAL_WORDS = 4096
"""The maximal number of partial words that the model reads, to bound the search in any case."""
SUGGESTED_WORDS = 300
"""The number of words in a text that an evaluation report asks for, each as the next word."""
MIN_DOCUMENTS = 100
"""A report asks for next words in at least this many documents, if there are so many."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suggestion:
    """A possible next word with its probability."""

    word: str
    probability: float


class Generate(PlainTextMethods, WritingTask):
    """Language modelling: training, evaluation and prediction."""

    around = TaskSymbols("<s> $A", "<s> $A $B")
    example_command = 'generate {} "The"'
    scoring = frozenset({"suggest"})
    symbols_around = 0
    takes_ids = True

    @property
    def begins(self) -> bool:
        """Whether documents start with a begin symbol: if the vocabulary has one."""
        return has_begin_token(self.tokenizer)

    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> BatchedCorpus:
        """Cuts the corpus into rows of the model's maximal length."""
        del train
        return make(corpus, length=settings.model.max_length)

    def details(
        self, model: Decoder, rows: BatchedCorpus, scores: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """The accuracy of suggested next words, if `scoring.suggest` asks for it."""
        del scores
        if not scoring.suggest:
            return {}
        corpus = rows.corpus
        on_progress = count_progress(scoring.on_progress, SUGGESTED_WORDS, "next words")
        numbers = range(0, len(corpus), max(1, len(corpus) // MIN_DOCUMENTS))
        texts = [self.tokenizer.decode(corpus.document(number).tolist()) for number in numbers]
        accuracy = word_accuracy(self, model, texts, words=SUGGESTED_WORDS, on_progress=on_progress)
        return {"words": accuracy}

    def head_batches(self, model: Decoder, items: Any) -> list[HeadBatch]:
        """Batches of texts, given as such or as ids, on which heads are measured."""
        rows = id_rows(self, model, items, model.config.max_length + 1, self.prompt)
        batches = map(batch_of_ids, in_batches(rows))
        return [of_tokens(model, batch.to(model.device)) for batch in batches]

    def trace(self, model: Decoder, text: str, tap: Tap, **_: Any) -> Trace:
        """Encodes one text and returns what the tap records in the forward pass."""
        return trace_single_stack(model, self.tokenizer, text, tap, "decoder")

    def symbols(self) -> Symbols:
        """The special tokens of decoding."""
        return Symbols(self._begin, self.tokenizer.end, self.tokenizer.pad)

    @property
    def _begin(self) -> int:
        """The token that stands for an empty prompt: the begin symbol, or else the end symbol."""
        return self.tokenizer.begin if has_begin_token(self.tokenizer) else self.tokenizer.end

    def prompt(self, text: str, longest: int) -> list[int]:
        """Encodes a prompt to at most `longest - 1` tokens; an empty one is the begin symbol.

        A prompt that is too long loses its beginning, because the next token depends most on the
        end.
        """
        ids = self._last_tokens(text, longest) or [self._begin]
        return ids[-(longest - 1) :]

    def read(self, model: Decoder, items: Sequence[str], **_: Any) -> list[Encoded]:
        """Reads prompts, of long ones at least as many of the last tokens as the model reads."""
        longest = model.config.max_length
        return [Encoded(text, self._last_tokens(text, longest) or [self._begin]) for text in items]

    def read_beginnings(self, model: Decoder, items: Sequence[str], **_: Any) -> list[Encoded]:
        """Reads texts whose next word is asked for: as prompts, without the last space."""
        encoded = self.read(model, [text.rstrip() for text in items])
        return [replace(text, item=item) for text, item in zip(encoded, items, strict=True)]

    def cut_prompt(self, ids: Sequence[int], longest: int, config: DecodeConfig) -> Sequence[int]:
        """The ids of a prompt, cut if they are too many; warns if few positions are left.

        Args:
            ids: The prompt.
            longest: The number of positions of the model.
            config: Its `max_length` is the number of tokens to generate. A prompt that has to be
                cut leaves positions for them, but keeps at least half of all positions.
        """
        count, free_positions = config.max_length or 1, longest - len(ids)
        if free_positions < 1:
            kept_tokens = max(1, longest - min(config.max_length or longest, longest // 2))
            _warn_prompt_cut(kept_tokens)
            return ids[-kept_tokens:]
        if free_positions < count:
            _logger.warning("warning: only %d more tokens fit, not %d", free_positions, count)
        return ids

    def _last_tokens(self, text: str, count: int) -> list[int]:
        """Encodes a text; of a long text at least its last `count` tokens.

        Only the end of a long text is tokenized, so the time depends on `count`, not on the text.
        """
        characters = 8 * max(1, count)
        while characters < len(text):
            # The first word may be cut off and so tokenize otherwise: its tokens are dropped.
            ids = self.tokenizer.template(self.tokenizer.encode(text[-characters:]))
            if len(ids) > count + TOKENS_DROPPED_AT_CUT:
                return ids[TOKENS_DROPPED_AT_CUT:]
            characters *= 2
        return self.tokenizer.template(self.tokenizer.encode(text))

    def forbidden(self, config: DecodeConfig) -> Forbidden | None:
        """Forbids each token that completes `no_copy` consecutive words of the training text.

        Ippolito et al. 2023 call this MemFree decoding. None if `no_copy` is 0.
        """
        size, ngrams = config.no_copy, self.vocabulary.ngrams
        if not size:
            return None
        if ngrams is None or ngrams.size != size:
            allowed_sizes = "0" if ngrams is None else f"0 or {ngrams.size}"
            expected = f"{allowed_sizes}, as this model was trained"
            fix = f"train it with decode.no_copy={size}: then it keeps the text's {size}-grams"
            raise InputError("no_copy", got=size, expected=expected, fix=fix)

        def completes_copy(ids: Sequence[int], token: int) -> bool:
            last = [*ids[-TOKENS_OF_A_WORD * size :]]
            return ngrams.copies(self.tokenizer.decode(last), self.tokenizer.decode([*last, token]))

        return completes_copy

    def decode_output(self, ids: Sequence[int]) -> str:
        """Decodes the ids of a continuation to text."""
        return self.tokenizer.decode(ids)

    def generate(
        self,
        model: Decoder,
        encoded: Sequence[Encoded],
        config: DecodeConfig,
        *,
        samples: int = 1,
        **_: Any,
    ) -> list[list[str]]:
        """Continues each prompt `samples` times; the continuations do not repeat the prompt.

        Args:
            model: The language model.
            encoded: Prompts.
            config: The decoding settings.
            samples: The number of continuations per prompt. The i-th, from 0, uses the seed
                `config.seed + i`.
        """
        longest = model.config.max_length
        prompts = [self.cut_prompt(text.values, longest, config) for text in encoded]
        continuations: list[list[str]] = [[] for _ in encoded]
        for sample in range(samples):
            sample_config = config.model_copy(update={"seed": config.seed + sample})
            outputs = self.outputs(model, prompts, sample_config)
            for texts, n_best in zip(continuations, outputs, strict=True):
                texts.append(n_best[0].text)
        return continuations

    def stream(
        self, model: Decoder, text: Encoded, config: DecodeConfig, **_: Any
    ) -> Iterator[str]:
        """Yields the continuation of one prompt piece by piece; no piece is revised later."""
        prompt = self.cut_prompt(text.values, model.config.max_length, config)
        return self.stream_ids(model, prompt, config)

    def stream_ids(
        self, model: Decoder, prompt: Sequence[int], config: DecodeConfig
    ) -> Iterator[str]:
        """Yields the continuation of a prompt's ids piece by piece; no piece is revised later.

        In beam search a token is final once all beams agree on it.
        """
        writer, decoded = self.tokenizer.stream_decoder(), 0
        # The writer gets the prompt first: whether a space precedes a token depends on what comes
        # before it.
        for token in prompt:
            writer.push(token)
        with evaluating(model):
            for step in self.steps(model, prompt, config):
                done = [hypotheses[0].ids for _, hypotheses in step.done]
                for ids in [*step.stable_prefixes, *done]:
                    for token in ids[decoded:]:
                        yield writer.push(token)
                    decoded = len(ids)
        yield writer.close()

    @cached_property
    def _word_masks(self) -> tuple[Tensor, Tensor]:
        """Two masks (vocab,): tokens that can begin a word, and tokens that can continue one."""
        token_bytes = [self.tokenizer.bytes_of(token) for token in range(self.tokenizer.vocab)]
        texts = [piece.decode("utf-8", "replace") for piece in token_bytes]
        begins = [text[:1] == " " and all(map(_is_word_letter, text[1:])) for text in texts]
        goes_on = [bool(text) and all(map(_is_word_letter, text)) for text in texts]
        return torch.tensor(begins), torch.tensor(goes_on)

    def suggest(
        self, model: Decoder, encoded: Sequence[Encoded], top: int = 3
    ) -> list[list[Suggestion]]:
        """The most probable next words, composed of sub-words, with their probabilities.

        Logs a warning if a text is longer than the model can read.

        Args:
            model: The language model.
            encoded: The texts so far, from `read_beginnings`.
            top: The number of words to suggest for each.

        Raises:
            InputError: `top` is not between 1 and `MAX_SUGGESTED`.
        """
        if not 1 <= top <= MAX_SUGGESTED:
            expected = f"1 to {MAX_SUGGESTED}"
            raise InputError("the number of words (--top)", got=top, expected=expected)
        max_prompt_tokens = self._word_and_prompt_limits(model)[1] - 1
        for text in encoded:
            if len(text.values) > max_prompt_tokens:
                _warn_prompt_cut(max_prompt_tokens)
        return [self.search_words(model, text, top) for text in encoded]

    def _word_and_prompt_limits(self, model: Decoder) -> tuple[int, int]:
        """The maximal number of tokens of a suggested word, and of the text before it."""
        word_limit = min(LONGEST_WORD, model.config.max_length // 2)
        return word_limit, max(2, model.config.max_length - word_limit)

    def search_words(self, model: Decoder, text: Encoded, count: int) -> list[Suggestion]:
        """Computes the suggestions for one text, without checks and warnings.

        P(word) = P(its tokens) · P(the next token does not continue the word), summed over all
        tokenizations of the word. The search extends partial words best first. No word is more
        probable than its beginning, so the search stops when the best partial word left is less
        probable than the `count`-th word found, and after `MAX_PARTIAL_WORDS` at the latest.

        Args:
            model: The language model.
            text: The text so far, from `read_beginnings`.
            count: The number of words to suggest.
        """
        word_limit, prompt_limit = self._word_and_prompt_limits(model)
        prompt = text.values[-(prompt_limit - 1) :]
        begins, goes_on = (mask.to(model.device) for mask in self._word_masks)
        if not text.item.strip():  # the first word of a text has no space before it
            begins = begins | goes_on
        words: dict[str, float] = {}
        queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        with evaluating(model):
            state = model.start(None, 1, len(prompt) + word_limit)
            if prompt[:-1]:  # read once; the last token is read again with each partial word
                model.read(Ragged.of([prompt[:-1]]).to(model.device), state)
            for _ in range(MAX_PARTIAL_WORDS // WORDS_AT_ONCE):
                # The probability of the `count`-th word, once there are so many.
                nth_best = sorted(words.values(), reverse=True)[count - 1 : count]
                if not queue or (nth_best and nth_best[0] >= math.exp(-queue[0][0])):
                    break
                batch = [heapq.heappop(queue) for _ in range(min(WORDS_AT_ONCE, len(queue)))]
                rows = _predict(model, state, prompt[-1], [ids for _, ids in batch])
                check_finite(rows[:, 0].tolist())
                for (cost, ids), log_probs in zip(batch, rows, strict=True):
                    word = self.tokenizer.decode(ids).strip()
                    if word:
                        end_probability = float(log_probs[: len(goes_on)][~goes_on].exp().sum())
                        words[word] = words.get(word, 0.0) + math.exp(-cost) * end_probability
                    allowed = goes_on if ids else begins
                    for log_prob, token in _top_tokens(log_probs[: len(allowed)], allowed):
                        if len(ids) < word_limit:
                            heapq.heappush(queue, (cost - log_prob, (*ids, token)))
        ranked = sorted(words.items(), key=lambda entry: -entry[1])[:count]
        return [Suggestion(word, probability) for word, probability in ranked]


def _predict(model: Decoder, state: KVCache, last: int, words: Sequence[tuple[int, ...]]) -> Tensor:
    """Log-probabilities of the next token after the prompt and each partial word.

    Args:
        model: The language model.
        state: The cache; each row holds the prompt without its last token, before and after.
        last: The last token of the prompt.
        words: The ids of each partial word.

    Returns:
        A tensor of shape (partial words, vocab).
    """
    rows = len(state.lengths)
    state.reorder(torch.tensor([row if row < rows else 0 for row in range(len(words))]))
    mark = state.mark()
    new_tokens = Ragged.of([[last, *ids] for ids in words])
    logits = model.read(new_tokens.to(model.device), state)
    state.rewind(mark)
    return logits.log_softmax(dim=1)


def _warn_prompt_cut(count: int) -> None:
    """Logs that only the last `count` tokens of a prompt are read."""
    _logger.warning("warning: only the last %d tokens of the prompt are read", count)


def has_begin_token(tokenizer: Tokenizer) -> bool:
    """Whether the vocabulary has a begin symbol with which texts start; Qwen's has none."""
    return tokenizer.specials.begin is not None


def _top_tokens(log_probs: Tensor, allowed: Tensor) -> Iterator[tuple[float, int]]:
    """Yields the most probable allowed tokens as (log-probability, token), at most `MAX_BRANCHES`.

    Args:
        log_probs: (vocab,) Log-probabilities.
        allowed: (vocab,) True for allowed tokens.
    """
    possible = log_probs.masked_fill(~allowed, -math.inf)
    values, tokens = possible.topk(min(MAX_BRANCHES, len(possible)))
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        if value > -math.inf:
            yield value, token


def _is_word_letter(letter: str) -> bool:
    """Whether a character can be inside a word: a letter, digit, apostrophe or hyphen."""
    return letter.isalnum() or letter in "'’-_"


def word_accuracy(
    task: Generate,
    model: Decoder,
    texts: Sequence[str],
    *,
    words: int = 300,
    top: int = 3,
    on_progress: Callable[[int], None] | None = None,
) -> WordAccuracy:
    """Measures how often the next word is among the suggested words.

    Args:
        task: Suggests the words.
        model: The language model.
        texts: Texts that were held out from training.
        words: The number of words to ask for, spread evenly over the texts.
        top: The number of words suggested for each.
        on_progress: Called with 1 after each word.
    """
    words_after_others = [
        (text, match.start(), match.group())
        for text in texts
        for match in _WORD.finditer(text)
        if match.start() > 0 and text[match.start() - 1] == " "
    ]
    if not words_after_others:
        got = "no word that follows another"
        raise InputError("the text", got=got, expected="two or more words")
    step = max(1, len(words_after_others) // words)
    selected_words = words_after_others[step // 2 :: step][:words]
    ranks = []
    for text, start, word in selected_words:
        [beginning] = task.read_beginnings(model, [text[:start]])
        suggested = [suggestion.word for suggestion in task.search_words(model, beginning, top)]
        ranks.append(suggested.index(word) if word in suggested else top)
        if on_progress is not None:
            on_progress(1)
    return WordAccuracy(
        words=len(selected_words),
        top=top,
        right=100 * sum(rank < top for rank in ranks) / len(selected_words),
        first=100 * sum(rank == 0 for rank in ranks) / len(selected_words),
    )
