"""The listener in API server and scheduler cancels only the job of a task that was ended."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import DAG, BaseOperator

from container_training import listener, operators, sensors
from container_training.listener import (
    cancel_job_of_task,
    on_dag_run_failed,
    on_task_instance_failed,
    on_task_instance_success,
)
from container_training.operators.training import SubmitTrainingJobOperator
from tests.support.fakes.fake_service import FakeService, error, make_job
from tests.support.fakes.fake_vertex import FakeVertex
from training_api.dialects.ml_v1.intent import Intent
from training_api.job.job_id import TaskKey
from training_api.states import JobState

LABELS = {"airflow-dag": "dag", "airflow-run": "run", "airflow-owner": "token"}
KEY = TaskKey(dag_id="dag", task_id="task", run_id="run")
WAIT = {
    "job_id": "digits_1",
    "training_conn_id": "training_default",
    "cancel_on_kill": True,
    "until": "RUNNING",
}
SUBMISSION = {"training_conn_id": "training_default", "max_cost": None, "detached": False, "image": "i:1"}


def make_task_instance(**changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "operator": "TrainingJobSensor",
        "dag_id": "dag",
        "task_id": "task",
        "run_id": "run",
        "map_index": -1,
    }
    return SimpleNamespace(**(values | changes))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """What would have been done on a thread."""
    start = mock.Mock()
    monkeypatch.setattr(listener, "_start", start)
    return start


class Database:
    """What Airflow has stored, as the listener asks for it."""

    def __init__(self) -> None:
        self.state: str | None = "failed"
        self.others: list[str | None] = []
        #: Keys of the task's outputs.
        self.pushed: set[str] = set()
        self.rendered: dict[str, Any] = dict(WAIT)
        self.intent: Intent | None = Intent(request_hash="0", job_id="digits_1", owner="token")
        #: What happens during the coming pauses.
        self.pauses: list[Any] = []

    def states(self, _: TaskKey, *, only_its_own: bool = False) -> list[str | None]:
        return [self.state] if only_its_own else [self.state, *self.others]

    def sleep(self, seconds: float) -> None:
        if seconds and self.pauses:
            self.pauses.pop(0)()


def end_submission(database: Database) -> None:
    database.rendered = dict(SUBMISSION)
    cancel_job_of_task(KEY, False)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    fake = Database()
    monkeypatch.setattr(listener, "_states", fake.states)
    monkeypatch.setattr(listener, "_rendered_fields", lambda _: fake.rendered)
    monkeypatch.setattr(listener, "_has_pushed", lambda _, name: name in fake.pushed)
    monkeypatch.setattr(listener, "_stored_intent", lambda _: fake.intent)
    monkeypatch.setattr(listener, "_sleep", fake.sleep)
    yield fake
    assert not fake.pauses


@pytest.mark.parametrize("operator", ["TrainingJobSensor", "SubmitTrainingJobOperator", "SubclassOfAUser"])
def test_a_task_that_a_person_ended_is_looked_after(started: mock.Mock, operator: str) -> None:
    task = make_task_instance(operator=operator)

    on_task_instance_failed(previous_state=None, task_instance=task, error="marked")
    on_task_instance_success(previous_state=None, task_instance=task)

    assert started.call_args_list == [
        mock.call(cancel_job_of_task, KEY, False),
        mock.call(cancel_job_of_task, KEY, True),
    ]


def test_a_task_that_ended_by_itself_is_left_alone(started: mock.Mock) -> None:
    on_task_instance_failed(previous_state="running", task_instance=make_task_instance(), error="x")
    on_task_instance_success(previous_state="running", task_instance=make_task_instance())

    started.assert_not_called()


@pytest.mark.parametrize(("message", "calls"), [("timed_out", 1), ("task_failure", 0)])
def test_only_a_run_at_its_limit_of_time_has_its_tasks_looked_after(
    started: mock.Mock, message: str, calls: int
) -> None:
    on_dag_run_failed(SimpleNamespace(dag_id="dag", run_id="run"), message)

    assert [call.args for call in started.call_args_list] == [
        (listener._look_after_jobs_of_run, "dag", "run")
    ] * calls


@pytest.mark.parametrize(
    ("labels", "state", "expected"),
    [
        (LABELS, JobState.RUNNING, 1),
        (LABELS, JobState.SUCCEEDED, 0),
        (LABELS | {"airflow-run": "another"}, JobState.RUNNING, 0),
        ({}, JobState.RUNNING, 0),
        (LABELS | {"airflow-detached": "true"}, JobState.RUNNING, 1),
    ],
)
def test_only_a_live_job_of_this_run_is_cancelled(
    service: FakeService, database: Database, labels: dict[str, str], state: JobState, expected: int
) -> None:
    service.add(make_job(state=state, labels=labels))

    cancel_job_of_task(KEY, False)

    assert service.count("POST", ":cancel") == expected


@pytest.mark.parametrize(
    "changes",
    [{"job_id": None}, {"cancel_on_kill": False}, {"cancel_on_kill": "False"}, {"cancel_on_kill": ""}],
)
def test_a_wait_that_does_not_cancel_leaves_the_job(
    service: FakeService, database: Database, changes: dict[str, Any]
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=LABELS))
    database.rendered |= changes

    cancel_job_of_task(KEY, False)

    assert service.jobs["digits_1"].state is JobState.RUNNING


@pytest.mark.parametrize(
    "rendered",
    [
        {},  # it never began
        {"bash_command": "true"},
        {"job_id": "digits_1", "training_conn_id": "training_default"},  # it collects the results
    ],
)
def test_a_task_that_has_no_job_cancels_none(
    service: FakeService, database: Database, rendered: dict[str, Any]
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=LABELS))
    database.rendered = rendered

    cancel_job_of_task(KEY, False)

    assert service.jobs["digits_1"].state is JobState.RUNNING


@pytest.mark.parametrize(
    ("others", "labels", "expected"),
    [
        ([], LABELS, 1),
        (["success", "failed", "skipped"], LABELS, 1),
        (["success", None], LABELS, 0),
        (["deferred"], LABELS, 0),
        ([], LABELS | {"airflow-detached": "true"}, 0),
    ],
)
def test_after_a_wait_that_was_marked_as_successful_the_job_goes_on_for_the_rest_of_the_run(
    service: FakeService, database: Database, others: list[str | None], labels: dict[str, str], expected: int
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=labels))
    database.state, database.others = "deferred", others
    # Listeners are told before the act is stored.
    database.pauses = [lambda: setattr(database, "state", "success")]

    cancel_job_of_task(KEY, True)

    assert service.count("POST", ":cancel") == expected


def test_the_job_of_an_ended_submission_is_cancelled(service: FakeService, database: Database) -> None:
    service.add(make_job(state=JobState.QUEUED, labels=LABELS))

    end_submission(database)

    assert service.jobs["digits_1"].state is JobState.CANCELLING


@pytest.mark.parametrize(
    ("pushed", "others", "expected"),
    [
        (set(), ["running"], JobState.CANCELLING),  # the task had not come to wait: no other has the job
        ({"job_id"}, ["running"], JobState.RUNNING),  # a later task may need the job
        ({"job_id"}, ["success"], JobState.CANCELLING),
    ],
)
def test_a_submission_that_waits_itself_and_was_marked_as_successful_is_treated_as_a_wait(
    service: FakeService, database: Database, pushed: set[str], others: list[Any], expected: JobState
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=LABELS))
    database.rendered, database.pushed, database.others = dict(SUBMISSION), pushed, others
    database.state = "success"

    cancel_job_of_task(KEY, True)

    assert service.jobs["digits_1"].state is expected


def test_a_job_that_comes_after_its_submission_was_ended_is_cancelled(
    service: FakeService, database: Database
) -> None:
    database.pauses = [
        lambda: None,
        lambda: service.add(make_job(state=JobState.QUEUED, labels=LABELS)),
    ]

    end_submission(database)

    assert service.jobs["digits_1"].state is JobState.CANCELLING


def test_a_job_of_vertex_ai_is_cancelled_by_its_number_before_lists_show_it(
    vertex: FakeVertex, database: Database
) -> None:
    number = vertex.add(owner="token", labels=LABELS)
    database.intent = Intent(request_hash="0", job_id="digits_1", owner="token", known_as=number)

    end_submission(database)

    assert vertex.states() == {number: "CANCELLED"}
    assert not [asked for asked in vertex.asked if asked.endswith("Jobs")]  # a list may lag behind


def test_a_job_without_a_known_number_is_looked_for_until_lists_are_sure_to_show_it(
    vertex: FakeVertex, database: Database
) -> None:
    database.pauses = [
        *[lambda: None] * (len(listener._PAUSES_SECONDS) - 1),
        lambda: vertex.add(labels=LABELS),
    ]

    end_submission(database)

    assert list(vertex.states().values()) == ["CANCELLED"]


def test_a_submission_that_comes_to_nothing_is_looked_for_no_longer_than_a_minute(
    service: FakeService, database: Database
) -> None:
    end_submission(database)

    assert service.count("GET", "/jobs/digits_1") == len(listener._PAUSES_SECONDS)
    assert sum(listener._PAUSES_SECONDS) <= 60


@pytest.mark.parametrize(
    "changes",
    [
        {"pushed": {"return_value"}},  # its job belongs to the tasks after it
        {"intent": None},
        {"intent": Intent(request_hash="0", job_id="digits_1", owner="somebody else")},
        {"state": None},  # cleared at once
    ],
)
def test_a_job_that_is_not_the_ended_submissions_goes_on(
    service: FakeService, database: Database, changes: dict[str, Any]
) -> None:
    service.add(make_job(state=JobState.RUNNING, labels=LABELS))
    for name, value in changes.items():
        setattr(database, name, value)

    end_submission(database)

    assert service.jobs["digits_1"].state is JobState.RUNNING


def test_a_submission_that_is_cleared_meanwhile_is_left_alone(
    service: FakeService, database: Database
) -> None:
    def clear_and_submit() -> None:
        database.state = "running"
        service.add(make_job(state=JobState.QUEUED, labels=LABELS))

    database.pauses = [clear_and_submit]

    end_submission(database)

    assert service.jobs["digits_1"].state is JobState.QUEUED


def test_service_that_refuses_is_logged(
    service: FakeService, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    service.faults = [error(403, "PERMISSION_DENIED", "try later")]

    listener._logged(cancel_job_of_task, KEY, False)

    assert "a job may go on" in caplog.text
    assert str(KEY) in caplog.text
    assert "try later" in caplog.text


def test_waits_and_submissions_are_told_from_all_other_tasks() -> None:
    """By their rendered fields, which subclasses have, too."""
    classes = [
        thing
        for folder in (operators, sensors)
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}.")
        for thing in vars(importlib.import_module(module.name)).values()
        if isinstance(thing, type) and issubclass(thing, BaseOperator)
    ]

    waits = {thing.__name__ for thing in classes if {*thing.template_fields} >= listener._OF_WAITS}
    submissions = {
        thing.__name__ for thing in classes if {*thing.template_fields} >= listener._OF_SUBMISSIONS
    }

    assert len(classes) > 20
    assert waits == {"TrainingJobSensor"}
    assert submissions == {"SubmitTrainingJobOperator"}


class _Submission(SubmitTrainingJobOperator):
    """A user's own."""


