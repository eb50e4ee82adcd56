"""Snapshots of data in the object store: generations, and copies that are never overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from container_training.work.models.data_profile import DataProfile
from container_training.work.models.retention import Stored
from container_training.work.models.versions import DataSnapshot, snapshot_id_of
from training_api.errors import DataInvalid, ObjectChanged
from training_api.job.packages.pinned_uri import pinned, split_pinned
from training_api.job.results import ResultFile

if TYPE_CHECKING:
    from container_training.work.object_store import ObjectStore

MANIFEST = "snapshot.json"
PROFILE = "profile.json"
_MAX_JSON_BYTES = 16 * 1024 * 1024
_MAX_OBJECTS = 100_000
#: Data that are written while they are copied are looked at again.
_ATTEMPTS = 3


class SnapshotStore:
    """
    The snapshots below one folder; none is ever changed.

    :param folder: ``gs://`` folder; a snapshot is ``FOLDER/snapshots/ID/``.
    """

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self.folder = f"{folder.rstrip('/')}/snapshots"

    def take(
        self, sources: Sequence[str], *, now: datetime, copy: bool | None = None, max_files: int = 1000
    ) -> DataSnapshot:
        """
        Return a snapshot of what is at ``sources`` now.

        The existing one, if nothing was written since.

        :param sources: ``gs://`` addresses of objects, or of folders, which end with a slash.
        :param copy: keep copies within the store; else only the generations are recorded, and a bucket
            without object versioning loses them with the next write. Default: copy unless the buckets of all
            sources keep versions.
        :raises DataInvalid: nothing is there, too much is, or it changes faster than it can be copied.
        """
        if copy is None:
            copy = not all(self._store.keeps_versions(source) for source in sources)
        reason: ObjectChanged | None = None
        for _ in range(_ATTEMPTS):
            found = [self._look(source, max_files) for source in sources]
            snapshot_id = snapshot_id_of(file for files in found for file in files)
            if present := self._read(snapshot_id):
                return present
            try:
                files = (
                    self._copy(snapshot_id, sources, found)
                    if copy
                    else [file for files in found for file in files]
                )
            except ObjectChanged as error:
                reason = error
                continue
            return self._write(
                DataSnapshot(
                    snapshot_id=snapshot_id,
                    created_at=now,
                    sources=[file for files in found for file in files],
                    files=files,
                )
            )
        raise DataInvalid(
            f"{', '.join(sources)} changed {_ATTEMPTS} times while it was copied; let its writer end first: "
            f"{reason}"
        ) from reason

    def write_profile(self, snapshot: DataSnapshot, profile: DataProfile) -> None:
        """Keep the profile of a snapshot beside it."""
        self._store.write_if_changed(
            f"{self._folder_of(snapshot.manifest_uri)}/{PROFILE}",
            profile.model_dump_json().encode(),
            "application/json",
        )

    def read_profile(self, manifest_uri: str) -> DataProfile | None:
        """
        Return the profile of the snapshot with this manifest.

        ``None`` if none was made, or another version of this code made it.
        """
        content = self._store.read(f"{self._folder_of(manifest_uri)}/{PROFILE}", _MAX_JSON_BYTES)
        try:
            return None if content is None else DataProfile.model_validate_json(content)
        except ValidationError:
            return None

    def stored(self) -> list[Stored]:
        """Return all snapshots and when they were taken."""
        files, _ = self._store.list_files(f"{self.folder}/", _MAX_OBJECTS)
        names = [file.uri.split("/")[-2] for file in files if file.uri.endswith(f"/{MANIFEST}")]
        return [
            Stored(name=name, created_at=found.created_at)
            for name in names
            if (found := self._read(name)) is not None
        ]

    def delete(self, snapshot_id: str) -> None:
        """Delete a snapshot, its manifest last: one that is half deleted is found again."""
        folder = f"{self.folder}/{snapshot_id}"
        while self._store.delete_folder(f"{folder}/data"):
            pass
        self._store.delete_folder(folder)

    @staticmethod
    def _folder_of(manifest_uri: str) -> str:
        return split_pinned(manifest_uri)[0].rpartition("/")[0]

    def _look(self, source: str, max_files: int) -> list[ResultFile]:
        if not source.endswith("/"):
            file = self._store.find(source)
            files, has_more = [file] if file else [], False
        else:
            files, has_more = self._store.list_files(source, max_files)
        if not files:
            raise DataInvalid(
                f"sources must hold data, got {source}, where there is none; write it there, and end a folder's "
                "address with a slash"
            )
        if has_more:
            raise DataInvalid(f"{source} holds more than {max_files} objects; raise max_files or join them")
        return files

    def _copy(
        self, snapshot_id: str, sources: Sequence[str], found: Sequence[Sequence[ResultFile]]
    ) -> list[ResultFile]:
        copies = []
        for place, (source, files) in enumerate(zip(sources, found, strict=True)):
            folder = f"{self.folder}/{snapshot_id}/data" + (f"/{place}" if len(sources) > 1 else "")
            start = split_pinned(source)[0].rpartition("/")[0] + "/"
            copies += [
                self._store.copy(file.pinned_uri, f"{folder}/{file.uri.removeprefix(start)}")
                for file in files
            ]
        return copies

    def _write(self, snapshot: DataSnapshot) -> DataSnapshot:
        uri = f"{self.folder}/{snapshot.snapshot_id}/{MANIFEST}"
        content = snapshot.model_dump_json(indent=2, exclude={"manifest_uri"}).encode()
        try:
            generation = self._store.write_if(uri, content, "application/json", generation=0)
        except ObjectChanged:
            present = self._read(snapshot.snapshot_id)  # another run took the same one at this moment
            if present is None:
                raise
            return present
        return snapshot.model_copy(update={"manifest_uri": pinned(uri, generation)})

    def _read(self, snapshot_id: str) -> DataSnapshot | None:
        uri = f"{self.folder}/{snapshot_id}/{MANIFEST}"
        found = self._store.read_version(uri, _MAX_JSON_BYTES)
        if found is None:
            return None
        snapshot = DataSnapshot.model_validate_json(found[0])
        return snapshot.model_copy(update={"manifest_uri": pinned(uri, found[1])})
