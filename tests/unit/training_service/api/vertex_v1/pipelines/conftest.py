"""What the tests of pipelines and models share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training_api.states import JobState
from training_service.store.database import open_database
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore

#: Ends the job of a pipeline as the loop would, which these services do not have.
EndJob = Callable[..., None]


@pytest.fixture
def end_job(tmp_path: Path) -> EndJob:
    """Return what brings the job of a pipeline, as it was answered, to a state."""

    def end(pipeline: dict[str, Any], to: JobState = JobState.SUCCEEDED) -> None:
        database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
        store = JobStore(database, LogStore(database))
        job_id = pipeline["trainingTaskMetadata"]["backingCustomJob"].rpartition("/")[2]
        for state in (JobState.PREPARING, JobState.RUNNING, to):
            job = store.get("demo", job_id)
            assert store.advance(job, state, at=datetime.now(UTC), message=state.value)
        database.dispose()

    return end
