"""What of a Python file can be known without running it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from container_training.work.migration.python_values import PythonFile


def last_value(source: str) -> tuple[Any, PythonFile]:
    """Return the value of the last expression in ``source``: the argument of ``use``."""
    file = PythonFile(source)
    (call,) = [
        node
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "use"
    ]
    return file.value(call.args[0]), file


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("use('a' + 'b')", "ab"),
        ("A = 'x'\nB = f'{A}-1'\nuse([B, {'k': A}])", ["x-1", {"k": "x"}]),
        ("use('a_b'.replace('_', '-').upper())", "A-B"),
        ("use('%s/%d' % ('a', 3))", "a/3"),
        ("use('{}-{}'.format('a', 1))", "a-1"),
        ("use(-1)", -1),
        ("A = 1\nA = 2\nuse(A)\nA = 3", 2),
        ("def f():\n    A = 1\n    use(A)\nA = 2", 1),
        ("def f():\n    use(A)\nA = 2", 2),
        ("with open('x') as f:\n    A = 1\nuse(A)", 1),
    ],
)
def test_what_follows_from_the_text_alone_is_a_value(source: str, value: Any) -> None:
    assert last_value(source)[0] == value


@pytest.mark.parametrize(
    ("source", "written", "default"),
    [
        ("use(os.environ['A'])", "os.environ['A']", None),
        ("A = os.environ.get('B', 'c')\nuse(A)", "A", "c"),
        ("A = os.getenv('B')\nuse(A)", "A", None),
        ("A = 'x-' + os.getenv('B', 'c')\nuse(A.upper())", "A.upper()", "X-C"),
        ("if x:\n    A = 1\nuse(A)", "A", None),
        ("for A in []:\n    use(A)", "A", None),
        ("A = 1\ndef f(A):\n    use(A)", "A", None),
        ("A = A\nuse(A)", "A", None),
        ("use(1 + 'a')", "1 + 'a'", None),
        ("use(f'{3:02}')", "f'{3:02}'", None),
    ],
)
def test_what_only_a_run_could_tell_is_a_mark_with_its_line(
    source: str, written: str, default: str | None
) -> None:
    value, file = last_value(source)

    (part,) = file.text.parts_of(value)
    assert (part.text, part.default) == (written, default)
    assert part.where.startswith("in line ")


def test_what_is_known_of_a_text_or_a_list_stays() -> None:
    value, file = last_value("use(['a', f'gs://{bucket()}/x', {'k': b}])")

    assert value[0] == "a"
    assert file.text.as_written(value[1]) == "gs://bucket()/x"
    assert file.text.as_written(value[2]["k"]) == "b"


def test_what_is_known_of_a_text_stays_where_it_has_names() -> None:
    value, file = last_value("B = 'b-' + os.environ['S']\nROOT = f'gs://{B}'\nOUT = f'{ROOT}/out'\nuse(OUT)")

    assert file.text.as_written(value) == "gs://B/out"


def test_a_value_may_be_declared_unknown() -> None:
    _, file = last_value("use(1)")

    (part,) = file.text.parts_of(file.unknown("module", "the module in PATH", 7))
    assert (part.name, part.text, part.where) == ("module", "the module in PATH", "in line 7")
