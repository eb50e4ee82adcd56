"""
The use cases of a jobs API: create, get, list, label, cancel.

No words of HTTP, of an engine or of a dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_api.causes import Cause
from training_api.errors import (
    EditConflict,
    FieldViolation,
    InvalidJobSpec,
    InvalidRequest,
    JobNotFound,
)
from training_api.job.dialect import Dialect
from training_api.job.job_spec import JobSpec
from training_api.job.labels import ORIGIN_LABELS
from training_api.job.secret_refs import LABEL_PREFIX
from training_api.states import JobState
from training_service.model import paging
from training_service.model.clock import Clock, utc_now
from training_service.model.pipelines import NewPipeline
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, etag
from training_service.model.tuning_output import TuningOutput
from training_service.store.jobs.job_store import JobStore
from training_service.studies.output import TuningOutputs
from training_service.studies.resume import check_resume

#: discovery: ListJobs page_size, "defaults to 20, the maximum page size is 100".
DEFAULT_PAGE_SIZE = 20
MAX_PAGE_SIZE = 100

CANCELLED_BY_USER = Reason(cause=Cause.CANCELLED, message="The job was cancelled on request.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """
    One job with what its record does not hold.

    :param position: the 1-based place in the queue; ``None``: it does not wait.
    :param tuning: a tuning job's trials; ``None``: it is none, or is new.
    """

    record: JobRecord
    position: int | None = None
    tuning: TuningOutput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of a list; ``next_page_token`` is empty on the last one."""

    jobs: Sequence[JobView]
    next_page_token: str = ""


