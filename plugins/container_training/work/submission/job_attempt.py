"""The job of one attempt: its description with id, labels and folder. Without I/O."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.dialects.ml_v1.resources import Job

#: In ``job_dir``; not a template of Airflow's, as the id is chosen after those are rendered.
JOB_ID_MARK = "{job_id}"


def for_attempt(job: Job, job_id: str, labels: Mapping[str, str]) -> Job:
    """
    Return the job of one attempt: its id, more labels, and its own job folder.

    Pure.
    """
    merged = {**(job.labels or {}), **labels}
    training = job.training_input
    if training is not None and training.job_dir:
        training = training.model_copy(update={"job_dir": training.job_dir.replace(JOB_ID_MARK, job_id)})
    return job.model_copy(update={"job_id": job_id, "labels": merged or None, "training_input": training})
