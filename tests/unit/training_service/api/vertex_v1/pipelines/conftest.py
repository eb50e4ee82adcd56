"""What the tests of pipelines and models share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training_api.causes import Cause
from training_api.cloud_logging import Severity
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.store.database import open_database
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore, NewLogEntry

CHIEF = ReplicaId(role=ReplicaRole.MASTER)
#: Ends the job of a pipeline as the loop would, which these services do not have.
EndJob = Callable[..., None]


@pytest.fixture
def end_job(tmp_path: Path) -> EndJob:
    """Return what ends the job of a pipeline; ``said`` is its last line."""

    def end(pipeline: dict[str, Any], to: JobState = JobState.SUCCEEDED, said: str = "") -> None:
        database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
        store = JobStore(database, LogStore(database))
        job_id = pipeline["trainingTaskMetadata"]["backingCustomJob"].rpartition("/")[2]
        failure = Reason(cause=Cause.PROGRAM_ERROR, message="It exited with 1.", replica=str(CHIEF))
        reasons = {JobState.FAILED: failure}
        for state in (JobState.PREPARING, JobState.RUNNING, to):
            job = store.get("demo", job_id)
            moved = store.advance(
                job, state, at=datetime.now(UTC), message=state.value, reason=reasons.get(state)
            )
            assert moved
        if said:
            line = NewLogEntry(
                project="demo",
                job_id=job_id,
                task_name="workerpool0-0",
                insert_id="1",
                timestamp=datetime.now(UTC),
                severity=Severity.ERROR,
                text=said,
            )
            LogStore(database).append([line])
        database.dispose()

    return end
