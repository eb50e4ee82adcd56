"""
Five jobs one after another, by ``DAG.test()``.

One of them is lost, and only that step and the later ones run again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.sdk.definitions.dag import _run_task
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState

from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import HoldOut
from container_training.work.object_store import ObjectStore
from local_stack.parts.airflow import airflow_environment
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import airflow_token
from local_stack.stack import LocalStack
from tests.docker.test_retraining import read
from tests.support.bed.job_watch import messages
from tests.support.waiting import end_of
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.errors import TrainingError
from training_api.job.results import JobResult

#: The first build on a machine downloads XGBoost.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800), pytest.mark.extended]

STEPS = ("prepare", "tune", "train", "evaluate")
PINNED = re.compile(r"gs://\S+#\d+")
LOST = re.compile(r"multi_step_pipeline_train_submit_\w+_1")


class Steps:
    """The pipeline's run: its tasks, what they returned, and how it continues after a clear."""

    def __init__(self, dag: DAG, run: DagRun) -> None:
        self.dag = dag
        self._run = run

    def _tasks(self) -> dict[str, Any]:
        with create_session() as session:
            return {task.task_id: task for task in self._run.get_task_instances(session=session)}

    def states(self) -> dict[str, str]:
        """Return the state of each task."""
        return {name: str(task.state) for name, task in self._tasks().items()}

    def tries(self, task_id: str) -> int:
        """Return the number of the task's newest try."""
        return int(self._tasks()[task_id].try_number)

    def xcom(self, task_id: str, key: str = "return_value") -> Any:
        """Return what the task returned."""
        return self._tasks()[task_id].xcom_pull(task_ids=task_id, key=key)

    def clear_and_go_on(self, task_id: str) -> str:
        """
        Clear the task with downstream tasks, as a person does, run them, return the state.

        The state is that of the run.
        """
        scheduler_dag: SerializedDAG = DagSerialization.deserialize_dag(
            DagSerialization.serialize_dag(self.dag)
        )
        task_ids = {task_id, *self.dag.get_task(task_id).get_flat_relative_ids(upstream=False)}
        with create_session() as session:
            scheduler_dag.clear(task_ids=sorted(task_ids), run_id=self._run.run_id, session=session)
        with create_session() as session:
            run = session.merge(self._run)
            run.dag = scheduler_dag
            run.set_state(DagRunState.RUNNING)
            # The loop of DAG.test(), which can only begin a run.
            while run.state == DagRunState.RUNNING:
                session.expire_all()
                for task in run.update_state(session=session)[0]:
                    task.try_number += 1
                    task.state = TaskInstanceState.SCHEDULED
                session.commit()
                found = run.get_task_instances(session=session)
                for task in [task for task in found if task.state == TaskInstanceState.SCHEDULED]:
                    _run_task(ti=task, task=self.dag.task_dict[task.task_id], run_triggerer=True)
            return str(run.state)


