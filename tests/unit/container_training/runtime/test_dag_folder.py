"""Where the relative paths of a task's arguments start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from container_training.runtime.dag_folder import dag_folder


@pytest.mark.parametrize(
    ("context", "folder"),
    [
        ({"dag": SimpleNamespace(fileloc="/dags/team/train.py")}, "/dags/team"),
        ({"dag": SimpleNamespace(fileloc="train.py")}, "."),
        ({"dag": SimpleNamespace(fileloc="")}, "."),
        ({"dag": None}, "."),
        ({}, "."),
    ],
)
def test_paths_start_beside_the_dags_file_or_where_the_process_is(context: Any, folder: str) -> None:
    assert dag_folder(context) == Path(folder)
