"""Fixes the packages of a job when it is created, so that nobody replaces them later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from training_api.errors import FieldViolation, InvalidJobSpec, ServiceUnavailable
from training_api.job.job_spec import JobSpec
from training_api.job.packages.pinned_uri import pinned, split_pinned
from training_service.access.bucket_access import BucketRefused
from training_service.intake.cloud_storage import StorageUnavailable


class Generations(Protocol):
    """What is needed of an object store."""

    def generation(self, bucket: str, name: str, wanted: int | None = None) -> int | None:
        """Return an object's generation. :raises StorageUnavailable: the store does not answer."""


class PackagePins:
    """
    Names the generation of each package in what the replicas run.

    The request stays as it was sent.

    :param check_bucket: raises ``BucketRefused`` where the job may not read the bucket: without it, a job
        would tell which objects another project has.
    """

    def __init__(self, store: Generations, check_bucket: Callable[[JobSpec, str], None]) -> None:
        self._store = store
        self._check_bucket = check_bucket

    def pin(self, spec: JobSpec) -> JobSpec:
        """
        Return the job with its packages as they are now.

        :raises InvalidJobSpec: in the specification's words; a package is not there, or the job may not read
            it. [unverified: the real service's answer]
        :raises ServiceUnavailable: the object store does not answer.
        """
        broken: list[FieldViolation] = []
        fixed: dict[str, str] = {}
        for field, uris in spec.package_uris.items():
            for index, uri in enumerate(uris):
                try:
                    # Of two pools that name a package, both run the one version.
                    fixed[uri] = fixed.get(uri) or self._pinned(spec, uri)
                except (BucketRefused, LookupError) as error:
                    broken.append(FieldViolation(field=f"{field}[{index}]", description=str(error)))
                except StorageUnavailable as error:
                    raise ServiceUnavailable(
                        f"the object store does not say which version {uri} has: {error}; ask again"
                    ) from error
        if broken:
            raise InvalidJobSpec(broken)
        return spec.with_package_uris(fixed) if fixed else spec

    def _pinned(self, spec: JobSpec, uri: str) -> str:
        """Return ``uri`` with a generation. :raises LookupError: it has none."""
        address, wanted = split_pinned(uri)
        bucket, _, name = address.removeprefix("gs://").partition("/")
        self._check_bucket(spec, bucket)
        generation = self._store.generation(bucket, name, wanted)
        if generation is None:
            raise LookupError(
                f"there is no {uri}, or this service may not read it; upload it and submit the job again"
            )
        return pinned(address, generation)
