"""Build contexts in a folder of a test's."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from container_training.work.images.build_context import BuildContext, open_context


def make_context(folder: Path, **files: str) -> BuildContext:
    for name, contents in ({"Dockerfile": "FROM scratch\n"} | files).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(contents)
    return open_context(folder)


def packed_names(context: BuildContext) -> list[str]:
    archive = io.BytesIO()
    context.pack(archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        return tar.getnames()
