"""Submitting a job exactly once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.training import SubmitTrainingJobOperator
from container_training.runtime import killing
from container_training.runtime.killing import TaskFate
from container_training.work.submission.job_request import JobFields
from tests.support.fakes.fake_service import FakeService, error, make_job
from training_api.errors import JobConflict, TransportError
from training_api.job.job_rules import JOB_ID
from training_api.states import JobState

IMAGE = "127.0.0.1:5000/demo/digits@sha256:" + "a" * 64


def make_operator(**changes: Any) -> SubmitTrainingJobOperator:
    fields = {
        "task_id": "submit",
        "image": IMAGE,
        "args": ["--epochs", 3],
        "job_dir": "gs://bucket/jobs/{job_id}",
    }
    operator = SubmitTrainingJobOperator(**{**fields, **changes})
    operator._sleep = lambda _: None
    return operator


def submit(context: Any, **changes: Any) -> str:
    return make_operator(**changes).execute(context)


def test_the_first_attempt_submits_one_job_with_its_own_folder_and_labels(
    service: FakeService, context: Any
) -> None:
    job_id = submit(context, labels={"team": "vision"})

    (job,) = service.jobs.values()
    assert job.job_id == job_id
    assert JOB_ID.fullmatch(job_id)
    assert job.training_input is not None
    assert job.training_input.args == ["--epochs", "3"]
    assert job.training_input.region == "us-central1"
    assert job.training_input.job_dir == f"gs://bucket/jobs/{job_id}"
    labels = job.labels or {}
    assert (labels["airflow-dag"], labels["airflow-task"], labels["airflow-run"]) == (
        "train_digits",
        "train-submit",
        "manual__1",
    )
    assert (labels["team"], len(labels["airflow-owner"])) == ("vision", 32)
    pushed = {call.kwargs["key"]: call.kwargs["value"] for call in context["ti"].xcom_push.call_args_list}
    assert pushed == {"job": job.to_wire(), "reused": False}


def test_the_intent_is_stored_before_the_call(service: FakeService, context: Any) -> None:
    stored: list[Any] = []
    service.before_get = lambda: stored.append(dict(context["task_state_store"]))

    job_id = submit(context)

    assert stored[0]["job_intent"]["job_id"] == job_id
    assert service.requests[0][0] == "GET"


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED])
def test_a_retry_adopts_its_own_job_that_lives_or_succeeded(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    assert submit(context) == first
    assert len(service.jobs) == 1


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED, JobState.CANCELLING])
def test_a_retry_after_a_bad_end_submits_the_next_attempt(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    second = submit(context)

    assert (first[-2:], second[-2:]) == ("_1", "_2")
    assert submit(context) == second
    assert len(service.jobs) == 2


def test_a_changed_request_is_refused_while_the_old_job_runs(service: FakeService, context: Any) -> None:
    submit(context)

    with pytest.raises(AirflowFailException, match="is still QUEUED with another request") as refused:
        submit(context, args=["--epochs", 4])

    assert isinstance(refused.value.__cause__, JobConflict)
    assert len(service.jobs) == 1


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLING])
def test_a_changed_request_gets_a_new_job_once_the_old_one_has_ended(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    second = submit(context, args=["--epochs", 4])

    assert second != first
    assert submit(context, args=["--epochs", 4]) == second


def test_a_lost_answer_leads_to_one_job(service: FakeService, context: Any) -> None:
    service.lose_next_answer_to_create = True

    job_id = submit(context)

    assert list(service.jobs) == [job_id]


def test_a_task_that_died_right_after_the_call_adopts_the_job(service: FakeService, context: Any) -> None:
    operator = make_operator()
    context["ti"].xcom_push.side_effect = SystemExit
    with pytest.raises(SystemExit):
        operator.execute(context)

    context["ti"].xcom_push.side_effect = None
    assert [submit(context)] == list(service.jobs)


@pytest.mark.parametrize("state", list(JobState))
def test_somebody_elses_job_id_is_a_conflict_and_stays_untouched(
    service: FakeService, context: Any, state: JobState
) -> None:
    service.add(make_job(job_id="mine", state=state, labels={"airflow-owner": "another"}))

    with pytest.raises(AirflowFailException, match="JobConflict: job id 'mine' is taken") as refused:
        submit(context, job_id="mine")

    assert isinstance(refused.value.__cause__, JobConflict)
    assert service.count("POST", "/jobs") == 0


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
def test_a_run_that_was_deleted_and_made_again_trains_again(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)
    context["task_state_store"].clear()

    second = submit(context)

    assert (first[-2:], second[-2:]) == ("_1", "_2")


def test_a_live_job_of_a_deleted_run_is_not_taken_over(service: FakeService, context: Any) -> None:
    submit(context)
    context["task_state_store"].clear()

    with pytest.raises(AirflowFailException, match="an earlier run of the same name"):
        submit(context)


def test_a_conflict_that_comes_between_look_and_call_is_named_too(service: FakeService, context: Any) -> None:
    service.faults = [error(404, "NOT_FOUND", "none")]
    service.add(make_job(job_id="mine", labels={}))

    with pytest.raises(AirflowFailException, match="JobConflict: job id 'mine' is taken"):
        submit(context, job_id="mine")


def test_an_id_that_is_taken_but_cannot_be_read_does_not_loop(service: FakeService, context: Any) -> None:
    service.faults = [error(404, "NOT_FOUND", "none"), error(409, "ALREADY_EXISTS", "taken")] * 9

    with pytest.raises(AirflowFailException, match="no job with this id can be read"):
        submit(context)


def test_without_a_state_store_a_retry_still_finds_its_job(service: FakeService, context: Any) -> None:
    del context["task_state_store"]
    first = submit(context)
    service.move(first, JobState.FAILED)

    second = submit(context)

    assert submit(context) == second
    assert list(service.jobs) == [first, second]


def test_mapped_tasks_and_other_runs_get_jobs_of_their_own(service: FakeService, context: Any) -> None:
    ids = set()
    for context["ti"].map_index in (-1, 0, 1):
        context["task_state_store"].clear()
        ids.add(submit(context))

    assert len(ids) == 3


def test_a_service_that_is_down_for_a_moment_is_asked_again(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.faults = [
        httpx.ConnectError("refused"),
        error(503, "UNAVAILABLE", "starting"),
        None,
        error(429, "X", "busy"),
    ]

    job_id = submit(context)

    assert list(service.jobs) == [job_id]
    assert any("asking again in" in line for line in log_lines)


def test_a_service_that_stays_down_leaves_the_task_to_airflows_retries(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("container_training.operators.training._PATIENCE_SECONDS", 0.0)
    service.faults = [httpx.ConnectError("refused")] * 9

    with pytest.raises(TransportError, match=r"training.test:8470 did not answer"):
        submit(context)


def test_all_broken_rules_are_listed_before_anything_is_sent(service: FakeService, context: Any) -> None:
    with pytest.raises(AirflowFailException) as failed:
        submit(context, job_id="1-bad id", job_dir="/tmp/x", priority=5000, image="digits")

    message = str(failed.value)
    for part in ("InvalidJobSpec", "jobId", "trainingInput.jobDir", "priority", "imageUri"):
        assert part in message
    assert service.requests == []


def test_unknown_fields_of_the_job_are_named_with_their_path(service: FakeService, context: Any) -> None:
    job = {"trainingInput": {"scaleTeir": "BASIC", "masterConfig": {"image": "x"}}, "nmae": "x"}

    with pytest.raises(AirflowFailException) as failed:
        submit(context, job=job)

    for path in ("trainingInput.scaleTeir", "trainingInput.masterConfig.image", "nmae"):
        assert f"{path}: unknown field" in str(failed.value)
    assert service.requests == []


@pytest.mark.parametrize("text", ["{not json", "[1]", '"text"'])
def test_a_job_that_is_no_json_object_is_refused(service: FakeService, context: Any, text: str) -> None:
    with pytest.raises(AirflowFailException, match="job: must be a JSON object"):
        submit(context, job=text)


def test_fields_override_the_jobs_own_form(service: FakeService, context: Any) -> None:
    job = '{"jobId": "digits", "labels": {"a": "1"}, "trainingInput": {"region": "europe-west4", "args": ["old"]}}'

    assert submit(context, job=job, args="--data 'gs://b/my data.csv'", labels={"b": "2"}) == "digits"

    sent = service.jobs["digits"]
    assert sent.training_input is not None
    assert (sent.training_input.region, sent.training_input.args) == (
        "europe-west4",
        ["--data", "gs://b/my data.csv"],
    )
    assert {"a", "b"} <= set(sent.labels or {})


def test_empty_text_from_a_template_leaves_a_field_unset(service: FakeService, context: Any) -> None:
    submit(context, master_type="", service_account="", args="")

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.to_wire().keys() == {"jobDir", "masterConfig", "region"}


def test_arguments_beside_a_command_belong_to_the_container(service: FakeService, context: Any) -> None:
    submit(context, command=["python", "-m", "trainer"])

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.master_config is not None
    assert job.training_input.master_config.container_args == ["--epochs", "3"]
    assert job.training_input.args is None


def test_a_machine_type_implies_the_custom_tier(service: FakeService, context: Any) -> None:
    submit(context, master_type="n1-standard-4", priority="7", max_running_time="3600s")

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.scale_tier == "CUSTOM"
    assert job.training_input.scheduling is not None
    assert job.training_input.scheduling.priority == 7


@pytest.mark.parametrize(
    ("fate", "state"),
    [
        (TaskFate.ENDED, JobState.CANCELLING),
        (TaskFate.DONE, JobState.CANCELLING),
        (TaskFate.RESTARTED, JobState.CANCELLING),
        # Another try may have the job already.
        (TaskFate.REPEATED, JobState.QUEUED),
        (TaskFate.UNKNOWN, JobState.QUEUED),
    ],
)
def test_a_kill_during_the_call_cancels_the_job_that_the_call_made_unless_a_try_may_have_it(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch, fate: TaskFate, state: JobState
) -> None:
    operator = make_operator()
    monkeypatch.setattr(killing, "fate_of", lambda _: fate)
    service.before_get = lambda: (setattr(service, "before_get", lambda: None), operator.on_kill())

    operator.execute(context)

    (job,) = service.jobs.values()
    assert job.state is state


def test_a_kill_leaves_somebody_elses_job_alone(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make_operator()
    monkeypatch.setattr(killing, "fate_of", lambda _: TaskFate.ENDED)
    job_id = operator.execute(context)
    service.jobs[job_id] = service.jobs[job_id].model_copy(update={"labels": {"airflow-owner": "another"}})

    operator.on_kill()

    assert service.jobs[job_id].state is JobState.QUEUED


def test_the_job_overrides_the_file_and_fields_override_both_field_by_field(
    service: FakeService, context: Any, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        """\
