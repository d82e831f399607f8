"""The pictures of the pages: which ones they ask for, the gallery of figures, and drawing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from docs import gallery, pictures
from docs.pictures import Picture, pictures_of
from regard_lectures import FIGURES, parse_options

ROOT = Path(__file__).parents[1]
PAGE = """
```python
first = 1
```

```python
image.save("cat.png")
```

<!-- picture: regard look small/fashion cat.png -o map.png -->

```python
last = 1
```

<!-- picture: cat.png -->
"""


def test_a_page_asks_for_pictures_by_commands_and_by_files_of_its_code():
    by_command, by_code = pictures_of("images", PAGE)
    assert by_command.command == "regard look small/fashion cat.png -o map.png"
    assert by_command.path == Path("images/map.png")
    assert by_code.command == ""
    assert by_code.path == Path("images/cat.png")
    assert by_command.code == by_code.code == ("first = 1\n", 'image.save("cat.png")\n')


def test_another_command_code_or_package_is_another_picture():
    picture = Picture("page", "regard show softmax -o a.png")
    others = [
        Picture("page", 'regard show softmax --text "1 2" -o a.png').checksum("x"),
        Picture("page", "regard show softmax -o a.png", ("code",)).checksum("x"),
        picture.checksum("y"),
    ]
    assert len({picture.checksum("x"), *others}) == 4


@pytest.mark.parametrize("page", ["looking", "images", "recurrent", "vectors", "watch"])
def test_pages_on_looking_show_what_they_describe(page):
    text = (ROOT / f"docs/{page}.md").read_text()
    asked = pictures_of(page, text)
    assert len(asked) >= 2
    assert len({picture.file for picture in asked}) == len(asked)
    seen = pictures.COMMENT.sub("", text)
    for picture in asked:
        if picture.command.startswith("regard show "):
            assert " ".join(picture.command.split()[:3]) in seen
        elif picture.command:
            assert picture.command.rpartition(" -o ")[0] in seen
        else:
            assert f'.save("{picture.file}"' in picture.code[-1]


def test_the_gallery_has_every_figure_with_its_commands_and_slides():
    text = gallery.gallery()
    for name, figure in FIGURES.items():
        [entry] = re.findall(rf"^#### {name}\n(.*?)(?=^###|\Z)", text, re.M | re.S)
        assert f"../build/pictures/figures/{name}.png" in entry
        first, *own = re.findall(r"^regard show .*$", entry, re.M)
        assert first == gallery.command_of(figure)
        assert own or "none" in figure.takes, f"{name}: no command of the ledger has own input"
        for command in (first, *own):
            _, _, shown, *words = shlex.split(command)
            assert shown == name
            settings = words[: words.index("--text")] if "--text" in words else words
            parse_options(name, settings)
        assert "[the ledger](lectures.md)" in entry
        assert re.search(r"Slides D\d \d+", entry), f"{name} is on no slide"


def test_without_pictures_the_gallery_has_commands_alone():
    assert "![" not in gallery.gallery(drawn=False)
    assert "regard show softmax" in gallery.gallery(drawn=False)


@pytest.mark.slow
def test_a_picture_is_drawn_once_and_what_fails_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "code_checksum", lambda: "code")
    good = Picture("page", 'regard show softmax --text "0 0 5" -o softmax.png')
    bad = Picture("page", "regard show nothing -o nothing.png")
    pages, errors = pictures.draw_all([good, bad], tmp_path)
    assert pages == {"page"}
    assert len(errors) == 1
    assert errors[0].startswith("page: regard show nothing -o nothing.png: InputError")
    drawn = (tmp_path / "page/softmax.png").stat().st_mtime_ns
    assert pictures.draw_all([good], tmp_path) == (set(), [])
    assert (tmp_path / "page/softmax.png").stat().st_mtime_ns == drawn
    text = pictures.with_pictures("page", f"<!-- picture: {good.asked} -->", tmp_path)
    assert re.fullmatch(r"!\[.+\]\(\.\./page/softmax\.png\)", text)
