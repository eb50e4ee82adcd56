"""The arguments that describe a job: file, ``job`` and fields, one over the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.training import SubmitTrainingJobOperator
from container_training.work.submission.job_request import JobFields
from tests.support.fakes.fake_service import FakeService
from tests.support.fakes.submissions import IMAGE, submit


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

    for path in ("trainingInput.scaleTeir", "master_config (trainingInput.masterConfig.image)", "nmae"):
        assert f"{path}: unknown field, got '" in str(failed.value)
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
        (None, "InvalidJobSpec: config_file: {file}: no such file; "),
        (
            "trainingInput:\n  scaleTeir: BASIC\n  workerCount: x",
            "InvalidJobSpec: trainingInput.scaleTeir: {file}:2: unknown key, did you mean 'scaleTier'?; worker_count (trainingInput.workerCount): {file}:3: must be a whole number in its range, got 'x'; ",
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

    assert str(failed.value).startswith(expected.format(file=file))
    assert service.requests == []


def test_everything_that_describes_the_job_is_templated() -> None:
    described = set(JobFields.__annotations__)
    described |= {"config_file", "job", "job_id", "training_conn_id", "max_cost", "detached"}
    described |= {"reuse_results", "reuse_from", "data_uris", "result_files", "gcp_conn_id"}
    described |= {"wait_for_completion", "metrics_file", "model_file", "vertex_options"}

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
        AirflowFailException, match=r"packageUris\): cannot be set together with masterConfig\.imageUri"
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


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "text"])
def test_a_job_is_the_same_from_native_templates_and_from_text(
    service: FakeService, context: Any, is_native: bool
) -> None:
    task = SubmitTrainingJobOperator(
        task_id="submit",
        image="127.0.0.1:5000/demo/digits:{{ n }}",
        args=["--epochs", "{{ n }}", "--rate", "{{ rate }}"],
        worker_count="{{ n }}",
        worker_type="n1-standard-4",
        master_type="n1-standard-4",
        labels={"number": "{{ n }}"},
        max_running_time="{{ n }}s",
        priority="{{ n }}",
        use_chief_in_tf_config="{{ yes }}",
        detached="{{ yes }}",
    )
    task.dag = DAG("d", schedule=None, render_template_as_native_obj=is_native)

    task.render_template_fields({"n": 3, "rate": 0.5, "yes": True})
    job = service.jobs[task.execute(context)]

    assert job.training_input is not None
    assert job.training_input.to_wire() == {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": "3",
        "useChiefInTfConfig": True,
        "masterConfig": {"imageUri": "127.0.0.1:5000/demo/digits:3"},
        "args": ["--epochs", "3", "--rate", "0.5"],
        "scheduling": {"maxRunningTime": "3s", "priority": 3},
    }
    assert (job.labels or {}).items() >= {"number": "3", "airflow-detached": "true"}.items()


def test_one_argument_that_is_a_number_by_itself_is_an_argument(service: FakeService, context: Any) -> None:
    task = SubmitTrainingJobOperator(task_id="submit", image="127.0.0.1:5000/demo/digits:1", args="{{ n }}")
    task.dag = DAG("d", schedule=None, render_template_as_native_obj=True)

    task.render_template_fields({"n": 3})

    job = service.jobs[task.execute(context)]
    assert (job.training_input and job.training_input.args) == ["3"]
