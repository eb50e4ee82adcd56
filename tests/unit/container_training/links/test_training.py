"""Buttons: what a task says of its job, wherever it is put down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from container_training.get_provider_info import get_provider_info
from container_training.links.training import JOB_LINKS
from container_training.operators.plots import PlotTrialsOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService, make_job
from training_api.states import JobState

ABOUT_A_JOB = [
    SubmitTrainingJobOperator,
    TrainingJobSensor,
    CollectTrainingResultsOperator,
    PlotTrialsOperator,
]
JOB = "http://airflow.test/training/jobs/digits_1?conn_id=training_default"
LOG = "http://training.test:8470/logs/projects/demo/jobs/digits_1"
FOLDER = "http://objects.test:9023/storage/v1/b/bucket/o?prefix=jobs%2Fdigits_1%2F"


@pytest.fixture(autouse=True)
def object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://objects.test:9023/")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.test/")


def make_sensor(**changes: Any) -> TrainingJobSensor:
    return TrainingJobSensor(**{"task_id": "wait", "job_id": "digits_1", **changes})


def links_of(task: Any, task_instance: Any = None) -> dict[str, str]:
    return {link.name: link.get_link(task, ti_key=task_instance) for link in JOB_LINKS}


@pytest.mark.parametrize("operator", ABOUT_A_JOB, ids=lambda operator: operator.__name__)
def test_every_task_about_a_job_has_the_three_buttons_and_airflow_knows_them(operator: Any) -> None:
    # Of the class: a mapped task is serialized without an instance.
    assert {link.name for link in operator.operator_extra_links} >= {"Job", "Job log", "Model folder"}
    known = set(get_provider_info()["extra-links"])
    assert {
        f"{type(link).__module__}.{type(link).__qualname__}" for link in operator.operator_extra_links
    } <= known
    # A button's XCom is named after its class.
    assert len({link.xcom_key for link in operator.operator_extra_links}) == len(
        operator.operator_extra_links
    )


def test_a_submitted_job_has_its_buttons(service: FakeService, context: Any) -> None:
    task = SubmitTrainingJobOperator(
        task_id="submit", image="127.0.0.1:5000/demo/digits:1", job_dir="gs://bucket/jobs/{job_id}"
    )

    before = links_of(task)
    job_id = task.execute(context)

    assert before == {"Job": "", "Job log": "", "Model folder": ""}
    assert links_of(task) == {
        "Job": JOB.replace("digits_1", job_id),
        "Job log": LOG.replace("digits_1", job_id),
        "Model folder": FOLDER.replace("digits_1", job_id),
    }


def test_a_deferred_wait_has_its_buttons_and_keeps_them_when_it_comes_back(
    service: FakeService, context: Any
) -> None:
    service.add(make_job(state=JobState.RUNNING))
    task = make_sensor()

    with pytest.raises(TaskDeferred):
        task.execute(context)
    deferred = links_of(task)
    resumed = make_sensor()
    event = {"outcome": "REACHED", "job_id": "digits_1", "state": "SUCCEEDED", "message": ""}
    resumed.execute_complete(context, {**event, "job_dir": "gs://bucket/jobs/digits_1"})  # type: ignore[typeddict-item]

    assert deferred == {"Job": JOB, "Job log": LOG, "Model folder": FOLDER}
    assert links_of(resumed) == deferred


def test_a_wait_that_was_refused_keeps_the_buttons_that_it_had(service: FakeService, context: Any) -> None:
    kept = {link.xcom_key: f"http://kept.test/{link.name}" for link in JOB_LINKS}
    task_instance = SimpleNamespace(
        task_id="wait", map_index=3, xcom_pull=lambda *, task_ids, key, map_indexes, default: kept[key]
    )
    task = make_sensor()

    with pytest.raises(AirflowFailException):
        task.execute_complete(
            context, {"outcome": "REFUSED", "job_id": "digits_1", "state": None, "message": "no access"}
        )

    assert links_of(task, task_instance) == {
        name: f"http://kept.test/{name}" for name in ("Job", "Job log", "Model folder")
    }
    # And where there is no such job, none: it would lead nowhere.
    assert links_of(task) == {"Job": "", "Job log": "", "Model folder": ""}


def test_a_poking_wait_has_its_buttons_while_it_holds_its_worker(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.RUNNING))
    task = make_sensor(deferrable=False)

    for _ in range(2):
        task.poke(context)

    pushed = [call.kwargs for call in context["ti"].xcom_push.call_args_list]
    assert [(push["key"], push["value"]) for push in pushed] == [
        ("_link_JobPageLink", JOB),
        ("_link_JobLogLink", LOG),
        ("_link_JobFolderLink", FOLDER),
    ]


def test_results_that_are_missing_still_have_their_jobs_buttons(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(make_job(state=JobState.FAILED, error_message="The replica master 0 ran out-of-memory."))
    task = CollectTrainingResultsOperator(task_id="collect", job_id="digits_1")

    with pytest.raises(AirflowFailException):
        task.execute(context)

    assert links_of(task) == {"Job": JOB, "Job log": LOG, "Model folder": FOLDER}


def test_a_connection_that_is_gone_costs_the_buttons_and_not_the_task(context: Any) -> None:
    task = make_sensor(training_conn_id="gone")
    event = {"outcome": "REACHED", "job_id": "digits_1", "state": "SUCCEEDED", "message": ""}

    assert task.execute_complete(context, event) == "SUCCEEDED"  # type: ignore[arg-type]

    assert links_of(task) == {"Job": "", "Job log": "", "Model folder": ""}
