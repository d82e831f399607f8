"""What is no text is refused in words by every verb, in Python as anywhere else."""

from __future__ import annotations

import pytest

import regard
from regard.errors import InputError

VERBS = {
    "tiny/translate": ("translate", "look", "heads", "stream"),
    "small/write": ("generate", "suggest", "embed", "look", "heads", "write"),
    "small/fill": ("fill", "embed", "look", "heads"),
    "small/digits": ("classify", "embed", "look", "heads", "hide_patches"),
}
ITEMS = [None, 3.5, [None], ["a", None], [3.5], [[]], [{}], [object()], [["a", 3]], b"text", [""]]


@pytest.fixture(scope="module")
def models():
    return {name: regard.load(name) for name in VERBS}


@pytest.mark.parametrize(("name", "verb"), [(name, verb) for name in VERBS for verb in VERBS[name]])
@pytest.mark.parametrize("items", ITEMS, ids=lambda items: str(items)[:12])
def test_what_is_no_text_is_refused(models, name, verb, items):
    with pytest.raises(InputError) as caught:
        getattr(models[name], verb)(items)
    assert len(str(caught.value).splitlines()) <= 2


def test_the_message_names_what_was_got(models):
    with pytest.raises(InputError, match=r"^embed: got None, expected a text$"):
        models["small/fill"].embed([None])
    with pytest.raises(InputError, match=r"^generate: got an item of type float, expected a text$"):
        models["small/write"].generate(["Once", 3.5])
    assert models["small/fill"].embed([("A dog.", "A cat."), ("A dog.", None)]).shape[0] == 2
    assert models["small/fill"].embed([]).shape[0] == 0
    words = regard.vectors("words/glove")
    for wrong in (None, [None], 3, [3.0] * 2, ["a", None]):
        with pytest.raises(InputError, match="expected a "):
            words.nearest(wrong)
    for wrong in (None, [None], [3]):
        for ask in (words.analogy, words.rows, words.odd):
            with pytest.raises(InputError, match="expected a text"):
                ask(wrong)
