"""Jobs written straight into a service's database, as many as a benchmark wants."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from benchmarks.support.memory_service import IMAGE
from benchmarks.support.vertex_jobs import custom_job
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.job.labels import OWNER_LABEL
from training_service.store.database import open_database, writing
from training_service.store.jobs.stored_spec import spec_to_json
from training_service.store.tables import jobs

_REQUEST = TrainingInput(region="us-central1", master_config=ReplicaConfig(image_uri=IMAGE))
#: ``trainingInput`` of a job with one replica, for requests, too.
TRAINING = _REQUEST.to_wire()
_SPEC = spec_to_json(job_spec_from_wire("bench", Job(job_id="job", training_input=_REQUEST)))
_BATCH = 2_000
_CUSTOM_JOB = custom_job(IMAGE)
#: What the row of a CustomJob of Vertex AI has in place of the columns of ``stored_row``; a task owns it.
CUSTOM_JOB_COLUMNS = {
    "dialect": VERTEX_V1.name,
    "request": _CUSTOM_JOB,
    "spec": spec_to_json(custom_job_spec("bench", "us-central1", "1", _CUSTOM_JOB)),
    "labels": {OWNER_LABEL: "bench"},
}


def stored_row(project: str, job_id: str, state: str, created_us: int, **others: Any) -> dict[str, Any]:
    """Return the row of a job; ``others`` are more columns, such as its labels and times."""
    return {
        "uid": f"{project}:{job_id}",
        "project": project,
        "job_id": job_id,
        "labels": {},
        "request": TRAINING,
        "spec": _SPEC,
        "state": state,
        "priority": 0,
        "created_us": created_us,
        **others,
    }


def write_rows(database_url: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write ``rows``, which all have the same columns."""
    remaining = iter(rows)
    database = open_database(database_url)
    while batch := list(itertools.islice(remaining, _BATCH)):
        with writing(database).begin() as connection:
            connection.execute(sa.insert(jobs), batch)
    database.dispose()
