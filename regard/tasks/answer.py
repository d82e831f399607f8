"""Extractive question answering: where in a text the answer stands -> loss, exact match, answers.

The encoder reads question and context together and gives each token a logit as the first and as the
last of the answer. A context that is too long is read in windows that overlap; a window without
the answer points at its first token, which stands for "not here". An answer is cut out of the
original text by the characters that its tokens cover, in whole words: it is never spelt anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.data.text.annotations import Excerpt, Question
from regard.data.text.windows import Row, Window, evaluation, windows
from regard.errors import InputError
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.labelled import Supervised
from regard.tasks.measures.accuracy import Measures, answer_scores
from regard.tasks.task import check_texts, rise, warn_cut

_INSIDE = re.compile(
    "(?:(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    r"[^\W_]){2}"
)
"""Two letters or digits of one word; not in scripts that put no space between words."""
LONGEST_ANSWER = 30
"""In tokens, as in BERT. With an overlap of twice that, no answer falls between two windows."""
NOT_HERE = 0
"""The place that a window without the answer points at: its first token."""
Span = tuple[int, int]


@dataclass(frozen=True)
class FoundAnswer:
    """An answer: `context[start:end]`; of nothing if there is none."""

    text: str
    start: int
    end: int
    probability: float
    """Among all spans of the context, and that there is no answer if that is allowed."""


@dataclass(frozen=True)
class _Part:
    """A question with one window of its context."""

    row: Row
    window: Window
    before: int
    """Tokens of the row in front of the window."""


class Answer(Supervised[Question]):
    """Answers in a text as a task to train on and a way to predict."""

    noun = "training windows"
    form = "answer"
    tried = 'answer {} "Where does Anna live?" --context "Anna lives in Rome."'
    effect = rise("end of an answer")

    def rows(self, examples: Sequence[Question], labels: Sequence[str], longest: int) -> list[Row]:
        """One row a window; the targets are the places of the answer's first and last token."""
        del labels  # the places of a text have no names
        rows = []
        for example in examples:
            if not example.answers and not self.options.unanswerable:
                raise InputError(
                    f"the question {example.question[:40]!r}",
                    got="no answer",
                    expected="one",
                    fix="data.unanswerable=true allows questions without",
                )
            answer = example.answers[0] if example.answers else None
            rows += [part.row for part in self._parts(example, longest, answer)[0]]
        return rows

    def _space(self, longest: int) -> int:
        """The most tokens of a question, which may fill half of it, and a part of its context."""
        return self.room(longest) - len(self.tokenizer.template([], []))

    def _parts(
        self, example: Question, longest: int, answer: Excerpt | None
    ) -> tuple[list[_Part], list[Span]]:
        """The windows of a question's context, and the characters that its tokens cover."""
        tokenizer = self.tokenizer
        ids, spans = tokenizer.spans(example.context)
        around = tokenizer.template([-1], [-2])
        space = self._space(longest)
        question = tokenizer.encode(example.question)[: space // 2]
        before = around.index(-2) - 1 + len(question)
        place = None if answer is None else _tokens_of(answer, spans)
        parts = []
        for window in windows(len(ids), space - len(question), self.options.overlap):
            inside = ids[window.start : window.stop]
            targets = [NOT_HERE, NOT_HERE]
            if place is not None and window.start <= place[0] and place[1] < window.stop:
                targets = [before + token - window.start for token in place]
            row = Row(
                tokenizer.template(question, inside),
                tokenizer.token_types(question, inside),
                targets,
            )
            parts.append(_Part(row, window, before))
        return parts, spans

    def targets(self, batch: Batch[Ragged]) -> int:
        """Two for each window: the first and the last token of the answer."""
        return 2 * len(batch.index)

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of first and last among all tokens of a window, a sum over both."""
        logits = torch.split(model.answer(batch.source), list(batch.source.lengths))
        padded = pad_sequence(list(logits), batch_first=True, padding_value=-torch.inf)
        choices = padded.transpose(1, 2).flatten(0, 1)  # (windows · first or last, longest)
        return F.cross_entropy(choices, batch.wanted.ids, reduction="sum")

    def _logits(self, model: Encoder, rows: Sequence[Row]) -> list[Tensor]:
        """For each row (tokens, first or last)."""
        model.need("spans")
        out: list[Tensor] = [torch.empty(0)] * len(rows)
        with evaluating(model):
            for batch in evaluation(rows, self.options.batch_tokens):
                logits = model.answer(batch.source.to(model.device)).float().cpu()
                for place, row in zip(
                    batch.index, torch.split(logits, list(batch.source.lengths)), strict=True
                ):
                    out[place] = row
        return out

    def answer(
        self,
        model: Encoder,
        questions: Sequence[str],
        context: str | Sequence[str],
        top: int = 1,
        unanswerable: bool | None = None,
    ) -> list[list[FoundAnswer]]:
        """The likeliest answers to each question, best first.

        Args:
            model: The encoder.
            questions: What to look for.
            context: Where to look, for all questions or for each; a longer one than the model
                reads is read in windows.
            top: How many answers of each.
            unanswerable: Whether "no answer" may be said. None: if it was trained to.
        """
        contexts = [context] * len(questions) if isinstance(context, str) else context
        if len(contexts) != len(questions):
            raise InputError("contexts", got=len(contexts), expected=f"one, or {len(questions)}")
        check_texts("the context", contexts)
        examples = [
            Question(question, context, ())
            for question, context in zip(questions, contexts, strict=True)
        ]
        most = self._space(model.config.max_length) // 2
        sizes = map(len, self.tokenizer.encode_batch(list(questions)))
        warn_cut(questions, [max(0, size - most) for size in sizes], most)
        parted = [self._parts(each, model.config.max_length, None) for each in examples]
        logits = self._logits(model, [part.row for parts, _ in parted for part in parts])
        none = self.options.unanswerable if unanswerable is None else unanswerable
        found, place = [], 0
        for example, (parts, spans) in zip(examples, parted, strict=True):
            mine = logits[place : place + len(parts)]
            place += len(parts)
            found.append(_best(example.context, parts, spans, mine, top, unanswerable=none))
        return found

    def measure(self, model: Encoder, examples: Sequence[Question]) -> Measures:
        """Mean loss of a place, exact match and F1 as SQuAD computes them."""
        rows, cuts = [], []
        for example in examples:
            answer = example.answers[0] if example.answers else None
            parts, spans = self._parts(example, model.config.max_length, answer)
            cuts.append((parts, spans))
            rows += [part.row for part in parts]
        logits = self._logits(model, rows)
        total = 0.0
        for row, each in zip(rows, logits, strict=True):
            total += float(F.cross_entropy(each.T, torch.tensor(row.targets), reduction="sum"))
        texts, place = [], 0
        for example, (parts, spans) in zip(examples, cuts, strict=True):
            mine = logits[place : place + len(parts)]
            place += len(parts)
            none = self.options.unanswerable
            [best] = _best(example.context, parts, spans, mine, 1, unanswerable=none)
            texts.append(best.text)
        accepted = [[answer.text for answer in example.answers] for example in examples]
        scores = answer_scores(texts, accepted)
        return Measures({"loss": total / max(1, 2 * len(rows)), **scores.overall}, scores.by_label)


def _tokens_of(answer: Excerpt, spans: Sequence[Span]) -> Span | None:
    """The first and the last token that cover something of an answer."""
    end = answer.start + len(answer.text)
    touched = [
        place
        for place, (first, last) in enumerate(spans)
        if first < last and first < end and last > answer.start
    ]
    return (touched[0], touched[-1]) if touched else None


def _best(
    context: str,
    parts: Sequence[_Part],
    spans: Sequence[Span],
    logits: Sequence[Tensor],
    count: int,
    *,
    unanswerable: bool,
) -> list[FoundAnswer]:
    """The likeliest spans over all windows; each is looked at in the window its start is own to.

    A span's score is start logit + end logit (section 4.2 of BERT); that there is no answer scores
    as the window that believes it least.
    """
    scores, places = [], []
    for part, each in zip(parts, logits, strict=True):
        start, stop = part.window.start, part.window.stop
        inside = each[part.before : part.before + stop - start]  # (tokens, first or last)
        tokens = torch.arange(start, stop)
        own = (tokens >= part.window.own.start) & (tokens < part.window.own.stop)
        seen = torch.tensor([first < last for first, last in spans[start:stop]], dtype=torch.bool)
        pairs = inside[:, :1] + inside[:, 1]  # (first, last)
        length = tokens - tokens[:, None]
        allowed = (length >= 0) & (length < LONGEST_ANSWER) & (own & seen)[:, None] & seen
        firsts, lasts = allowed.nonzero(as_tuple=True)
        scores.append(pairs[firsts, lasts])
        places.append(torch.stack([firsts, lasts], 1) + start)
    score, place = torch.cat(scores), torch.cat(places)  # (spans,), (spans, 2)
    nothing = min(float(each[NOT_HERE].sum()) for each in logits)
    whole = torch.cat([score, torch.tensor([nothing])]) if unanswerable else score
    if not len(whole):
        return [FoundAnswer("", 0, 0, 0.0)]
    chances = whole.softmax(0)
    found: dict[Span, FoundAnswer] = {}
    for number in chances.sort(descending=True, stable=True).indices.tolist():
        start, end = 0, 0
        if number < len(score):
            first, last = place[number].tolist()
            start, end = _whole_words(context, spans[first][0], spans[last][1])
        answer = FoundAnswer(context[start:end], start, end, float(chances[number]))
        found.setdefault((start, end), answer)  # a part of a word likelier than another
        if len(found) == count:
            break
    return list(found.values())


def _whole_words(context: str, start: int, end: int) -> Span:
    """Where a span begins and ends that does not cut through a word.

    Example:
        >>> _whole_words("Anna lives in Rome.", 6, 9)
        (5, 10)
    """
    while 0 < start < len(context) and _INSIDE.fullmatch(context, start - 1, start + 1):
        start -= 1
    while 0 < end < len(context) and _INSIDE.fullmatch(context, end - 1, end + 1):
        end += 1
    return start, end
