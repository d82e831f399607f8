"""Tables in commands and in Python: train, predict, eval, resume; as good as scikit-learn."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import regard as package
from regard.checkpoint.folder import CHECKPOINTS
from regard.errors import InputError, Interrupted
from tests.commands import is_refused

IN_RUNS = pytest.mark.usefixtures("runs")
"""The test works in a folder with the runs."""
COLOURS = {"red": 0.0, "green": 3.0, "blue": 7.0}


def write(path, header, rows):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def rows_of_prices(count=120):
    random = np.random.default_rng(0)
    sizes = random.random(count).round(3).tolist()
    colours = random.choice(list(COLOURS), count).tolist()
    return [(size, colour, round(10 * size + COLOURS[colour], 3))
            for size, colour in zip(sizes, colours, strict=True)]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs that predict prices, and whether they are high; tests copy the folder."""
    folder = tmp_path_factory.mktemp("tables")
    rows = rows_of_prices()
    write(folder / "prices.csv", ["size", "colour", "price"], rows)
    write(folder / "high.csv", ["size", "colour", "high"],
          [(*inputs, "high" if price > 8 else "low") for *inputs, price in rows])  # fmt: skip
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name, target in (("prices", "price"), ("high", "high")):
            package.train(
                "own/table", name, quiet=True, threads=1,
                data={"train": f"{name}.csv", "target": target}, model={"hidden": [16]},
                train={"steps": 300, "evaluate_every": 100, "save_every": 100},
            )  # fmt: skip
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def runs(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@IN_RUNS
def test_rows_of_files_pipes_and_arguments_are_predicted_alike(regard):
    from_file = regard("predict", "prices", "prices.csv").out.splitlines()
    lines = Path("prices.csv").read_text().splitlines()
    piped = regard("predict", "prices", "-", feed="\n".join(lines).encode())
    assert [*map(float, piped.out.split())] == pytest.approx([*map(float, from_file)], abs=1e-4)
    assert piped.err == ""
    bare = "\n".join(line.rpartition(",")[0] for line in lines[1:])
    assert regard("predict", "prices", feed=bare.encode()).out.splitlines() == from_file
    assert regard("predict", "prices", "--input", "prices.csv").out == piped.out
    first = lines[1].rpartition(",")[0]
    assert regard("predict", "prices", first).out.splitlines() == from_file[:1]
    errors = [float(line) - row[2] for line, row in zip(from_file, rows_of_prices(), strict=True)]
    assert np.abs(errors).mean() < 0.5


@IN_RUNS
def test_json_has_the_row_and_all_probabilities(regard):
    row = json.loads(regard("predict", "high", "0.9,blue", "--json").out)
    assert (row["row"], row["predicted"]) == ("0.9,blue", "high")
    assert sum(row["classes"].values()) == pytest.approx(1)
    rows = regard("predict", "high", "high.csv", "--json").out.splitlines()
    assert json.loads(rows[0])["row"] == dict(zip(["size", "colour"], map(str, rows_of_prices()[0]),
                                                  strict=False))  # fmt: skip


@IN_RUNS
def test_a_row_that_cannot_be_read_gives_an_empty_line(regard):
    write(
        "bad.csv",
        ["size", "colour"],
        [(0.5, "red"), ("", "red"), (0.5, "pink"), (0.5,), (1, "red")],
    )
    result = regard("predict", "prices", "bad.csv")
    assert [bool(line) for line in result.out.splitlines()] == [True, False, False, False, True]
    for words in ("bad.csv:3: column size", "bad.csv:4: column colour: got 'pink'", "bad.csv:5"):
        assert words in result.err
    assert regard("predict", "prices", "bad.csv", "--strict").code == 2
    piped = regard("predict", "prices", feed=b"0.5,red\n0.5,pink\n\n1,red\n")
    assert [bool(line) for line in piped.out.splitlines()] == [True, False, False, True]
    assert "line 2" in piped.err


@IN_RUNS
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0.5,pink"], ["'pink'", "red"]),
        (["0.5"], ["got 1 value", "size, colour"]),
        (["big,red"], ["column size: got 'big'"]),
        (["none.csv"], ["no such file"]),
        (["high.txt"], ["got 1 value"]),
        (["size,colour"], ["names of columns"]),
        (["wrong.csv"], ["no column colour", "is it 'color'?"]),
    ],
)
def test_wrong_rows_are_refused(regard, words, said):
    write("wrong.csv", ["size", "color"], [(1, "red")])
    is_refused(regard("predict", "prices", *words), *said)


@IN_RUNS
def test_a_pipe_without_a_column_stops_at_its_names(regard):
    is_refused(regard("predict", "prices", "-", feed=b"size,color\n0.5,red\n"), "no column colour")


@IN_RUNS
def test_eval_scores_splits_and_other_tables(regard):
    scores = json.loads(regard("eval", "prices", "--json").out)
    assert scores["examples"] == 12
    assert scores["r2"] > 0.9
    other = regard("eval", "high", "--data", "high.csv")
    assert "accuracy" in other.out
    assert "in the training data" in other.out
    named = regard("eval", "prices", "--data", "high.csv")
    is_refused(named, "price", "which is predicted")
    write("renamed.csv", ["size", "colour", "cost"], rows_of_prices())
    assert "r2" in regard("eval", "prices", "--data", "renamed.csv", "data.target=cost").out


