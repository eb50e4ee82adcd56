"""What all requests of one server process share: clients, recent answers, feeds of updates."""

from __future__ import annotations

import atexit

from container_training.dashboard.airflow_side.connections import Service, Services
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.answers import Answers
from container_training.dashboard.live import Feeds
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import FieldViolation, InvalidRequest, JobNotFound
from training_api.fleet.wire import MAX_DAGS

SERVICES = Services()
# Airflow mounts the app, and so runs nothing when it ends.
atexit.register(SERVICES.close)
ANSWERS = Answers()
FEEDS = Feeds(lambda conn_id: SERVICES.get(conn_id).ops.version())


def askable(dags: list[str] | None) -> list[str] | None:
    """
    Return ``dags``, of which the service can be asked for so many at once.

    :raises InvalidRequest: they are too many.
    """
    if dags is not None and len(dags) > MAX_DAGS:
        rule = (
            f"you may read {len(dags):,} DAGs but not all, and the jobs of at most {MAX_DAGS:,} can be asked "
            "for; choose a DAG, or ask an administrator of Airflow for the right to read all"
        )
        raise InvalidRequest([FieldViolation(field="dags", description=rule)])
    return dags


def readable_job(service: Service, job_id: str, rights: Rights, version: str = "") -> Job:
    """
    Return the job.

    :param version: the newest that the page knows of; an answer from before it does not serve.
    :raises JobNotFound: there is none, or the person may not see it: the two cannot be told apart.
    """
    question = (service.conn_id, "job", job_id, version)
    try:
        job = ANSWERS.get(question, lambda: service.training.get_job(job_id))
    except JobNotFound:
        job = None  # the service's own words would tell the one from the other
    if job is None or not rights.may_read(job.labels or {}):
        raise JobNotFound(f"there is no job {job_id!r}")
    return job
