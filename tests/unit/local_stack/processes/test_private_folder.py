"""A folder that is closed to other users, with what older versions left in it."""

from __future__ import annotations

import stat
from pathlib import Path

from local_stack.processes.private_folder import make_private

MARK = "mark"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "state", MARK)

    assert mode(tmp_path / "a" / "state") == 0o700


def test_what_an_older_version_left_open_is_closed(tmp_path: Path) -> None:
    for path in ("logs/airflow.log", "tools/bin/run", MARK):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "tools/bin/run").chmod(0o755)
    (tmp_path / "logs/airflow.log").chmod(0o644)

    make_private(tmp_path, MARK)

    modes = {str(path.relative_to(tmp_path)): mode(path) for path in tmp_path.rglob("*")}
    assert modes == {
        "logs": 0o700,
        "logs/airflow.log": 0o600,
        "tools": 0o700,
        "tools/bin": 0o700,
        "tools/bin/run": 0o700,
        MARK: 0o600,
    }


def test_what_lies_in_a_closed_folder_may_be_open_for_containers(tmp_path: Path) -> None:
    mount = tmp_path / "metrics" / "trial"
    mount.mkdir(parents=True)
    mount.chmod(0o777)
    mount.parent.chmod(0o700)
    (tmp_path / MARK).touch()

    make_private(tmp_path, MARK)

    assert mode(mount) == 0o777


def test_a_folder_of_something_else_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o755)

    make_private(tmp_path, MARK)

    assert mode(tmp_path) == 0o755


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o644)
    outside.chmod(0o644)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / MARK).touch()
    (inside / "link").symlink_to(outside)
    (inside / "broken").symlink_to(tmp_path / "nowhere")

    make_private(inside, MARK)

    assert mode(outside) == 0o644
