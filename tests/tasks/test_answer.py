"""Answers: cut out of the text, through windows, against an exhaustive search and their loss."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.data.text.annotations import Excerpt, Question
from regard.data.text.windows import batch_of
from regard.errors import InputError
from regard.tasks import Answer
from regard.tasks.answer import LONGEST_ANSWER, _extend_to_words
from regard.tasks.labelled_task import ReadingOptions
from tests import tiny_bert

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CONTEXT = "Anna lives in  Zürich-Nord; the cat, too. It was 😀 e\u0301tude!"
LONG = " ".join((tiny_bert.WORDS * 6)[:150])


@pytest.fixture(scope="module")
def theirs_and_ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spans")
    theirs = tiny_bert.save(folder, "BertForQuestionAnswering")
    return theirs, regard.load(folder)


def task_of(p, examples=(), **course):
    return Answer(p.vocabulary, examples, options=ReadingOptions(**({"longest": 48} | course)))


@pytest.mark.parametrize("text", ["Zürich", "Zürich-Nord", "the cat", "e\u0301tude", "😀", "Anna"])
def test_targets_are_the_tokens_that_cover_the_answer(theirs_and_ours, text):
    _, p = theirs_and_ours
    start = CONTEXT.index(text)
    task = task_of(p, longest=120)
    question = Question("where ?", CONTEXT, (Excerpt(text, start),))
    [row] = task.rows([question], (), 120)
    ids, spans = p.vocabulary.source.spans(CONTEXT)
    before = row.ids.index(3) + 1  # after the first separator
    first, last = (target - before for target in row.targets)
    assert row.ids[before : before + len(ids)] == ids
    assert CONTEXT[spans[first][0] : spans[last][1]] == text


def test_in_windows_the_answer_is_where_it_is_whole_and_else_at_the_first_token(theirs_and_ours):
    _, p = theirs_and_ours
    start = LONG.index("marker", 300)
    example = Question("where is it ?", LONG, (Excerpt("marker", start),))
    task = task_of(p, [example], overlap=20)
    assert len(task.train) > 4
    marker = p.vocabulary.source.encode("marker")[0]
    whole = [row for row in task.train if row.targets != [0, 0]]
    assert 1 <= len(whole) <= 2
    assert all(row.ids[row.targets[0]] == marker for row in whole)
    assert all(len(row.ids) <= 48 for row in task.train)


def test_label_smoothing_spreads_over_the_tokens_of_each_window(theirs_and_ours):
    _, p = theirs_and_ours
    examples = [Question("where is it ?", LONG, (Excerpt("the", 0),)),
                Question("so ?", "a cat", (Excerpt("cat", 2),))]  # fmt: skip
    task = task_of(p, examples, smoothing=0.2)
    batch = batch_of(task.train, range(len(task.train)))
    with torch.no_grad():
        loss = float(task.loss(p.model, batch))
        expected = 0.0
        for row in task.train:  # each alone, without padding
            logits = p.model.answer(batch_of([row], [0]).source)  # (tokens, 2)
            targets = torch.tensor(row.targets)
            window_loss = F.cross_entropy(logits.T, targets, reduction="sum", label_smoothing=0.2)
            expected += float(window_loss)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_theirs_summed_over_places(theirs_and_ours):
    theirs, p = theirs_and_ours
    example = Question("where is it ?", LONG, (Excerpt("the", 0),))
    task = task_of(p, [example, Question("so ?", "a cat", (Excerpt("cat", 2),))])
    batch = batch_of(task.train, range(len(task.train)))
    expected = 0.0
    with torch.no_grad():
        loss = float(task.loss(p.model, batch))
        for row in task.train:
            first, last = (torch.tensor([target]) for target in row.targets)
            out = theirs(torch.tensor([row.ids]), token_type_ids=torch.tensor([row.types]),
                         start_positions=first, end_positions=last)  # fmt: skip
            expected += 2 * float(out.loss)  # theirs is the mean of the two
    assert loss == pytest.approx(expected, rel=1e-4)
    assert task.targets(batch) == 2 * len(task.train)


@pytest.mark.parametrize("unanswerable", [False, True])
def test_the_best_answers_are_those_of_an_exhaustive_search(theirs_and_ours, unanswerable):
    _, p = theirs_and_ours
    task = task_of(p, overlap=2 * LONGEST_ANSWER, longest=120)
    [answers] = task.answer(
        p.model, task.read(p.model, ["where ?"]), CONTEXT, 5, unanswerable=unanswerable
    )
    question = task.tokenizer.encode("where ?")
    example = Question("where ?", CONTEXT, ())
    [(parts, spans, logits)] = task._read_windows(p.model, [question], [example])
    scores = {("", 0, 0): min(float(row[0].sum()) for row in logits)} if unanswerable else {}
    every, words = [*scores.values()], [word.span() for word in re.finditer(r"[^\W_]+", CONTEXT)]
    for part, window_logits in zip(parts, logits, strict=True):
        for first in part.window.own_tokens:
            for last in range(first, min(first + LONGEST_ANSWER, part.window.stop)):
                (start, _), (_, end) = spans[first], spans[last]
                rows = [part.before + token - part.window.start for token in (first, last)]
                score = float(window_logits[rows[0], 0] + window_logits[rows[1], 1])
                every.append(score)
                start = next((first for first, last in words if first < start < last), start)
                end = next((last for first, last in words if first < end < last), end)
                known = scores.get((CONTEXT[start:end], start, end), -math.inf)
                scores[CONTEXT[start:end], start, end] = max(score, known)
    total = torch.logsumexp(torch.tensor(every), 0)
    best = sorted(scores, key=lambda key: -scores[key])[:5]
    assert [(answer.text, answer.start, answer.end) for answer in answers] == best
    for answer in answers:
        expected = torch.exp(torch.tensor(scores[answer.text, answer.start, answer.end]) - total)
        assert answer.probability == pytest.approx(float(expected), rel=1e-3)


def test_questions_together_are_answered_as_alone(theirs_and_ours):
    _, p = theirs_and_ours
    asked = [("where ?", CONTEXT), ("so ?", LONG), ("who ?", "Anna")]
    questions, contexts = map(list, zip(*asked, strict=True))
    together = p.task.answer(p.model, p.task.read(p.model, questions), contexts)
    for (question, context), [answer] in zip(asked, together, strict=True):
        [alone] = p.answer(question, context)
        assert (alone.text, alone.start) == (answer.text, answer.start)
        assert context[answer.start : answer.end] == answer.text
    measured = p.measure([Question(q, c, (Excerpt(c[:4], 0),)) for q, c in asked])
    assert measured.overall.keys() == {"loss", "exact", "f1"}


def test_questions_without_answer_or_text_are_refused(theirs_and_ours):
    _, p = theirs_and_ours
    with pytest.raises(InputError, match="unanswerable=true"):
        task_of(p, [Question("why ?", "a cat", ())])
    assert task_of(p, [Question("why ?", "a cat", ())], unanswerable=True).train[0].targets == [
        0,
        0,
    ]
    with pytest.raises(InputError, match="the context: got an empty text"):
        p.answer("why ?", "  ")


def test_an_answer_is_whole_words_whatever_its_tokens_cover(theirs_and_ours):
    _, p = theirs_and_ours
    for answer in p.answer("where ?", CONTEXT, 20):
        for edge in (answer.start, answer.end):
            assert not CONTEXT[max(0, edge - 1) : edge + 1].isalnum() or edge in (
                0,
                len(CONTEXT),
            )
    answers = p.answer("where ?", CONTEXT, 20)
    assert len({(answer.start, answer.end) for answer in answers}) == 20


def test_several_questions_are_answered_in_one_text_or_each_in_its_own(theirs_and_ours):
    _, p = theirs_and_ours
    first, second = p.answer(["where ?", "who is it ?"], [CONTEXT, LONG])
    assert first[0].text == p.answer("where ?", CONTEXT)[0].text
    assert second[0].text == p.answer("who is it ?", LONG)[0].text
    assert p.answer(["where ?"], CONTEXT)[0][0].text == first[0].text
    with pytest.raises(InputError, match="contexts: got 1, expected one, or 2"):
        p.answer(["where ?", "who ?"], [CONTEXT])


@pytest.mark.parametrize(
    ("text", "span", "whole"),
    [
        ("東京は日本の首都です。", "日本", "日本"),
        ("李白生于701年，字太白", "701", "701"),
        ("서울은 한국의 수도이다", "한국", "한국의"),
        ("Anna lives in Rome.", "ives", "lives"),
        ("a snake_case_name", "cas", "case"),
    ],
)
def test_words_are_whole_where_words_have_spaces_between_them(text, span, whole):
    start = text.index(span)
    first, last = _extend_to_words(text, start, start + len(span))
    assert text[first:last] == whole
