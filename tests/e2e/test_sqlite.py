"""Airflow on SQLite, as on a machine without PostgreSQL: a pipeline, the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.parts.airflow import passwords_file
from local_stack.parts.database import airflow_database_url
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.settings import AirflowDatabase, Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.support.kept_logs import logs_in
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def airflow_on_sqlite(stack: LocalStack, tmp_path: Path) -> Iterator[AirflowApi]:
    """An Airflow of its own beside the session's registry, object store and training service."""
    settings = stack.settings.model_copy(
        update={
            "state_dir": tmp_path,
            "airflow_port": reserve_port(),
            "airflow_database": AirflowDatabase.SQLITE,
            "database_dir": None,
        }
    )
    with LocalStack(settings) as own, logs_in(settings.log_dir, "the stack on SQLite"):
        own.up([Part.DATABASE, Part.AIRFLOW])
        assert airflow_database_url(settings).startswith("sqlite:")
        with AirflowApi(
            settings.airflow_url, ADMIN, passwords_file(settings), timeout_seconds=scaled(60)
        ) as api:
            yield api


def test_a_job_is_submitted_followed_and_over(airflow_on_sqlite: AirflowApi, pushed_image: ImageRef) -> None:
    conf = {"image": str(pushed_image), "args": "python3 -c \"print('trained')\""}

    run = Run.start(airflow_on_sqlite, "train_from_image", conf)

    run.wait_for_end()
    states = run.states()
    assert (states["submit"], states["wait_until_finished"]) == ("success", "success")
    assert "trained" in run.log("wait_until_finished")
    # The program leaves no metrics, which the collection says.
    assert "left no 'metrics.json'" in run.log("collect")
