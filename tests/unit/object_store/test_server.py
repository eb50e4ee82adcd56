"""The folder of a store has one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from object_store.server import FolderInUse, _hold


def test_a_folder_has_one_store_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"

    with _hold(root), pytest.raises(FolderInUse, match="choose another --root"), _hold(root):
        pass
    with _hold(root):
        pass
