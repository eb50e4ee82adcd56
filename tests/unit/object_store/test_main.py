"""The command: what it passes on, and how it says that it cannot serve."""

from __future__ import annotations

from ipaddress import ip_interface
from pathlib import Path

import pytest

from object_store import __main__ as command
from object_store.server import Settings


def test_the_command_line_becomes_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Settings] = []
    monkeypatch.setattr(command, "serve", served.append)

    options = ["--port", "1", "--training-url", "http://x", "--allow-host", "name", "--floor-bytes", "5"]
    options += ["--clients", "10.0.0.1/8"]
    assert command.main(["serve", "--root", str(tmp_path), *options]) == 0

    assert served == [
        Settings(
            root=tmp_path,
            port=1,
            training_url="http://x",
            hosts=["host.docker.internal", "name"],
            clients=ip_interface("10.0.0.1/8"),
            floor_bytes=5,
        )
    ]


def test_a_folder_that_cannot_be_served_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, but long enough" * 100)

    assert command.main(["serve", "--root", str(tmp_path)]) == 1

    assert capsys.readouterr().err == "error: file is not a database\n"