@IN_RUNS
def test_python_takes_rows_of_any_form():
    p = package.load("prices")
    first = p.predict("0.5,red").value
    assert p.predict({"colour": "red", "size": 0.5}).value == first
    assert p.predict([0.5, "red"]).value == first
    several = p.predict([[0.5, "red"], {"size": "0.5", "colour": "red", "note": 1}, "0.5,red"])
    assert [answer.value for answer in several] == pytest.approx([first] * 3)
    assert len(p.predict("prices.csv")) == len(p.predict(Path("prices.csv"))) == 120
    assert p.predict([]) == []
    assert p.parameters == sum(parameter.numel() for parameter in p.model.parameters())
    p.save("saved")
    assert package.load("saved").predict("0.5,red").value == first
    with pytest.raises(InputError, match="column size"):
        p.predict({"colour": "red", "size": None})
    numbers = package.load("high")
    assert numbers.predict([0.9, "blue"]).probability > 0.5


@IN_RUNS
def test_a_killed_run_resumes_bit_for_bit():
    settings = {"data": {"train": "prices.csv", "target": "price"}, "model": {"hidden": [16]},
                "train": {"steps": 300, "evaluate_every": 100, "save_every": 100}}  # fmt: skip

    def stop(step, _):
        if step == 150:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        package.train("own/table", "again", quiet=True, threads=1, watch=stop, **settings)
    package.train(out="again", resume=True, quiet=True, threads=1)
    newest = max(path.name for path in Path("prices", CHECKPOINTS).iterdir())
    weights = [Path(run, CHECKPOINTS, newest, "model.safetensors").read_bytes()
               for run in ("prices", "again")]  # fmt: skip
    assert weights[0] == weights[1]


@IN_RUNS
def test_what_other_commands_say_of_it(regard):
    assert "predict" in regard("ls", "prices").out
    planned = regard("plan", "prices", "--flops", "1e9").out
    assert "rows of 4 numbers" in planned
    assert "FLOPs per row" in planned
    is_refused(regard("look", "prices", "0.5,red"), "without attention")
    is_refused(regard("export", "prices", "-o", "out"), "model of tables")
    is_refused(regard("classify", "high", "0.5,red"), "regard predict")
    checked = regard("data", "check", "prices.csv", "--task", "predict", "data.target=price")
    assert checked.code == 0
    assert "colour: 3 categories" in checked.out
    sample = regard("data", "sample", "own/table", "data.train=prices.csv", "data.target=price",
                    "--pairs", "2")  # fmt: skip
    assert sample.out.startswith("size\tcolour=blue")
    assert len(sample.out.splitlines()) == 3


@IN_RUNS
def test_wrong_recipes_are_refused(regard):
    train = "train", "own/table", "-o", "new", "data.train=prices.csv"
    is_refused(regard(*train, "data.target=prise"), "did you mean data.target=price?")
    is_refused(regard(*train[:4], "data.target=price"), "data.train", "table.csv: no such file")
    is_refused(regard(*train, "data.target=price", "model.hidden=[a]"), "model.hidden")
    is_refused(regard("train", "own/images", "-o", "new", "model.family=mlp"), "model.family")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sklearn")


SHORT = {"steps": 300, "evaluate_every": 50, "save_every": 300}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize(
    ("name", "hidden"),
    [("iris", []), ("wine", []), ("digits", []), ("wine", [64]), ("digits", [64])],
)
def test_classes_are_as_right_as_scikit_learns(folder, monkeypatch, name, hidden):
    """The same rows to learn from, the same rows to predict."""
    bunch = getattr(datasets, f"load_{name}")()
    x, x_test, y, y_test = train_test_split(
        bunch.data, bunch.target, test_size=0.4, random_state=0, stratify=bunch.target
    )
    theirs = LogisticRegression(max_iter=500)
    if hidden:
        theirs = MLPClassifier((64,), max_iter=60, learning_rate_init=0.01, random_state=0)
    right = make_pipeline(StandardScaler(), theirs).fit(x, y).score(x_test, y_test)
    scores = our_scores(folder, monkeypatch, (x, y), (x_test, y_test), hidden)
    assert scores["accuracy"] > 100 * right - 1 - 100 / len(y_test)  # a point, and one row


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diabetes", "alcohol"])
def test_numbers_are_as_near_as_scikit_learns(folder, monkeypatch, name):
    bunch = datasets.load_diabetes() if name == "diabetes" else datasets.load_wine()
    x, y = (bunch.data, bunch.target)
    if name == "alcohol":
        x, y = x[:, 1:], x[:, 0]
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
    r2 = LinearRegression().fit(x, y).score(x_test, y_test)
    scores = our_scores(folder, monkeypatch, (x, y), (x_test, y_test), [], predict="numbers")
    assert scores["r2"] > r2 - 0.02


def our_scores(folder, monkeypatch, train, test, hidden, **settings):
    """The scores of a model of ours on the test rows."""
    monkeypatch.chdir(folder)
    header = [*(f"x{i}" for i in range(train[0].shape[1])), "y"]
    for name, (x, y) in (("train", train), ("test", test)):
        rows = zip(x.tolist(), y.tolist(), strict=True)
        write(f"{name}.csv", header, [[*map(repr, inputs), target] for inputs, target in rows])
    data = {"train": "train.csv", "test": "test.csv", "target": "y", **settings}
    p = package.train(
        "own/table" if hidden else "own/linear", quiet=True, threads=1, data=data,
        model={"hidden": hidden}, train=SHORT,
    )  # fmt: skip
    [test_rows] = p.task.examples(p.recipe, selection()).values()
    return p.measure(test_rows).overall


def selection():
    from regard.tasks.measures.report import Selection

    return Selection()
