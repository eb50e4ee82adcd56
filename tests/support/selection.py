"""Which of a module's tests are run: for fixtures that do the work of all of them at once."""

from __future__ import annotations

from typing import Any

import pytest


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
