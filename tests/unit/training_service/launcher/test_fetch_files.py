"""The program that fetches objects ahead of a command, without a container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.fakes.object_downloads import DownloadStore
from tests.support.speed import scaled

PROGRAM = Path(__file__).resolve().parents[4] / "training_service" / "launcher" / "fetch_files.py"


def run(
    store: DownloadStore, folder: Path, *command: str, objects: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    named = [f"--object={name}" for name in objects]
    return subprocess.run(
        [sys.executable, str(PROGRAM), f"--folder={folder}", *named, "--", *command],
        env={"STORAGE_EMULATOR_HOST": store.url, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )


def test_the_command_finds_the_objects_and_its_status_is_the_containers(
    store: DownloadStore, tmp_path: Path
) -> None:
    store.objects = {"gs://bkt/a/b.csv": b"one", "gs://other/c": b"two"}
    folder = tmp_path / "gcs"

    done = run(
        store,
        folder,
        *("sh", "-c", f'cat {folder}/bkt/a/b.csv {folder}/other/c; echo "$0"; exit 7', "--word"),
        objects=("bkt/a/b.csv", "other/c"),
    )

    assert done.stdout.endswith("onetwo--word\n")
    assert done.returncode == 7
    assert f"{folder}/bkt/a/b.csv: 3 bytes" in done.stdout
    assert (folder / "bkt" / "a" / "b.csv").stat().st_mode & 0o777 == 0o444
    assert (folder / "bkt" / "a").stat().st_mode & 0o777 == 0o555


def test_an_object_that_is_not_there_is_named_and_nothing_runs(store: DownloadStore, tmp_path: Path) -> None:
    done = run(store, tmp_path / "gcs", "echo", "ran", objects=("bkt/out",))

    assert "The job cannot start: there is no gs://bkt/out; " in done.stderr
    assert "nothing is written back: write to gs://" in done.stderr
    assert ("ran" in done.stdout, done.returncode) == (False, 66)


def test_an_object_that_may_not_be_read_is_named(store: DownloadStore, tmp_path: Path) -> None:
    store.statuses = [403]

    done = run(store, tmp_path / "gcs", "true", objects=("bkt/a",))

    assert "the job may not read gs://bkt/a" in done.stderr
    assert done.returncode == 66


def test_a_command_that_is_not_there_is_named(store: DownloadStore, tmp_path: Path) -> None:
    store.objects = {"gs://bkt/a": b""}

    done = run(store, tmp_path / "gcs", "no-such-program", objects=("bkt/a",))

    assert "The job cannot start: 'no-such-program' cannot be run: No such file" in done.stderr
    assert done.returncode == 127


def test_an_object_within_another_one_cannot_be_written_and_is_asked_for_once(
    store: DownloadStore, tmp_path: Path
) -> None:
    store.objects = {"gs://bkt/a": b"", "gs://bkt/a/b": b""}
    folder = tmp_path / "gcs"

    done = run(store, folder, "echo", "ran", objects=("bkt/a", "bkt/a/b"))

    assert f"The job cannot start: {folder}/bkt/a/b cannot be written: " in done.stderr
    assert ("asking again" in done.stdout, "ran" in done.stdout, done.returncode) == (False, False, 73)


def test_what_links_in_the_folder_lead_to_stays_as_it_is(store: DownloadStore, tmp_path: Path) -> None:
    store.objects = {"gs://bkt/a": b""}
    folder, other = tmp_path / "gcs", tmp_path / "other"
    folder.mkdir()
    other.touch(0o640)
    (folder / "link").symlink_to(other)
    (folder / "broken").symlink_to(tmp_path / "absent")

    done = run(store, folder, "true", objects=("bkt/a",))

    assert (done.returncode, other.stat().st_mode & 0o777) == (0, 0o640)
