"""The commands for models that read or write plain text, and for those of other people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    AsJson,
    Beam,
    Input,
    KnockOut,
    Place,
    Precision,
    Quiet,
    Seed,
    Texts,
    Threads,
    chosen,
    open_pipeline,
    say,
)
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks import Filling, Suggestion

Count = Annotated[int, typer.Option("--top", help="How many to show.", min=1)]


def generate(
    place: Place,
    prompts: Texts = None,
    source: Input = None,
    tokens: Annotated[
        int, typer.Option("--tokens", "--max-length", help="The most tokens to write.", min=1)
    ] = 200,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always the likeliest token, instead of drawing.")
    ] = False,
    beam: Beam = None,
    temperature: Annotated[float | None, typer.Option(help="Of drawing; 1 is the model's.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Of the k likeliest.")] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Of this much probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option("--min-p", help="Of those this close to the best.")
    ] = None,
    repetition_penalty: Annotated[float | None, typer.Option("--repetition-penalty")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option("--no-repeat-ngram", help="Size.")] = None,
    samples: Annotated[int, typer.Option("--samples", help="Texts for each prompt.", min=1)] = 1,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
    precision: Precision = "fp32",
    seed: Seed = None,
) -> None:
    """Go on writing after each prompt, shown as it is written."""
    pipeline = open_pipeline(place, threads, precision)
    options = chosen(
        beam=beam, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
        repetition_penalty=repetition_penalty, no_repeat_ngram=no_repeat_ngram,
    )  # fmt: skip
    options |= {"max_length": tokens, "sample": not greedy and beam is None}
    first = pipeline.recipe.decode.seed if seed is None else seed

    def show(prompt: str) -> None:
        for sample in range(samples):
            pieces = pipeline.write(
                prompt, knock_out=knock_out or (), **options, seed=first + sample
            )
            if as_json:
                print(json.dumps({"text": prompt, "more": "".join(pieces)}, ensure_ascii=False))
                continue
            begun = next(pieces, "")  # what is wrong is said before anything is written
            sys.stdout.write(begun if quiet else prompt + begun)
            for piece in pieces:
                sys.stdout.write(piece)
                sys.stdout.flush()
            sys.stdout.write("\n")

    each(prompts, source, show, as_json=as_json)


def suggest(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    top: Count = 3,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """The likeliest next words, as a phone offers them."""
    pipeline = open_pipeline(place, threads, precision)

    def show(text: str) -> None:
        found = pipeline.suggest(text, top, knock_out=knock_out or ())
        if as_json:
            row = {"text": text, "words": [asdict(word) for word in found]}
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(likely(found))

    each(texts, source, show, as_json=as_json)


def fill(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    top: Count = 5,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """The likeliest words for each [MASK] in a text."""
    pipeline = open_pipeline(place, threads, precision)

    def show(text: str) -> None:
        found = pipeline.fill(text, top, knock_out=knock_out or ())
        if as_json:
            row = {"text": text, "masks": [[asdict(word) for word in mask] for mask in found]}
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(" | ".join(map(likely, found)))

    each(texts, source, show, as_json=as_json)


def classify(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """The class of each text; in a line, two texts are parted by a tab."""
    pipeline = open_pipeline(place, threads, precision)

    def show(line: str) -> None:
        first, tab, second = line.partition("\t")
        given = (first, second) if tab else first
        found = pipeline.classify(given, knock_out=knock_out or ())
        if as_json:
            classes = {label.label: label.probability for label in found}
            print(json.dumps({"text": line, "classes": classes}, ensure_ascii=False))
        else:
            print(f"{found[0].label}\t{found[0].probability:.3f}")

    each(texts, source, show, as_json=as_json)


def tag(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """The tag of each word, and the names that tags mark: people, places, …."""
    from regard.tasks.accuracy import entities, has_entities

    pipeline = open_pipeline(place, threads, precision)

    def show(line: str) -> None:
        found = pipeline.tag(line, knock_out=knock_out or ())
        if not as_json:
            print(" ".join(f"{word.word}/{word.tag}" for word in found))
            return
        tags = [word.tag for word in found]
        named = []
        for entity in entities(tags) if has_entities(tags) else ():
            start, end = found[entity.first].start, found[entity.last - 1].end
            named.append({"kind": entity.kind, "text": line[start:end], "start": start, "end": end})
        row = {"text": line, "words": [asdict(word) for word in found], "entities": named}
        print(json.dumps(row, ensure_ascii=False))

    each(texts, source, show, as_json=as_json)


def answer(
    place: Place,
    questions: Annotated[
        list[str] | None, typer.Argument(metavar="[QUESTION]...", help="Questions.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The text to find answers in.")] = None,
    context_file: Annotated[
        Path | None, typer.Option("--context-file", help="The same from a file.")
    ] = None,
    source: Input = None,
    top: Count = 1,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """The answer to each question, cut out of a text; an empty line if the text has none."""
    text = _context(context, context_file)
    pipeline = open_pipeline(place, threads, precision)

    def show(question: str) -> None:
        found = pipeline.answer(question, text, top, knock_out=knock_out or ())
        if as_json:
            row = {"text": question, "answers": [asdict(answer) for answer in found]}
            print(json.dumps(row, ensure_ascii=False))
            return
        shown = [" ".join(answer.text.split()) for answer in found]
        if top > 1:
            sure = (answer.probability for answer in found)
            shown = [f"{text} {share:.0%}" for text, share in zip(shown, sure, strict=True)]
        print("  ".join(shown))

    each(questions, source, show, as_json=as_json)


def _context(text: str | None, file: Path | None) -> str:
    """The text to find answers in, given itself or as a file."""
    if (text is None) == (file is None):
        got = "none" if text is None else "two"
        raise InputError("answer", got=f"{got} of them", expected="--context or --context-file")
    if file is None:
        return text or ""
    from regard.data.text import LONGEST_LINE
    from regard.lines import text_of

    try:
        with file.open("rb") as stream:
            return text_of(stream.read(LONGEST_LINE + 1))
    except InputError as error:
        raise InputError(f"{file}: {error.what}", expected=error.expected) from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(str(file), got="another encoding", expected="UTF-8") from None


def embed(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    pool: Annotated[str, typer.Option(help="mean of all tokens, or cls: the first.")] = "mean",
    near: Annotated[
        str | None, typer.Option("--near", help="Print the texts nearest to this one instead.")
    ] = None,
    top: Count = 5,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """A vector for each text, or which texts are nearest in meaning."""
    from regard.lines import asking

    pipeline = open_pipeline(place, threads, precision)
    vectors_of = partial(pipeline.embed, pool=pool, knock_out=knock_out or ())

    def show(line: str) -> None:
        vector = vectors_of(line)
        if near is not None:
            closeness = float(vector @ vectors_of(near))
            row: dict[str, Any] = {"text": line, "closeness": closeness}
            print(json.dumps(row, ensure_ascii=False) if as_json else f"{closeness:.3f}  {line}")
        else:
            print_vector(line, vector.tolist(), as_json=as_json)

    if not texts and asking(source):
        each(texts, source, show, as_json=as_json)
        return
    lines = list(decoded(texts, source))
    told = [line for line in lines if line.strip()]  # an empty line gives an empty line
    vectors = vectors_of(told)
    if near is not None:
        closeness = vectors @ vectors_of(near)
        best = closeness.topk(min(top, len(told)))
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            if as_json:
                print(json.dumps({"text": told[index], "closeness": value}, ensure_ascii=False))
            else:
                print(f"{value:.3f}  {told[index]}")
        return
    rows = iter(vectors.tolist())
    for line in lines:
        print_vector(line, next(rows) if line.strip() else [], as_json=as_json)


def print_vector(line: str, vector: Sequence[float], *, as_json: bool) -> None:
    """A text's vector: its numbers, or an object with them."""
    if as_json:
        print(json.dumps({"text": line, "vector": vector}, ensure_ascii=False))
    else:
        print(" ".join(f"{number:.5f}" for number in vector))


