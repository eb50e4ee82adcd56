"""
Every request of the tests says how long it waits.

httpx's default is five seconds, which a busy machine may take.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
_CALLS = {"Client", "AsyncClient", "request", "stream", "get", "post", "put", "patch", "delete"}
#: ``transport``: most such clients reach no server. ``tests.support.web`` gives its own.
_SAID = {"timeout", "transport"}


def impatient_calls(source: str) -> Iterator[int]:
    """Yield the lines of requests by httpx without a timeout."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "httpx"
            and node.func.attr in _CALLS
            and not {keyword.arg for keyword in node.keywords} & (_SAID | {None})
        ):
            yield node.lineno


def test_an_impatient_call_is_found() -> None:
    assert list(impatient_calls("import httpx\nhttpx.get(url)\nhttpx.Client(timeout=1)\n")) == [2]


def test_every_request_says_how_long_it_waits() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in impatient_calls(path.read_text("utf-8"))
    ]

    assert found == [], "use tests.support.web"
