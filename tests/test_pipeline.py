"""The shipped model through the pipeline: translations, looks, heads, saving and loading."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.data.sources import pairs_of
from regard.data.synthetic.grammar import corpus as grammar
from regard.data.text.pairs import Pair
from regard.errors import FoundProblems, InputError
from regard.layers.short import with_value
from regard.pipeline import Pipeline
from regard.recipes.shelf import shipped
from regard.runs.load import load

TIRED, WIDE = grammar.DEMO


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load("tiny/translate")


def test_the_shipped_model_is_small_enough() -> None:
    folder = shipped()["tiny/translate"]
    size = sum(len(entry.read_bytes()) for entry in folder.iterdir())
    assert size <= 5_000_000


def test_one_word_flips_the_pronoun(pipeline: Pipeline) -> None:
    assert pipeline.translate([TIRED.source, WIDE.source]) == [TIRED.target, WIDE.target]
    assert "es zu müde" in TIRED.target
    assert "sie zu breit" in WIDE.target


def test_save_and_load_give_the_same_model(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.save(tmp_path / "copy")
    again = load(tmp_path / "copy")
    source, target = [5, 6, 7], [1, 8, 9]
    assert torch.equal(again.logits(source, target), pipeline.logits(source, target))
    assert again.recipe == pipeline.recipe
    assert again.translate(WIDE.source) == WIDE.target


@pytest.fixture(scope="module")
def in_8_bits() -> Pipeline:
    return load("tiny/translate", precision="int8")


@pytest.mark.slow
def test_in_8_bits_bleu_stays_within_0_3(pipeline: Pipeline, in_8_bits: Pipeline) -> None:
    pairs = pairs_of(pipeline.recipe.data, "valid")[:200]
    exact, rounded = (p.evaluate(pairs, beam=4) for p in (pipeline, in_8_bits))
    assert rounded.scores.bleu == pytest.approx(exact.scores.bleu, abs=0.3)
    assert rounded.loss == pytest.approx(exact.loss, abs=0.01)
    assert rounded.loss != exact.loss


@pytest.mark.slow
def test_in_8_bits_a_sentence_gets_the_same_alone_and_in_a_batch(in_8_bits: Pipeline) -> None:
    texts = [pair.source for pair in pairs_of(in_8_bits.recipe.data, "valid")[:24]]
    assert in_8_bits.translate(texts) == [in_8_bits.translate(text) for text in texts]


def test_in_8_bits_one_can_look_and_take_a_head_away(in_8_bits: Pipeline) -> None:
    assert in_8_bits.look(WIDE.source).target == WIDE.target
    carriers = [f"decoder.{layer}.cross.{head}" for layer in (0, 1) for head in range(8)]
    assert in_8_bits.translate(WIDE.source, knock_out=carriers) != WIDE.target


def test_a_model_in_8_bits_is_not_saved(in_8_bits: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a model to be saved, expected fp32"):
        in_8_bits.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_precisions_are_named_and_known(pipeline: Pipeline, in_8_bits: Pipeline) -> None:
    assert repr(pipeline) == repr(in_8_bits).replace("int8", "fp32")
    with pytest.raises(InputError, match="precision: got int4, expected fp32 or int8"):
        load("tiny/translate", precision="int4")


@pytest.mark.parametrize(
    ("size", "value", "said"),
    [
        ("hidden", 8, r"got decoder\.blocks\.0\.feed_forward\.\S+ of \(.*\), expected \S+ of \(8"),
        ("hidden", 10**12, r"expected decoder\.blocks\.0\.feed_forward\.\S+ of \(1000000000000"),
        ("hidden", 10**18, r"expected matrices below 2\^63 bytes"),
        ("decoder.layers", 1000, r"got 1000 layers, expected what \d+ tensors can fill"),
        ("decoder.layers", 3, r"got no decoder\.blocks\.2\.\S+, expected decoder\.blocks\.2\."),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_they_take_memory(
    pipeline: Pipeline, tmp_path: Path, size: str, value: int, said: str
) -> None:
    from regard.checkpoint import run as checkpoint

    snapshot = pipeline._snapshot()
    model = with_value(snapshot.config["model"], size.split("."), value)
    wrong = dataclasses.replace(snapshot, config={**snapshot.config, "model": model})
    checkpoint.write_folder(tmp_path / "wrong", wrong)
    with pytest.raises(InputError, match=r"do not fit config\.json: .*" + said):
        load(tmp_path / "wrong")


@pytest.mark.parametrize("beam", [1, 4])
def test_a_look_while_searching_equals_following_its_translation(
    pipeline: Pipeline, beam: int
) -> None:
    searched = pipeline.look(WIDE.source, beam=beam)
    forced = pipeline.look(WIDE.source, target=searched.target)
    assert [m.site for m in searched.maps] == [m.site for m in forced.maps]
    for first, second in zip(searched.maps, forced.maps, strict=True):
        assert (first.queries, first.keys) == (second.queries, second.keys)
        np.testing.assert_allclose(first.weights, second.weights, atol=1e-5)
        np.testing.assert_allclose(first.weights.sum(-1), 1, atol=1e-5)


def test_rows_are_labelled_with_the_word_they_write(pipeline: Pipeline) -> None:
    cross = pipeline.look("The dog sleeps.").site("decoder.1.cross")
    assert cross.queries == ("Der", "Hund", "schläft", ".", "</s>")
    assert cross.keys == ("The", "dog", "sleeps", ".")
    self_map = pipeline.look("The dog sleeps.").site("decoder.1.self")
    assert self_map.keys == ("<s>", "Der", "Hund", "schläft", ".")


def test_knocking_out_changes_the_translation_s_probability(pipeline: Pipeline) -> None:
    [[plain]] = pipeline.outputs([WIDE.source])
    [[edited]] = pipeline.outputs([WIDE.source], knock_out=["decoder.1.cross.0"])
    assert plain.logprob != edited.logprob


def test_a_batch_equals_its_sentences_alone(pipeline: Pipeline) -> None:
    texts = ["The dog sleeps.", WIDE.source, "The old woman sees the dog."]
    together = pipeline.outputs(texts, beam=4)
    for text, [best, *_] in zip(texts, together, strict=True):
        [[alone, *_]] = pipeline.outputs([text], beam=4)
        assert alone.text == best.text
        assert alone.score == pytest.approx(best.score, abs=1e-4)


def test_sentences_may_come_from_a_generator_and_other_things_are_refused(
    pipeline: Pipeline,
) -> None:
    sentences = ["The dog sleeps.", "The cat sleeps."]
    assert pipeline.translate(iter(sentences)) == pipeline.translate(sentences)
    with pytest.raises(InputError, match="translate: got 3, expected a text or several texts"):
        pipeline.translate(3)


def test_the_stream_ends_with_the_translation(pipeline: Pipeline) -> None:
    steps = list(pipeline.stream("The dog sleeps.", beam=1))
    assert steps[0] == "Der"
    assert steps[-1] == "Der Hund schläft."


@pytest.mark.parametrize("text", [TIRED.source, WIDE.source, "The old woman sees the dog."])
@pytest.mark.parametrize("decode", [{}, {"beam": 1}, {"sample": True, "beam": 1, "n_best": 3}])
def test_a_stream_takes_nothing_back(pipeline: Pipeline, text: str, decode: dict) -> None:
    steps = list(pipeline.stream(text, **decode))
    assert steps[-1] == pipeline.translate(text, **decode)
    for before, after in itertools.pairwise(steps):
        assert after.startswith(before)
        assert len(after) > len(before)


def test_a_stream_shows_something_before_its_end(pipeline: Pipeline) -> None:
    first, *_, last = pipeline.stream(TIRED.source)
    assert 0 < len(first) < len(last)


ASKED = {
    "translate": lambda p, text, **more: p.translate(text, **more),
    "a batch": lambda p, text, **more: p.translate(["The dog sleeps.", text], **more)[1],
    "outputs": lambda p, text, **more: p.outputs([text], **more)[0][0].text,
    "stream": lambda p, text, **more: [*p.stream(text, **more)][-1],
    "look": lambda p, text, **more: p.look(text, **more).target,
}


@pytest.mark.parametrize("how", ASKED)
def test_unknown_words_are_refused_unless_they_are_allowed(pipeline: Pipeline, how: str) -> None:
    with pytest.raises(InputError, match=r"does not know: xylophone, zebras\n.*allow_unknown=True"):
        ASKED[how](pipeline, "The xylophone sees zebras.")
    allowed = ASKED[how](pipeline, "The xylophone sees zebras.", allow_unknown=True)
    assert (
        allowed == pipeline.outputs(["The xylophone sees zebras."], allow_unknown=True)[0][0].text
    )


def test_a_stream_refuses_before_its_first_step(pipeline: Pipeline) -> None:
    with pytest.raises(InputError, match="xylophone"):
        pipeline.stream("The xylophone sleeps.")


def test_scores_of_unknown_words_are_refused_above_half(pipeline: Pipeline) -> None:
    half = [("The dog sleeps.", "Der Hund schläft."), ("zork blib blub", "Der Hund schläft.")]
    assert pipeline.evaluate(half).unknown_source.share == 0.5
    mostly = [*half, ("blub!", "Der Hund schläft.")]
    with pytest.raises(
        FoundProblems, match="57% of the words of the sources, such as zork, blib, blub"
    ):
        pipeline.evaluate(mostly)
    evaluation = pipeline.evaluate(mostly, allow_unknown=True)
    assert evaluation.to_json()["unknown"] == {"source": 4 / 7, "target": 0.0}
    with pytest.raises(FoundProblems, match="of the targets"):
        pipeline.evaluate([("The dog sleeps.", "zork blub")])


def test_a_changed_way_of_decoding_is_checked_without_reading_the_recipe_again(
    pipeline: Pipeline, monkeypatch
) -> None:
    monkeypatch.setattr("regard.recipes.recipe.dump", None)
    assert pipeline.decoding(beam=3, n_best=2).beam == 3
    assert pipeline.decoding(sample=False).temperature == 1.0


@pytest.mark.parametrize("pairs", [None, 5, {"a": "b"}, iter([("a", "b")]), [("a",)]])
def test_what_is_no_list_of_pairs_is_refused_with_a_limit_too(pipeline: Pipeline, pairs) -> None:
    for limit in (None, 1):
        with pytest.raises(InputError, match=r"pairs: got (an item of type|None)"):
            pipeline.evaluate(pairs, limit=limit)


def test_evaluation_counts(pipeline: Pipeline) -> None:
    evaluation = pipeline.evaluate([TIRED, WIDE])
    assert evaluation.scores.bleu == pytest.approx(100)
    assert evaluation.scores.exact == 100
    assert json.dumps(evaluation.to_json())


@pytest.mark.slow
def test_head_summaries_describe_every_head(pipeline: Pipeline) -> None:
    pairs = grammar.sample(10, seed=5)
    heads = pipeline.heads(pairs)
    assert [summary.head for summary in heads] == pipeline.model.heads()
    for summary in heads:
        assert 0 <= summary.first <= 1
        assert 0 <= summary.previous <= 1
        assert 0 <= summary.positional <= 1
        assert summary.entropy >= 0
    strongest = max(heads, key=lambda summary: summary.effect)
    assert strongest.effect > 0.01
    # The same by other means: the loss with that head's columns of the output matrix set to zero.
    plain = pipeline.evaluate(pairs, beam=1).loss
    other = load("tiny/translate")
    stack, layer, kind, number = strongest.head.split(".")
    block = getattr(other.model, stack).layers()[int(layer)]
    attention = getattr(block, f"{kind}_attention")
    start = int(number) * attention.head_dim
    with torch.no_grad():
        attention.out.weight[:, start : start + attention.head_dim] = 0
    without = other.evaluate(pairs, beam=1).loss
    assert strongest.effect == pytest.approx(without - plain, abs=1e-4)


def test_public_names_are_there() -> None:
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    with pytest.raises(AttributeError):
        regard.nonsense  # noqa: B018


def test_unknown_place_names_what_lists_the_shipped_models() -> None:
    with pytest.raises(InputError, match="`regard ls` lists them"):
        load("nowhere")


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_cut_short_can_be_looked_at(pipeline: Pipeline, beam: int) -> None:
    look = pipeline.look("The dog sleeps.", max_length=2, beam=beam)
    assert look.site("decoder.1.cross").queries == ("Der", "Hund")
    assert look.site("decoder.0.self").keys == ("<s>", "Der")
    assert "cut" in look.note


def test_pairs_may_be_plain_tuples_and_must_be_some(pipeline: Pipeline) -> None:
    assert pipeline.evaluate([("The dog sleeps.", "Der Hund schläft.")]).scores.exact == 100
    for method in (pipeline.evaluate, pipeline.heads):
        with pytest.raises(InputError, match="at least one"):
            method([])


@pytest.mark.parametrize("end", [".", ""])
def test_a_full_stop_comes_out_where_one_went_in(pipeline: Pipeline, end: str) -> None:
    assert pipeline.translate(f"The dog sleeps{end}") == f"Der Hund schläft{end}"
    for pair in grammar.DEMO:
        source, target = (text.removesuffix(".") + end for text in (pair.source, pair.target))
        assert pipeline.translate(source) == target


@pytest.mark.slow
def test_without_full_stops_as_much_is_right(pipeline: Pipeline) -> None:
    bare = grammar.splits(2000, 200, 1).tests["unpunctuated"]
    ends = ["?" if "question" in pair.tags else "." for pair in bare]
    whole = [
        Pair(pair.source + end, pair.target + end) for pair, end in zip(bare, ends, strict=True)
    ]
    with_, without = (pipeline.evaluate(pairs).scores.exact for pairs in (whole, bare))
    assert without >= 0.97 * with_


@pytest.mark.slow
def test_a_later_her_or_him_tells_the_teachers_gender(pipeline: Pipeline) -> None:
    unseen = grammar.splits(2000, 200, 1).tests["natural_gender"]
    assert pipeline.evaluate(unseen).scores.exact >= 95
    texts = pipeline.translate(
        ["The teacher was tired, and the children helped her.",
         "The teacher was tired, and the children helped him."]
    )  # fmt: skip
    assert texts == [
        "Die Lehrerin war müde und die Kinder halfen ihr.",
        "Der Lehrer war müde und die Kinder halfen ihm.",
    ]
