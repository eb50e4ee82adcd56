"""Whom this machine's engine trusts for the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_stack.errors import LocalStackError
from local_stack.machines.trust import trust_for_registry

REGISTRY = "10.0.0.5:5000"


def test_the_engine_is_told_once_and_again_when_the_authority_is_another(tmp_path: Path) -> None:
    authority, folder = tmp_path / "authority.pem", tmp_path / "certs.d"
    authority.write_text("one")

    assert [trust_for_registry(authority, folder, REGISTRY) for _ in range(2)] == [True, False]
    authority.write_text("two")
    assert trust_for_registry(authority, folder, REGISTRY)

    (file,) = (folder / REGISTRY).iterdir()
    assert (file.name, file.read_text(), file.stat().st_mode & 0o777) == ("ca.crt", "two", 0o644)


def test_a_folder_that_cannot_be_written_is_refused_with_what_root_runs(tmp_path: Path) -> None:
    authority, folder = tmp_path / "authority.pem", tmp_path / "certs.d"
    authority.write_text("one")
    folder.write_text("no folder")

    with pytest.raises(LocalStackError, match=rf"as root, run: install -D -m 644 {authority} "):
        trust_for_registry(authority, folder, REGISTRY)
