"""The archive of what a container gets before its start."""

from __future__ import annotations

import io
import tarfile

from container_engines.docker.archive import archive_of


def test_files_may_be_read_by_all_and_folders_written_by_all() -> None:
    packed = archive_of({"/run/launcher/a.py": b"1", "/run/launcher/b.py": b"22"}, ["/gcs"])

    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = {entry.name: (entry.isdir(), entry.mode, entry.uid, entry.size) for entry in archive}
    assert found == {
        "run/launcher": (True, 0o755, 0, 0),
        "gcs": (True, 0o1777, 0, 0),
        "run/launcher/a.py": (False, 0o444, 0, 1),
        "run/launcher/b.py": (False, 0o444, 0, 2),
    }