jobId: of_the_file
labels: {of: file}
trainingInput:
  args: [--old, "1"]
  jobDir: gs://bucket/file/{job_id}
  masterType: n1-standard-4
  region: europe-west1
  scaleTier: CUSTOM
  masterConfig: {imageUri: 127.0.0.1:5000/demo/file:1, diskConfig: {bootDiskSizeGb: 50}}
  scheduling: {maxWaitTime: 1800s, maxRunningTime: 60s, priority: 1}
""",
        encoding="utf-8",
    )
    job = {
        "training_input": {
            "region": "europe-west4",
            "scheduling": {"max_running_time": "120s", "priority": 2},
        }
    }

    job_id = submit(context, config_file=str(file), job=job, priority=3, job_dir=None)

    sent = service.jobs["of_the_file"]
    assert sent.training_input is not None
    assert job_id == "of_the_file"
    assert (sent.labels or {})["of"] == "file"
    assert sent.training_input.to_wire() == {
        "args": ["--epochs", "3"],
        "jobDir": "gs://bucket/file/of_the_file",
        "masterConfig": {"imageUri": IMAGE, "diskConfig": {"bootDiskSizeGb": 50}},
        "masterType": "n1-standard-4",
        "region": "europe-west4",
        "scaleTier": "CUSTOM",
        "scheduling": {"maxWaitTime": "1800s", "maxRunningTime": "120s", "priority": 3},
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"of": "file"}),
        ({"job": {"labels": {"of": "job"}}}, {"of": "job"}),
        ({"labels": {"by": "field"}}, {"by": "field"}),
        ({"job": {"labels": {"of": "job"}}, "labels": {"by": "field"}}, {"of": "job", "by": "field"}),
    ],
)
def test_labels_take_the_place_of_those_in_the_file(
    service: FakeService, context: Any, tmp_path: Path, changes: Any, expected: Any
) -> None:
    (tmp_path / "config.yaml").write_text("labels: {of: file}", encoding="utf-8")

    submit(context, config_file=str(tmp_path / "config.yaml"), **changes)

    (job,) = service.jobs.values()
    assert {key: value for key, value in (job.labels or {}).items() if key in ("of", "by")} == expected


@pytest.mark.parametrize(
    ("file", "changes", "expected"),
    [
        ("args: [--old]", {}, {"args": ["--epochs", "3"]}),
        ("args: [--old]", {"args": None}, {"args": ["--old"]}),
        ("args: [--old]", {"args": ""}, {"args": ["--old"]}),
        (
            "args: [--old]",
            {"command": "sh"},
            {"containerCommand": ["sh"], "containerArgs": ["--epochs", "3"]},
        ),
        ("masterConfig: {containerArgs: [--old]}", {}, {"containerArgs": ["--epochs", "3"]}),
    ],
)
def test_arguments_take_the_place_of_those_in_the_file(
    service: FakeService, context: Any, tmp_path: Path, file: str, changes: Any, expected: Any
) -> None:
    (tmp_path / "config.yaml").write_text(f"trainingInput: {{{file}}}", encoding="utf-8")

    submit(context, config_file=str(tmp_path / "config.yaml"), **changes)

    (job,) = service.jobs.values()
    assert job.training_input is not None
    training = job.training_input.to_wire()
    both = {**training, **training["masterConfig"]}
    assert {
        key: both[key] for key in ("args", "containerArgs", "containerCommand") if key in both
    } == expected


@pytest.mark.parametrize(
    ("file", "changes", "expected"),
    [
        ("", {}, "gs://bucket/default/j"),
        ("jobDir: gs://bucket/file", {}, "gs://bucket/file"),
        (
            "jobDir: gs://bucket/file",
            {"job": {"trainingInput": {"jobDir": "gs://bucket/job"}}},
            "gs://bucket/job",
        ),
        ("jobDir: gs://bucket/file", {"job_dir": "gs://bucket/field/{job_id}"}, "gs://bucket/field/j"),
    ],
)
def test_the_default_job_folder_gives_way_to_every_other(
    service: FakeService, context: Any, tmp_path: Path, file: str, changes: Any, expected: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"trainingInput: {{{file}}}", encoding="utf-8")
    fields = {"job_dir": None, "default_job_dir": "gs://bucket/default/{job_id}", "job_id": "j"}

    submit(context, config_file=str(tmp_path / "config.yaml"), **{**fields, **changes})

    training = service.jobs["j"].training_input
    assert training is not None
    assert training.job_dir == expected


@pytest.mark.parametrize("has_dag", [True, False])
def test_a_relative_file_is_looked_for_beside_the_dag_or_else_in_the_working_folder(
    service: FakeService, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_dag: bool
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "config.yaml").write_text("jobId: of_the_file", encoding="utf-8")
    if has_dag:
        context["dag"] = SimpleNamespace(fileloc=str(tmp_path / "dag.py"))
    else:
        monkeypatch.chdir(tmp_path)

    assert submit(context, config_file="jobs/config.yaml") == "of_the_file"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "InvalidJobSpec: config_file: {file}: no such file"),
        (
            "trainingInput:\n  scaleTeir: BASIC\n  workerCount: x",
            "InvalidJobSpec: trainingInput.scaleTeir: {file}:2: unknown key, did you mean 'scaleTier'?; trainingInput.workerCount: {file}:3: must be a whole number in its range, got 'x'",
        ),
    ],
    ids=["missing", "typo"],
)
def test_a_bad_file_is_final_and_nothing_is_sent(
    service: FakeService, context: Any, tmp_path: Path, content: str | None, expected: str
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    with pytest.raises(AirflowFailException) as failed:
        submit(context, config_file=str(file))

    assert str(failed.value) == expected.format(file=file)
    assert service.requests == []


def test_everything_that_describes_the_job_is_templated() -> None:
    described = {field.name for field in fields(JobFields)}
    described |= {"config_file", "job", "job_id", "training_conn_id", "max_cost", "detached"}
    described |= {"reuse_results", "data_uris", "result_files", "gcp_conn_id"}

    assert described == set(SubmitTrainingJobOperator.template_fields)


def test_packages_take_the_place_of_an_image(service: FakeService, context: Any) -> None:
    submit(
        context,
        image=None,
        package_uris=["gs://bkt/0123/trainer-0.0.0.tar.gz"],
        python_module="trainer.task",
        runtime_version="2.11",
        python_version="3.7",
    )

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.master_config is None
    assert job.training_input.package_uris == ["gs://bkt/0123/trainer-0.0.0.tar.gz"]
    assert job.training_input.python_module == "trainer.task"
    assert job.training_input.runtime_version == "2.11"
    assert job.training_input.python_version == "3.7"


def test_packages_beside_an_image_are_refused_before_anything_is_sent(
    service: FakeService, context: Any
) -> None:
    with pytest.raises(
        AirflowFailException, match=r"packageUris: cannot be set together with masterConfig\.imageUri"
    ):
        submit(context, package_uris="gs://bkt/trainer-0.0.0.tar.gz")

    assert service.requests == []


SEARCH = {
    "goal": "MAXIMIZE",
    "max_trials": 4,
    "params": [{"parameter_name": "lr", "type": "DOUBLE", "min_value": 0.001, "max_value": 0.1}],
}


def test_a_search_makes_it_a_tuning_job(service: FakeService, context: Any) -> None:
    submit(context, hyperparameters=SEARCH)

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.hyperparameters is not None
    assert job.training_input.hyperparameters.to_wire() == {
        "goal": "MAXIMIZE",
        "maxTrials": 4,
        "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.001, "maxValue": 0.1}],
    }


def test_the_output_of_a_task_fits_between_other_arguments(service: FakeService, context: Any) -> None:
    submit(context, args=[["--lr=0.01", "--units=64"], "--epochs", 50])

    (job,) = service.jobs.values()
    assert job.training_input is not None
    assert job.training_input.args == ["--lr=0.01", "--units=64", "--epochs", "50"]


def test_a_job_with_a_limit_of_cost_and_no_price_is_not_submitted(service: FakeService, context: Any) -> None:
    with pytest.raises(
        AirflowFailException, match=r"InvalidPrice: extra\.prices of .* no price for 'n1-standard-4'"
    ):
        submit(context, max_cost="5")

    assert service.jobs == {}


def test_an_empty_limit_of_a_template_is_none(service: FakeService, context: Any) -> None:
    submit(context, max_cost="")

    assert len(service.jobs) == 1
