"""The archive of what a container gets before its start. Pure."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Mapping

from container_engines.base import FILE_MODE, OPEN_FOLDER_MODE


def archive_of(files: Mapping[str, bytes], folders: Collection[str]) -> bytes:
    """
    Return an archive that is unpacked at ``/``.

    :param files: absolute path -> content. Every user can read the files, and only root can change them.
    :param folders: absolute paths of empty folders that everybody may write to.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in sorted({path.rpartition("/")[0] for path in files}):
            archive.addfile(_folder(folder, 0o755))
        for folder in folders:
            archive.addfile(_folder(folder, OPEN_FOLDER_MODE))
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.mode, entry.size = FILE_MODE, len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _folder(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry
