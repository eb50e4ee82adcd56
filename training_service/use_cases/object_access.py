"""What the container of a job may do in the object store, which asks here. No HTTP words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training_api.errors import EngineError, ServiceUnavailable
from training_api.job.dialect import Dialects
from training_service.access.bucket_access import May
from training_service.access.decision import Caller
from training_service.access.roles import OBJECT_DELETE, OBJECT_GET, OBJECT_LIST
from training_service.model.projects import account_of
from training_service.model.records import JobRecord
from training_service.store.jobs.job_store import JobStore

#: From a container's address to the uid of its job; empty: it is no job's; ``None``: nobody has the address.
JobAt = Callable[[str], str | None]

#: What a job may do with all buckets of its project.
_READS = frozenset({OBJECT_GET, OBJECT_LIST, "storage.buckets.get", "storage.buckets.list"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectQuestion:
    """
    What a container wants to do.

    :param address: of the container on its network.
    :param permission: such as ``storage.objects.create``.
    :param bucket: empty: all buckets.
    :param project: which the bucket belongs to; empty: to every one.
    :param name: of the object; empty: the bucket's list.
    """

    address: str
    permission: str
    bucket: str = ""
    project: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAnswer:
    """
    Whether it may.

    :param may_replace: also where there is an object of that name.
    :param reason: why not, and the way out; empty where it may.
    :param principal: of the job that may not, with its project; empty: it is no job's container.
    """

    allowed: bool
    may_replace: bool = False
    reason: str = ""
    principal: str = ""
    project: str = ""


_ALL = ObjectAnswer(allowed=True, may_replace=True)


class ObjectAccess:
    """
    Decides what the container at an address may do with objects.

    A job reads the buckets of its project. In these it writes below its job directory, a trial below its own
    one. The policy of a bucket may give its account more. The containers that a person starts may do all: who
    starts containers has the machine. Where the engine cannot tell containers by address, so may those of
    jobs.
    """

    def __init__(self, job_at: JobAt, jobs: JobStore, may: May, dialects: Dialects) -> None:
        self._job_at = job_at
        self._jobs = jobs
        self._may = may
        self._dialects = dialects

    def check(self, question: ObjectQuestion) -> ObjectAnswer:
        """
        Return whether the container may do what ``question`` says.

        :raises ServiceUnavailable: the engine, which knows the container, does not answer.
        """
        try:
            uid = self._job_at(question.address)
        except EngineError as error:
            raise ServiceUnavailable(
                f"who has the address {question.address!r} is not known: {error}"
            ) from None
        if uid is None:
            # Not a person's container: a job's could ask, and end before it is looked for.
            return ObjectAnswer(
                allowed=False,
                reason=f"no running container has the address {question.address}, and no machine of a swarm",
            )
        if not uid:
            return _ALL
        job = self._jobs.find_by_uid(uid)
        if job is None:
            return ObjectAnswer(allowed=False, reason="the container is of another training service's job")
        if is_own(job, question):
            return _ALL
        account = account_of(job.spec, self._dialects)
        caller = Caller(principal=f"serviceAccount:{account}")
        resource = f"buckets/{question.bucket}"
        if not self._may(caller, question.permission, resource):
            return ObjectAnswer(
                allowed=False,
                reason=_refusal(job, account, question),
                principal=caller.principal,
                project=job.spec.project,
            )
        return ObjectAnswer(allowed=True, may_replace=self._may(caller, OBJECT_DELETE, resource))


def is_own(job: JobRecord, question: ObjectQuestion) -> bool:
    """Tell whether a job needs no policy: it reads in its project, or writes in its directory."""
    if question.project not in ("", job.spec.project):
        # Whoever submits a job chooses the directory: it may name any bucket.
        return False
    if question.permission in _READS:
        return True
    own = _directory(job)
    return bool(own and question.name) and f"gs://{question.bucket}/{question.name}".startswith(own)


def _directory(job: JobRecord) -> str:
    """Return ``gs://BUCKET/FOLDER/``; empty: the job has none."""
    directory = job.spec.output_dir
    return f"{directory.rstrip('/')}/" if directory else ""


def _refusal(job: JobRecord, account: str, question: ObjectQuestion) -> str:
    own = _directory(job)
    rule = f"writes below its job directory {own}" if own else "has no job directory to write to"
    way_out = (
        f"; to let it, run: gcloud storage buckets add-iam-policy-binding gs://{question.bucket} "
        f"--member=serviceAccount:{account} --role=roles/storage.objectAdmin"
        if question.bucket
        else ""
    )
    return (
        f"job {job.spec.project}/{job.spec.job_id} does not have {question.permission} on "
        f"gs://{question.bucket}/{question.name}: in the buckets of its project it reads all and "
        f"{rule}{way_out}"
    )
