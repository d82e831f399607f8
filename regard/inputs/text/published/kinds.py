"""The supported kinds of published tokenizers: a table, and how each is built from older files.

In: a folder with older vocabulary files. Out: the equivalent `tokenizer.json`. The table also has
the default symbols and templates of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regard.errors import InputError
from regard.inputs.text.published import legacy
from regard.inputs.text.published.folder import Folder
from regard.inputs.text.published.legacy import BuiltTokenizer, Settings


@dataclass(frozen=True)
class TokenizerKind:
    """A kind of tokenizer: its older files, how to build it from them, and its defaults."""

    classes: tuple[str, ...]
    """The tokenizer classes of transformers that are of this kind."""
    models: tuple[str, ...]
    """The `model_type` of models with this kind of tokenizer."""
    files: tuple[str, ...]
    build: Callable[[Folder, Settings], list[BuiltTokenizer]]
    symbols: Mapping[str, str]
    """Default symbol of each role; roles are named as in the files."""
    single: str = "$A"
    """Template of one text: roles, and $A for the text."""
    pair: str = "$A $B:1"
    begins: bool = False
    """Whether, by default, a begin symbol is put before a text."""
    mark: str = ""
    """A file that identifies the kind if the folder names neither class nor model type."""


def find_kind(folder: Folder, settings: Settings, config: Settings) -> TokenizerKind | None:
    """Determine a folder's kind by its tokenizer class, its `model_type`, or its files.

    Returns:
        The kind; None if it is unknown.

    Raises:
        InputError: If it has older files of a class that is not supported.
    """
    classes = {name: kind for kind in KINDS for name in kind.classes}
    for class_name in (settings.get("tokenizer_class"), config.get("tokenizer_class")):
        if isinstance(class_name, str) and class_name.removesuffix("Fast") in classes:
            return classes[class_name.removesuffix("Fast")]
    for kind in KINDS:
        if config.get("model_type") in kind.models:
            return kind
    if folder.has("tokenizer.json"):
        return None
    stated_name = settings.get("tokenizer_class") or config.get("model_type")
    by_files = next((kind for kind in KINDS if kind.mark and folder.has(kind.mark)), None)
    if stated_name and by_files:
        what, got = f"{folder.path}: the tokenizer", f"{stated_name} without tokenizer.json"
        expected = f"tokenizer.json, or a class among {', '.join(classes)}"
        fix = "load it with transformers and save it again: that writes tokenizer.json"
        raise InputError(what, got=got, expected=expected, fix=fix)
    return by_files


def build(kind: TokenizerKind, folder: Folder, settings: Settings) -> list[BuiltTokenizer]:
    """Build the tokenizers of a folder from its older files.

    Returns:
        One tokenizer, or those of source and target; empty if the folder has none of the files.

    Raises:
        InputError: If some of the files are missing.
    """
    missing = [name for name in kind.files if not folder.has(name)]
    if len(missing) == len(kind.files):
        return []
    if missing:
        what, expected = f"{folder.path}: the vocabulary", " and ".join(kind.files)
        fix = "copy the missing file from where the model was published"
        raise InputError(what, got=f"no {missing[0]}", expected=expected, fix=fix)
    return kind.build(folder, settings)


END_OF_TEXT = "<|endoftext|>"
ENDED = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
FAIRSEQ_EDGES = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>"}
FAIRSEQ = {**FAIRSEQ_EDGES, "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
FAIRSEQ_AROUND = ("cls_token $A sep_token", "cls_token $A sep_token sep_token $B sep_token")
BERT_AROUND = ("cls_token $A sep_token", "cls_token $A sep_token $B:1 sep_token:1")

KINDS = (
    TokenizerKind(
        ("MarianTokenizer",),
        ("marian",),
        ("source.spm", "target.spm", "vocab.json"),
        legacy.marian,
        ENDED,
        "$A eos_token",
        "$A $B eos_token",
        mark="source.spm",
    ),
    TokenizerKind(
        ("T5Tokenizer",),
        ("t5",),
        ("spiece.model",),
        legacy.t5,
        ENDED,
        "$A eos_token",
        "$A eos_token $B eos_token",
        mark="spiece.model",
    ),
    TokenizerKind(
        ("XLMRobertaTokenizer",),
        ("xlm-roberta",),
        ("sentencepiece.bpe.model",),
        legacy.xlm_roberta,
        FAIRSEQ,
        *FAIRSEQ_AROUND,
        mark="sentencepiece.bpe.model",
    ),
    TokenizerKind(
        ("LlamaTokenizer",),
        ("llama", "mistral"),
        ("tokenizer.model",),
        legacy.llama,
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        begins=True,
        mark="tokenizer.model",
    ),
    TokenizerKind(
        ("BertTokenizer", "DistilBertTokenizer"),
        ("bert", "distilbert"),
        ("vocab.txt",),
        legacy.word_pieces,
        {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "sep", "pad", "cls", "mask")},
        *BERT_AROUND,
        mark="vocab.txt",
    ),
    TokenizerKind(
        ("GPT2Tokenizer",),
        ("gpt2",),
        ("vocab.json", "merges.txt"),
        legacy.byte_level,
        dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        mark="merges.txt",
    ),
    TokenizerKind(
        ("RobertaTokenizer", "BartTokenizer"),
        ("roberta", "bart"),
        ("vocab.json", "merges.txt"),
        legacy.byte_level,
        FAIRSEQ,
        *FAIRSEQ_AROUND,
    ),
    TokenizerKind(
        ("Qwen2Tokenizer",),
        ("qwen2", "qwen3"),
        ("vocab.json", "merges.txt"),
        legacy.qwen,
        dict.fromkeys(("eos_token", "unk_token", "pad_token"), END_OF_TEXT),
    ),
)
"""All kinds; a folder with the marks of several is of the first."""
