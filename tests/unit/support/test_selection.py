"""What a fixture learns about the tests that were chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.selection import cases

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import pytest
from tests.support.selection import chosen_values, is_asked_for

@pytest.fixture(scope="module")
def whole(request):
    return chosen_values(request, "number"), is_asked_for(request, "other")

@pytest.fixture
def other():
    return None

@pytest.fixture
def by_another(other):
    return None

@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("letter", ["a", "b"])
def test_number(whole, number, letter):
    assert whole == EXPECTED

def test_without_a_number(by_another):
    pass
"""


def run(folder: Path, expected: str, *options: str) -> str:
    """Return what pytest prints when it runs the tests above; they expect ``expected``."""
    (folder / "test_it.py").write_text(TESTS.replace("EXPECTED", expected))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *options,
        ".",
    ]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def test_a_fixture_learns_which_values_are_run_and_whether_another_one_is_used(tmp_path: Path) -> None:
    assert "7 passed" in run(tmp_path, "([1, 2, 3], True)")
    assert "2 passed" in run(tmp_path, "([2], False)", "-k", "2")


def test_all_but_the_witnesses_are_extended_in_the_order_of_the_values() -> None:
    extended = pytest.mark.extended

    assert cases("abc", witnesses=["b"]) == [
        pytest.param("a", marks=extended),
        "b",
        pytest.param("c", marks=extended),
    ]


def test_a_witness_that_is_none_of_the_values_is_refused() -> None:
    with pytest.raises(ValueError, match=r"witnesses must be among the values \['a', 'b'\], got \['c'\]"):
        cases("ab", witnesses=["a", "c"])
