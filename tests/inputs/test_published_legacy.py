"""The older vocabulary files: against sentencepiece, and the others against transformers."""

from __future__ import annotations

import gzip
import json
import shutil
import unicodedata
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.inputs.text import Vocabulary, read_folder
from regard.inputs.text.published.sentencepiece import BPE, UNIGRAM, read_pieces
from regard.runs.load import import_model, load

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXTS = (
    "The old man's horse doesn't see 3.14 apples, too?",
    "Das Tier überquert die Straße!",
    "  two  spaces   and more ",
    "Šárka a déjà vu: cafe\u0301 und naïve “words” …",
    "東京 und 京都, 大阪? ㍿ ①",
    "smile 😀 and 👩‍👩‍👧, flags 🇩🇪!",
    "tab\there\nand a line\r\n\r\nend",
    "ﬁne ½ İstanbul ẞ \u00a0x\u2028y\u200bz",
    "a</s>b <s> <pad><unk> <extra_id_0> <0x41>",
    " ",
    "",
)
LETTERS = st.characters(exclude_categories=["Cs", "Co", "Cn", "Cc"], exclude_characters="▁")
ANY = st.text(alphabet=LETTERS) | st.text(alphabet="The dogcrsaé 😀東\t")
SETTINGS = {
    "unigram": {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "bpe": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "symbols": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "."], "unk_id": 0},
}
FILES = {"unigram": "spiece.model", "bpe": "tokenizer.model", "symbols": "spiece.model"}
FAMILY = {"unigram": "t5", "bpe": "llama", "symbols": "t5"}


def train(corpus, prefix, **options):
    sentencepiece = pytest.importorskip("sentencepiece")
    options = {"vocab_size": 400, "hard_vocab_limit": False, "num_threads": 1} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=str(prefix), minloglevel=2, **options
    )
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    cache = {}

    def trained_once(kind):
        if kind not in cache:
            folder = tmp_path_factory.mktemp(kind)
            theirs = train(corpus, folder / "own", **SETTINGS[kind])
            (folder / "own.model").rename(folder / FILES[kind])
            (folder / "config.json").write_text(json.dumps({"model_type": FAMILY[kind]}))
            cache[kind] = folder, theirs, read_folder(folder).source
        return cache[kind]

    return trained_once


@pytest.mark.parametrize("kind", SETTINGS)
def test_pieces_are_read_as_sentencepiece_reads_them(kind, trained):
    folder, theirs, ours = trained(kind)
    model = read_pieces((folder / FILES[kind]).read_bytes(), "own.model")
    assert len(model.pieces) == theirs.get_piece_size()
    for token, piece in enumerate(model.pieces):
        assert piece.text == theirs.id_to_piece(token)
        assert piece.score == theirs.get_score(token)
    assert model.algorithm == (BPE if kind == "bpe" else UNIGRAM)
    assert model.byte_fallback == model.characters.__eq__(b"") == (kind == "bpe")
    assert ours.vocab == len(model.pieces) + (0 if kind == "bpe" else 100)


@pytest.mark.parametrize("kind", SETTINGS)
def test_ids_and_text_are_those_of_sentencepiece(kind, trained, corpus):
    _, theirs, ours = trained(kind)
    for text in (*TEXTS, *corpus[::20]):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, text
        known = [token for token in ids if token != theirs.unk_id()]
        assert ours.decode(known) == theirs.decode(known), text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@given(text=ANY)
