"""
The contents of lineage events, without their classes.

The data sets that a task reads and writes, and what it says of its job.

Source of the names: openlineage.io/docs/spec/naming: ``gs://BUCKET`` and the object's name. It has none for
images; here they are ``oci://HOST`` and the repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from container_training.work.submission.content import CONTENT_LABEL
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.roles import configs_of
from training_api.errors import InvalidImageRef
from training_api.job.image_ref import parse_image_ref
from training_api.job.results import JobResult

_SCHEME = "gs://"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """
    One data set: an object, a folder, or an image.

    :param version: a generation, a checksum or a digest; empty: not known.
    :param size_bytes: ``None``: not known.
    """

    namespace: str
    name: str
    version: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """
    What an event says of a job; see docs/lineage.md.

    :param images: of all roles, as they were asked for.
    :param content: hash by which the job is found again; ``None``: it has none.
    """

    job_id: str
    state: str | None
    job_url: str
    job_dir: str
    images: tuple[str, ...]
    reused: bool
    content: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: Mapping[str, float] | None = None
    cost: Mapping[str, Any] | None = None


def gs_dataset(uri: str, version: str = "", size_bytes: int | None = None) -> DatasetName | None:
    """Return the data set at a ``gs://`` address, ``None`` for any other text. Pure."""
    bucket, _, name = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not bucket:
        return None
    return DatasetName(
        namespace=_SCHEME + bucket, name=name.strip("/") or "/", version=version, size_bytes=size_bytes
    )


def image_dataset(image: str) -> DatasetName | None:
    """
    Return the data set of an image; ``None`` for any other text. Pure.

    Its version is its digest, else its tag.
    """
    try:
        ref = parse_image_ref(image)
    except InvalidImageRef:
        return None
    return DatasetName(
        namespace=f"oci://{ref.host}", name=ref.repository, version=ref.digest or ref.tag or ""
    )


def images_of(training: TrainingInput) -> tuple[str, ...]:
    """Return the images that a job names, the master's first, each once. Pure."""
    images = (config.image_uri for config in configs_of(training) if config and config.image_uri)
    return tuple(dict.fromkeys(images))


def job_inputs(
    training: TrainingInput, data_uris: Sequence[str], record: Sequence[Mapping[str, Any]]
) -> list[DatasetName]:
    """
    Return what a job reads: images, packages, data.

    Pure.

    :param record: what the data were when the job was submitted (``DataVersion`` as JSON); may lack some, or
        be empty.
    """
    versions = {str(value["uri"]): _version(value) for value in record}
    uris = dict.fromkeys([*(training.package_uris or []), *data_uris, *versions])
    found = [image_dataset(image) for image in images_of(training)]
    found += [gs_dataset(uri, versions.get(uri, "")) for uri in uris]
    return [dataset for dataset in found if dataset is not None]


def facts_of(job: Job, job_url: str, *, reused: bool, result: JobResult | None = None) -> JobFacts:
    """Return what is known of ``job``. Pure."""
    training = job.training_input or TrainingInput()
    return JobFacts(
        job_id=job.job_id or "",
        state=job.state and str(job.state),
        job_url=job_url,
        job_dir=training.job_dir or "",
        images=images_of(training),
        reused=reused,
        content=(job.labels or {}).get(CONTENT_LABEL),
        metrics=result.metrics if result else None,
        seconds=result.seconds.model_dump() if result else None,
        cost=result.cost.model_dump() if result and result.cost else None,
    )


def model_datasets(result: JobResult) -> list[DatasetName]:
    """
    Return the model that a job left; empty if it left none. Pure.

    Its version is its checksum.
    """
    if result.model_uri is None:
        return []
    file = next((file for file in result.files if file.uri == result.model_uri), None)
    dataset = gs_dataset(result.model_uri, file.crc32c if file else "", file.size_bytes if file else None)
    return [dataset] if dataset else []


def _version(value: Mapping[str, Any]) -> str:
    """Return the generation of a single object, of more the digest of all."""
    generations = value.get("generations") or {}
    return str(next(iter(generations.values()))) if len(generations) == 1 else str(value.get("digest", ""))
