"""
Which buckets the service reads for a job: those that the job may read itself.

It has credentials of its own: otherwise a job would name any bucket, and be told what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from training_api.errors import TrainingError
from training_api.iam.registry_resources import bucket_resource_name
from training_api.job.dialect import Dialects
from training_api.job.job_spec import JobSpec
from training_service.access.decision import Caller
from training_service.access.roles import OBJECT_GET
from training_service.model.projects import account_of

#: Whether an account has a permission on a resource, by the policies of now.
May = Callable[[Caller, str, str], bool]
#: Whether the object store has, under a project, a bucket.
Lists = Callable[[str, str], bool]


class BucketRefused(TrainingError):
    """A job names a bucket that it may not read; says how it may."""


class BucketAccess:
    """
    Decides by project, by setting, and by policy.

    :param lists: asks the object store.
    :param dialects: whose service agents jobs are.
    :param named: projects, and the buckets of others that their jobs may name.
    """

    def __init__(
        self, lists: Lists, may: May, named: Mapping[str, Collection[str]], dialects: Dialects
    ) -> None:
        self._lists = lists
        self._may = may
        self._named = named
        self._dialects = dialects

    def check(self, spec: JobSpec, bucket: str) -> None:
        """
        Check that ``bucket`` may be read for a job.

        :raises BucketRefused: it may not be.
        :raises StorageUnavailable: the object store does not answer.
        """
        if bucket in self._named.get(spec.project, ()):
            return
        caller = Caller(principal=f"serviceAccount:{account_of(spec, self._dialects)}")
        if self._may(caller, OBJECT_GET, bucket_resource_name(bucket)):
            return
        if not self._lists(spec.project, bucket):
            raise BucketRefused(
                f"bucket {bucket!r} is not one of project {spec.project!r}, as far as the object store lists "
                "them to this service; to let its jobs name it, add it to TRAINING_PROJECT_BUCKETS, or run: "
                f"gcloud storage buckets add-iam-policy-binding gs://{bucket} "
                f"--member={caller.principal} --role=roles/storage.objectViewer"
            )
