"""What all requests of one server process share: clients, answers of the last moment, and feeds of updates."""

from __future__ import annotations

from container_training.core.errors import JobNotFound
from container_training.core.wire import Job
from container_training.dashboard.answers import Answers
from container_training.dashboard.connections import Service, Services
from container_training.dashboard.live import Feeds
from container_training.dashboard.rights import Rights

SERVICES = Services()
ANSWERS = Answers()
FEEDS = Feeds(lambda conn_id: SERVICES.get(conn_id).ops.version())


def readable_job(service: Service, job_id: str, rights: Rights) -> Job:
    """Return the job. :raises JobNotFound: there is none, or the person may not see it: the two cannot be told apart."""
    job = service.training.get_job(job_id)
    if not rights.may_read(job.labels or {}):
        raise JobNotFound(f"there is no job {job_id!r}", code=404, status="NOT_FOUND")
    return job
