"""
What the plots of trials are put together from: pieces of Vega-Lite specifications.

Source: https://vega.github.io/vega-lite/docs/ (version 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 380


def status_encoding(looks: dict[str, Any], found: Sequence[str], channel: str) -> Spec:
    """Return the encoding of what became of the trials, with those in the legend that there are."""
    names = [name for name in looks if name in set(found)]
    return {
        "field": "status",
        "type": "nominal",
        "scale": {"domain": names, channel: [looks[name] for name in names]},
        "legend": {"title": "trial", "symbolStrokeColor": "#444", "symbolFillColor": "#444"}
        if names
        else None,
    }


def haloed_text(data: Spec, field: str, encoding: Spec, **mark: Any) -> list[Spec]:
    """Return a text that stays readable on lines: itself, over a white rim."""
    rim = {**mark, "stroke": "white", "strokeWidth": 4, "strokeJoin": "round", "color": "white"}
    return [plain_text(data, field, encoding, **rim), plain_text(data, field, encoding, **mark)]


def plain_text(data: Spec, field: str, encoding: Spec, **mark: Any) -> Spec:
    """
    Return the layer that writes ``field`` of each row of ``data``.

    :param mark: properties of Vega-Lite's text mark.
    """
    return {
        "data": data,
        "mark": {"type": "text", **mark},
        "encoding": {**encoding, "text": {"field": field, "type": "nominal"}},
    }


def chart(title: str, subtitle: str, *, title_offset: int, **fields: Any) -> Spec:
    """
    Return a specification with a title; ``fields`` are the rest of it.

    :param title_offset: pixels below the title.
    """
    return {
        "$schema": SCHEMA,
        "title": {
            "text": title,
            "subtitle": subtitle,
            "anchor": "start",
            "offset": title_offset,
            "subtitlePadding": 4,
        },
        "height": HEIGHT,
        "background": "white",
        "config": {"font": "sans-serif", "view": {"stroke": None}},
        **fields,
    }
