"""
What decides a job's result: the relevant part of its request, and its data's generations.

Two jobs with the same content compute the same thing, as far as the request says it. So the content of a job
is written on it, as a label, and an earlier job is found by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from training_api.dialects.ml_v1.resources import Job, ScaleTier, TrainingInput
from training_api.job.image_ref import parse_image_ref
from training_api.job.job_spec import JobSpec
from training_api.job.results import ResultModel
from training_api.states import JobState

#: On a job whose content is known. A label's value has at most 63 characters of ``[a-z0-9_-]``, a SHA-256 64
#: of them.
CONTENT_LABEL = "airflow-content"
_HASH_LENGTH = 32
#: What of a request does not decide what is computed: where results go, how long it may take, whether a
#: person may look in.
_LEFT_OUT = ("jobDir", "scheduling", "enableWebAccess")
#: How much of names and generations is kept; Airflow's state store takes 65,535 bytes a value.
_MAX_RECORD_CHARACTERS = 40_000


class DataVersion(ResultModel):
    """
    What was at one address when a job was submitted.

    :param objects: how many; at least one.
    :param digest: SHA-256 of their names and generations, in hexadecimal.
    :param generations: object name -> generation; ``None`` where there are too many to keep.
    """

    uri: str
    objects: int
    digest: str
    generations: dict[str, int] | None = None

    @classmethod
    def of(cls, uri: str, generations: Iterable[tuple[str, int]]) -> DataVersion:
        """
        Return the version of the objects below ``uri``. Pure.

        :param generations: name and generation, each object once, in any order.
        """
        found = dict(generations)
        text = json.dumps(sorted(found.items()), separators=(",", ":"))
        return cls(
            uri=uri,
            objects=len(found),
            digest=hashlib.sha256(text.encode()).hexdigest(),
            generations=found if len(text) <= _MAX_RECORD_CHARACTERS else None,
        )


def data_record(versions: Sequence[DataVersion]) -> list[JsonValue]:
    """
    Return ``versions`` as JSON values. Pure.

    Without single generations if there are too many.
    """
    room = _MAX_RECORD_CHARACTERS
    record: list[JsonValue] = []
    for version in versions:
        value = version.model_dump(mode="json")
        room -= len(json.dumps(value))
        record.append(value if room >= 0 else {**value, "generations": None})
    return record


def content_hash(training: TrainingInput, data: Sequence[DataVersion]) -> str:
    """
    Return 32 hex digits that two jobs share if they compute the same from the same data.

    Pure. Compared is all of the request but jobDir, scheduling and enableWebAccess; an image counts by its
    digest, whatever it is called.

    :param data: of every address that the job reads, its packages included.
    """
    wire = training.model_copy(update={"scale_tier": training.scale_tier or ScaleTier.BASIC}).to_wire()
    kept = {name: _by_digest(value) for name, value in wire.items() if name not in _LEFT_OUT}
    content = [1, kept, sorted((version.uri, version.digest) for version in data)]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def images_without_digest(spec: JobSpec) -> list[str]:
    """
    Return the images of the job that are named by a tag, each once.

    A tag does not say what an image holds.

    Pure. A job of packages has none: its image is the service's own.
    """
    if spec.packages:
        return []
    return list(dict.fromkeys(str(r.image) for r in spec.replicas if r.image.digest is None))


def has_content(job: Job, wanted: str, data: Sequence[DataVersion]) -> bool:
    """
    Whether ``job`` SUCCEEDED and has the content ``wanted``.

    Pure. Labels can be changed later, so the request itself is compared as well.
    """
    return (
        job.state is JobState.SUCCEEDED
        and (job.labels or {}).get(CONTENT_LABEL) == wanted
        and job.training_input is not None
        and content_hash(job.training_input, data) == wanted
    )


def content_filter(wanted: str) -> str:
    """
    Return the ``jobs.list`` filter for finished jobs of the content ``wanted``. Pure.

    They have results.
    """
    return f"labels.{CONTENT_LABEL}={wanted} AND state={JobState.SUCCEEDED}"


def _by_digest(value: Any) -> Any:
    """Return a part of the request with its image, if it has one, as nothing but the digest."""
    if not isinstance(value, Mapping) or "imageUri" not in value:
        return value
    digest = parse_image_ref(value["imageUri"]).digest
    return {**value, "imageUri": digest} if digest else value