@example(text="   ")
@example(text="\ta b\n")
@example(text="01?eee")
@settings(max_examples=150, deadline=None)
def test_any_text_has_the_ids_of_sentencepiece(kind, text, trained):
    # The library `tokenizers` normalises a character together with the marks that follow it, and
    # loses the marks of one that it replaces: of "²" and a vowel sign, only "2" is left.
    replaced = (unicodedata.normalize("NFKC", char) != char for char in text)
    marks = (unicodedata.category(char)[0] == "M" or char in "\u200c\u200d" for char in text[1:])
    assume(kind != "unigram" or not any(map(all, zip(replaced, marks, strict=False))))
    _, theirs, ours = trained(kind)
    our_ids, their_ids = ours.encode(text), theirs.encode(text)
    if kind == "unigram" and sorted(our_ids) == sorted(their_ids):
        # "e" + "ee" and "ee" + "e" are equally likely: which one is taken is a matter of rounding.
        assert ours.decode(our_ids) == ours.decode(their_ids)
    else:
        assert our_ids == their_ids


def test_t5_has_its_sentinels_and_an_end(trained):
    _, theirs, ours = trained("unigram")
    size = theirs.get_piece_size()
    assert ours.encode_with_specials("<extra_id_0>") == [size + 99]
    assert (
        ours.encode_with_specials("a <extra_id_99> b")[-2 if len(ours.encode("b")) == 1 else -3]
        == size
    )
    assert ours.template([7, 8]) == [7, 8, 1]
    assert ours.template([7], [8]) == [7, 1, 8, 1]
    assert (ours.specials.pad, ours.specials.end, ours.specials.unknown) == (0, 1, 2)


