"""The use cases of jobs in the words of AI Platform Training v1, without HTTP."""

from __future__ import annotations

from training_api.dialects.ml_v1.packages import Runtimes
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse, TrainingInput
from training_api.dialects.ml_v1.rules.job_rules import label_violations
from training_api.errors import FieldViolation, InvalidRequest
from training_api.field_mask import parse_field_mask
from training_service.api.ml_v1.writer import job_of, page_of
from training_service.use_cases.jobs import Jobs

#: discovery: jobs.patch, "the only supported update masks are `labels` and `etag`".
PATCH_MASK = frozenset({"labels", "etag"})


class WireJobs:
    """
    Reads requests, and writes answers, over ``jobs``.

    :param runtimes: runtime versions, and the versions of Python that each has.
    """

    def __init__(self, jobs: Jobs, runtimes: Runtimes) -> None:
        self._jobs = jobs
        self._runtimes = runtimes

    def create(self, project: str, job: Job, *, owner: str = "") -> Job:
        """
        Validate and queue ``job``; it is stored when this returns.

        :param owner: principal who gets ``roles/ml.jobOwner`` on it; empty: nobody.
        :raises InvalidJobSpec: it breaks a rule. All else: as ``Jobs.create``.
        """
        spec = job_spec_from_wire(project, job, self._runtimes)
        request = (job.training_input or TrainingInput()).to_wire()
        return job_of(self._jobs.create(spec, request, owner=owner))

    def get(self, project: str, job_id: str) -> Job:
        """Return one job. :raises JobNotFound: there is none."""
        return job_of(self._jobs.get(project, job_id))

    def list_page(
        self, project: str, filter_text: str = "", page_size: int = 0, page_token: str = ""
    ) -> ListJobsResponse:
        """Return a page of jobs, newest first. Raises as ``Jobs.list_page``."""
        return page_of(self._jobs.list_page(project, filter_text, page_size, page_token))

    def patch(self, project: str, job_id: str, job: Job, update_mask: str) -> Job:
        """
        Replace the job's labels by those of ``job``, in any state, and return the job.

        :param job: only what the mask names is read, and ``etag``, which is compared whenever it is set.
        :param update_mask: ``labels``, ``etag`` or both, joined by a comma.
        :raises InvalidRequest: the mask, or a label, breaks a rule. All else: as ``Jobs.set_labels``.
        """
        mask = _patch_mask(job, update_mask)
        labels = (job.labels or {}) if "labels" in mask else None
        return job_of(self._jobs.set_labels(project, job_id, labels, sent_etag=job.etag or ""))

    def cancel(self, project: str, job_id: str) -> None:
        """
        Ask a job to end; do nothing if it is ending or has ended.

        :raises JobNotFound: there is none.
        """
        self._jobs.cancel(project, job_id)


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
