"""
Fills the argument lists of ``docs/reference/*.md`` from signatures and docstrings.

``make docs`` runs it.

A page is written by hand, but for the text between two marks::

    <!-- arguments: container_training.operators.image.BuildImageOperator -->
    <!-- end of arguments -->
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

from docs.tools.arguments import arguments_of, bases_of, docstring_of, untemplated_arguments
from docs.tools.markdown import bullet, inline, paragraphs

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
#: Where the page is that lists the arguments of a base class, which are then not repeated.
SHARED = {"JobDescriptionOperator": "submitting.md#the-arguments-of-a-job"}

_BLOCK = re.compile(
    r"^<!-- arguments: (?P<path>[\w.]+) -->\n.*?^<!-- end of arguments -->$", re.DOTALL | re.MULTILINE
)


def names_in(page: str) -> list[str]:
    """Return the dotted names whose arguments ``page`` lists."""
    return [match["path"] for match in _BLOCK.finditer(page)]


def filled(page: str) -> str:
    """Return ``page`` with all of its lists made anew."""
    return _BLOCK.sub(lambda match: _block(match["path"]), page)


def _block(path: str) -> str:
    module, _, name = path.rpartition(".")
    described = getattr(importlib.import_module(module), name)
    return "\n\n".join([f"<!-- arguments: {path} -->", *_description(described), "<!-- end of arguments -->"])


def _description(described: Any) -> list[str]:
    doc = docstring_of(described)
    arguments = arguments_of(described, stop_at=SHARED)
    entries = [bullet(f"`{each.name}`", each.default, inline(each.text)) for each in arguments]
    parts = [*paragraphs(doc.text), _heading(untemplated_arguments(described, arguments)), "\n".join(entries)]
    parts += [
        f"It also takes [the arguments of a job]({SHARED[base]})." for base in bases_of(described, SHARED)
    ]
    return parts + [line for title, text in doc.outcome for line in paragraphs(f"{title} {text}")]


def _heading(untemplated: list[str] | None) -> str:
    """Return what stands above a list: which arguments are templates; ``None``: of no operator."""
    if untemplated is None:
        return "Arguments:"
    if not untemplated:
        return "Arguments, all of them templates:"
    return f"Arguments, all of them templates but {' and '.join(f'`{name}`' for name in untemplated)}:"


def main() -> None:
    """Write every page of the reference that is stale."""
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(REFERENCE.parents[1])}", file=sys.stderr)


if __name__ == "__main__":
    main()
