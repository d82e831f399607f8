"""Classification: the loss against the equation, order of data, a batch is its texts one by one."""

from __future__ import annotations

import itertools

import pytest
import torch

import regard
from regard.data.batch import Cursor
from regard.data.text.annotations import LabelledText
from regard.data.text.windows import batch_of
from regard.errors import InputError
from regard.tasks import Classify
from regard.tasks.labelled_task import ReadingOptions
from tests import tiny_bert

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CLASSES = ("LABEL_0", "LABEL_1", "LABEL_2")
EXAMPLES = [
    LabelledText(
        " ".join(tiny_bert.WORDS[i : i + i % 5 + 1]), None if i % 3 else "so it was", label
    )
    for i, label in enumerate(CLASSES * 4)
]


@pytest.fixture(scope="module")
def theirs_and_ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    theirs = tiny_bert.save(folder, "BertForSequenceClassification", num_labels=3)
    return theirs, regard.load(folder)


@pytest.fixture
def task(theirs_and_ours):
    course = ReadingOptions(longest=20, batch_tokens=40, smoothing=0.0, seed=3)
    return Classify(theirs_and_ours[1].vocabulary, EXAMPLES, EXAMPLES[:5], CLASSES, course)


def test_the_loss_is_theirs_summed_over_texts_and_pairs(theirs_and_ours, task):
    theirs, p = theirs_and_ours
    batch = batch_of(task.train, range(12))
    with torch.no_grad():
        loss = float(task.loss(p.model, batch))
        expected = 0.0
        for row in task.train:
            out = theirs(torch.tensor([row.ids]), token_type_ids=torch.tensor([row.types]),
                         labels=torch.tensor(row.targets))  # fmt: skip
            expected += float(out.loss)
    assert loss == pytest.approx(expected, rel=1e-4)
    assert task.targets(batch) == 12


def test_parts_of_a_batch_add_up_to_it(theirs_and_ours, task):
    model = theirs_and_ours[1].model
    batch = batch_of(task.train, range(12))
    parts = task.split(batch, 5)
    with torch.no_grad():
        together, apart = task.loss(model, batch), sum(task.loss(model, part) for part in parts)
    torch.testing.assert_close(together, apart)
    assert sorted(i for part in parts for i in part.index) == list(range(12))


def test_batches_go_on_from_any_cursor(task):
    first = list(itertools.islice(task.batches(Cursor()), 15))
    assert first[-1][1].epoch >= 1
    for start in (0, 2, 7):
        again = list(itertools.islice(task.batches(first[start][1]), 3))
        expected = first[start + 1 : start + 4]
        assert [b.index for b, _ in again] == [b.index for b, _ in expected]


def test_a_batch_gives_what_each_text_gives_alone_and_measures_follow(theirs_and_ours, task):
    _, p = theirs_and_ours
    texts = [
        example.text if example.pair is None else (example.text, example.pair)
        for example in EXAMPLES
    ]
    together = p.classify(texts)
    for text, labels in zip(texts, together, strict=True):
        alone = p.classify(text)
        assert [label.label for label in alone] == [label.label for label in labels]
        assert alone[0].probability == pytest.approx(labels[0].probability, abs=1e-5)
    right = sum(labels[0].label == example.label
                for labels, example in zip(together, EXAMPLES, strict=True))  # fmt: skip
    assert p.measure(EXAMPLES).overall["accuracy"] == pytest.approx(100 * right / 12)
    assert task.evaluate(p.model).keys() == {"loss", "accuracy", "f1"}


def test_a_label_that_was_not_trained_is_refused(theirs_and_ours):
    with pytest.raises(InputError, match="a label that the model does not have"):
        theirs_and_ours[1].measure([LabelledText("the cat", None, "other")])
    with pytest.raises(InputError, match="cannot tag"):
        theirs_and_ours[1].tag("the cat")