def test_what_it_asks_airflows_database(
    service: FakeService, register_dag: Callable[[DAG], DAG], started: mock.Mock
) -> None:
    with DAG("listened", schedule=None) as dag:
        _Submission(task_id="task", image="127.0.0.1:5000/demo/digits:1", region="us-central1")
    run = register_dag(dag).test()
    key = TaskKey(dag_id="listened", task_id="task", run_id=run.run_id)
    unknown = TaskKey(dag_id="listened", task_id="task", run_id="another")

    intent = listener._stored_intent(key)

    assert intent is not None
    assert [intent.job_id] == list(service.jobs)
    assert listener._states(key) == listener._states(key, only_its_own=True) == ["success"]
    assert listener._is_over(key)
    assert listener._has_pushed(key, "return_value")
    assert listener._rendered_fields(key)["training_conn_id"] == "training_default"
    assert listener._rendered_fields(key).keys() >= listener._OF_SUBMISSIONS
    assert listener._rendered_fields(unknown) == {}
    assert listener._stored_intent(unknown) is None
    assert listener._states(unknown) == []
    assert not listener._has_pushed(unknown, "return_value")


def test_nothing_is_asked_of_a_task_but_its_columns(
    service: FakeService, register_dag: Callable[[DAG], DAG], started: mock.Mock
) -> None:
    """
    When a person marks a whole run, Airflow passes tasks without their relations.

    Reading one raises.
    """
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.orm import raiseload

    with DAG("marked", schedule=None) as dag:
        SubmitTrainingJobOperator(task_id="task", image="127.0.0.1:5000/demo/digits:1", region="us-central1")
    run = register_dag(dag).test()
    query = select(TaskInstance).where(TaskInstance.run_id == run.run_id).options(raiseload("*"))
    with create_session() as session:
        for task_instance in session.scalars(query):
            on_task_instance_failed(previous_state=None, task_instance=task_instance, error="marked")

    key = TaskKey(dag_id="marked", task_id="task", run_id=run.run_id)
    started.assert_called_once_with(cancel_job_of_task, key, False)


