"""
Which buckets are read and written for jobs with Airflow's own credentials.

Who submits a job chooses its folder, which may be in any bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from container_training.work.object_store import ObjectStore, split_uri
from training_api.errors import TrainingError


class BucketRefused(TrainingError):
    """A job names a bucket that is not one of its project; says how it is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBuckets:
    """
    The buckets of the jobs of one connection.

    :param project: whose buckets they are; the object store lists them.
    :param named: more buckets, which the connection names.
    """

    conn_id: str
    project: str
    named: frozenset[str]

    @classmethod
    def of(cls, conn_id: str, project: str, extra: Mapping[str, Any]) -> Self:
        """
        Return what a connection says.

        :param extra: ``buckets``, a list, or text with commas; the bucket of ``job_bucket`` is one of them.
        """
        given = extra.get("buckets") or []
        names = given.replace(",", " ").split() if isinstance(given, str) else map(str, given)
        own = str(extra.get("job_bucket") or "").removeprefix("gs://").partition("/")[0]
        return cls(conn_id=conn_id, project=project, named=frozenset({*names, own} - {""}))

    def check(self, store: ObjectStore, uri: str) -> None:
        """
        Check that ``uri``, the folder of a job, is in one of the buckets.

        :raises BucketRefused: it is in another one.
        :raises ValueError: it is no ``gs://`` address.
        """
        bucket, _ = split_uri(uri)
        if bucket not in self.named and not store.lists_bucket(self.project, bucket):
            raise BucketRefused(
                f"bucket {bucket!r} is not one of project {self.project!r}, as far as the object store lists "
                "them to Airflow; to let its jobs have it, add it to the extra 'buckets' of connection "
                f"{self.conn_id!r}"
            )
