"""The object store of the programs that go ahead of a trainer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fakes.object_downloads import DownloadStore


@pytest.fixture
def store() -> Iterator[DownloadStore]:
    store = DownloadStore()
    yield store
    store.server.shutdown()
    store.server.server_close()
