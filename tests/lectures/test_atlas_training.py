"""Figures of part 5: the loss of a word, the identity, a word's vector from layer to layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError
from regard_lectures import show
from regard_lectures.figures import training
from regard_lectures.figures.contexts import NEAREST, nearest, read
from regard_lectures.figures.identity import Chain, identity_error, learn_identity
from regard_lectures.figures.loss import measures, phrases
from regard_lectures.figures.residuals import words_residuals
from tests.lectures.drawn import drawn
from tests.legible import problems, texts


def test_the_error_of_the_identity_is_relative_and_zero_for_nothing_added():
    chain = Chain(3, residual=True)
    x = torch.randn(5, 32)
    with torch.no_grad():
        for parameter in chain.parameters():
            parameter.zero_()
        assert float(identity_error(chain, x)) == 0
        chain.residual = False
        assert float(identity_error(chain, x)) == 1


@pytest.mark.slow
def test_plain_layers_learn_the_identity_badly():
    def error(layers: int, *, residual: bool) -> float:
        return learn_identity(layers, 60, 0.003, 0, lambda *_: None, residual=residual)

    assert error(1, residual=True) < error(1, residual=False) / 3
    assert error(4, residual=True) < error(4, residual=False)
    numbers = drawn("residuals").numbers
    plain, residual = (np.array(numbers[f"identity_error_{k}"]) for k in ("plain", "residual"))
    assert numbers["identity_layers"] == [1, 2, 4, 8]
    assert residual.shape == (3, 4)  # of three seeds
    assert np.all(residual < plain / 2)
    assert np.all(np.diff(plain) > 0)


def test_what_norms_and_residuals_say_is_what_each_seed_says():
    norms, residuals = drawn("norms"), drawn("residuals")
    assert norms.title.startswith("Without warm-up pre-norm learns, post-norm does not learn")
    learned = training.words_norms({**norms.numbers, "loss_post_norm": [2.7, 0.1, 0.1]})
    assert "post-norm learns in 2 of 3 trainings" in learned.title
    assert "post-norm 0.10 to 2.70" in learned.caption
    even = training.words_norms({**norms.numbers, "gradients_post_norm": [[1, 1.1], [1.1, 1]]})
    assert "not clearly larger or smaller" in even.caption
    at_times = {**residuals.numbers, "loss_no_norms": [0.1, 0.1, 2.0]}
    assert "in part without norms" in words_residuals(at_times).title
    assert "3 seeds" in norms.limits
    assert "200 steps" in residuals.limits


def test_other_layers_and_steps_get_other_words():
    norms = show("norms", layers=2, steps=3, tries=2)
    assert norms.title == ("Without warm-up both do not learn; with warm-up both do not learn")
    assert "2 blocks" in norms.limits
    residuals = show("residuals", layers=2, steps=3, tries=1)
    assert residuals.title == "2 blocks learn neither with residuals and norms nor without"
    assert problems(norms.figure) == problems(residuals.figure) == []


def test_the_losses_are_those_of_pytorch():
    logits = torch.randn(7, dtype=torch.float64)
    losses = measures(logits.softmax(-1), 3, 0.1, "now")
    target = torch.tensor([3])
    for name, smoothing in (("one_hot", 0.0), ("smoothed", 0.1)):
        wanted = torch.nn.functional.cross_entropy(logits[None], target, label_smoothing=smoothing)
        assert losses[f"cross_entropy_{name}_now"] == pytest.approx(float(wanted))
    smoothed = torch.full((7,), 0.1 / 7, dtype=torch.float64)
    smoothed[3] += 0.9
    divergence = torch.nn.functional.kl_div(logits.log_softmax(-1), smoothed, reduction="sum")
    assert losses["kl_smoothed_now"] == pytest.approx(float(divergence))
    assert losses["kl_one_hot_now"] == pytest.approx(losses["cross_entropy_one_hot_now"])


def test_the_loss_of_merci_is_that_of_its_distribution():
    numbers = show("loss").numbers
    names, right = numbers["vocabulary"], numbers["right"]
    assert names[right] == "thanks"
    for when in ("before", "after"):
        q = np.array(numbers[when])
        assert q.sum() == pytest.approx(1, abs=1e-4)
        assert numbers[f"cross_entropy_one_hot_{when}"] == pytest.approx(-np.log(q[right]), 1e-3)
        p = np.full(len(q), 0.1 / len(q))
        p[right] += 0.9
        assert numbers[f"kl_smoothed_{when}"] == pytest.approx((p * np.log(p / q)).sum(), abs=5e-3)
    assert numbers["cross_entropy_one_hot_before"] == pytest.approx(np.log(len(names)), abs=1)
    assert numbers["after"][right] > 0.8


def test_the_phrases_are_few_and_each_has_one_translation():
    sources = [pair.source for pair in phrases()]
    assert 200 <= len(sources) == len(set(sources)) <= 300
    assert all(pair.source == pair.source.lower() for pair in phrases())


@pytest.mark.slow
def test_the_loss_takes_any_pair_and_learns_its_new_words():
    known = show("loss", text="le chat dort = the cat sleeps", word=2, steps=3, tries=1)
    names = known.numbers["vocabulary"]
    assert names[known.numbers["right"]] == "cat"
    assert "French ones and yours" not in known.limits
    text = "Le zèbre rayé ronfle = The striped zebra snores!"
    drawing = show("loss", text=text, word=3, steps=3, tries=1)
    assert drawing.numbers["vocabulary"][drawing.numbers["right"]] == "zebra"
    assert drawing.numbers["phrases"] == known.numbers["phrases"] + 1
    assert "French ones and yours" in drawing.limits
    assert problems(drawing.figure) == problems(known.figure) == []
    with pytest.raises(InputError, match="a sentence = its translation"):
        show("loss", text="merci")
    with pytest.raises(InputError, match="word: got 4, expected 1 to 2"):
        show("loss", text="merci = thanks", word=4, steps=1)
    with pytest.raises(InputError, match="got 41 tokens, expected at most 30"):
        show("loss", text="oui = " + "yes " * 40, steps=1)


@pytest.mark.parametrize("word", [1, 5])
def test_the_loss_of_a_pair_of_ones_own_in_a_translator_is_pytorchs(word):
    text = "The old dog sleeps. = Der alte Hund schläft."
    drawing = show("loss", model="tiny/translate", text=text, word=word)
    numbers = drawing.numbers
    pipeline = regard.load("tiny/translate", device="cpu")
    source, target = (part.strip() for part in text.split("="))
    both = pipeline.vocabulary
    ids = [*both.target.encode(target), both.target.end]
    logits = pipeline.logits(both.source.encode(source), [both.target.begin, *ids[:-1]])
    wanted = torch.nn.functional.cross_entropy(
        torch.as_tensor(logits), torch.tensor(ids), reduction="none"
    )
    assert numbers["losses"] == pytest.approx(wanted.tolist(), abs=1e-3)
    expects = int(logits[word - 1].argmax()) == ids[word - 1]
    assert numbers["is_likeliest"] == expects
    assert ("does not expect" in drawing.title) != expects
    assert problems(drawing.figure) == []


def test_a_long_translation_shows_the_tokens_around_the_word_and_unknown_ones_are_said():
    text = "The old dog sleeps. = Der alte Xylophon " + "Hund und " * 8 + "schläft."
    drawing = show("loss", model="tiny/translate", text=text, word=15)
    shown = " ".join(item.get_text() for item, _ in texts(drawing.figure))
    assert "tokens 11 to 19 of 22" in shown
    assert "Unknown to the model: Xylophon" in drawing.caption
    assert problems(drawing.figure) == []


@pytest.mark.slow
def test_the_nearest_words_of_a_layer_are_those_of_regard_words():
    pipeline = regard.load("tiny/translate", device="cpu")
    texts = ["The dog sleeps.", "The old dog saw a cat.", "I see a dog."]
    query, *others = read(pipeline, texts)
    assert query.words == ["The", "dog", "sleeps"]
    theirs = pipeline.words("dog", texts, layer=0, count=3)
    neighbours = nearest(query, 1, others, 1)
    wanted = [(word.word, word.cosine) for word in theirs.occurrences[0].near if word.sentence]
    for neighbour, (word, cosine) in zip(neighbours, wanted, strict=False):
        assert neighbour.word == word
        assert neighbour.cosine == pytest.approx(cosine, abs=1e-5)
    assert nearest(query, 1, others, 0)[0].cosine == pytest.approx(1, abs=1e-6)
    unlike = nearest(query, 1, others, 1, other=True)
    assert "dog" not in [neighbour.word for neighbour in unlike]
    assert len({neighbour.word for neighbour in unlike}) == len(unlike) == NEAREST


@pytest.mark.slow
def test_a_word_takes_on_its_context_layer_by_layer(tmp_path):
    (tmp_path / "bank.txt").write_text("The cat sleeps.\nThe old dog saw a cat.\n# not this\n")
    drawing = show(
        "layers",
        text="The dog sleeps.",
        word="dog",
        model="tiny/translate",
        bank=str(tmp_path / "bank.txt"),
    )
    numbers = drawing.numbers
    assert numbers["cosine_its_embedding"][0] == pytest.approx(1)
    assert numbers["cosine_its_embedding"][1] < 0.99
    assert numbers["nearest"][0][0]["sentence"] == "The old [dog] saw a cat"
    assert "cannot tell" in drawing.title  # a single sentence has the word
    assert problems(drawing.figure) == []
    with pytest.raises(InputError, match="word: got 'cat', expected one of The dog sleeps"):
        show("layers", text="The dog sleeps.", word="cat", model="tiny/translate")
    with pytest.raises(InputError, match="a file of sentences"):
        show("layers", bank="nowhere.txt", model="small/fill")
