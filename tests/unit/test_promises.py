"""The tests of each promise in docs/testing.md exist, and ``make test`` runs one of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "testing.md"
#: What a row names: a file, several by ``*``, or a folder; without a folder it is in that of the name before.
NAME = re.compile(r"`([\w/*]+(?:\.py)?)`")


def rows() -> Iterator[tuple[str, list[Path]]]:
    """Yield each promise with the files of its tests."""
    table = PAGE.read_text(encoding="utf-8").partition("## Which test holds which promise")[2]
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith("| promise"):
            promise, tests = line.split(" | ")[:2]
            yield promise.removeprefix("| "), list(files(tests))


def files(tests: str) -> Iterator[Path]:
    """
    Yield the files that a cell of the table names.

    :raises AssertionError: it names what is not there.
    """
    folder = ""
    for name in NAME.findall(tests):
        path = name if "/" in name or not name.endswith(".py") else f"{folder}/{name}"
        folder = path.rpartition("/")[0]
        found = list(TESTS.glob(path))
        assert found, f"{PAGE.name} names tests/{path}, which is not there"
        for each in found:
            yield from [each] if each.is_file() else each.rglob("test_*.py")


def is_run_by_make_test(file: Path) -> bool:
    """Whether a file has a test that is not marked ``extended``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    marks = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    if any("pytest.mark.extended" in mark for mark in marks):
        return False
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    return any(
        "pytest.mark.extended" not in map(ast.unparse, function.decorator_list) for function in functions
    )


@pytest.mark.parametrize(("promise", "its_files"), list(rows()))
def test_make_test_runs_a_test_of_each_promise(promise: str, its_files: list[Path]) -> None:
    assert any(map(is_run_by_make_test, its_files)), f"all tests of {promise!r} are extended ones"


@pytest.mark.parametrize(
    ("text", "is_run"),
    [
        ("def test_it(): pass", True),
        ("@pytest.mark.extended\ndef test_it(): pass", False),
        ("@pytest.mark.extended\ndef test_it(): pass\nclass TestMore:\n  def test_it(self): pass", True),
        ("pytestmark = [pytest.mark.docker, pytest.mark.extended]\ndef test_it(): pass", False),
        ("def helper(): pass", False),
    ],
)
def test_a_file_of_extended_tests_is_told_from_others(text: str, is_run: bool, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)

    assert is_run_by_make_test(file) is is_run
