"""One word in several sentences, by models of each shape."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard import load
from regard.cli import commands
from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text import TokensConfig, Vocabulary, learn, learn_plain
from regard.layers import Tap
from regard.models import BertConfig, Decoder, Encoder, EncoderDecoder, GPTConfig, TransformerConfig
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.tasks import Fill, Generate
from regard.tasks.senses import SenseTest
from regard.tasks.words import compare

TEXTS = ["I saw the model walk", "The model was trained on text", "models walk, models talk"] * 9
SIZES = {"dim": 16, "heads": 2, "hidden": 16, "max_length": 32}
SENTENCES = ["I saw the model walk", "The model was trained", "walk the model"]


def tokenizer_for(task, kind="bpe"):
    return learn_plain(TEXTS, TokensConfig(kind=kind, vocab=262), task.around).source


def models():
    bert, gpt = tokenizer_for(Fill), tokenizer_for(Generate)
    pairs = learn([Pair(text, text) for text in TEXTS], TokensConfig(kind="bpe", vocab=262)).source
    return {
        "bert": (Encoder(BertConfig(**SIZES, layers=2), bert.vocab), bert, "encoder"),
        "gpt": (Decoder(GPTConfig(**SIZES, layers=2), gpt.vocab), gpt, "decoder"),
        "transformer": (
            EncoderDecoder(TransformerConfig(**SIZES), pairs.vocab, pairs.vocab),
            pairs,
            "encoder",
        ),
    }


def read(model, ids, tap=None):
    texts = Ragged.of([ids])
    if isinstance(model, EncoderDecoder):
        return model.encode(texts, tap).x
    return model.hidden(texts, tap)


@pytest.mark.parametrize("layer", [None, 0])
@pytest.mark.parametrize("family", ["bert", "gpt", "transformer"])
def test_a_vector_is_the_mean_over_sub_words_of_each_sentence_read_alone(family, layer):
    model, tokenizer, side = models()[family]
    model.eval()
    comparison = compare(model, tokenizer, "model", SENTENCES, layer=layer)
    assert [occurrence.sentence for occurrence in comparison.occurrences] == [0, 1, 2]
    vectors = []
    for sentence in SENTENCES:
        ids = tokenizer.template(tokenizer.encode(sentence))
        words, index = tokenizer.words(ids)
        positions = [at for at, number in enumerate(index) if words[number].strip() == "model"]
        assert len(positions) >= 2  # the word is more than one piece
        tap = None if layer is None else Tap(f"{side}.{layer}.residual")
        with torch.no_grad():
            top = read(model, ids, tap)
        rows = top if tap is None else tap.records[f"{side}.{layer}.residual"][0]
        vectors.append(rows[positions].mean(0))
    got = torch.stack([occurrence.vector for occurrence in comparison.occurrences])
    torch.testing.assert_close(got, torch.stack(vectors), rtol=0, atol=1e-5)
    expected = F.cosine_similarity(got[:, None], got[None], dim=2)
    torch.testing.assert_close(comparison.cosines, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "gpt", "transformer"])
def test_the_static_embedding_is_the_same_everywhere_and_vectors_are_not(family):
    model, tokenizer, _ = models()[family]
    comparison = compare(model, tokenizer, "model", SENTENCES)
    torch.testing.assert_close(comparison.static, torch.ones(3, 3), rtol=0, atol=1e-5)
    assert float(comparison.cosines[0, 1]) < 0.9999


def test_near_words_are_words_of_the_sentences_but_not_the_occurrence_itself():
    model, tokenizer, _ = models()["bert"]
    comparison = compare(model, tokenizer, "walk", SENTENCES[::2], count=50)
    first = comparison.occurrences[0]
    assert first.text.split() == ["<s>", "I", "saw", "the", "model", "[walk]", "</s>"]
    assert [(near.word, near.sentence) for near in first.near].count(("walk", 1)) == 1
    assert ("walk", 0) not in [(near.word, near.sentence) for near in first.near]
    assert {near.word for near in first.near} == {"I", "saw", "the", "model", "walk"}
    assert list(first.near) == sorted(first.near, key=lambda near: -near.cosine)


def test_a_word_that_occurs_twice_in_a_sentence_is_found_twice_in_any_case():
    model, tokenizer, _ = models()["bert"]
    comparison = compare(model, tokenizer, "Models", ["models walk, models talk"])
    assert [occurrence.text.count("[models]") for occurrence in comparison.occurrences] == [1, 1]
    assert comparison.occurrences[0].text != comparison.occurrences[1].text


def test_words_that_follow_each_other_are_one():
    model, tokenizer, _ = models()["gpt"]
    comparison = compare(model, tokenizer, "the model", SENTENCES)
    assert len(comparison.occurrences) == 3


def test_table_and_json_say_the_same():
    model, tokenizer, _ = models()["bert"]
    comparison = compare(model, tokenizer, "model", SENTENCES[:2])
    row = json.loads(json.dumps(comparison.to_json()))
    assert row["cosines"][0][1] == pytest.approx(float(comparison.cosines[0, 1]))
    assert f"{row['cosines'][0][1]:.3f}" in comparison.table()
    assert f"{row['usual']:.3f} on average" in comparison.table()
    assert -1 <= row["usual"] <= 1


def test_the_command_prints_one_json_object(tmp_path, capsys):
    model, tokenizer, _ = models()["bert"]
    recipe = recipes.load("tiny/fill")
    Pipeline(model, Vocabulary(tokenizer, tokenizer), recipe).save(tmp_path / "bert")
    commands.words(
        str(tmp_path / "bert"), "model", sentences=SENTENCES, layer=1, as_json=True, threads=1
    )
    row = json.loads(capsys.readouterr().out)
    assert row["layer"] == 1
    assert len(row["occurrences"]) == len(row["cosines"]) == 3


def test_a_sentence_without_the_word_and_a_layer_that_is_not_there_are_refused():
    model, tokenizer, _ = models()["bert"]
    with pytest.raises(InputError, match=r"sentence 2.*expected the word 'saw'"):
        compare(model, tokenizer, "saw", SENTENCES)
    with pytest.raises(InputError, match="no such site"):
        compare(model, tokenizer, "model", SENTENCES, layer=7)
    with pytest.raises(InputError, match="no sentence"):
        compare(model, tokenizer, "model", [])


@pytest.mark.parametrize("kind", ["words", "wordpiece"])
def test_an_unknown_word_is_refused_by_name(kind):
    ours = tokenizer_for(Fill, kind)
    encoder = Encoder(BertConfig(**SIZES, layers=1), ours.vocab)
    for word in ("zö", "model zö"):
        with pytest.raises(InputError, match="does not know the word 'zö'"):
            compare(encoder, ours, word, ["I saw the xé walk", "The zö was trained"])
    comparison = compare(encoder, ours, "model", ["the xé model", "the zö model"])
    assert [occurrence.text.count("[model]") for occurrence in comparison.occurrences] == [1, 1]


def test_a_sentence_that_is_cut_is_named(caplog):
    ours = tokenizer_for(Fill, "words")
    encoder = Encoder(BertConfig(**SIZES, layers=1), ours.vocab)
    compare(encoder, ours, "model", ["the model", "the model " + "walk " * 60])
    [message] = caplog.messages
    assert "text 2, 'the model walk" in message
    assert "last 32 tokens are left out" in message


SENSES = SenseTest(
    same=0.9, other=0.5, pairs=200, decided=100, right=80, finer_pairs=1000, finer_decided=500,
    finer_right=300,
)  # fmt: skip


@pytest.mark.parametrize(
    ("cosine", "said"), [(0.91, "same meaning"), (0.7, "cannot tell"), (0.49, "other meaning")]
)
def test_a_verdict_needs_a_threshold(cosine, said):
    assert SENSES.verdict(cosine) == said
    useless = SENSES.model_copy(update={"same": None, "other": None})
    assert useless.verdict(cosine) == "cannot tell"
    assert "no verdicts: right were 80% of 100" in useless.describe()


def test_verdicts_stand_beside_how_often_they_are_right():
    model, tokenizer, _ = models()["bert"]
    alike = compare(model, tokenizer, "model", ["the model walk"] * 2, senses=SENSES)
    assert alike.verdicts == {(0, 1): "same meaning"}
    table = alike.table()
    assert "same meaning: 1 and 2\n" in table
    assert "right: 80% of 100 verdicts on 200 homonym pairs, 60% of 500 on 1,000 of WiC" in table
    assert alike.to_json()["verdicts"] == [{"pair": [0, 1], "verdict": "same meaning"}]


def test_a_model_that_was_not_measured_gets_no_verdict():
    model, tokenizer, _ = models()["bert"]
    comparison = compare(model, tokenizer, "model", SENTENCES)
    assert comparison.verdicts is None
    assert comparison.to_json()["verdicts"] is None
    assert "not measured for this model and layer, so no verdict" in comparison.table()


def test_the_verdicts_of_the_documentation_are_those_of_the_shipped_model():
    text = (Path(__file__).parents[2] / "docs/tasks/embed.md").read_text("utf-8")
    [command] = [line for line in text.splitlines() if line.startswith("regard words small/fill")]
    _, _, name, *rest = shlex.split(command)
    said = load(name).words(rest[-1], rest[1:-1:2])
    assert {said.verdicts[pair] for pair in ((0, 2), (1, 2))} == {"other meaning"}
    assert said.verdicts[0, 1] == "same meaning"
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert f"{float(said.cosines[first, second]):.2f}" in text
    assert f"{said.senses.right} of {said.senses.decided}" in text
    elsewhere = load(name).words(rest[-1], rest[1:-1:2], layer=2)
    assert elsewhere.senses.layer == 2
    assert elsewhere.senses.same != said.senses.same
