"""The use cases of the jobs API: create, get, list, patch, cancel. No HTTP or engine words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from training_api.causes import Cause
from training_api.dialects.ml_v1.field_mask import parse_field_mask
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse, TrainingOutput
from training_api.errors import (
    EditConflict,
    FieldViolation,
    InvalidJobSpec,
    InvalidRequest,
    JobNotFound,
)
from training_api.job.intent import ORIGIN_LABELS
from training_api.job.job_spec import JobSpec, job_spec_from_wire
from training_api.job.python_package import Runtimes
from training_api.job.rules.job_rules import label_violations
from training_api.job.secret_refs import LABEL_PREFIX
from training_api.states import JobState
from training_service.model import paging
from training_service.model.clock import Clock, utc_now
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, etag
from training_service.store.jobs.job_store import JobStore
from training_service.studies.output import TuningOutputs
from training_service.studies.resume import check_resume

#: discovery: ListJobs page_size, "defaults to 20, the maximum page size is 100".
DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 100

#: discovery: jobs.patch, "the only supported update masks are `labels` and `etag`".
PATCH_MASK = frozenset({"labels", "etag"})

CANCELLED_BY_USER = Reason(cause=Cause.CANCELLED, message="The job was cancelled on request.")


class Jobs:
    """
    The jobs of all projects.

    :param notify: called after a write that the loop should see; wakes it.
    :param check_quota: raises ``QuotaExceeded`` for a job that this machine can never run.
    :param outputs: the trials of tuning jobs.
    :param runtimes: runtime versions, and the versions of Python that each has.
    :param pin: returns a job with its packages as they are now; default: they are as they will be.
    """

    def __init__(
        self,
        store: JobStore,
        notify: Callable[[], None],
        check_quota: Callable[[JobSpec], None],
        outputs: TuningOutputs,
        clock: Clock = utc_now,
        *,
        runtimes: Runtimes | None = None,
        pin: Callable[[JobSpec], JobSpec] = lambda spec: spec,
    ) -> None:
        self._store = store
        self._notify = notify
        self._check_quota = check_quota
        self._outputs = outputs
        self._clock = clock
        self._runtimes = runtimes or {}
        self._pin = pin

    def create(self, project: str, job: Job, *, owner: str = "") -> Job:
        """
        Validate and queue ``job``; it is stored when this returns.

        :param owner: principal who gets ``roles/ml.jobOwner`` on it; empty: nobody.

        :raises InvalidJobSpec: it breaks a rule, or a package of it is not there.
        :raises ServiceUnavailable: the object store, which has the packages, does not answer.
        :raises QuotaExceeded: it asks for accelerators that this machine does not have.
        :raises JobConflict: its id is taken.
        """
        spec = job_spec_from_wire(project, job, self._runtimes)
        self._check_quota(spec)
        if spec.study and spec.study.resume_job_id:
            check_resume(spec.study, self._resumed(project, spec.study.resume_job_id))
        record = self._store.insert(self._pin(spec), owner)
        self._notify()
        position = self._store.queue_positions([record.uid], are_new=True).get(record.uid)
        return record.to_wire(position=position)

    def get(self, project: str, job_id: str) -> Job:
        """Return one job. :raises JobNotFound: there is none."""
        record = self._store.get(project, job_id)
        return self._wire(record, self._outputs.of([record], with_curves=True).get(record.uid))

    def list_page(
        self, project: str, filter_text: str = "", page_size: int = 0, page_token: str = ""
    ) -> ListJobsResponse:
        """
        Return a page of jobs, newest first.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the page token, or the page size, is invalid.
        """
        size = paging.page_size(page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE)
        records, token = self._store.list_page(
            project, filter_text=filter_text, page_size=size, page_token=page_token
        )
        positions = self._positions(records)
        outputs = self._outputs.of(records)
        wire = [
            record.to_wire(position=positions.get(record.uid), output=outputs.get(record.uid))
            for record in records
        ]
        return ListJobsResponse(jobs=wire or None, next_page_token=token or None)

    def patch(self, project: str, job_id: str, job: Job, update_mask: str) -> Job:
        """
        Replace the job's labels by those of ``job``, in any state, and return the job.

        :param job: only what the mask names is read, and ``etag``, which is compared whenever it is set.
        :param update_mask: ``labels``, ``etag`` or both, joined by a comma.
        :raises InvalidRequest: the mask, or a label, breaks a rule, or a label would change that says of
            which task the job is, or which secrets it has.
        :raises JobNotFound: there is none.
        :raises EditConflict: ``job.etag`` is not the stored job's.
        """
        mask = _patch_mask(job, update_mask)
        record = self._store.get(project, job_id)
        while True:
            if job.etag and job.etag != etag(record.version):
                raise EditConflict(
                    f"job {job_id!r} has changed since etag {job.etag!r} was read; get it again and retry"
                )
            if "labels" in mask:
                _check_fixed(record.spec.labels or {}, job.labels or {})
            if "labels" not in mask or self._store.set_labels(record, job.labels or {}):
                return self.get(project, job_id)
            record = self._store.get(project, job_id)

    def cancel(self, project: str, job_id: str) -> None:
        """
        Ask a job to end; do nothing if it is ending or has ended.

        Sources disagree on the real service's answer for an ended job: see docs/states.md.

        :raises JobNotFound: there is none.
        """
        record = self._store.get(project, job_id)
        while not record.is_ending:
            asked = self._store.advance(
                record,
                JobState.CANCELLING,
                at=self._clock(),
                message=f"Job {job_id} is being cancelled.",
                reason=CANCELLED_BY_USER,
            )
            if asked:
                self._notify()
                return
            record = self._store.get(project, job_id)

    def _resumed(self, project: str, job_id: str) -> JobRecord:
        try:
            return self._store.get(project, job_id)
        except JobNotFound as error:
            field = "trainingInput.hyperparameters.resumePreviousJobId"
            raise InvalidJobSpec([FieldViolation(field=field, description=str(error))]) from error

    def _positions(self, records: Iterable[JobRecord]) -> dict[str, int]:
        """Return the places in the queue of the waiting ones among ``records``, by uid."""
        return self._store.queue_positions(
            [record.uid for record in records if record.state is JobState.QUEUED]
        )

    def _wire(self, record: JobRecord, output: TrainingOutput | None = None) -> Job:
        position = self._positions([record]).get(record.uid)
        return record.to_wire(position=position, output=output)


def _check_fixed(present: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    secrets = sorted(name for name in {*present, *wanted} if name.startswith(LABEL_PREFIX))
    violations = [
        FieldViolation(
            field=f"labels.{name}",
            description=f"says {what}, and stays as the job was made with it: "
            f"{present.get(name)!r}; got {wanted.get(name)!r}",
        )
        for what, names in (
            ("of which task the job is", ORIGIN_LABELS),
            ("which secret the job gets", secrets),
        )
        for name in names
        if present.get(name) != wanted.get(name)
    ]
    if violations:
        raise InvalidRequest(violations)


def _patch_mask(job: Job, update_mask: str) -> frozenset[str]:
    """Return the fields to write; check all that ``job`` says about them."""
    mask = parse_field_mask(update_mask, PATCH_MASK)
    violations = label_violations(job.labels or {}) if "labels" in mask else []
    if not mask:
        violations.append(FieldViolation(field="updateMask", description="is required: labels, etag or both"))
    if "etag" in mask and not job.etag:
        violations.append(FieldViolation(field="etag", description="must be set, as updateMask names it"))
    if violations:
        raise InvalidRequest(violations)
    return mask