class Jobs:
    """
    The jobs of one dialect, in all projects: those of another are not found.

    :param notify: called after a write that the loop should see; wakes it.
    :param check_quota: raises ``QuotaExceeded`` for a job that this machine can never run.
    :param outputs: the trials of tuning jobs.
    :param pin: returns a job with its packages as they are now; default: they are as they will be.
    """

    def __init__(
        self,
        dialect: Dialect,
        store: JobStore,
        notify: Callable[[], None],
        check_quota: Callable[[JobSpec], None],
        outputs: TuningOutputs,
        clock: Clock = utc_now,
        *,
        pin: Callable[[JobSpec], JobSpec] = lambda spec: spec,
    ) -> None:
        self._dialect = dialect
        self._store = store
        self._notify = notify
        self._check_quota = check_quota
        self._outputs = outputs
        self._clock = clock
        self._pin = pin

    @property
    def dialect(self) -> Dialect:
        """The dialect whose jobs these are."""
        return self._dialect

    def create(
        self,
        spec: JobSpec,
        request: Mapping[str, Any],
        *,
        owner: str = "",
        pipeline: NewPipeline | None = None,
    ) -> JobView:
        """
        Queue the job ``spec``; it is stored when this returns.

        :param request: as it was sent, in the canonical JSON of the dialect.
        :param owner: principal who gets ``roles/ml.jobOwner`` on it; empty: nobody.
        :param pipeline: what the job is made for; it is stored with it.

        :raises InvalidJobSpec: it cannot run here, or a package of it is not there.
        :raises ServiceUnavailable: the object store, which has the packages, does not answer.
        :raises QuotaExceeded: it asks for accelerators that this machine does not have.
        :raises JobConflict: its id is taken.
        """
        try:
            self._check_quota(spec)
            if spec.study and spec.study.resume_job_id:
                check_resume(spec.study, self._resumed(spec.project, spec.study.resume_job_id))
            pinned = self._pin(spec)
        except InvalidJobSpec as error:
            raise self._in_words(error) from error
        record = self._store.insert(pinned, request, owner, pipeline)
        self._notify()
        position = self._store.queue_positions([record.uid], are_new=True).get(record.uid)
        return JobView(record=record, position=position)

    def get(self, project: str, job_id: str) -> JobView:
        """Return one job. :raises JobNotFound: there is none."""
        return self.view(self.record(project, job_id), with_curves=True)

    def view(self, record: JobRecord, *, with_curves: bool = False) -> JobView:
        """
        Return a job that was read, with what its record does not hold.

        :param with_curves: include measurements of a tuning job's trials.
        """
        position = self._positions([record]).get(record.uid)
        tuning = self._outputs.of([record], with_curves=with_curves).get(record.uid)
        return JobView(record=record, position=position, tuning=tuning)

    def trial(self, project: str, uid: str) -> JobRecord:
        """
        Return a trial by its key.

        :raises JobNotFound: there is none of this dialect.
        """
        record = self._store.find_by_uid(uid)
        asked = (self._dialect.name, project)
        if record is None or record.trial is None or (record.spec.dialect, record.spec.project) != asked:
            raise JobNotFound(f"trial {uid!r} not found in project {project!r}")
        return record

    def list_page(
        self,
        project: str,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
        *,
        region: str = "",
        tunes: bool | None = None,
    ) -> JobPage:
        """
        Return a page of jobs, newest first.

        :param region: only those that are said to run there; empty: all.
        :param tunes: only those that tune, or that do not; ``None``: all.
        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the page token, or the page size, is invalid.
        """
        size = paging.page_size(page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE)
        records, token = self._store.list_page(
            project,
            dialect=self._dialect,
            filter_text=filter_text,
            page_size=size,
            page_token=page_token,
            region=region,
            tunes=tunes,
        )
        positions = self._positions(records)
        outputs = self._outputs.of(records)
        views = [
            JobView(record=record, position=positions.get(record.uid), tuning=outputs.get(record.uid))
            for record in records
        ]
        return JobPage(jobs=views, next_page_token=token)

    def set_labels(
        self, project: str, job_id: str, labels: Mapping[str, str] | None, *, sent_etag: str = ""
    ) -> JobView:
        """
        Replace the job's labels, in any state, and return the job.

        :param labels: all that it gets; ``None``: they stay.
        :param sent_etag: compared with the job's, unless empty.
        :raises InvalidRequest: a label would change that says of which task the job is, or which secrets it
            has.
        :raises JobNotFound: there is none.
        :raises EditConflict: ``sent_etag`` is not the stored job's.
        """
        record = self.record(project, job_id)
        while True:
            if sent_etag and sent_etag != etag(record.version):
                raise EditConflict(
                    f"job {job_id!r} has changed since etag {sent_etag!r} was read; get it again and retry"
                )
            if labels is not None:
                _check_fixed(record.spec.labels, labels)
            if labels is None or self._store.set_labels(record, labels):
                return self.get(project, job_id)
            record = self.record(project, job_id)

    def cancel(self, project: str, job_id: str) -> None:
        """
        Ask a job to end; do nothing if it is ending or has ended.

        Sources disagree on the real service's answer for an ended job: see docs/states.md.

        :raises JobNotFound: there is none.
        """
        record = self.record(project, job_id)
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
            record = self.record(project, job_id)

    def record(self, project: str, job_id: str) -> JobRecord:
        """
        Return what is stored of one job.

        :raises JobNotFound: there is none of this dialect.
        """
        record = self._store.get(project, job_id)
        if record.spec.dialect != self._dialect.name:
            raise JobNotFound(f"job {job_id!r} not found in project {project!r}")
        return record

    def _resumed(self, project: str, job_id: str) -> JobRecord:
        try:
            return self.record(project, job_id)
        except JobNotFound as error:
            raise InvalidJobSpec.of("study.resume_job_id", str(error)) from error

    def _in_words(self, error: InvalidJobSpec) -> InvalidJobSpec:
        """Return ``error`` with the paths of the dialect's requests."""
        return InvalidJobSpec(
            [
                FieldViolation(field=self._dialect.path(each.field), description=each.description)
                for each in error.violations
            ]
        )

    def _positions(self, records: Iterable[JobRecord]) -> dict[str, int]:
        """Return the places in the queue of the waiting ones among ``records``, by uid."""
        return self._store.queue_positions(
            [record.uid for record in records if record.state is JobState.QUEUED]
        )


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
