"""The object store of the programs that go ahead of a trainer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.fakes.object_downloads import DownloadStore


@contextmanager
def _running() -> Iterator[DownloadStore]:
    store = DownloadStore()
    yield store
    store.server.shutdown()
    store.server.server_close()


@pytest.fixture
def store() -> Iterator[DownloadStore]:
    """The store that the programs ask."""
    with _running() as store:
        yield store


@pytest.fixture
def other_store() -> Iterator[DownloadStore]:
    """A store that they are led to."""
    with _running() as store:
        yield store
