"""A bucket in memory, in place of a client of ``google-cloud-storage``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.api_core.exceptions import NotFound


class FakeBucket:
    """One bucket of a ``google.cloud.storage.Client``: only what ``ObjectStore`` uses."""

    api_endpoint = "http://127.0.0.1:9023"

    def __init__(self) -> None:
        #: Whose the bucket is; ``None``: every project's.
        self.project: str | None = None
        self.objects: dict[str, bytes] = {}
        self.generations: dict[str, int] = {}
        self.writes = 0

    def list_blobs(self, bucket: str, prefix: str) -> list[Any]:
        if bucket != "bucket":
            raise NotFound(bucket)
        return [self.blob(name) for name in sorted(self.objects) if name.startswith(prefix)]

    def list_buckets(self, prefix: str, project: str) -> list[Any]:
        is_listed = self.project in (None, project) and "bucket".startswith(prefix)
        return [SimpleNamespace(name="bucket")] if is_listed else []

    def bucket(self, name: str) -> FakeBucket:
        assert name == "bucket"
        return self

    def get_blob(self, name: str) -> Any:
        return self.blob(name) if name in self.objects else None

    def blob(self, name: str, generation: int | None = None) -> Any:
        import base64

        import google_crc32c

        content = self.objects.get(name, b"")
        checksum = base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()
        return SimpleNamespace(
            name=name,
            size=len(content),
            crc32c=checksum,
            generation=self.generations.get(name, 1),
            download_as_bytes=lambda: content,
            upload_from_string=lambda text, content_type: self._write(name, text),
        )

    def _write(self, name: str, content: bytes) -> None:
        self.objects[name] = content
        self.generations[name] = self.generations.get(name, 1) + 1
        self.writes += 1
