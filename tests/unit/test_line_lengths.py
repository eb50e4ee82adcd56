"""
Lines are short enough to read: 110 characters in Python, 160 in Markdown.

The first line of a docstring has at most 90.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON, MARKDOWN, SUMMARY = 110, 160, 90
#: A literal of this length would be worse broken: a row of a test's table, a message, an address.
_LONG_STRING = 50
#: Tools read these; what follows them is their reason.
_PRAGMA = re.compile(r"\s+# (?:noqa|type:|fmt:).*$")


def tracked(*patterns: str) -> list[str]:
    """Return the paths of the repository's files, or all below it where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if listed.returncode == 0:
        return listed.stdout.split()
    found = (path for pattern in patterns for path in ROOT.rglob(pattern))
    return [str(path.relative_to(ROOT)) for path in found if ".venv" not in path.parts]


def summaries(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and first line of each docstring."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if doc := ast.get_docstring(node):
            yield node.body[0].lineno, doc.split("\n")[0]


def lines_of_long_strings(text: str) -> set[int]:
    """Return the lines with a long part of a literal. Docstrings, also of attributes, are none."""
    documentation = {
        (node.lineno, node.col_offset) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)
    }
    return {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.STRING and token.start not in documentation
        for number, part in enumerate(token.string.split("\n"), token.start[0])
        if len(part) >= _LONG_STRING
    }


def long_lines(text: str) -> list[int]:
    """Return the numbers of the lines of a Python file that are too long, and need not be."""
    numbers = [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if len(_PRAGMA.sub("", line)) > PYTHON and not re.search(r"https?://\S{60}", line)
    ]
    return sorted(set(numbers) - lines_of_long_strings(text)) if numbers else []


def test_no_line_of_a_document_is_too_long_but_rows_of_tables() -> None:
    found = [
        f"{path}:{number}"
        for path in tracked("*.md")
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").split("\n"), 1)
        if len(line) > MARKDOWN and not line.startswith("|")
    ]

    assert not found, "\n".join(found)


def test_no_line_of_python_is_too_long() -> None:
    found = [
        f"{path}:{number}"
        for path in tracked("*.py")
        for number in long_lines((ROOT / path).read_text(encoding="utf-8"))
    ]

    assert not found, "\n".join(found)


def test_the_first_line_of_a_docstring_is_a_short_summary() -> None:
    found = [
        f"{path}:{number}"
        for path in tracked("*.py")
        for number, summary in summaries(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if len(summary) > SUMMARY
    ]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_long"),
    [
        ("x = 1  # " + "word " * 30, True),
        ("# " + "word " * 30, True),
        ('"""' + "word " * 30 + '"""', True),
        ("x = [" + "1, " * 60 + "]", True),
        ('raise ValueError("' + "word " * 30 + '")', False),
        ("x = 1  # type: ignore[" + "word, " * 30 + "]", False),
        ("# https://example.com/" + "a" * 120, False),
        ("x = 1\n" + '"""' + "word " * 30 + '"""', True),
    ],
)
def test_a_long_line_is_found_unless_it_cannot_be_broken_well(line: str, is_long: bool) -> None:
    assert bool(long_lines(f"{line}\n")) is is_long
