"""The reference of the operators has each of them, and says what the code says."""

import inspect
from datetime import timedelta
from typing import Any

import pytest

from docs.tools.arguments import arguments_of
from docs.tools.operator_reference import REFERENCE, filled, names_in
from tests.support.public_operators import public_operators

PAGES = sorted(REFERENCE.glob("*.md"))
FUNCTIONS = {
    "container_training.comparison.compare_with_champion",
    "container_training.pipeline.RoleImage",
    "container_training.pipeline.training_pipeline",
    "container_training.step.training_step",
}
SHARED = {"container_training.runtime.job_description.JobDescriptionOperator"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_arguments_of_today(page: Any) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == filled(text), "stale: run `make docs`"


def test_every_public_operator_is_described_once() -> None:
    names = [name for page in PAGES for name in names_in(page.read_text(encoding="utf-8"))]

    operators = {f"{value.__module__}.{name}" for name, value in public_operators().items()}
    assert sorted(names) == sorted(operators | FUNCTIONS | SHARED)


@pytest.mark.parametrize("name", public_operators())
def test_a_docstring_describes_only_arguments_that_exist(name: str) -> None:
    operator = public_operators()[name]

    known = {
        parameter
        for base in operator.__mro__
        if "__init__" in vars(base)
        for parameter in inspect.signature(vars(base)["__init__"]).parameters
    }
    assert {argument.name for argument in arguments_of(operator, stop_at=())} - known == set()


def test_an_argument_shows_its_default_as_a_person_says_it() -> None:
    def described(
        *,
        name: str,
        count: int = 3,
        size: int = 2 * 2**30,
        limit: timedelta = timedelta(hours=36),
        of: Any = None,
    ) -> None:
        """
        Return nothing.

        :param name: a name.
        :param count: a number.
        :param size: in bytes.
        :param limit: a time,
            on two lines.
        :param of: anything. (templated)
        """

    found = arguments_of(described, stop_at=())

    assert [(each.name, each.default, each.text) for each in found] == [
        ("name", "required", "a name."),
        ("count", "default `3`", "a number."),
        ("size", "default 2 GiB", "in bytes."),
        ("limit", "default 36 hours", "a time, on two lines."),
        ("of", "optional", "anything."),
    ]


def test_an_argument_without_a_description_is_refused() -> None:
    def described(*, name: str) -> None:
        """Return nothing."""

    with pytest.raises(LookupError, match="described: no docstring says what is name"):
        arguments_of(described, stop_at=())
