from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import InputError
from regard.explain import page as pages
from regard.explain.look import Look, compare
from regard.explain.maps import AttentionMap
from regard.explain.page import Looks, Picture, Prose, Table, page, quantise, save_page

EVIL = "</script><script>alert(1)</script><!--<b onclick='x'>&amp;\u2028{{script}}"
SOURCE, TARGET = ("the", "cat", "sleeps"), ("die", "Katze", "schläft", "</s>")


def look(source=SOURCE, target=TARGET, *, layers=2, heads=2, **changes):
    random = np.random.default_rng(0)
    maps = []
    for layer in range(layers):
        for site, rows, columns in (
            (f"encoder.{layer}.self", source, source),
            (f"decoder.{layer}.self", target, ("<s>", *target[:-1])),
            (f"decoder.{layer}.cross", target, source),
        ):
            weights = random.random((heads, len(rows), len(columns)), np.float32) ** 3
            weights /= weights.sum(-1, keepdims=True)
            maps.append(AttentionMap(site, weights, tuple(rows), tuple(columns)))
    return Look(**{"maps": tuple(maps), "title": "cats", "model": "tiny", **changes})


class Reader(HTMLParser):
    """Collects what a browser would see: elements, and the text of each script."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.words, self.inside = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, _):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        else:
            self.words.append(data)


def data_of(text):
    """The data of the first section of looks."""
    return json.loads(next(s for a, s in Reader(text).scripts if a.get("type") and "id" not in a))


def weights_in(data, tab=0):
    """Site -> weights, decoded as viewer.js does."""
    decoded = {}
    for stored_map in data["tabs"][tab]["maps"]:
        raw = base64.b64decode(stored_map["data"])
        numbers = np.frombuffer(raw, "<u2" if data["bytes"] == 2 else np.uint8)
        shares = numbers / 65535 if data["bytes"] == 2 else (numbers / 255.0) ** 2
        shape = (stored_map["stored"], len(stored_map["queries"]), len(stored_map["keys"]))
        decoded[stored_map["site"]] = shares.reshape(shape) * stored_map["top"]
    return decoded


def saved(tmp_path, seen, **arguments):
    return seen.save(tmp_path / "look.html", **arguments).read_text()


def test_the_page_asks_the_network_for_nothing(tmp_path):
    figure = look().save(tmp_path / "figure.svg").read_text()
    text = page(
        "All", [Looks([("a", look())]), Picture(figure, "c"), Prose("p"), Table(["h"], [[1]])]
    )
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)|<link|<iframe|fetch\(|XMLHttp", text)
    reader = Reader(text)
    assert not [a["src"] for _, a in reader.elements if "src" in a]
    drawn = [a for tag, a in reader.elements if tag == "svg"]
    assert drawn[0]["aria-label"] == "c"  # a vector, in the page itself
    links = [value for _, a in reader.elements for name, value in a.items() if "href" in name]
    assert all(link.startswith(("#", "data:image/")) for link in links)


def test_the_policy_allows_our_script_by_its_hash_and_nothing_else(tmp_path):
    reader = Reader(saved(tmp_path, look()))
    policy = next(a["content"] for _, a in reader.elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    (script,) = [text for attributes, text in reader.scripts if not attributes]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_labels_cannot_leave_the_place_they_stand_in(tmp_path):
    plain, evil = (
        Reader(saved(tmp_path, seen))
        for seen in (
            look(),
            look((EVIL, "b", "c"), (EVIL, "d", "", "e"), title=EVIL, model=EVIL, note=EVIL),
        )
    )
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in plain.elements]
    for attributes, script in evil.scripts:
        assert not (attributes and set(script) & set("<>&")), "JSON could end its element"
    data = json.loads(evil.scripts[0][1])
    assert data["tabs"][0]["note"] == EVIL
    assert data["tabs"][0]["maps"][0]["keys"][0].startswith("</script>")
    assert any("<script>alert(1)" in words for words in evil.words)  # as text


def test_sections_are_escaped_and_laid_out():
    text = page(
        "<i>",
        [
            Prose("one\nline\n\n<two> & three", heading="<h>"),
            Table(["<a>", "n"], [["<b>", 1.5], ["c", 2]], caption="<cap>"),
            Picture(b"\x89PNG", 'a "quoted" <caption>'),
        ],
    )
    assert "<p>one line</p>\n<p>&lt;two&gt; &amp; three</p>" in text
    assert "<h1>&lt;i&gt;</h1>" in text
    assert "<h2>&lt;h&gt;</h2>" in text
    assert '<td>&lt;b&gt;</td><td class="number">1.5</td>' in text
    assert 'alt="a &quot;quoted&quot; &lt;caption&gt;"' in text
    assert "data:image/png;base64,iVBORw==" in text


def test_a_table_with_a_short_row_is_refused():
    with pytest.raises(ValueError, match="2 cells"):
        page("t", [Table(["a", "b"], [[1, 2], [3]])])


def test_the_page_holds_the_weights_to_the_precision_it_states(tmp_path):
    seen = look()
    decoded = weights_in(data_of(saved(tmp_path, seen)))
    for attention_map in seen.maps:
        np.testing.assert_allclose(decoded[attention_map.site], attention_map.weights, atol=1e-5)


def test_one_byte_keeps_small_weights_apart():
    shares = np.linspace(0, 1, 5001)
    back = (np.frombuffer(quantise(shares, 1), np.uint8) / 255.0) ** 2
    assert np.abs(back - shares).max() <= 0.004
    small = shares <= 0.002
    assert np.abs(back - shares)[small].max() <= 0.0002


def test_weights_above_one_are_kept(tmp_path):
    doubled = AttentionMap("decoder.0.cross", np.array([[[2.0, 0.5]]]), ("a",), ("b", "c"))
    decoded = weights_in(data_of(saved(tmp_path, Look(maps=(doubled,)))))
    np.testing.assert_allclose(decoded["decoder.0.cross"], doubled.weights, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (
            {"layer": 1, "head": 1},
            {"site": "decoder.1.cross", "head": 1, "row": None, "view": "matrix"},
        ),
        ({"word": "cat", "layer": 0}, {"site": "encoder.0.self", "row": 1, "view": "sentence"}),
        ({"kind": "grid"}, {"view": "grid"}),
        ({"kind": "positions"}, {"site": "encoder.0.self", "view": "positions"}),
    ],
    ids=str,
)
def test_the_page_opens_at_what_was_chosen(tmp_path, arguments, start):
    opened = data_of(saved(tmp_path, look(), **arguments))["start"]
    assert start.items() <= opened.items()


def test_several_looks_stand_in_tabs_with_a_place_to_open_at(tmp_path):
    tabs = [("tired", look()), ("wide", look(knocked_out=("decoder.1.cross.0",)))]
    path = save_page(tmp_path / "demo.html", "It", [Looks(tabs, "encoder.1.self", 1, "cat")])
    data = data_of(path.read_text())
    assert [tab["name"] for tab in data["tabs"]] == ["tired", "wide"]
    assert data["tabs"][1]["knockedOut"] == ["decoder.1.cross.0"]
    assert data["start"] == {"site": "encoder.1.self", "head": 1, "row": 1, "view": "sentence"}


@pytest.mark.parametrize("start", [{"site": "encoder.9.self"}, {"head": 7}, {"word": "dog"}])
def test_a_place_that_is_not_there_is_refused(start):
    with pytest.raises(InputError):
        page("t", [Looks([("a", look())], **start)])


def test_looks_show_themselves_in_a_notebook():
    for thing in (look(), look().maps[0], compare(look(), look())):
        shown = thing._repr_html_()
        frame = Reader(shown).elements
        assert [tag for tag, _ in frame] == ["iframe"]
        assert frame[0][1]["sandbox"] == "allow-scripts"
        assert frame[0][1]["srcdoc"].startswith("<!doctype html>")
        assert html.unescape(shown).count("</html>") == 1


@pytest.mark.slow
def test_five_hundred_words_make_a_page_that_is_written_soon_and_not_too_large(tmp_path):
    words = tuple(f"w{i}" for i in range(500))
    seen = look(words, words, layers=2, heads=8)
    start = time.perf_counter()
    text = saved(tmp_path, seen)
    assert time.perf_counter() - start < 20  # 1 s when the machine is idle
    assert len(text) < 30_000_000
    data = data_of(text)
    assert data["bytes"] == 1
    assert all(stored_map["stored"] == 8 for stored_map in data["tabs"][0]["maps"])


def test_when_heads_are_too_many_the_page_holds_means_and_when_those_are_it_refuses(monkeypatch):
    seen = look(heads=4)
    monkeypatch.setattr(pages, "MOST_BYTES", sum(m.weights[0].size for m in seen.maps))
    data = data_of(page("t", [Looks([("", seen)], head=1)]))
    assert data["start"]["head"] is None
    decoded = weights_in(data)
    for stored_map in data["tabs"][0]["maps"]:
        assert (stored_map["heads"], stored_map["stored"]) == (4, 1)
        want = seen.site(stored_map["site"]).weights.mean(0, keepdims=True)
        np.testing.assert_allclose(decoded[stored_map["site"]], want, atol=1e-5)
    monkeypatch.setattr(pages, "MOST_BYTES", 10)
    with pytest.raises(InputError, match=r"look\.png"):
        page("t", [Looks([("", seen)])])
