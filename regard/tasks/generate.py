"""Language modelling: texts and a decoder -> loss, perplexity, what comes next."""

from __future__ import annotations

import heapq
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.corpus import Corpus
from regard.data.text.packing import Rows
from regard.decode.config import DecodeConfig
from regard.decode.engine import decode, stream
from regard.decode.filters import Symbols
from regard.decode.many import decode_many
from regard.decode.search import Hypothesis, check_finite
from regard.errors import InputError
from regard.layers import KVCache, Tap
from regard.models.decoder import Decoder
from regard.models.mode import evaluating
from regard.tasks.measures.plain_text import WordAccuracy
from regard.tasks.measures.report import Scoring, counted
from regard.tasks.passages import Passages, batch_of_ids, some_at_a_time
from regard.tasks.plain_text import MakeRows, PlainText
from regard.tasks.task import Settings, per_token, rooms
from regard.tasks.trace import Trace, read_alone
from regard.tasks.translate import Output
from regard.tokens import Around, Tokenizer

ROWS_AT_ONCE = 32
"""Texts continued together."""
_WORD = re.compile(r"[^\W_][\w'’-]*")
WORDS_AT_ONCE = 16
"""Beginnings of words that are looked at together when words are suggested."""
WAYS_ON = 64
"""Tokens with which the beginning of a word is followed, the likeliest of all."""
TORN = 32
"""Tokens that are left out where a long text is cut: a word torn there would have others."""
LONGEST_WORD = 12
"""The most tokens of a word that is suggested."""
MOST_SUGGESTED = 1000
"""The most words that are suggested: each has to be read."""
MOST_READ = 4096
"""Beginnings of words that are read, at most; a model that knows of no words would have no end."""
SUGGESTED = 300
"""Next words that a report asks for, if they are wanted."""
DOCUMENTS = 100
"""Documents of which words are asked, at least, if there are so many."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suggestion:
    """A word that may come next."""

    word: str
    probability: float


class Generate(PlainText):
    """Writing on as a task to train on and a way to predict."""

    around = Around("<s> $A", "<s> $A $B")
    tried = 'generate {} "The"'
    scoring = frozenset({"suggest"})
    symbols_around = 0
    takes_ids = True

    @property
    def begins(self) -> bool:
        """Whether documents open with the begin symbol: if there is one."""
        return opens(self.tokenizer)

    def rows(self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus) -> Rows:
        """Rows as long as the model reads."""
        del train
        return make(corpus, length=settings.model.max_length)

    def targets(self, batch: Batch[Ragged]) -> int:
        """The tokens of a batch: each has one that follows it."""
        return batch.wanted.ids.numel()

    def loss(self, model: Decoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of what follows each token, a sum."""
        return model.loss(batch.source, batch.wanted.ids, self.smoothing)

    def evaluate(
        self, model: Decoder, rows: Rows | None = None, tell: Callable[[int], None] | None = None
    ) -> dict[str, float]:
        """Mean negative log-likelihood of a token (no smoothing), and its exponential.

        Args:
            model: What writes on.
            rows: Text; by default what is held out for validation.
            tell: Told of the tokens of each batch that is done.
        """
        total, count = 0.0, 0
        with evaluating(model):
            for made in self.to_evaluate_on(rows).evaluation():
                batch = made.to(model.device)
                total += float(model.loss(batch.source, batch.wanted.ids))
                count += batch.wanted.ids.numel()
                if tell is not None:
                    tell(batch.wanted.ids.numel())
        return per_token(total, count)

    def details(
        self, model: Decoder, rows: Rows, found: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """How often the next word is suggested, if that is asked for."""
        del found
        if not scoring.suggest:
            return {}
        corpus, asked = rows.corpus, counted(scoring.tell, SUGGESTED, "next words")
        step = max(1, len(corpus) // DOCUMENTS)
        texts = [
            self.tokenizer.decode(corpus.document(i).tolist()) for i in range(0, len(corpus), step)
        ]
        return {"words": word_accuracy(self, model, texts, words=SUGGESTED, tell=asked)}

    def passages(self, model: Decoder, items: Any) -> list[Passages]:
        """Texts to go on with, or their ids, to look at heads."""
        rows = self.id_rows(model, items, model.config.max_length + 1)
        parts = some_at_a_time(rows)
        return [_followed(model, batch_of_ids(some).to(model.device)) for some in parts]

    def start_of(self, text: str, most: int) -> list[int]:
        """The ids of a text, of a long one of its end, as a prompt has them."""
        return self.prompt(text, most)

    def trace(self, model: Decoder, text: str, tap: Tap, **_: Any) -> Trace:
        """What a tap records of a text that is read; nothing is searched for."""
        return read_alone(
            model, self.tokenizer, text, tap, "decoder", lambda ids, _: Ragged.of([ids])
        )

    def symbols(self) -> Symbols:
        """The tokens that have a role in decoding."""
        return Symbols(self._begin, self.tokenizer.end, self.tokenizer.pad)

    @property
    def _begin(self) -> int:
        """What to go on from where there is nothing: else what ended the text before."""
        return self.tokenizer.begin if opens(self.tokenizer) else self.tokenizer.end

    def prompt(self, text: str, longest: int) -> list[int]:
        """The ids of a text to go on with; a text of nothing is the begin symbol alone.

        A prompt that is too long loses its beginning: what comes next hangs on its end.
        """
        ids = self._last(text, longest) or [self._begin]
        return ids[-(longest - 1) :]

    def begun(self, text: str, longest: int, config: DecodeConfig) -> list[int]:
        """The same for a text to be written on; says so if not all of it can be read, or written.

        Args:
            text: What to go on with.
            longest: The most tokens the model has positions for.
            config: How many are wanted; a prompt that is cut leaves room for these, up to a half.
        """
        ids = self._last(text, longest) or [self._begin]
        wanted, left = config.max_length or 1, longest - len(ids)
        if left < 1:
            read = max(1, longest - min(config.max_length or longest, longest // 2))
            _warn_read(read)
            return ids[-read:]
        if left < wanted:
            _logger.warning("warning: room for %d more tokens, not for %d", left, wanted)
        return ids

    def _last(self, text: str, count: int) -> list[int]:
        """The ids of a text; of a long one, at least its last `count`, for the time of those."""
        characters = 8 * max(1, count)
        while characters < len(text):
            # The first word of a piece may be torn, so that its tokens are others.
            ids = self.tokenizer.template(self.tokenizer.encode(text[-characters:]))
            if len(ids) > count + TORN:
                return ids[TORN:]
            characters *= 2
        return self.tokenizer.template(self.tokenizer.encode(text))

    def predict(
        self,
        model: Decoder,
        prompts: Sequence[Sequence[int]],
        config: DecodeConfig,
        *,
        tap: Tap | None = None,
    ) -> list[list[Output]]:
        """What follows each prompt, best first, in the order of the prompts."""

        def some(part: list[int]) -> list[list[Hypothesis]]:
            chosen = [prompts[i] for i in part]
            return decode(
                model,
                None,
                self.symbols(),
                config,
                prompts=chosen,
                tap=tap,
                rooms=rooms(map(len, chosen)),
                limit=model.config.max_length,
            )

        with evaluating(model):
            found = decode_many([*map(len, prompts)], some, config, rows=ROWS_AT_ONCE, tap=tap)
        return [[self._output(each) for each in hypotheses] for hypotheses in found]

    def _output(self, hypothesis: Hypothesis) -> Output:
        text = self.tokenizer.decode(hypothesis.ids)
        return Output(text, hypothesis.logprob, hypothesis.score, hypothesis)

    def generate(
        self,
        model: Decoder,
        texts: Sequence[str],
        config: DecodeConfig,
        *,
        samples: int = 1,
        **_: Any,
    ) -> list[list[str]]:
        """What follows each text, without the text itself; several times, if asked.

        Args:
            model: What writes on.
            texts: Prompts.
            config: How tokens are chosen.
            samples: How many texts for each; the first is drawn with the config's seed.
        """
        ids = [self.begun(text, model.config.max_length, config) for text in texts]
        found: list[list[str]] = [[] for _ in texts]
        for sample in range(samples):
            drawn = config.model_copy(update={"seed": config.seed + sample})
            for place, outputs in enumerate(self.predict(model, ids, drawn)):
                found[place].append(outputs[0].text)
        return found

    def grow(self, model: Decoder, text: str, config: DecodeConfig, **_: Any) -> Iterator[str]:
        """What follows one text, piece by piece, as it becomes certain."""
        return self.write(model, self.begun(text, model.config.max_length, config), config)

    def write(self, model: Decoder, prompt: Sequence[int], config: DecodeConfig) -> Iterator[str]:
        """The text that follows a prompt, piece by piece, as it becomes certain.

        Of beams, what all of them have in common is certain.
        """
        writer, said = self.tokenizer.writer(), 0
        # Ids are written with the prompt before them: whether a word follows a space is seen there.
        for token in prompt:
            writer.push(token)
        with evaluating(model):
            steps = stream(
                model,
                None,
                self.symbols(),
                config,
                prompts=[prompt],
                rooms=rooms([len(prompt)]),
                limit=model.config.max_length,
            )
            for step in steps:
                done = [hypotheses[0].ids for _, hypotheses in step.done]
                for ids in [*step.settled, *done]:
                    for token in ids[said:]:
                        yield writer.push(token)
                    said = len(ids)
        yield writer.close()

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor]:
        """For each token, whether it begins a word, and whether it goes on with one: (vocab,)."""
        written = [self.tokenizer.bytes_of(token) for token in range(self.tokenizer.vocab)]
        texts = [piece.decode("utf-8", "replace") for piece in written]
        begins = [text[:1] == " " and all(map(_inside_a_word, text[1:])) for text in texts]
        goes_on = [bool(text) and all(map(_inside_a_word, text)) for text in texts]
        return torch.tensor(begins), torch.tensor(goes_on)

    def suggest(self, model: Decoder, texts: Sequence[str], top: int = 3) -> list[list[Suggestion]]:
        """The likeliest next words of each text; see `next_words`."""
        return [self.next_words(model, text, top) for text in texts]

    def next_words(self, model: Decoder, text: str, count: int = 3) -> list[Suggestion]:
        """The likeliest next words, put together from sub-words, with their probabilities.

        Says so if not all of the text can be read.

        Args:
            model: What was trained to write on.
            text: What has been written so far.
            count: How many words.

        Raises:
            InputError: For more words than `MOST_SUGGESTED`, or none.
        """
        if not 1 <= count <= MOST_SUGGESTED:
            expected = f"1 to {MOST_SUGGESTED}"
            raise InputError("the number of words (--top)", got=count, expected=expected)
        most = self._room(model)[1] - 1
        if len(self._last(text.rstrip(), most)) > most:
            _warn_read(most)
        return self.likeliest(model, text, count)

    def _room(self, model: Decoder) -> tuple[int, int]:
        """The most tokens of a word to suggest, and what is left for the text before it."""
        room = min(LONGEST_WORD, model.config.max_length // 2)
        return room, max(2, model.config.max_length - room)

    def likeliest(self, model: Decoder, text: str, count: int) -> list[Suggestion]:
        """The same without a word about what is not read.

        P(word) = P(its tokens) · P(what follows begins something else), summed over the ways to
        spell it. Beginnings are followed best first; no word is likelier than its beginning, so
        that the search can stop; it stops at `MOST_READ` beginnings in any case.

        Args:
            model: What was trained to write on.
            text: What has been written so far.
            count: How many words.
        """
        room, longest = self._room(model)
        prompt = self.prompt(text.rstrip(), longest)
        begins, goes_on = (edge.to(model.device) for edge in self._edges)
        if not text.strip():  # the first word of all has no space before it
            begins = begins | goes_on
        words: dict[str, float] = {}
        waiting: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        with evaluating(model):
            state = model.start(None, 1, len(prompt) + room)
            if prompt[:-1]:  # read once; its last token is read with each beginning
                model.read(Ragged.of([prompt[:-1]]).to(model.device), state)
            for _ in range(MOST_READ // WORDS_AT_ONCE):
                enough = sorted(words.values(), reverse=True)[count - 1 : count]
                if not waiting or (enough and enough[0] >= math.exp(-waiting[0][0])):
                    break
                some = [heapq.heappop(waiting) for _ in range(min(WORDS_AT_ONCE, len(waiting)))]
                rows = _next(model, state, prompt[-1], [ids for _, ids in some])
                check_finite(rows[:, 0].tolist())
                for (cost, ids), log_probs in zip(some, rows, strict=True):
                    word = self.tokenizer.decode(ids).strip()
                    if word:
                        ends = float(log_probs[: len(goes_on)][~goes_on].exp().sum())
                        words[word] = words.get(word, 0.0) + math.exp(-cost) * ends
                    allowed = goes_on if ids else begins
                    for more, token in _likeliest(log_probs[: len(allowed)], allowed):
                        if len(ids) < room:
                            heapq.heappush(waiting, (cost - more, (*ids, token)))
        ranked = sorted(words.items(), key=lambda entry: -entry[1])[:count]
        return [Suggestion(word, probability) for word, probability in ranked]


def _next(model: Decoder, state: KVCache, last: int, some: Sequence[tuple[int, ...]]) -> Tensor:
    """Log-probabilities of what follows the prompt and each beginning: (beginnings, vocab).

    The state's rows hold the prompt but for its last token, before and after.
    """
    there = len(state.lengths)
    state.reorder(torch.tensor([row if row < there else 0 for row in range(len(some))]))
    mark = state.mark()
    more = Ragged.of([[last, *ids] for ids in some])
    logits = model.read(more.to(model.device), state)
    state.rewind(mark)
    return logits.log_softmax(dim=1)


def _followed(model: Decoder, batch: Batch[Ragged]) -> Passages:
    """Texts with what follows each token."""

    def loss(twin: Decoder) -> Tensor:
        return F.cross_entropy(twin(batch.source), batch.wanted.ids, reduction="sum")

    lengths = batch.source.lengths, batch.source.lengths
    targets = batch.wanted.ids.numel()
    return Passages(lambda tap: model(batch.source, tap), loss, targets, lambda _: lengths)


def _warn_read(count: int) -> None:
    _logger.warning("warning: only the last %d tokens of the prompt are read", count)


def opens(tokenizer: Tokenizer) -> bool:
    """Whether texts of a vocabulary open with a symbol of their own; Qwen's do not."""
    return tokenizer.specials.begin is not None


def _likeliest(log_probs: Tensor, allowed: Tensor) -> Iterator[tuple[float, int]]:
    """The likeliest of the tokens that are allowed, with their log-probabilities."""
    found = log_probs.masked_fill(~allowed, -math.inf)
    values, tokens = found.topk(min(WAYS_ON, len(found)))
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        if value > -math.inf:
            yield value, token


def _inside_a_word(letter: str) -> bool:
    return letter.isalnum() or letter in "'’-_"


def word_accuracy(
    task: Generate,
    model: Decoder,
    texts: Sequence[str],
    *,
    words: int = 300,
    top: int = 3,
    tell: Callable[[int], None] | None = None,
) -> WordAccuracy:
    """Asks for the next word at places spread evenly over texts, and counts how often it is there.

    Args:
        task: How words are suggested.
        model: What was trained to write on.
        texts: Held out from training.
        words: How many places to ask at.
        top: How many words are suggested at each.
        tell: Told of each word that is done.
    """
    places = [
        (text, found.start(), found.group())
        for text in texts
        for found in _WORD.finditer(text)
        if found.start() > 0 and text[found.start() - 1] == " "
    ]
    if not places:
        raise InputError("the text", got="no word after another", expected="some words")
    step = max(1, len(places) // words)
    asked = places[step // 2 :: step][:words]
    ranks = []
    for text, start, word in asked:
        said = [each.word for each in task.likeliest(model, text[:start], top)]
        ranks.append(said.index(word) if word in said else top)
        if tell is not None:
            tell(1)
    return WordAccuracy(
        words=len(asked),
        top=top,
        right=100 * sum(rank < top for rank in ranks) / len(asked),
        first=100 * sum(rank == 0 for rank in ranks) / len(asked),
    )
