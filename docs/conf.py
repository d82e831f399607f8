"""How Sphinx builds the site: `make docs` writes it to build/docs."""

import re
import sys
from pathlib import Path
from pydoc import locate

sys.path.insert(0, str(Path(__file__).parents[1]))

from sphinx.util import logging

from docs import gallery, pictures
from regard import __version__

project = "Regard"
author = "the authors of Regard"
release = version = __version__
html_title = f"Regard {__version__}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images/**"]
nitpicky = False  # types such as Tensor have no page here

# Pages are Markdown. A heading can be linked to as on GitHub: page.md#heading.
myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]

# Docstrings are in Google's style, with `code` as in Markdown: converted below.
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "exclude-members": "model_config"}

html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
# Code blocks that show a terminal, or hold data, are not highlighted.
highlight_language = "text"


LOG = logging.getLogger(__name__)
CODE = re.compile(r"`+([^`]+?)`+", re.S)
EMPHASIS = r"(?<![\w*])\*\w(?:[^*\n]*\w)?\*(?![\w*])"
MARKUP = r"[\\|*]|(?<=\w)_(?!\w)"
HIDDEN: dict[str, list[str]] = {}


def to_rst(text: str) -> str:
    """Converts a docstring from our Markdown style to reStructuredText.

    `code` becomes ``code``, characters that are markup only to reStructuredText are escaped, and
    an indented block after an empty line becomes a literal block.
    """
    parts = CODE.split(text)
    parts[::2] = [
        re.sub(f"({EMPHASIS})|({MARKUP})", lambda m: m[1] or "\\" + m[2], part)
        for part in parts[::2]
    ]
    parts[1::2] = [f"``{' '.join(part.split())}``" for part in parts[1::2]]
    return re.sub(r"^(\S.*)\n\n(?=    )", r"\1\n\n::\n\n", "".join(parts), flags=re.M)


def default_of(name: str) -> list[str]:
    """The default of a setting, for an attribute of a config class; else nothing."""
    parent, _, key = name.rpartition(".")
    field = getattr(locate(parent), "model_fields", {}).get(key)
    if field is None:
        return []
    value = field.get_default(call_default_factory=True)
    return ["", "Required." if field.is_required() else f"Default: ``{value!r}``."]


def before_napoleon(app, what, name, obj, options, lines) -> None:
    """Prepares a docstring; hides an attribute, whose colon Napoleon would read as a type."""
    del app, obj, options
    blocks = re.split(r"(?m)^((?: {4}.*\n)*? *>>> .*(?:\n.+)*)", "\n".join(lines))
    blocks[::2] = map(to_rst, blocks[::2])  # examples stay as they are
    text = "".join(blocks).split("\n")
    if what in ("attribute", "data", "property"):
        HIDDEN[name], text = text + default_of(name), ["."]
    lines[:] = text


def after_napoleon(app, what, name, obj, options, lines) -> None:
    """Puts the docstrings of attributes back."""
    del app, what, obj, options
    lines[:] = HIDDEN.pop(name, lines)


def signature(app, what, name, obj, options, given, returned) -> tuple[str, None] | None:
    """Leaves the signature of a config class empty: its settings follow one by one."""
    del app, name, options, given, returned
    return ("", None) if what == "class" and hasattr(obj, "model_fields") else None


def draw_what_is_old(app, env, added, changed, removed) -> set[str]:
    """Draws the pictures of all pages; these pages are to be read anew: see `pictures`."""
    del added, changed, removed
    if not app.config.draw_pictures:
        return set()
    wanted = gallery.pictures()
    for page in env.found_docs:
        text = Path(env.doc2path(page)).read_text(encoding="utf-8")
        wanted += pictures.pictures_of(page, text)
    pages, errors = pictures.draw_all(wanted)
    for error in errors:
        LOG.warning("picture not drawn: %s", error)
    return {gallery.PAGE, *pages}


def put_into_page(app, page, source) -> None:
    """Puts pictures and the gallery in the places of the comments of a page."""
    text, drawn = source[0], app.config.draw_pictures
    if gallery.COMMENT in text:
        text = text.replace(gallery.COMMENT, gallery.gallery(drawn=drawn))
    source[0] = pictures.with_pictures(page, text) if drawn else text


def setup(app) -> None:
    """Called by Sphinx. Napoleon works at priority 500."""
    app.add_config_value("draw_pictures", default=True, rebuild="env")
    app.connect("env-get-outdated", draw_what_is_old)
    app.connect("source-read", put_into_page)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("autodoc-process-signature", signature)
