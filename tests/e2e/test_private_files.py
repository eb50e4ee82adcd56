"""What the stack writes is its owner's alone, and no log of its programs has a password."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_users import USERS
from local_stack.people.credentials import airflow_token, developer_token
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run

#: In the closed folder: what containers share, and what gcloud writes as it likes.
_OTHERS_WRITE = ("metrics", "gcloud")

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_no_other_user_reads_or_writes_what_a_run_leaves(
    start_program: Callable[[str], Run], stack: LocalStack
) -> None:
    start_program("print('done')").wait_for_end()

    assert stat.S_IMODE(stack.settings.state_dir.stat().st_mode) == 0o700
    assert [str(path) for path in opened(stack.settings.state_dir)] == []


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is gone by now."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def opened(folder: Path) -> Iterator[Path]:
    """Yield what others could use, were they in the folder."""
    for path in _entries(folder):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue
        if path.is_symlink() or path.name in _OTHERS_WRITE:
            continue
        if mode & 0o077:
            yield path
        if path.is_dir():
            yield from opened(path)


def test_no_log_has_a_password_or_the_token(start_program: Callable[[str], Run], stack: LocalStack) -> None:
    start_program("print('done')").wait_for_end()
    passwords: dict[str, str] = json.loads(passwords_file(stack.settings).read_text("utf-8"))

    assert passwords.keys() == USERS.keys()
    secrets = [*passwords.values(), airflow_token(stack.settings), developer_token(stack.settings)]
    logs = [
        Path(folder, name)
        for folder, _, names in os.walk(stack.settings.state_dir)
        for name in names
        if name.endswith(".log")
    ]
    assert len(logs) > 5
    for path in logs:
        text = path.read_text("utf-8", errors="replace")
        assert not [secret for secret in secrets if secret in text], path