@pytest.mark.extended
@pytest.mark.parametrize("looks", [1, 20])
def test_the_tasks_that_a_run_skipped_at_its_limit_are_found_however_late_that_is_stored(
    service: FakeService,
    register_dag: Callable[[DAG], DAG],
    started: mock.Mock,
    monkeypatch: pytest.MonkeyPatch,
    looks: int,
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    pauses: list[float] = []
    with DAG("too_long", schedule=None) as dag:
        SubmitTrainingJobOperator(task_id="task", image="127.0.0.1:5000/demo/digits:1", region="us-central1")
    run = register_dag(dag).test()

    def store(run_state: str, task_state: str) -> None:
        with create_session() as session:
            of_run = TaskInstance.run_id == run.run_id
            session.execute(update(TaskInstance).where(of_run).values(state=task_state))
            session.execute(update(DagRun).where(DagRun.run_id == run.run_id).values(state=run_state))

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == looks:
            store("failed", "skipped")

    monkeypatch.setattr(listener, "_sleep", sleep)
    store("running", "running")

    listener._look_after_jobs_of_run("too_long", run.run_id)

    key = TaskKey(dag_id="too_long", task_id="task", run_id=run.run_id)
    started.assert_called_once_with(cancel_job_of_task, key, False)
    assert len(pauses) == looks


def test_a_run_that_does_not_end_after_all_keeps_its_tasks(
    register_dag: Callable[[DAG], DAG],
    started: mock.Mock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(listener, "_sleep", pauses.append)

    listener._look_after_jobs_of_run("too_long", "there_is_no_such_run")

    started.assert_not_called()
    assert sum(pauses) == 30
    assert "does not end" in caplog.text