@pytest.fixture(scope="module")
def connected(stack: LocalStack) -> Iterator[None]:
    """The stack's connections, as its own Airflow has them."""
    environment = airflow_environment(
        stack.settings,
        base_image=BaseImage.name_of(stack.settings),
        token=airflow_token(stack.settings),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            if name.startswith(("AIRFLOW_CONN_", "STORAGE_", "DOCKER_HOST", "GOOGLE_")):
                patch.setenv(name, value)
        yield


def cancel_when_there(stack: LocalStack, stop: threading.Event) -> None:
    """Cancel the first job of the final training, as soon as it is there."""
    with TrainingClient(stack.settings.training_url, stack.settings.project) as training:
        while not stop.wait(0.1):
            with suppress(TrainingError):  # one failed request does not end the search
                for job in training.list_jobs("", page_size=100).jobs or []:
                    if LOST.fullmatch(job.job_id or ""):
                        training.cancel_job(job.job_id or "")
                        return


@pytest.fixture(scope="module")
def broken(stack: LocalStack, connected: None, register_dag: Callable[[DAG], DAG]) -> Steps:
    """A run whose final training somebody cancelled at the service."""
    dag = register_dag(read("multi_step_pipeline"))
    stop = threading.Event()
    person = threading.Thread(target=cancel_when_there, args=(stack, stop))
    person.start()
    try:
        run = dag.test(run_conf={"trials": 2, "trial_epochs": 2, "epochs": 6, "workers": 1})
    finally:
        stop.set()
        person.join()
    return Steps(dag, run)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def before(broken: Steps) -> dict[str, Any]:
    """What was there when the run had failed: states, the lost job, the earlier steps' results."""
    return {
        "states": broken.states(),
        "lost": broken.xcom("train.submit"),
        "results": {step: broken.xcom(f"{step}.collect") for step in ("prepare", "tune")},
    }


@pytest.fixture(scope="module")
def resumed(broken: Steps, before: dict[str, Any], stack: LocalStack) -> Steps:
    """The same run after the step that failed was cleared."""
    state = broken.clear_and_go_on("train.submit")
    if state != "success":
        job_id = broken.xcom("train.submit")
        with TrainingClient(stack.settings.training_url, stack.settings.project) as training:
            why, end = training.get_job(job_id).error_message, end_of(messages(training, job_id))
        raise AssertionError(f"the run is {state}; {job_id}: {why} {end}; {broken.states()}")
    return broken


def input_of(run: Steps, step: str, stack: LocalStack) -> TrainingInput:
    with TrainingClient(stack.settings.training_url, stack.settings.project) as training:
        found = training.get_job(run.xcom(f"{step}.submit")).training_input
    assert found is not None
    return found


def words_of(run: Steps, step: str, stack: LocalStack) -> list[str]:
    """Return the arguments of the step's job; with a command, they are the container's."""
    found = input_of(run, step, stack)
    config = found.master_config
    return [*(found.args or ()), *((config and config.container_args) or ())]


def test_a_step_that_is_lost_stops_the_run_there(before: dict[str, Any]) -> None:
    assert before["states"]["tune.collect"] == "success"
    assert before["states"]["train.wait"] == "failed"
    assert before["states"]["evaluate.submit"] == before["states"]["register"] == "upstream_failed"


def test_after_a_clear_the_earlier_steps_do_not_run_again(resumed: Steps, before: dict[str, Any]) -> None:
    earlier = ["framework", "build", "test", "push", "grant"]
    earlier += [f"{step}.{task}" for step in ("prepare", "tune") for task in ("submit", "wait", "collect")]

    assert {task: resumed.tries(task) for task in earlier} == dict.fromkeys(earlier, 1)
    assert {step: resumed.xcom(f"{step}.collect") for step in ("prepare", "tune")} == before["results"]
    assert resumed.tries("train.submit") == 2
    assert resumed.xcom("train.submit") != before["lost"]


def test_every_job_ran_on_one_image_by_digest(resumed: Steps, stack: LocalStack) -> None:
    images = set()
    for step in STEPS:
        config = input_of(resumed, step, stack).master_config
        assert config is not None
        images.add(config.image_uri)

    assert images == {resumed.xcom("push")}
    assert "@sha256:" in resumed.xcom("push")


def test_files_are_handed_on_by_generation(resumed: Steps, stack: LocalStack) -> None:
    uris: dict[str, str] = resumed.xcom("prepare.collect", "uris")
    assert set(uris) == {"train.npz", "holdout.npz", "metrics.json"}

    handed = {
        step: [word for word in words_of(resumed, step, stack) if PINNED.fullmatch(word)] for step in STEPS
    }
    trained = JobResult.model_validate(resumed.xcom("train.collect"))
    assert handed == {
        "prepare": [],
        "tune": [uris["train.npz"]],
        "train": [uris["train.npz"]],
        "evaluate": [f"{trained.model_uri}#{trained.model_generation}", uris["holdout.npz"]],
    }


def test_the_best_configuration_was_trained_on_all_rows_by_two_replicas(
    resumed: Steps, stack: LocalStack
) -> None:
    prepared = JobResult.model_validate(resumed.xcom("prepare.collect")).metrics
    tuned = JobResult.model_validate(resumed.xcom("tune.collect"))
    trained = JobResult.model_validate(resumed.xcom("train.collect"))

    assert tuned.study is not None
    assert tuned.study.best is not None
    assert (input_of(resumed, "train", stack).args or [])[
        : len(tuned.study.best.args)
    ] == tuned.study.best.args
    assert trained.metrics["replicas"] == 2
    assert trained.metrics["train_rows"] == prepared["train_rows"]
    assert "accuracy" not in trained.metrics  # the job had no rows to measure it on


def test_the_registered_model_has_its_evaluation(
    resumed: Steps, stack: LocalStack, stack_store: ObjectStore
) -> None:
    registry = ModelRegistry(stack_store, f"{stack.settings.job_bucket}/models/digits-xgboost")

    (version,) = registry.versions()
    trained = JobResult.model_validate(resumed.xcom("train.collect"))
    evaluated = JobResult.model_validate(resumed.xcom("evaluate.collect"))
    prepared = JobResult.model_validate(resumed.xcom("prepare.collect")).metrics
    assert version.job_id == trained.job_id
    assert version.metrics["evaluation_examples"] == prepared["holdout_rows"]
    assert version.metrics["evaluation_accuracy"] == evaluated.metrics["accuracy"]
    assert version.hold_out == HoldOut(rule="content", fraction=0.2)
    assert stack_store.read(version.model_uri, 10**8) == stack_store.read(
        f"{trained.model_uri}#{trained.model_generation}", 10**8
    )
