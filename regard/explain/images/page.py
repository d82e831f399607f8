"""The page of attention over an image: point at a patch and see where it looks.

Input: the look of an image. Output: one HTML file that needs no network: the image and the weights
of all layers and heads are inside, the weights in one or two bytes each (`page.quantise`).
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from regard.draw.colours import hexadecimal, over_image
from regard.draw.labels import Weights
from regard.errors import InputError
from regard.explain.images.hiding import HiddenPatches
from regard.explain.images.patches import picture_of, rollout
from regard.explain.look import Look, LookSelection
from regard.explain.names import in_words
from regard.explain.page import FINE_BYTES, MOST_BYTES, escaped, fill_template, page_json, quantise


def image_page(look: Look, choice: LookSelection, test: HiddenPatches | None = None) -> str:
    """The text of a complete page.

    Args:
        look: The recorded attention for an image.
        choice: The layer, head and row to open at.
        test: What hiding patches does, for the choice.

    Raises:
        InputError: If there are too many weights for a page.
    """
    picture = picture_of(look, choice)
    if picture.merged and choice.kind == "rollout":
        got = "layers over different grids"
        raise InputError("page", got=got, expected="one grid", fix="draw a picture: -o map.png")
    same_stack = [m for m in look.maps if m.stack == choice.map.stack]
    maps = [m for m in same_stack if m.queries == choice.map.queries]  # others have another grid
    means = [look.matrix(m) for m in maps]
    size = sum(m.weights.size for m in maps) + means[0].size
    means_only = size > MOST_BYTES  # the means over heads alone
    if means_only and (len(maps) + 1) * means[0].size > MOST_BYTES:
        got = f"{len(picture.names)} tokens"
        raise InputError("page", got=got, expected="fewer", fix="draw one layer: -o map.png")
    width = 2 if 2 * size <= FINE_BYTES else 1
    layers = [
        {
            "name": f"layer {m.layer}",
            "site": m.site,
            "out": list(look.knocked_out_in(m)),
            **_pack_weights(np.nan_to_num(mean)[None] if means_only else m.weights, width),
        }
        for m, mean in zip(maps, means, strict=True)
    ]
    all_layers = len(maps) == 1 + max(m.layer for m in same_stack)
    if all_layers:  # no layer of the stack is left out
        layers.append({"name": "rollout", "site": "rollout", "out": [],
                       **_pack_weights(rollout(means)[None], width)})  # fmt: skip
    data = {
        "bytes": width,
        "grid": list(picture.grid),
        "names": picture.names,
        "first": picture.first,
        "row": picture.class_row,
        "image": _png(picture.pixels),
        "original": None if picture.original is None else data_uri(picture.original(), "jpeg"),
        "size": list(picture.pixels.shape[1:]),
        "layers": layers,
        "start": {
            "site": "rollout" if choice.kind == "rollout" else choice.maps[-1].site,
            "head": None if means_only else choice.head,
            "row": choice.row,
            "original": look.original,
        },
    }
    return fill_template(
        "image",
        schemes="light",
        heading=escaped(look.title),
        facts=escaped(_facts(look)),
        test=_test(test, choice),
        data=page_json(data),
        scale=page_json(hexadecimal(over_image(picture.pixels))),
    )


def _pack_weights(weights: Weights, width: int) -> dict[str, Any]:
    """Weights (heads, query, key) as text, and the number that the largest stored value means."""
    top = max(1e-9, float(weights.max()))
    data = base64.b64encode(quantise(weights / top, width)).decode()
    return {"heads": int(weights.shape[0]), "top": top, "data": data}


def _png(pixels: Weights) -> str:
    """The image that the model reads, (channels, height, width) from 0 to 1, as a data URI."""
    values = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    channels_last = values[0] if len(values) == 1 else values.transpose(1, 2, 0)
    return data_uri(np.ascontiguousarray(channels_last), "png")


def data_uri(image: Any, kind: str) -> str:
    """Bytes (height, width), or with channels, as a file of a kind: `png` or `jpeg`."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, quality=88)  # a PNG has no quality
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _facts(look: Look) -> str:
    out = ", ".join(map(in_words, look.knocked_out))
    model = f"Model: {look.model}." if look.model else ""
    return " ".join(filter(None, [look.note, model, f"Knocked out: {out}." if out else ""]))


def _test(test: HiddenPatches | None, choice: LookSelection) -> str:
    """The test as HTML: a bar and a number for each choice of hidden patches."""
    if test is None:
        return ""
    low, high = test.interval
    rows = [
        ("nothing hidden", test.before, ""),
        ("looked at most", test.most, ""),
        (f"others, {len(test.random)} draws", test.others, f"{low:.2f} to {high:.2f}"),
        ("looked at least", test.least, ""),
    ]
    lines = "\n".join(
        f'<tr><th scope="row">{escaped(name)}</th><td class="number">{value:.3f}</td>'
        f'<td class="bar"><progress max="1" value="{value:.4f}"></progress> {span}</td></tr>'
        for name, value, span in rows
    )
    filled = "by the mean colour" if test.fill == "mean" else "by a blur"
    what = f"{test.hidden} of {test.patches} patches replaced {filled}, by {choice.name}"
    return (
        f'<section class="test"><h2>The test of this map: P({escaped(test.label)})</h2>'
        f"<table>{lines}</table><p>{escaped(test.verdict)}</p><p>{escaped(what)}.</p></section>"
    )
