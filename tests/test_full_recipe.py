"""`regard recipe --full`: every value, nested, with its origin, and readable again."""

from __future__ import annotations

import pytest

from regard.recipes import recipe as recipes
from regard.recipes.full import full_text
from tests.commands import is_refused

NAMES = [name for name in recipes.shipped()
         if recipes.task_of(name) not in recipes.TASKS_WITH_OWN_FORMAT]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_form_is_the_same_recipe(name):
    assert recipes.from_text(full_text(name), "full.yaml") == recipes.load(name)


def origin(text, *words):
    """The comment behind the first value that comes after these lines, in order."""
    lines = iter(text.splitlines())
    for word in words:
        line = next(line for line in lines if line.strip(" -").startswith(f"{word}:"))
    return line.partition("# ")[2]


def test_each_value_says_where_it_comes_from(tmp_path):
    (tmp_path / "my.yaml").write_text(
        "version: 2\ntask: translate\ndata: {kind: copy}\ntokens: {kind: words}\n"
        "model:\n  family: t5\n  size: tiny\n  heads: 2\n  encoder: {layers: 3}\ntrain: {}\n"
    )
    text = full_text(tmp_path / "my.yaml", ["model.decoder.dropout=0.5", "train.steps=9"])
    assert origin(text, "model", "encoder", "layers") == "line 9"
    assert origin(text, "model", "decoder", "layers") == "size tiny"
    assert origin(text, "model", "encoder", "heads") == "line 8"
    assert origin(text, "model", "decoder", "dropout") == "override model.decoder.dropout=0.5"
    assert origin(text, "model", "encoder", "dropout") == "default"
    assert origin(text, "model", "encoder", "norm") == "family t5"
    assert origin(text, "train", "steps") == "override train.steps=9"
    assert origin(text, "train", "warmup") == "default"


def test_the_command_prints_it_and_refuses_what_it_cannot(regard):
    printed = regard("recipe", "--full", "tiny/copy", "model.dim=16")
    assert printed.code == 0
    assert "# override model.dim=16" in printed.out
    is_refused(regard("recipe", "--full"), "expected --full NAME")
    is_refused(regard("recipe", "tiny/copy", "model.dim=16"), "expected --full NAME")
    is_refused(regard("recipe", "--full", "tiny/cpoy"), "did you mean tiny/copy")
