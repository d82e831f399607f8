"""A task that Regard does not have: a class, one line, and every command knows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

import pytest
import torch.nn.functional as F

from regard.data.sources import load_splits
from regard.data.text.windows import LabelledRow, evaluation, training
from regard.errors import FoundProblems, InputError
from regard.inputs.text.learn import learn_plain
from regard.models.mode import evaluating
from regard.recipes import recipe as recipes
from regard.runs.evaluate import evaluate
from regard.runs.load import load
from regard.tasks import TASKS
from regard.tasks.base_task import Prepared, loss_unit
from regard.tasks.encoder_task import ENCODER_SYMBOLS, EncoderTask
from regard.tasks.head_batches import of_texts
from regard.tasks.measures.report import Report, Selection
from regard.tasks.specs import TaskSpec
from tests.commands import is_refused

RECIPE = """
version: 1
task: count
data: {kind: copy, pairs: 40, held_out: 8, symbols: 5, longest: 4}
tokens: {kind: words}
model: {family: bert, size: null, dim: 16, heads: 2, hidden: 16, layers: 1, max_length: 16}
train: {steps: 2, batch_tokens: 64, warmup: 1, evaluate_every: 2, save_every: 2}
decode: {}
"""


@dataclass(frozen=True)
class Counted(Report):
    """How often the words of texts were counted right."""

    right: float

    def to_json(self):
        return {"right": self.right}

    def table(self):
        return f"counted right: {self.right:.1f}%"

    def check(self):
        if self.right > 100:
            raise FoundProblems("more than all")

    def files(self):
        return self.score_file()


class Count(EncoderTask):
    """How many words a text has, told from its first token."""

    noun = "training texts"
    unit = "texts"
    effect = loss_unit("text")
    scoring = frozenset({"lowercase"})

    def __init__(self, vocabulary, train=(), valid=(), budget=64, seed=0):
        super().__init__(vocabulary)
        self.train, self.valid, self.budget, self.seed = train, valid, budget, seed

    @classmethod
    def prepare(cls, settings, vocabulary=None):
        loaded = load_splits(settings.data)
        sources = [pair.source for pair in loaded.splits.train]
        vocabulary = vocabulary or learn_plain(sources, settings.tokens, ENCODER_SYMBOLS)
        bare = cls(vocabulary)
        rows = [bare.rows(pairs) for pairs in (loaded.splits.train, loaded.splits.valid)]
        task = cls(vocabulary, *rows, settings.train.batch_tokens, settings.seed)
        model = cls.complete_config(settings.task, settings.model, settings.model)
        return Prepared(vocabulary, task, loaded.checksums, model)

    @classmethod
    def complete_config(cls, task, config, before):
        del task, before
        heads = {"classes": ("1", "2", "3", "4"), "masked": False, "pooler": "tanh"}
        return config.model_copy(update=heads)

    def rows(self, pairs):
        read = self.reader.read([pair.source for pair in pairs], 16)
        wanted = [len(pair.source.split()) - 1 for pair in pairs]
        return [
            LabelledRow(text.values, text.types, [n]) for text, n in zip(read, wanted, strict=True)
        ]

    def batches(self, start):
        return training(self.train, self.budget, self.seed, start)

    def targets(self, batch):
        return len(batch.index)

    def loss(self, model, batch):
        return F.cross_entropy(model.classify(batch.source), batch.targets.ids, reduction="sum")

    def evaluate(self, model):
        with evaluating(model):
            total = sum(float(self.loss(model, batch)) for batch in evaluation(self.valid, 64))
        return {"loss": total / len(self.valid)}

    def examples(self, settings, selection):
        del selection
        return {"valid": load_splits(settings.data).splits.valid}

    def head_examples(self, settings, selection, count):
        return self.examples(settings, selection)["valid"][:count]

    def report(self, model, sets, scoring):
        assert not scoring.lowercase
        rows, right = self.rows(sets["valid"]), 0
        with evaluating(model):
            for batch in evaluation(rows, 64):
                said = model.classify(batch.source).argmax(1)
                right += int((said == batch.targets.ids).sum())
        return Counted(100 * right / len(rows))

    def head_batches(self, model, items):
        return [
            of_texts(model, batch.source, partial(lambda b, m: self.loss(m, b), batch), 1)
            for batch in evaluation(self.rows(items), 64)
        ]

    def suggested_command(self, settings, model_name):
        assert settings.task == "count"
        return f'embed {model_name} "a b"'


@pytest.fixture
def task(monkeypatch):
    """The one line."""
    monkeypatch.setitem(TASKS, "count", TaskSpec({"text": f"{__name__}.Count"}, "encodes", "bert"))


@pytest.mark.usefixtures("task")
def test_a_task_is_one_line_for_every_command(regard, tmp_path):
    (tmp_path / "count.yaml").write_text(RECIPE)
    trained = regard("train", "count.yaml", "-o", "run")
    assert trained.code == 0, trained.err
    assert 'try: regard embed run "a b"   regard eval run' in trained.err
    again = regard("train", "count.yaml", "-o", "run", "--resume", "--quiet", "train.steps=3")
    assert (again.code, again.err) == (0, "")

    p = load(tmp_path / "run")
    assert type(p.task) is Count
    assert p.model.config.classes == ("1", "2", "3", "4")
    scored = regard("eval", "run", "--json", "-o", "scores")
    count = len(p.task.examples(p.recipe, Selection())["valid"])
    notes = {"scored": count, "of": count, "left_out": {}, "in_training": None}
    assert json.loads(scored.out) == {"right": evaluate(p).right, **notes}
    assert json.loads((tmp_path / "scores" / "scores.json").read_text()) == json.loads(scored.out)
    assert regard("eval", "run").out.startswith("counted right: ")
    is_refused(regard("eval", "run", "--suggest"), "expected a model that generates text")
    rows = [json.loads(line) for line in regard("heads", "run", "--json").out.splitlines()]
    assert [row["head"] for row in rows] == p.model.heads()
    assert "in nats per text" in regard("heads", "run", "--pairs", "3").out
    looked = regard("look", "run", "a b", "--out", "look.html")
    assert (looked.code, looked.out) == (0, "a b\n")
    planned = json.loads(regard("plan", "run", "--flops", "1e12", "--json").out)
    assert planned["parameters"]["total"] == p.parameters
    [listed] = [json.loads(line) for line in regard("ls", ".", "--json").out.splitlines()
                if '"run"' in line]  # fmt: skip
    assert listed["step"] == 3
    p.save(tmp_path / "saved")
    assert evaluate(load(tmp_path / "saved")).right == evaluate(p).right


@pytest.mark.usefixtures("task")
def test_its_recipe_is_checked_as_those_of_the_others():
    with pytest.raises(InputError, match=r"task: count needs model\.family: bert, got gpt"):
        recipes.from_text(RECIPE.replace("family: bert, size: null", "family: gpt"), "count.yaml")


def test_without_the_line_it_is_refused():
    with pytest.raises(InputError, match="got 'count', expected one of translate, rewrite"):
        recipes.from_text(RECIPE, "count.yaml")