def restore(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    beam: Beam = None,
    knock_out: KnockOut = None,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """Each text with its holes filled: <extra_id_0>, <extra_id_1>, …, or ___ for any."""
    pipeline = open_pipeline(place, threads, precision)

    def show(text: str) -> None:
        found = pipeline.restore(text, knock_out=knock_out or (), **chosen(beam=beam))
        if as_json:
            row = {"text": text, "restored": found.text, "spans": found.spans}
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(" ".join(found.text.split()))

    each(texts, source, show, as_json=as_json)


def words(
    place: Place,
    word: Annotated[str, typer.Argument(metavar="WORD", help="The word to compare.")],
    sentences: Annotated[
        list[str], typer.Option("--in", help="A sentence with the word in it; repeatable.")
    ],
    layer: Annotated[
        int | None, typer.Option("--layer", help="What leaves this block, from 0; else the top.")
    ] = None,
    top: Count = 5,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """How alike a word is to itself in several sentences, and which words are near it there."""
    pipeline = open_pipeline(place, threads, precision)
    found = pipeline.words(word, sentences, layer=layer, count=top)
    print(json.dumps(found.to_json(), ensure_ascii=False) if as_json else found.table())


def import_model(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A Hugging Face folder, or llama2.c's .bin.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="A new folder.")],
    tokenizer: Annotated[
        Path | None, typer.Option(help="llama2.c's tokenizer.bin, if it is not beside it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read somebody's model, without running anything in it, into a checkpoint of Regard's own."""
    from regard.loading import bring

    pipeline = bring(Path(source), tokenizer)
    pipeline.save(out)
    say(f"{pipeline} is in {out}", quiet=quiet)


def export_model(
    place: Place,
    out: Annotated[Path, typer.Option("-o", "--out", help="A new folder.")],
    to: Annotated[str, typer.Option("--to", help="hf: a folder that transformers loads.")] = "hf",
    quiet: Quiet = False,
) -> None:
    """Write a model as a folder that Hugging Face transformers loads, with the same outputs."""
    if to != "hf":
        raise InputError("--to", got=to, expected="hf")
    pipeline = open_pipeline(place, None)
    pipeline.export(out)
    say(f"{out} holds {pipeline.name} as transformers reads it", quiet=quiet)


def likely(words: Sequence[Suggestion | Filling]) -> str:
    """Words with their probabilities, for people."""
    return "  ".join(f"{word.word} {word.probability:.0%}" for word in words)


def each(
    texts: list[str] | None, source: str | None, show: Callable[[str], None], *, as_json: bool
) -> None:
    """Shows what a command has to say of each of its arguments, or lines of a file or pipe.

    On a stream one line in is one line out, in order, flushed. An empty line gives an empty one,
    and a line that cannot be used an empty one and a warning with its number; with --json the
    line alone. As an argument the same is an error. At a terminal lines are asked for.
    """
    from regard.lines import asking, decoded_line, saying, text_of

    if not texts and asking(source):
        for _, line in pieces(texts, source):
            with saying():
                show(decoded_line(line) if isinstance(line, bytes) else line)
            sys.stdout.flush()
        return
    for number, line in pieces(texts, source):
        try:
            text = text_of(line) if isinstance(line, bytes) else line
            if number is None or text.strip():
                show(text)
            else:
                print(json.dumps({"text": text}) if as_json else "")
        except (UnicodeDecodeError, InputError) as error:
            if number is None:
                raise
            utf8 = isinstance(error, UnicodeDecodeError)
            reason = "not UTF-8" if utf8 else str(error).splitlines()[0]
            say(f"warning: line {number}: {reason}; gave an empty line")
            text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
            print(json.dumps({"text": text}, ensure_ascii=False) if as_json else "")
        sys.stdout.flush()


def decoded(texts: list[str] | None, source: str | None) -> Iterator[str]:
    """The same for a command that has to see all lines before it says a word."""
    from regard.lines import text_of
    from regard.pipeline import check_texts

    for number, line in pieces(texts, source):
        try:
            if number is None:
                check_texts("embed", line)
            yield text_of(line) if isinstance(line, bytes) else line
        except UnicodeDecodeError:
            raise InputError(f"line {number}", got="no UTF-8", expected="text") from None


def pieces(texts: list[str] | None, source: str | None) -> Iterator[tuple[int | None, str | bytes]]:
    """The arguments of a command, or the numbered lines of a file or pipe."""
    from regard.lines import read_lines

    if texts == ["-"]:
        texts, source = None, "-"
    if texts and source is not None:
        raise InputError("TEXT", got="texts and --input", expected="one of the two")
    if texts:
        yield from ((None, text) for text in texts)
        return
    for first, lines in read_lines(source):
        yield from enumerate(lines, start=first)


COMMANDS: dict[str, Callable[..., Any]] = {
    "generate": generate,
    "suggest": suggest,
    "fill": fill,
    "classify": classify,
    "tag": tag,
    "answer": answer,
    "embed": embed,
    "words": words,
    "restore": restore,
    "import": import_model,
    "export": export_model,
}
"""The commands of this file, by name."""