def test_llama_begins_with_its_symbol_by_default(trained, tmp_path):
    folder, _, ours = trained("bpe")
    assert ours.template([7, 8]) == [1, 7, 8]
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    stated = {"add_bos_token": False, "add_eos_token": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    assert read_folder(tmp_path).source.template([7, 8]) == [7, 8, 2]


def test_xlm_roberta_numbers_its_pieces_after_fairseq(trained, tmp_path):
    folder, _, _ = trained("bpe")
    shutil.copy(folder / "tokenizer.model", tmp_path / "sentencepiece.bpe.model")
    ours = read_folder(tmp_path).source
    assert ours.tokens([0, 1, 2, 3, ours.vocab - 1]) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    shift = read_folder(folder).source.encode("The dog")
    assert ours.encode("The dog") == [token + 1 for token in shift]
    assert ours.template([7], [8]) == [0, 7, 2, 2, 8, 2]


def test_a_checkpoint_keeps_sentencepiece_tokenizers(trained):
    for kind in SETTINGS:
        _, _, ours = trained(kind)
        again = Vocabulary.from_json(Vocabulary(ours, ours).to_json()).source
        assert [again.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]


@pytest.fixture(scope="module")
def marian(corpus, tmp_path_factory):
    """A folder as Helsinki-NLP publishes them; some pieces are in one file alone."""
    folder = tmp_path_factory.mktemp("marian")
    sides = []
    for side, texts in (("source", corpus[::2]), ("target", corpus[1::2])):
        sides.append(train(texts, folder / side, vocab_size=250))
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    pieces = sorted(
        {side.id_to_piece(token) for side in sides for token in range(3, side.vocab_size())}
    )
    shared = [piece for i, piece in enumerate(pieces) if i % 12 or len(piece) == 1]
    names = ["</s>", "<unk>", ">>fra<<", *shared, "<pad>"]
    assert len(shared) < len(pieces)
    (folder / "vocab.json").write_text(json.dumps({name: at for at, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer"})
    )
    config = {"model_type": "marian", "decoder_start_token_id": len(names) - 1}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_both_sides_of_marian_are_those_of_transformers(marian, corpus):
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that nothing here needs
        theirs = transformers.MarianTokenizer.from_pretrained(marian)
    vocabulary = read_folder(marian)
    source, target = vocabulary.source, vocabulary.target
    plain = [text for text in TEXTS if "</s>" not in text]  # which they take for symbols
    for text in (*plain, *corpus[::9], ">>fra<< The dog"):
        ids = theirs(text)["input_ids"]
        assert source.template(source.encode(text)) == ids, text
        written = theirs(text_target=text)["input_ids"]
        assert target.template(target.encode(text)) == written, text
        for row in (ids, written):
            assert target.decode(row) == theirs.decode(row, skip_special_tokens=True), text
    assert source.vocab == target.vocab == len(theirs)
    assert theirs.unk_token_id in source.encode("ж")
    assert vocabulary.target.begin == vocabulary.target.pad == source.vocab - 1
    again = Vocabulary.from_json(vocabulary.to_json())
    assert not again.shared
    for text in plain:
        assert again.source.encode(text) == source.encode(text)
        assert again.target.encode(text) == target.encode(text)


@pytest.fixture(scope="module")
def marian_model(marian, tmp_path_factory):
    """The same folder with the weights of a tiny model, and that model."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model") / "marian"
    shutil.copytree(marian, folder)
    size = len(json.loads((folder / "vocab.json").read_text()))
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=size, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=24,
        decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2,
        max_position_embeddings=64, pad_token_id=size - 1, decoder_start_token_id=size - 1,
        eos_token_id=0, forced_eos_token_id=0, num_beams=3,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder, model


MARIAN_FILES = ("vocab.json", "source.spm", "target.spm", "tokenizer_config.json")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("imported", [False, True])
def test_marian_goes_out_with_the_files_it_came_with(imported, marian_model, tmp_path, corpus):
    transformers = pytest.importorskip("transformers")
    folder, model = marian_model
    p = ours = load(folder)
    if imported:
        import_model(folder).save(tmp_path / "own")
        p = load(tmp_path / "own")
    p.export(tmp_path / "out")
    for name in MARIAN_FILES:
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    assert not (tmp_path / "out" / "tokenizer.json").exists()
    again = load(tmp_path / "out")
    before, after = (
        transformers.MarianTokenizer.from_pretrained(path) for path in (folder, tmp_path / "out")
    )
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    for text in (TEXTS[3], corpus[0], ">>fra<< The dog"):
        ids, written = after(text)["input_ids"], after(text_target=text)["input_ids"]
        assert (before(text)["input_ids"], before(text_target=text)["input_ids"]) == (ids, written)
        source, target = again.vocabulary.source, again.vocabulary.target
        assert source.template(source.encode(text)) == ids
        assert target.template(target.encode(text)) == written
        assert target.decode(written) == after.decode(written, skip_special_tokens=True)
        for beams in (1, 3):
            settings = {"max_new_tokens": 8, "num_beams": beams}
            told = model.generate(torch.tensor([ids]), **settings)[0].tolist()
            assert theirs.generate(torch.tensor([ids]), **settings)[0].tolist() == told
            [best, *_] = again.outputs([text], max_length=8, beam=beams)[0]
            told = told[1 : told.index(0) if 0 in told else None]
            assert list(best.hypothesis.ids) == told
            assert best.text == ours.translate(text, max_length=8, beam=beams)


def test_a_tokenizer_a_side_without_its_files_is_not_exported(marian_model, tmp_path):
    p = load(marian_model[0])
    p._vocabulary = Vocabulary(p.vocabulary.source, p.vocabulary.target)  # as an older import
    with pytest.raises(InputError, match="import its folder again"):
        p.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("files", [{"../x": ""}, {"vocab.json": "%"}, {"vocab.json": 3}, [1]])
def test_forged_files_of_a_vocabulary_are_damage(marian, files):
    spec = json.loads(read_folder(marian).to_json())
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Vocabulary.from_json(json.dumps(spec | {"files": files}))


def older(folder: Path, to: Path, kind: str) -> Path:
    """The older files of a folder with `tokenizer.json`."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    if kind.startswith("bert"):
        lines = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (to / "vocab.txt").write_text("\n".join(lines) + "\n")
    else:
        (to / "vocab.json").write_text(json.dumps(model["vocab"]))
        merges = [" ".join(merge) for merge in model["merges"]]
        (to / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    shutil.copy(folder / "config.json", to)
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    stated["added_tokens_decoder"] = {str(entry.pop("id")): entry for entry in added}
    (to / "tokenizer_config.json").write_text(json.dumps(stated))
    return to


@pytest.mark.parametrize(
    "kind", ["gpt2", "roberta", "roberta-prefix", "qwen2", "bert", "bert-cased"]
)
def test_older_files_give_the_same_as_tokenizer_json(kind, published, corpus, tmp_path):
    newer = read_folder(published(kind)).source
    ours = read_folder(older(published(kind), tmp_path, kind)).source
    for text in (*TEXTS, *corpus[::20]):
        ids = newer.encode(text)
        assert ours.encode(text) == ids, text
        assert ours.decode(ids) == newer.decode(ids)
        assert ours.template(ids, ids) == newer.template(ids, ids)
        assert ours.token_types(ids, ids) == newer.token_types(ids, ids)
    assert ours.specials == newer.specials


@pytest.mark.parametrize("kind", ["gpt2", "roberta", "bert"])
def test_older_files_alone_are_enough(kind, published, reference, tmp_path):
    folder = older(published(kind), tmp_path, kind)
    (folder / "tokenizer_config.json").unlink()
    ours, theirs = read_folder(folder).source, reference(folder)
    for text in TEXTS[:8]:
        assert ours.template(ours.encode(text)) == theirs(text)["input_ids"]
    assert ours.specials.end == theirs.eos_token_id
    assert ours.specials.mask == theirs.mask_token_id


def test_roles_come_from_the_small_files(published, tmp_path):
    folder = older(published("bert"), tmp_path, "bert")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    stated = {"pad_token": "the", "mask_token": {"content": "[UNK]", "lstrip": True}}
    (folder / "special_tokens_map.json").write_text(json.dumps(stated))
    pieces = (folder / "vocab.txt").read_text().split()
    (folder / "added_tokens.json").write_text(json.dumps({"<new>": len(pieces)}))
    ours = read_folder(folder).source
    assert ours.specials.pad == pieces.index("the")
    assert ours.specials.mask == ours.specials.unknown == pieces.index("[UNK]")
    assert ours.encode("<new>") == [len(pieces)]
    assert ours.vocab == len(pieces) + 1


def test_a_missing_file_is_named(published, tmp_path):
    folder = older(published("gpt2"), tmp_path, "gpt2")
    (folder / "merges.txt").unlink()
    with pytest.raises(InputError, match=r"no merges\.txt"):
        read_folder(folder)


def test_a_class_that_is_not_known_is_refused(trained, tmp_path):
    folder, _, _ = trained("unigram")
    shutil.copy(folder / "spiece.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    with pytest.raises(InputError, match="AlbertTokenizer without"):
        read_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert read_folder(tmp_path).source.template([5]) == [5, 1]


REAL = {
    "gpt2": {
        "vocab.json": "tokenizers/gpt2/vocab.json.gz",
        "merges.txt": "tokenizers/gpt2/merges.txt.gz",
    },
    "bert": {"vocab.txt": "tokenizers/bert_uncased/vocab.txt.gz"},
    "t5": {"spiece.model": "tokenizers/t5/spiece.model"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REAL)
def test_real_files_give_the_ids_of_transformers(kind, reference, tmp_path):
    for name, path in REAL[kind].items():
        file = DATA / path
        if not file.exists():
            pytest.skip(f"{path} is not on this machine")
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        (tmp_path / name).write_bytes(data)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    ours, theirs = read_folder(tmp_path).source, reference(tmp_path)
    for text in TEXTS:
        if "</s>" in text:
            continue
        ids = theirs(text)["input_ids"]
        assert ours.template(ours.encode(text)) == ids, text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["t5/spiece.model", "albert/spiece.model", "sentencepiece_test/test_model.model"]
)
def test_real_models_give_the_ids_of_sentencepiece(path, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    file = DATA / "tokenizers" / path
    if not file.exists():
        pytest.skip(f"{path} is not on this machine")
    shutil.copy(file, tmp_path / "spiece.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(file))
    ours = read_folder(tmp_path).source
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text), text
