"""Extractive question answering: questions, contexts and answers -> loss, exact match, answers.

The encoder reads question and context together and computes for each token a logit as the first and
as the last token of the answer. A context that is too long is read in overlapping windows; for a
window without the answer, the target is its first token, which stands for "no answer here". An
answer is a substring of the original context, extended to whole words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data.batch import Batch
from regard.data.text.annotations import Excerpt, Question
from regard.data.text.windows import LabelledRow, OnShare, Window, evaluation, windows
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.models.encoder import Encoder
from regard.models.mode import evaluating
from regard.tasks.base_task import loss_unit
from regard.tasks.labelled_task import LabelledTask
from regard.tasks.measures.accuracy import Measures, answer_scores

_IN_WORD = re.compile(
    "(?:(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    r"[^\W_]){2}"
)
"""Two letters or digits inside one word; never matches scripts without spaces between words."""
LONGEST_ANSWER = 30
"""The maximal number of tokens of an answer, as in BERT. Windows overlap by more than twice as many
tokens by default, so that every answer lies within one window."""
NO_ANSWER_TOKEN = 0
"""The target of a window without the answer: its first token."""
Span = tuple[int, int]


@dataclass(frozen=True)
class FoundAnswer:
    """An answer, `context[start:end]`; an empty text if there is no answer."""

    text: str
    start: int
    end: int
    probability: float
    """The probability among all spans of the context, and "no answer" if that is allowed."""


@dataclass(frozen=True)
class _ContextWindow:
    """A question with one window of its context."""

    row: LabelledRow
    window: Window
    before: int
    """The number of tokens in the row before the window."""


class Answer(LabelledTask[Question]):
    """Extractive question answering: training, evaluation and prediction."""

    noun = "training windows"
    form = "answer"
    scored = "questions"
    example_command = 'answer {} "Where does Anna live?" --context "Anna lives in Rome."'
    effect = loss_unit("end of an answer")

    def rows(
        self, examples: Sequence[Question], labels: Sequence[str], longest: int
    ) -> list[LabelledRow]:
        """One row per window; the targets are the positions of the answer's first and last token.

        Raises:
            InputError: A question has no answer though `unanswerable` is not set.
        """
        del labels  # the targets are positions, not labels
        rows = []
        for example in examples:
            if not example.answers and not self.options.unanswerable:
                what = f"the question {example.question[:40]!r}"
                fix = "data.unanswerable=true allows questions without an answer"
                raise InputError(what, got="no answer", expected="one", fix=fix)
            question = self.tokenizer.encode(example.question)
            rows += [part.row for part in self._split_context(question, example, longest)[0]]
        return rows

    def _window_space(self, longest: int) -> int:
        """The maximal number of tokens of a question and a window together.

        A question may have half of them.
        """
        return self.max_row_tokens(longest) - len(self.tokenizer.template([], []))

    def read(self, model: Encoder, items: Sequence[str], **_: Any) -> list[Encoded]:
        """Reads questions, each truncated to half of what the model can read."""
        max_question_tokens = self._window_space(model.config.max_length) // 2
        return [
            Encoded(question, ids[:max_question_tokens], cut=max(0, len(ids) - max_question_tokens))
            for question, ids in zip(items, self.tokenizer.encode_batch(items), strict=True)
        ]

    def _split_context(
        self, question: Sequence[int], example: Question, longest: int
    ) -> tuple[list[_ContextWindow], list[Span]]:
        """Splits a question's context into windows.

        Args:
            question: The ids of the question.
            example: The question with its context; its first answer gives the targets of the rows.
            longest: The maximal number of tokens that the model can read.

        Returns:
            The windows, and for each token of the context its characters (start, end).
        """
        tokenizer = self.tokenizer
        ids, spans = tokenizer.spans(example.context)
        around = tokenizer.template([-1], [-2])
        space = self._window_space(longest)
        question = question[: space // 2]
        before = around.index(-2) - 1 + len(question)
        answer = _answer_tokens(example.answers[0], spans) if example.answers else None
        parts = []
        for window in windows(len(ids), space - len(question), self.options.overlap):
            inside = ids[window.start : window.stop]
            targets = [NO_ANSWER_TOKEN, NO_ANSWER_TOKEN]
            if answer is not None and window.start <= answer[0] and answer[1] < window.stop:
                targets = [before + token - window.start for token in answer]
            types = tokenizer.token_types(question, inside)
            row = LabelledRow(tokenizer.template(question, inside), types, targets)
            parts.append(_ContextWindow(row, window, before))
        return parts, spans

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of targets: two per window, the first and the last token of the answer."""
        return 2 * len(batch.index)

    def loss(self, model: Encoder, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy of the first and last token among all tokens of a window, summed.

        Label smoothing spreads ε over the tokens of the window: (1 - ε)(-log p) + ε mean(-log p_i).
        """
        logits = torch.split(model.answer(batch.source), list(batch.source.lengths))
        padded = pad_sequence(list(logits), batch_first=True, padding_value=-torch.inf)
        choices = padded.transpose(1, 2).flatten(0, 1)  # (windows · first or last, longest)
        loss = F.cross_entropy(choices, batch.targets.ids, reduction="sum")
        smoothing, is_token = self.options.smoothing, choices > -torch.inf
        if not smoothing:
            return loss
        mean_log_probs = choices.log_softmax(1).masked_fill(~is_token, 0.0).sum(1) / is_token.sum(1)
        return (1 - smoothing) * loss - smoothing * mean_log_probs.sum()

    def _read_windows(
        self,
        model: Encoder,
        questions: Sequence[Sequence[int]],
        examples: Sequence[Question],
        on_progress: OnShare | None = None,
    ) -> list[tuple[list[_ContextWindow], list[Span], list[Tensor]]]:
        """For each question its windows, the characters of its tokens, and the windows' logits.

        The logits of a window are (tokens, 2): of each token as the first and as the last one.
        """
        longest = model.config.max_length
        contexts = [
            self._split_context(question, example, longest)
            for question, example in zip(questions, examples, strict=True)
        ]
        rows = [part.row for parts, _ in contexts for part in parts]
        model.require_head("spans")
        logits: dict[int, Tensor] = {}
        with evaluating(model):
            for batch in evaluation(rows, self.options.batch_tokens, on_progress):
                batch_logits = model.answer(batch.source.to(model.device)).float().cpu()
                windows = torch.split(batch_logits, list(batch.source.lengths))
                logits |= dict(zip(batch.index, windows, strict=True))
        in_order = (logits[index] for index in range(len(rows)))
        return [(parts, spans, [next(in_order) for _ in parts]) for parts, spans in contexts]

    def answer(
        self,
        model: Encoder,
        encoded: Sequence[Encoded],
        context: str | Sequence[str],
        top: int = 1,
        unanswerable: bool | None = None,
    ) -> list[list[FoundAnswer]]:
        """The most probable answers to each question, best first.

        Args:
            model: The encoder.
            encoded: The questions.
            context: The text to find answers in, for all questions or one for each. A context that
                is longer than the model can read is read in windows.
            top: The number of answers per question.
            unanswerable: Whether "no answer" is a possible answer; None: as in training.
        """
        contexts = [context] * len(encoded) if isinstance(context, str) else context
        if len(contexts) != len(encoded):
            raise InputError("contexts", got=len(contexts), expected=f"one, or {len(encoded)}")
        self.tokenizer.check("the context", contexts)
        examples = [
            Question(question.item, context, ())
            for question, context in zip(encoded, contexts, strict=True)
        ]
        windows = self._read_windows(model, [question.values for question in encoded], examples)
        unanswerable = self.options.unanswerable if unanswerable is None else unanswerable
        return [
            _best_answers(example.context, *parts, top, unanswerable=unanswerable)
            for example, parts in zip(examples, windows, strict=True)
        ]

    def measure(
        self, model: Encoder, examples: Sequence[Question], on_progress: OnShare | None = None
    ) -> Measures:
        """Mean loss per target, and exact match and F1 as in SQuAD."""
        questions = self.tokenizer.encode_batch([example.question for example in examples])
        results = self._read_windows(model, questions, examples, on_progress)
        windows = [pair for parts, _, logits in results for pair in zip(parts, logits, strict=True)]
        total = 0.0
        for part, logits in windows:
            targets = torch.tensor(part.row.targets)
            total += float(F.cross_entropy(logits.T, targets, reduction="sum"))
        texts, unanswerable = [], self.options.unanswerable
        for example, parts in zip(examples, results, strict=True):
            [best] = _best_answers(example.context, *parts, 1, unanswerable=unanswerable)
            texts.append(best.text)
        accepted = [[answer.text for answer in example.answers] for example in examples]
        scores = answer_scores(texts, accepted)
        return scores.with_loss(total / max(1, 2 * len(windows)))


def _answer_tokens(answer: Excerpt, spans: Sequence[Span]) -> Span | None:
    """The first and the last token that overlap an answer; None if there is none."""
    end = answer.start + len(answer.text)
    overlapping = [
        index
        for index, (first, last) in enumerate(spans)
        if first < last and first < end and last > answer.start
    ]
    return (overlapping[0], overlapping[-1]) if overlapping else None


def _best_answers(
    context: str,
    parts: Sequence[_ContextWindow],
    spans: Sequence[Span],
    logits: Sequence[Tensor],
    count: int,
    *,
    unanswerable: bool,
) -> list[FoundAnswer]:
    """The most probable answers over all windows.

    The score of a span is the sum of its start logit and its end logit (section 4.2 of BERT). Each
    token belongs to one window (`Window.own_tokens`); a span is scored in the window of its first
    token. The score of "no answer" is the sum of the two logits at a window's first token, and of
    all windows the lowest one counts.

    Args:
        context: The text.
        parts: The windows of the context.
        spans: For each token of the context its characters (start, end).
        logits: For each window (tokens, 2).
        count: The number of answers.
        unanswerable: Whether "no answer" is a possible answer.
    """
    window_scores, window_spans = [], []
    for part, window_logits in zip(parts, logits, strict=True):
        start, stop = part.window.start, part.window.stop
        inside = window_logits[part.before : part.before + stop - start]  # (tokens, first or last)
        tokens = torch.arange(start, stop)
        is_own = (tokens >= part.window.own_tokens.start) & (tokens < part.window.own_tokens.stop)
        is_text = torch.tensor([begin < end for begin, end in spans[start:stop]], dtype=torch.bool)
        sums = inside[:, :1] + inside[:, 1]  # (first, last)
        length = tokens - tokens[:, None]
        allowed = (length >= 0) & (length < LONGEST_ANSWER) & (is_own & is_text)[:, None] & is_text
        firsts, lasts = allowed.nonzero(as_tuple=True)
        window_scores.append(sums[firsts, lasts])
        window_spans.append(torch.stack([firsts, lasts], 1) + start)
    scores, token_spans = torch.cat(window_scores), torch.cat(window_spans)  # (spans,), (spans, 2)
    no_answer = min(float(window_logits[NO_ANSWER_TOKEN].sum()) for window_logits in logits)
    choices = torch.cat([scores, torch.tensor([no_answer])]) if unanswerable else scores
    if not len(choices):
        return [FoundAnswer("", 0, 0, 0.0)]
    probabilities = choices.softmax(0)
    answers: dict[Span, FoundAnswer] = {}
    for index in probabilities.sort(descending=True, stable=True).indices.tolist():
        start, end = 0, 0
        if index < len(scores):
            first, last = token_spans[index].tolist()
            start, end = _extend_to_words(context, spans[first][0], spans[last][1])
        answer = FoundAnswer(context[start:end], start, end, float(probabilities[index]))
        # Two token spans may extend to the same whole words: the more probable one counts.
        answers.setdefault((start, end), answer)
        if len(answers) == count:
            break
    return list(answers.values())


def _extend_to_words(context: str, start: int, end: int) -> Span:
    """Extends a span of characters so that it does not cut through a word.

    Example:
        >>> _extend_to_words("Anna lives in Rome.", 6, 9)
        (5, 10)
    """
    while 0 < start < len(context) and _IN_WORD.fullmatch(context, start - 1, start + 1):
        start -= 1
    while 0 < end < len(context) and _IN_WORD.fullmatch(context, end - 1, end + 1):
        end += 1
    return start, end
