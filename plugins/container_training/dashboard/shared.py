"""What all requests of one server process share: clients, recent answers, feeds of updates."""

from __future__ import annotations

import atexit
from contextlib import suppress

from container_training.dashboard.airflow_side.connections import Service, Services
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.live import Feeds
from training_api.clients.shared_answers import Answers
from training_api.dialects.ml_v1.job_rows import JobDetail
from training_api.errors import JobNotFound

SERVICES = Services()
# Airflow mounts the app, and so runs nothing when it ends.
atexit.register(SERVICES.close)
ANSWERS = Answers()
#: A name is no longer: projects/P/locations/L/hyperparameterTuningJobs/ID.
_LONGEST_NAME = 300
FEEDS = Feeds(lambda conn_id: SERVICES.get(conn_id).ops.version())


def readable_job(service: Service, name: str, rights: Rights, version: str = "") -> JobDetail:
    """
    Return the job, in whatever dialect it was asked for.

    :param name: its id, that of its pipeline, or the resource name of either.
    :param version: the newest that the page knows of; an answer from before it does not serve.
    :raises JobNotFound: there is none, or the person may not see it: the two cannot be told apart.
    """
    job = None
    if len(name) <= _LONGEST_NAME and "\x00" not in name:
        question = (service.conn_id, "job", name, version)
        with suppress(JobNotFound):  # the service's own words would tell the one from the other
            job = ANSWERS.get(question, lambda: service.ops.job(name))
    if job is None or not rights.may_read(job.job.labels):
        raise JobNotFound(f"there is no job {name[:_LONGEST_NAME]!r}")
    return job
