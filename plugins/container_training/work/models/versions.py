"""The values of retraining: a snapshot of data, a hold-out, and a version of a model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue, field_validator

from training_api.job.packages.pinned_uri import pinned
from training_api.job.results import ResultFile, ResultModel

_VERSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_ID_LENGTH = 16


class DataSnapshot(ResultModel):
    """
    Data as they were at one moment.

    :param snapshot_id: follows from the sources' addresses and generations; the same data are the same
        snapshot.
    :param manifest_uri: where this very value is kept, with its generation.
    :param sources: the objects that were found, each with its generation.
    :param files: what to train on: copies of the sources, or the sources themselves; ordered by name.
    """

    snapshot_id: str
    created_at: datetime
    manifest_uri: str = ""
    sources: list[ResultFile]
    files: list[ResultFile]

    @property
    def uris(self) -> list[str]:
        """The addresses of the files with their generations."""
        return [file.pinned_uri for file in self.files]


class HoldOut(ResultModel):
    """
    How rows were kept out of training: ``hold_out`` of a trainer's ``metrics.json``.

    :param rule: name of the way rows are chosen, such as ``content``: a digest of the row decides. Another
        way needs another name.
    :param fraction: share of the rows; ``None`` for a separate test set.
    :param seed: of a random choice; ``None`` for another rule.
    """

    rule: Annotated[str, Field(min_length=1, max_length=200)]
    fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    seed: int | None = None

    def __str__(self) -> str:
        """Return all of it in a line, for people and as a key."""
        parts = [("fraction", self.fraction), ("seed", self.seed)]
        return ", ".join([self.rule, *(f"{name} {value}" for name, value in parts if value is not None)])


class ModelVersion(ResultModel):
    """
    One trained model and what it was made from.

    Once written, ``vertex_model`` alone is added to it.

    :param version_id: the job's id unless the caller chose another.
    :param model: the registry's own copy.
    :param image: that trained it, by digest; it can load it too.
    :param snapshot_uri: manifest of the data, with its generation; ``None`` if the data were no snapshot.
    :param hold_out: the rows that it was not trained on; ``None`` if the trainer does not say, or the version
        was registered by an earlier release.
    :param metrics: as the trainer reported them.
    :param created_by: the task that registered it.
    :param vertex_model: resource name, with ``@`` and its version there, in Vertex AI's Model Registry;
        ``None``: it was not uploaded.
    """

    version_id: str
    model: ResultFile
    image: str
    job_id: str
    snapshot_uri: str | None
    hold_out: HoldOut | None = None
    metrics: dict[str, JsonValue]
    created_at: datetime
    created_by: str
    vertex_model: str | None = None

    @field_validator("version_id")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _VERSION_ID.fullmatch(value):
            raise ValueError(
                f"version_id must be letters, digits, '_', '.' and '-', 128 at most; got {value!r}"
            )
        return value

    @property
    def model_uri(self) -> str:
        """The model's address with its generation."""
        return pinned(self.model.uri, self.model.generation)


def snapshot_id_of(sources: Iterable[ResultFile]) -> str:
    """
    Return the id of the snapshot of ``sources``: 16 hexadecimal digits. Pure.

    The order does not matter.
    """
    digest = SnapshotDigest()
    for _ in digest.over(sorted(sources, key=lambda file: (file.uri, file.generation))):
        pass
    return digest.snapshot_id


class SnapshotDigest:
    """The id of a snapshot, reckoned file by file: the files need not be in memory together."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256(b"[")
        self.count = 0

    def over(self, files: Iterable[ResultFile]) -> Iterator[ResultFile]:
        """Yield ``files``, which are in the order of their addresses, and take each into the digest."""
        for file in files:
            self._sha.update(b", " if self.count else b"")
            self._sha.update(json.dumps([file.uri, file.generation]).encode())
            self.count += 1
            yield file

    @property
    def snapshot_id(self) -> str:
        """The id, of the files that were yielded so far."""
        sha = self._sha.copy()
        sha.update(b"]")
        return sha.hexdigest()[:_ID_LENGTH]
