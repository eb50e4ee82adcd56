"""The folder of a store has one process, and its HTTP server bears clients that go away."""

from __future__ import annotations

from pathlib import Path

import pytest

from object_store.server import FolderInUse, _hold, server_of
from tests.support.fakes.gone_client import serve_a_gone_client
from tests.unit.object_store.conftest import Site


def test_a_folder_has_one_store_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"

    with _hold(root), pytest.raises(FolderInUse, match="choose another --root"), _hold(root):
        pass
    with _hold(root):
        pass


def test_a_client_that_goes_away_leaves_no_traceback_in_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    serve_a_gone_client(server_of(site.app).config, "/health")

    assert [record for record in caplog.records if record.exc_info] == []
