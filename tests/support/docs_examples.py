"""
Reads the examples out of the documentation.

Code blocks below a comment like ``<!-- example: shell -->``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("**/*.md")))

_EXAMPLE = re.compile(
    r"^<!-- example: (?P<kind>[^\n]+?) -->\n```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"^<!-- example:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    One marked code block.

    :param kind: what the mark says: how the block is tested.
    """

    page: Path
    kind: str
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.kind}".replace(" ", "-")


def examples_in(page: Path) -> list[Example]:
    """
    Return the marked blocks of ``page`` in their order.

    :raises AssertionError: a mark without a code block right below it.
    """
    text = page.read_text(encoding="utf-8")
    found = [Example(page=page, **match.groupdict()) for match in _EXAMPLE.finditer(text)]
    assert len(found) == len(_MARK.findall(text)), f"{page}: a mark without a code block below it"
    return found


def examples(kind: str, *pages: Path) -> list[Example]:
    """Return all examples of ``kind``, of ``pages`` or of the whole documentation."""
    return [example for page in pages or PAGES for example in examples_in(page) if example.kind == kind]
