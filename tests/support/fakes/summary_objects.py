"""Objects in memory, in place of the object store in which trials leave summary files."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from training_service.intake.cloud_storage import StorageUnavailable, StoredFile


class FakeObjects:
    """Objects in memory; each write is a generation."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.generations: dict[str, int] = {}
        self.available = True
        self.read_bytes = 0
        self.looked = threading.Event()

    def put(self, name: str, content: bytes) -> None:
        self.contents[name] = content
        self.generations[name] = self.generations.get(name, 0) + 1

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        self.looked.set()
        if not self.available:
            raise StorageUnavailable("the store was switched off")
        for name in sorted(self.contents):
            if f"{bucket}/{name}".startswith(f"bucket/{prefix}"):
                yield StoredFile(name=name, generation=self.generations[name], size=len(self.contents[name]))

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        if self.generations[file.name] != file.generation:
            return None
        piece = self.contents[file.name][start : start + size]
        self.read_bytes += len(piece)
        return piece
