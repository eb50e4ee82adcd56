"""One table of behaviours, checked on both clients of the training API."""

from __future__ import annotations

import pytest

from tests.support.fakes.training_answers import Call, call_async, call_sync


@pytest.fixture(params=[call_sync, call_async], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Return what calls a method of one of the two clients, answered by a handler."""
    chosen: Call = request.param
    return chosen
