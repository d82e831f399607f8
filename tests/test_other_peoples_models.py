"""A Hugging Face folder from end to end: loaded, asked, looked into, saved, exported, refused."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import regard
from regard.errors import FoundProblems, InputError
from regard.inputs.arrays import Ragged
from regard.layers import Tap, knock_out
from regard.models import TransformerConfig, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from tests.their_models import DECODERS, TRANSLATORS, VOCAB, save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
TEXTS = ["the cat sat on the mat", "a dog ran after the cat", "the mat was red"] * 5


def add_tokenizer(folder, specials, post=None, vocab=VOCAB):
    """A byte-level tokenizer is too large for these models: words with their space before."""
    inner = Tokenizer(models.WordLevel(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece(prefix="##")
    trainer = trainers.WordLevelTrainer(vocab_size=vocab, special_tokens=specials)
    inner.train_from_iterator(TEXTS, trainer)
    if post:
        symbols = [(special, inner.token_to_id(special)) for special in specials]
        inner.post_processor = processors.TemplateProcessing(single=post, special_tokens=symbols)
    inner.save(str(folder / "tokenizer.json"))
    names = {"<pad>": "pad_token", "<s>": "bos_token", "</s>": "eos_token", "<unk>": "unk_token",
             "<mask>": "mask_token"}  # fmt: skip
    settings = {names[special]: special for special in specials}
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture
def gpt(tmp_path):
    theirs = save("gpt2", tmp_path / "gpt2")
    add_tokenizer(tmp_path / "gpt2", ["<pad>", "<s>", "</s>", "<unk>"])
    return theirs, tmp_path / "gpt2"


def test_a_gpt_2_folder_is_asked_looked_into_saved_and_loaded(gpt, tmp_path):
    _, folder = gpt
    p = regard.load(folder)
    assert p.recipe.task == "generate"
    said = p.generate("the cat", max_length=5)
    assert "".join(p.write("the cat", max_length=5)).strip() == said.strip()
    assert len(p.suggest("the", count=3)) == 3
    look = p.look("the cat sat")
    assert look.maps[0].queries == ("the", "cat", "sat")
    assert look.orientation(look.maps[0])[0] == "the query word"
    page = look.save(tmp_path / "look.html").read_text()
    assert "being written" not in page
    p.save(tmp_path / "ours")
    again = regard.load(tmp_path / "ours")
    assert again.generate("the cat", max_length=5) == said
    assert torch.equal(again.logits([5, 6, 7]), p.logits([5, 6, 7]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_of_padded_rows_are_those_of_each_text_alone_and_theirs(gpt, side):
    theirs, folder = gpt
    p = regard.load(folder)
    texts = [[5, 6, 7, 8], [9, 10], [11]]
    ids, mask = torch.zeros(3, 4, dtype=torch.long), torch.zeros(3, 4, dtype=torch.long)
    for row, text in enumerate(texts):
        where = slice(4 - len(text), 4) if side == "left" else slice(0, len(text))
        ids[row, where], mask[row, where] = torch.tensor(text), 1
    logits = p.logits(ids, mask=mask)
    assert not logits[~mask.bool()].any()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask, position_ids=positions).logits
    torch.testing.assert_close(logits[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-4)
    for text, row in zip(texts, p.logits(texts), strict=True):
        torch.testing.assert_close(row, p.logits(text), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_ids_give_ids_as_theirs_do(tmp_path, name):
    assert name in DECODERS
    theirs = save(name, tmp_path / name)
    add_tokenizer(tmp_path / name, ["<pad>", "<s>", "</s>", "<unk>"])
    p = regard.load(tmp_path / name)
    prompts = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
    continuations = p.generate(prompts, max_length=8)
    for prompt, ids in zip(prompts, continuations, strict=True):
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)
        said = expected[0, len(prompt) :].tolist()
        assert ids == said[: said.index(2) if 2 in said else None]


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_an_encoder_decoder_translates_text(tmp_path, name):
    assert name in TRANSLATORS
    theirs = save(name, tmp_path / name)
    end = theirs.config.eos_token_id
    specials = ["<pad>", "<s>", "</s>", "<unk>"]
    if name == "t5":  # its end is 1, its start its padding
        specials = ["<pad>", "</s>", "<unk>"]
    elif name == "bart":
        specials = ["<s>", "<pad>", "</s>", "<unk>"]
    else:
        specials = ["</s>", "<s>", "<unk>", "<pad>"]
    add_tokenizer(tmp_path / name, specials, post="$A </s>")
    p = regard.load(tmp_path / name)
    assert p.recipe.task == "translate"
    ids = [*p.vocabulary.source.encode("the cat sat"), end]
    settings = {"max_new_tokens": 6, "do_sample": False,
                "num_beams": p.recipe.decode.beam}  # fmt: skip
    expected = theirs.generate(torch.tensor([ids]), **settings)[0, 1:].tolist()
    expected = expected[: expected.index(end) if end in expected else None]
    [[output]] = p.outputs(["the cat sat"], max_length=6)
    assert list(output.hypothesis.ids) == expected
    assert p.generate("the cat sat", max_length=6) == output.text
    assert p.logits([5, 6], [0, 7, 8]).shape == (3, VOCAB)


def test_a_bert_fills_and_embeds(tmp_path):
    theirs = save("bert-masked", tmp_path / "bert")
    specials = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    add_tokenizer(tmp_path / "bert", specials, post="<s> $A </s>")
    p = regard.load(tmp_path / "bert")
    [fillings] = p.fill("the [MASK] sat", count=3)
    ids = torch.tensor([p.vocabulary.source.template(
        p.vocabulary.source.encode_with_specials("the <mask> sat"))])  # fmt: skip
    with torch.no_grad():
        expected = theirs(ids).logits[0, 2].softmax(-1).topk(3)
        hidden = theirs.bert(ids).last_hidden_state
    assert [filling.probability for filling in fillings] == pytest.approx(
        expected.values.tolist(), abs=1e-5
    )
    text = "the cat sat"
    mean = p.embed(text, normalise=False)
    assert mean.shape == hidden.shape[-1:]
    torch.testing.assert_close(p.embed([text, "a dog"])[0], p.embed(text), rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="no mask"):
        p.fill("the cat")
    with pytest.raises(InputError, match="cannot generate"):
        p.generate("the cat")


def test_a_classifier_names_its_classes(tmp_path):
    theirs = save("bert-classes", tmp_path / "bert")
    add_tokenizer(tmp_path / "bert", ["<pad>", "<s>", "</s>", "<unk>"], post="<s> $A </s>")
    p = regard.load(tmp_path / "bert")
    ids = torch.tensor([p.vocabulary.source.template(p.vocabulary.source.encode("the cat"))])
    with torch.no_grad():
        expected = theirs(ids).logits[0].softmax(-1)
    labels = p.classify("the cat")
    assert labels[0].label == f"LABEL_{int(expected.argmax())}"
    assert labels[0].probability == pytest.approx(float(expected.max()), abs=1e-5)
    assert p.classify(["the cat", "a dog"])[0][0].label == labels[0].label


def test_without_a_tokenizer_only_text_is_refused(tmp_path):
    save("llama", tmp_path / "llama")
    p = regard.load(tmp_path / "llama")
    assert p.logits([5, 6, 7]).shape == (3, VOCAB)
    assert len(p.generate([5, 6, 7], max_length=4)) == 4
    with pytest.raises(InputError, match="no tokenizer"):
        p.generate("the cat")
    p.save(tmp_path / "ours")
    assert regard.load(tmp_path / "ours").generate([5, 6, 7], max_length=4) == p.generate(
        [5, 6, 7], max_length=4
    )


def test_a_tokenizer_of_another_model_is_refused(gpt):
    _, folder = gpt
    spec = json.loads((folder / "tokenizer.json").read_text())
    spec["model"]["vocab"] |= {f"more{i}": len(spec["model"]["vocab"]) + i for i in range(VOCAB)}
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match="does not belong to the weights"):
        regard.load(folder)


@pytest.mark.parametrize(
    ("ids", "said"), [([], "got 0|got \\[\\]|of them"), ([99], "got 99"), ([-1], "got -1")]
)
def test_ids_that_the_model_does_not_have_are_refused(gpt, ids, said):
    p = regard.load(gpt[1])
    with pytest.raises(InputError, match=said):
        p.logits([ids])


def test_an_exported_folder_is_read_by_transformers_tokenizer_and_all(gpt, tmp_path):
    import transformers

    theirs, folder = gpt
    p = regard.load(folder)
    p.export(tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("the cat sat")["input_ids"]
    assert ids == p.vocabulary.source.encode("the cat sat")
    with torch.no_grad():
        logits, expected = (network(torch.tensor([ids])).logits for network in (model, theirs))
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    again = regard.load(tmp_path / "out")
    assert again.generate("the cat", max_length=5) == p.generate("the cat", max_length=5)
    with pytest.raises(InputError, match="is not empty"):
        p.export(tmp_path / "out")


def test_heads_of_a_gpt_are_summarised_on_texts_or_their_ids(tmp_path):
    save("gpt2", tmp_path / "gpt2")
    add_tokenizer(tmp_path / "gpt2", ["<pad>", "<s>", "</s>", "<unk>"])
    p = regard.load(tmp_path / "gpt2")
    texts = ["the cat sat on the mat", "a dog", "the cat"] * 8
    summaries = p.heads(texts)
    assert [summary.head for summary in summaries] == p.model.heads()
    ids = [p.vocabulary.source.encode(text) for text in texts]
    assert p.heads(ids) == summaries
    # the effect by hand: the mean over all tokens of all texts
    last = p.model.heads()[-1]
    losses = []
    for tap in (None, Tap(edits=[knock_out(last)])):
        with torch.no_grad():
            logits = [p.model(Ragged.of([row[:-1]]), tap).log_softmax(1) for row in ids]
        chosen = [
            table[range(len(row) - 1), row[1:]] for table, row in zip(logits, ids, strict=True)
        ]
        losses.append(-float(torch.cat(chosen).mean()))
    assert summaries[-1].effect == pytest.approx(losses[1] - losses[0], abs=1e-6)


def test_many_texts_are_filled_as_each_alone(tmp_path):
    save("bert-masked", tmp_path / "bert")
    specials = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    add_tokenizer(tmp_path / "bert", specials, post="<s> $A </s>")
    p = regard.load(tmp_path / "bert")
    texts = ["the [MASK] sat", "[MASK] dog sat on the [MASK]", "a [MASK]"]
    together = p.fill(texts, count=3)
    assert [len(masks) for masks in together] == [1, 2, 1]
    for text, masks in zip(texts, together, strict=True):
        for fillings, expected in zip(p.fill(text, count=3), masks, strict=True):
            assert [filling.word for filling in fillings] == [filling.word for filling in expected]
            chances = [filling.probability for filling in expected]
            assert [filling.probability for filling in fillings] == pytest.approx(chances, abs=1e-6)


def test_ids_alone_are_enough_for_encoders_of_every_kind(tmp_path):
    rows, padded = [[5, 6, 7], [8, 9]], torch.tensor([[5, 6, 7], [0, 8, 9]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])
    for name in ("bert-classes", "bert-tags", "bert-spans", "bert-masked", "bert"):
        theirs = save(name, tmp_path / name)
        p = regard.load(tmp_path / name)
        with torch.no_grad():
            right = torch.tensor([[5, 6, 7], [8, 9, 0]])  # their positions count padding
            out = theirs(input_ids=right, attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]))
        if name == "bert":
            hidden = out.last_hidden_state
            expected = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
            results = p.embed(rows, normalise=False)
            torch.testing.assert_close(results, expected, rtol=0, atol=1e-4)
            torch.testing.assert_close(p.embed(rows[1], normalise=False), results[1])
            continue
        if name == "bert-spans":
            expected = torch.stack((out.start_logits, out.end_logits), -1)
        else:
            expected = out.logits
        results = p.logits(padded, mask=mask)
        if name != "bert-classes":
            expected = torch.stack([expected[0], expected[1].roll(1, 0)])
            expected[1, 0] = 0
        torch.testing.assert_close(results, expected, rtol=0, atol=1e-4)
        as_lists = p.logits(padded.tolist(), mask=mask.tolist())
        torch.testing.assert_close(as_lists, results)


def test_a_mask_beside_texts_of_different_lengths_is_refused(tmp_path):
    save("gpt2", tmp_path / "gpt2")
    p = regard.load(tmp_path / "gpt2")
    with pytest.raises(InputError, match="mask: got texts of different lengths"):
        p.logits([[5, 6], [7]], mask=[[1, 1], [1]])
    padded, mask = torch.tensor([[0, 5, 6], [7, 8, 9]]), torch.tensor([[0, 1, 1], [1, 1, 1]])
    assert p.generate(padded, mask=mask, max_length=4) == p.generate(
        [[5, 6], [7, 8, 9]], max_length=4
    )


def test_weights_that_are_not_finite_suggest_nothing(gpt):
    _, folder = gpt
    p = regard.load(folder)
    with torch.no_grad():
        p.model.embed.weight[5] = float("nan")
    with pytest.raises(FoundProblems, match="not finite"):
        p.suggest("the cat sat on the mat a dog ran after the cat the mat was red")


def test_a_prompt_that_is_too_long_or_has_too_little_room_is_said(gpt, caplog):
    _, folder = gpt
    p = regard.load(folder)
    most = p.model.config.max_length
    p.generate("the cat", max_length=5)
    assert not caplog.text
    p.generate("the " * (most - 3), max_length=9)
    assert "only 3 more tokens fit, not 9" in caplog.text
    caplog.clear()
    ids = p.vocabulary.source.encode(p.generate("the " * 4 * most, max_length=4))
    assert f"only the last {most - 4} tokens of the prompt are read" in caplog.text
    assert len(ids) <= 4


def test_a_mask_beside_one_text_and_numbers_of_numpy(tmp_path):
    save("gpt2", tmp_path / "gpt2")
    p = regard.load(tmp_path / "gpt2")
    whole = p.logits([5, 6])
    torch.testing.assert_close(p.logits([0, 5, 6], mask=[0, 1, 1])[1:], whole)
    assert p.generate([0, 5, 6], mask=[0, 1, 1], max_length=3) == p.generate([5, 6], max_length=3)
    numbers = torch.tensor([5, 6]).numpy()
    torch.testing.assert_close(p.logits(list(numbers)), whole)
    torch.testing.assert_close(p.logits(numbers), whole)
    with pytest.raises(InputError, match="mask: got texts"):
        p.generate("the cat", mask=[1])
    with pytest.raises(InputError, match="ids: got 400"):
        p.heads([[3, 400, 5]])


def test_a_type_of_token_that_the_model_has_no_vector_for_is_said(tmp_path):
    save("bert-masked", tmp_path / "bert")
    add_tokenizer(tmp_path / "bert", ["<pad>", "<s>", "</s>", "<unk>"], post="<s> $A </s>:99")
    with pytest.raises(InputError, match="got the type 99 of a token, expected 0 to 1"):
        regard.load(tmp_path / "bert").embed("the cat")


@pytest.mark.parametrize(("source", "target"), [(5, 9), (9, 5)])
def test_ids_are_those_of_their_own_side(source, target):
    config = TransformerConfig(dim=16, heads=2, hidden=16, tied="none")
    recipe = recipes.load("tiny/copy", ["tokens.shared=false", "model.tied=none"])
    p = Pipeline(build(config, source, target), None, recipe)
    assert p.logits([source - 1], [target - 1]).shape == (1, target)
    for ids, targets, most in (([source], [0], source), ([0], [target], target)):
        with pytest.raises(InputError, match=rf"ids: got {most}, expected 0 to {most - 1}"):
            p.logits(ids, targets)
    with pytest.raises(InputError, match=rf"ids: got {source}, expected 0 to {source - 1}"):
        p.generate([source], begin=0)
