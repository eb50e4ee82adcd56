"""What all requests of one server process share: clients, recent answers, feeds of updates."""

from __future__ import annotations

import atexit

from container_training.dashboard.airflow_side.connections import Service, Services
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.answers import Answers
from container_training.dashboard.live import Feeds
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobNotFound

SERVICES = Services()
# Airflow mounts the app, and so runs nothing when it ends.
atexit.register(SERVICES.close)
ANSWERS = Answers()
FEEDS = Feeds(lambda conn_id: SERVICES.get(conn_id).ops.version())


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
