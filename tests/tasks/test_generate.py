"""Writing on: prompts, streams, and the words that may come next."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
import torch

from regard.data.text.documents import DocumentPiece
from regard.decode import DecodeConfig
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text import Processor, TokensConfig, learn_plain
from regard.inputs.text.ngrams import Ngrams, words_in
from regard.models import GPTConfig, build
from regard.recipes import recipe as recipes
from regard.tasks import Generate, generate
from regard.tasks.generate import word_accuracy

TEXTS = ["ab ba aab b a.", "ba ab, a b aa"] * 3


@pytest.fixture(scope="module")
def letters():
    """A task whose tokens are letters, and a random model of them."""
    vocabulary = learn_plain(TEXTS, TokensConfig(kind="characters", vocab=12), Generate.around)
    torch.manual_seed(0)
    config = GPTConfig(layers=2, dim=16, heads=2, hidden=32, max_length=48)
    model = build(config, vocabulary.source.vocab).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return Generate(vocabulary), model


def next_words(task, model, text, count=3):
    """What `suggest` gives for one text."""
    [words] = task.suggest(model, task.read_beginnings(model, [text]), count)
    return words


def probability(task, model, text, word, after):
    """P(" word" and then none of the letters of a word | text), by the chain rule."""
    tokens = task.tokenizer.encode(f" {word}")
    prompt = task.prompt(text, 48)
    with torch.no_grad():
        log_probs = model(Ragged.of([[*prompt, *tokens]])).log_softmax(-1)[len(prompt) - 1 :]
    of_word = sum(float(log_probs[i, token]) for i, token in enumerate(tokens))
    return math.exp(of_word) * float(log_probs[len(tokens)].exp()[after].sum())


def test_suggested_words_are_the_likeliest_of_all_with_their_probabilities(letters):
    task, model = letters
    ends = [token for token in range(task.tokenizer.vocab)
            if task.tokenizer.decode([token]).strip() not in ("a", "b")]  # fmt: skip
    every = ["".join(word) for n in range(1, 8) for word in product("ab", repeat=n)]
    expected = {word: probability(task, model, "ab ba", word, ends) for word in every}
    best = sorted(expected, key=lambda word: -expected[word])[:3]
    suggestions = next_words(task, model, "ab ba", 3)
    assert [suggestion.word for suggestion in suggestions] == best
    for suggestion in suggestions:
        assert suggestion.probability == pytest.approx(expected[suggestion.word], rel=1e-3)


def test_a_space_at_the_end_of_the_text_changes_nothing(letters):
    task, model = letters
    assert next_words(task, model, "ab ba ", 3) == next_words(task, model, "ab ba", 3)


def test_nothing_written_yet_has_a_first_word(letters):
    task, model = letters
    assert len(next_words(task, model, "", 3)) == 3


def test_a_long_prompt_keeps_its_end(letters):
    task, _ = letters
    ids = task.prompt("ab " * 100, 48)
    assert len(ids) == 47
    assert task.tokenizer.decode(ids).endswith("ab ")


def test_a_stream_is_what_is_predicted_piece_by_piece(letters):
    task, model = letters
    prompt = task.prompt("ab", 48)
    for config in (DecodeConfig(max_length=12), DecodeConfig(max_length=12, sample=True, seed=3)):
        [[best]] = task.outputs(model, [prompt], config)
        assert "".join(task.stream_ids(model, prompt, config)) == best.text


@pytest.mark.parametrize(
    "config", [{"beam": 3}, {"beam": 4, "n_best": 2}, {"sample": True, "n_best": 3}]
)
def test_a_stream_of_several_is_the_best_of_them(letters, config):
    task, model = letters
    for seed, text in enumerate(("ab", "ba aab", "")):
        prompt, chosen = task.prompt(text, 48), DecodeConfig(**config, max_length=12, seed=seed)
        [[best, *_]] = task.outputs(model, [prompt], chosen)
        assert "".join(task.stream_ids(model, prompt, chosen)) == best.text


def test_prompts_beside_each_other_change_nothing(letters):
    task, model = letters
    prompts = [task.prompt(text, 48) for text in ("ab ba", "", "b aab a b")]
    config = DecodeConfig(max_length=8, beam=2)
    together = task.outputs(model, prompts, config)
    for prompt, [best, *_] in zip(prompts, together, strict=True):
        [[alone, *_]] = task.outputs(model, [prompt], config)
        assert alone.text == best.text


def test_so_many_words_are_not_suggested(letters):
    task, model = letters
    for count in (0, -1, 1001, 60_000):
        with pytest.raises(InputError, match="expected 1 to 1000"):
            next_words(task, model, "ab ba", count)


@pytest.mark.slow
def test_suggesting_ends_for_a_model_that_knows_no_end_of_words(letters, monkeypatch):
    task, model = letters
    reads = []

    def endless(*given):  # every word goes on, with a letter or another
        partial_words = given[-1]
        reads.append(len(partial_words))
        rows = torch.full((len(partial_words), task.tokenizer.vocab), -40.0)
        rows[:, task._word_masks[0] if not partial_words[0] else task._word_masks[1]] = -0.7
        return rows

    monkeypatch.setattr(generate, "_predict", endless)
    assert len(next_words(task, model, "ab", 5)) == 5
    assert sum(reads) <= generate.MAX_PARTIAL_WORDS


def test_a_long_text_before_a_suggestion_is_cut_with_a_warning(letters, caplog):
    task, model = letters
    next_words(task, model, "ab " * 11)  # there are 48 positions, 12 of them for a word
    assert not caplog.messages
    suggestions = next_words(task, model, "ab " * 100)
    assert caplog.messages == ["warning: only the last 35 tokens of the prompt are read"]
    assert suggestions == next_words(task, model, "b " + "ab " * 60)
    caplog.clear()
    word_accuracy(task, model, ["ab " * 60], words=3)
    assert not caplog.messages


def test_word_accuracy_counts_words_among_those_suggested(letters):
    task, model = letters
    said = next_words(task, model, "ab ba", 3)
    right = word_accuracy(task, model, [f"ab ba {said[1].word}"], words=10)
    assert (right.words, right.right >= 50) == (2, True)
    wrong = word_accuracy(task, model, ["x zzzz"], words=10)
    assert (wrong.words, wrong.right) == (1, 0.0)


def test_the_end_of_a_very_long_text_has_the_tokens_it_has_in_the_whole(letters):
    task, _ = letters
    words = ["ab", "ba", "aab", "b", "a"]
    text = " ".join(words[i % 5] + "ab" * (i % 3) for i in range(3000))
    whole = task.tokenizer.template(task.tokenizer.encode(text))
    assert len(whole) > 3000
    assert task.prompt(text, 48) == whole[-47:]


@pytest.mark.parametrize("longest", [1, 2, 8, 12, 13])
def test_a_model_of_few_positions_suggests_and_goes_on(letters, longest):
    task, _ = letters
    torch.manual_seed(0)
    config = GPTConfig(layers=1, dim=16, heads=2, hidden=16, max_length=max(2, longest))
    model = build(config, task.tokenizer.vocab).eval()
    suggestions = next_words(task, model, "ab ba ab ba ab ba ab", 2)
    assert suggestions or longest <= 2  # there is room for a space, not for a letter behind it
    [prompt] = task.read(model, ["ab ba " * 9])
    config = DecodeConfig(max_length=4)
    assert len(task.cut_prompt(prompt.values, longest, config)) <= max(1, longest)


def known(task, texts, size):
    """The task with the n-grams of these texts as those of its training text."""
    pieces = [DocumentPiece(text, last=True) for text in texts]
    text = type("Text", (), {"pieces": lambda _, __: pieces})()
    return Generate(replace(task.vocabulary, ngrams=Ngrams.of(text.pieces(Counter()), size)))


@pytest.mark.parametrize("how", [{}, {"sample": True}, {"beam": 3}])
def test_words_of_the_training_text_are_not_copied(letters, how):
    task, model = letters
    config = DecodeConfig(max_length=24, seed=3, **how)
    prompts = [task.prompt(text, 24) for text in ("ab.", "b,", "aa.", "a.")]

    def texts(task, config):
        outputs = task.outputs(model, prompts, config)
        return [task.tokenizer.decode([*ids, *output[0].hypothesis.ids])
                for ids, output in zip(prompts, outputs, strict=True)]  # fmt: skip

    def copies(texts):
        pairs = [words_in(text)[i : i + 2] for text in texts for i in range(len(text))]
        return [pair for pair in pairs if len(pair) == 2 and pair in task.vocabulary.ngrams]

    written = texts(task, config)
    task = known(task, written, 2)  # so everything that it wrote is in its training text
    assert copies(written)
    config = config.model_copy(update={"no_copy": 2})
    assert not copies(texts(task, config))
    alone = [task.outputs(model, [prompt], config)[0][0].text for prompt in prompts]
    assert [n_best[0].text for n_best in task.outputs(model, prompts, config)] == alone


def test_no_copy_needs_a_model_that_knows_its_training_text(letters):
    task, model = letters
    with pytest.raises(InputError, match="no_copy"):
        task.outputs(model, [[1]], DecodeConfig(no_copy=2, max_length=4))
    with pytest.raises(InputError, match="expected 0 or 2"):
        known(task, TEXTS, 2).outputs(model, [[1]], DecodeConfig(no_copy=3, max_length=4))


def test_what_must_not_be_copied_is_kept_with_the_tokenizer(letters):
    task = known(letters[0], TEXTS, 2)
    again = Processor.from_json(task.vocabulary.to_json())
    assert again.ngrams == task.vocabulary.ngrams
    assert again.source.encode("ab b") == task.tokenizer.encode("ab b")


def test_a_finetuned_model_must_not_copy_its_own_training_text(letters, tmp_path):
    pretrained = known(letters[0], ["ab ba aab"], 2).vocabulary
    (tmp_path / "own.txt").write_text("bb aaa bb\n\naaa bab\n")
    changes = [f"data.files=[{tmp_path / 'own.txt'}]", "data.held_out=0.5", "decode.no_copy=2"]
    ngrams = Generate.prepare(recipes.load("own/generate", changes), pretrained).vocabulary.ngrams
    assert ("bb", "aaa") in ngrams
    assert ("aaa", "bab") in ngrams
