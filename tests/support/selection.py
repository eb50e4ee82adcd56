"""Which of a module's tests ``make test`` runs, and which of them are run now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(values: Iterable[Any], *, witnesses: Collection[Any]) -> list[Any]:
    """
    Return the values of a parameter, all but the witnesses marked ``extended``.

    For ``parametrize``, and for the ``params`` of a fixture.

    :raises ValueError: a witness is none of the values, and so nothing would stand for the others.
    """
    found = list(values)
    if unknown := [witness for witness in witnesses if witness not in found]:
        raise ValueError(f"witnesses must be among the values {found}, got {unknown}")
    return [
        value if value in witnesses else pytest.param(value, marks=pytest.mark.extended) for value in found
    ]


def chosen_values(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """
    Return the values of a parameter with which tests are run, each once.

    :param request: of a fixture of the tests' module, or of one of its functions.
    """
    parameters = [test.callspec.params for test in _chosen_tests(request) if hasattr(test, "callspec")]
    return list(dict.fromkeys(values[parameter] for values in parameters if parameter in values))


def is_asked_for(request: pytest.FixtureRequest, fixture: str) -> bool:
    """Whether a test that is run uses a fixture, by itself or by another one."""
    return any(fixture in test.fixturenames for test in _chosen_tests(request))


def _chosen_tests(request: pytest.FixtureRequest) -> list[pytest.Function]:
    items = request.session.items
    return [item for item in items if isinstance(item, pytest.Function) and item.path == request.path]
