"""
A DAG file with operators of Google's provider becomes a DAG file of this project.

The written DAG parses, is formatted, and asks for the same job; what cannot be carried over is said.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from container_training.work.migration.airflow_calls import CONTAINER, PACKAGE, SCRIPT
from container_training.work.migration.airflow_dag import dags_of_file
from container_training.work.migration.dag_text import DagOptions, dags_source, decisions_in
from container_training.work.submission.job_attempt import for_attempt
from tests.support.docs_examples import ROOT
from tests.support.written_dags import read_dag
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.errors import InvalidCommand

#: As the provider's own system test has it: names from the environment, a bucket computed from them.
CONTAINER_DAG = """
import os
from datetime import datetime

from airflow.models.dag import DAG
from airflow.providers.google.cloud.operators.gcs import GCSCreateBucketOperator
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import CreateCustomContainerTrainingJobOperator
from airflow.providers.google.cloud.operators.vertex_ai.dataset import CreateDatasetOperator

ENV_ID = os.environ.get("SYSTEM_TESTS_ENV_ID", "default")
PROJECT_ID = os.environ.get("SYSTEM_TESTS_GCP_PROJECT", "default")
DAG_ID = "vertex_ai_custom_job"
REGION = "europe-west4"
BUCKET = f"bucket_{DAG_ID}_{ENV_ID}".replace("_", "-")
REPLICA_COUNT = 1

with DAG(
    f"{DAG_ID}_container", schedule="@once", start_date=datetime(2021, 1, 1), catchup=False, tags=["example"]
) as dag:
    create_dataset = CreateDatasetOperator(task_id="dataset", region=REGION, project_id=PROJECT_ID)
    train = CreateCustomContainerTrainingJobOperator(
        task_id="custom_container_task",
        staging_bucket=f"gs://{BUCKET}",
        display_name=f"train-housing-{ENV_ID}",
        container_uri="us-central1-docker.pkg.dev/some-project/repo/housing",
        model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-2:latest",
        dataset_id=create_dataset.output["dataset_id"],
        command=["python3", "task.py"],
        replica_count=REPLICA_COUNT,
        machine_type="n1-standard-8",
        accelerator_type="ACCELERATOR_TYPE_UNSPECIFIED",
        accelerator_count=0,
        training_fraction_split=0.7,
        region=REGION,
        project_id=PROJECT_ID,
    )
    train_on_three = CreateCustomContainerTrainingJobOperator(
        task_id="three",
        display_name="three",
        container_uri="us-central1-docker.pkg.dev/some-project/repo/housing",
        base_output_dir="gs://models/housing/out",
        args=["--epochs", 3, "--day={{ ds }}"],
        environment_variables={"LOGLEVEL": "DEBUG"},
        replica_count=3,
        machine_type="n1-standard-8",
        accelerator_type="NVIDIA_TESLA_T4",
        accelerator_count=2,
        boot_disk_size_gb=200,
        retries=2,
        region=REGION,
        project_id=PROJECT_ID,
        deferrable=True,
    )
"""
#: As the example of the provider's version 9 has it, and two things that people do beside it.
ML_ENGINE_DAG = """
import os
from datetime import datetime, timedelta

from airflow import models
from airflow.providers.google.cloud.operators.mlengine import MLEngineStartTrainingJobOperator as Start
from airflow.utils.trigger_rule import TriggerRule

MODEL_NAME = f"model_{os.environ.get('SYSTEM_TESTS_ENV_ID')}"
TRAINER_URI = "gs://resources/trainer-0.1.tar.gz"
default_args = {
    "owner": "ml", "retry_delay": timedelta(minutes=5), "start_date": datetime(2021, 1, 1), "project_id": "p"
}

with models.DAG(
    dag_id="example_gcp_mlengine",
    schedule_interval="@daily",
    default_args=default_args,
    params={"model_name": MODEL_NAME, "epochs": 3},
    on_failure_callback=print,
) as dag:
    training = Start(
        task_id="training",
        region="us-central1",
        job_id="training-job-{{ ts_nodash }}-{{ params.model_name }}",
        runtime_version="1.15",
        python_version="3.7",
        job_dir="gs://resources/jobs",
        package_uris=[TRAINER_URI],
        training_python_module="trainer.task",
        training_args=["--day", "{{ ds }}"],
        labels={"job_type": "training"},
        trigger_rule=TriggerRule.ALL_DONE,
    )
    for size in ["small", "large"]:
        Start(
            task_id=f"of_{size}",
            region="us-central1",
            package_uris=TRAINER_URI,
            training_python_module="trainer.task",
            training_args=[f"--size={size}"],
            **MORE,
        )
"""
SCRIPT_DAG = """
import airflow.providers.google.cloud.operators.vertex_ai.custom_job as custom
from airflow.decorators import dag

COMMON = dict(region="europe-west4", project_id="p", display_name="d")
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-2:latest"


@dag(schedule=None)
def nightly():
    custom.CreateCustomTrainingJobOperator(
        task_id="script",
        script_path="trainer/task.py",
        container_uri=IMAGE,
        requirements=["pandas"],
        staging_bucket="gs://bucket",
        **COMMON,
    )
    many = custom.CreateCustomPythonPackageTrainingJobOperator.partial(
        task_id="package",
        python_package_gcs_uri="gs://bucket/trainer.tar.gz",
        python_module_name="trainer.task",
        container_uri=IMAGE,
        base_output_dir="gs://bucket/out",
        **COMMON,
    ).expand(args=[["1"], ["2"]])


nightly()
"""
#: A job in Vertex AI's own form, one that only a run could tell, and a script that only a run could name.
CUSTOM_JOB_DAG = """
import os
from airflow.sdk import DAG, chain
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomJobOperator,
    CreateCustomTrainingJobOperator,
)
from mine import job_of

BUCKET = "models-" + os.environ["STAGE"]
FOLDER = f"gs://{BUCKET}/jobs"
SCRIPT = f"{os.environ['REPOSITORY']}/trainer/task.py"
IMAGE = "europe-docker.pkg.dev/p/trainers/ranking:v2"

with DAG("ranking"):
    own_form = CreateCustomJobOperator(
        task_id="own_form",
        region="europe-west4",
        project_id="p",
        custom_job={
            "display_name": f"ranking-{os.environ['STAGE']}",
            "labels": {"team": "ranking"},
            "job_spec": {
                "worker_pool_specs": [
                    {
                        "machine_spec": {"machine_type": "n1-highmem-8"},
                        "replica_count": 1,
                        "container_spec": {"image_uri": IMAGE, "command": ["python", "rank.py"], "args": ["--k", 5]},
                    },
                ],
                "scheduling": {"timeout": "7200s", "restart_job_on_worker_restart": True},
                "base_output_directory": {"output_uri_prefix": FOLDER},
            },
        },
        timeout=60.0,
        deferrable=True,
    )
    computed = CreateCustomJobOperator(
        task_id="computed", region="europe-west4", project_id="p", custom_job=job_of("ranking")
    )
    script = CreateCustomTrainingJobOperator(
        task_id="script",
        region="europe-west4",
        project_id="p",
        script_path=SCRIPT,
        container_uri="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-2:latest",
        staging_bucket=f"gs://{BUCKET}",
    )
    own_form >> [computed, script]
    chain(computed, script)
"""
#: Jobs of which all is known, and whose roles have arguments beside a command, or of their own.
KNOWN_JOBS_DAG = """
from airflow.sdk import DAG
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomContainerTrainingJobOperator,
    CreateCustomJobOperator,
)

IMAGE = "europe-docker.pkg.dev/p/trainers/ranking:v2"
MACHINE = {"machine_type": "n1-highmem-8"}

with DAG("known"):
    CreateCustomContainerTrainingJobOperator(
        task_id="alike",
        region="europe-west4",
        project_id="p",
        display_name="alike",
        container_uri=IMAGE,
        command=["python", "rank.py"],
        args=["--k", 5],
        replica_count=3,
        machine_type="n1-highmem-8",
        base_output_dir="gs://models/{{ ds }}",
    )
    CreateCustomJobOperator(
        task_id="pools",
        region="europe-west4",
        project_id="p",
        custom_job={
            "display_name": "pools",
            "job_spec": {
                "worker_pool_specs": [
                    {
                        "machine_spec": MACHINE,
                        "replica_count": 1,
                        "container_spec": {"image_uri": IMAGE, "command": ["python", "rank.py"], "args": ["--k", 5]},
                    },
                    {
                        "machine_spec": MACHINE,
                        "replica_count": 1,
                        "container_spec": {"image_uri": IMAGE, "args": ["--worker"]},
                    },
                ],
            },
        },
    )
"""
NEVER_RUN = """
raise SystemExit("this file was run")
from airflow import DAG
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import CreateCustomContainerTrainingJobOperator
dag = DAG("old_style")
CreateCustomContainerTrainingJobOperator(
    dag=dag, task_id="t", container_uri=open("/dev/null").read(), display_name="d", region="r", project_id="p"
)
"""


def migrated(source: str, **options: Any) -> str:
    dags, text = dags_of_file(source, "old.py")
    return dags_source(dags, DagOptions(source="old.py", **options), text)


def at(source: str, words: str) -> int:
    """Return the number of the first line that has ``words``."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if words in line)


def test_a_container_job_keeps_its_image_command_machines_and_folder(
    tmp_path: Path, airflow_db: Path
) -> None:
    dag = read_dag(migrated(CONTAINER_DAG), tmp_path)

    assert (dag.dag_id, dag.schedule) == ("vertex_ai_custom_job_container", "@once")
    assert dag.start_date is not None
    assert {"example", "migrated"} <= set(dag.tags)
    assert dag.params["bucket"] == "bucket-vertex-ai-custom-job-default"
    submit = dag.task_dict["custom_container_task.submit"]
    assert submit.image == "us-central1-docker.pkg.dev/some-project/repo/housing"
    assert submit.master_config == {"containerCommand": ["python3", "task.py"]}
    assert (submit.scale_tier, submit.master_type, submit.worker_count) == ("CUSTOM", "n1-standard-8", None)
    assert (submit.region, submit.job_dir) == ("europe-west4", "gs://{{ params.bucket }}/{job_id}")
    assert {
        "custom_container_task.wait_until_finished",
        "custom_container_task.collect",
    } <= dag.task_dict.keys()


def test_replicas_are_a_master_and_workers_alike(tmp_path: Path, airflow_db: Path) -> None:
    submit = read_dag(migrated(CONTAINER_DAG), tmp_path).task_dict["three.submit"]

    hardware = {
        "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 2},
        "diskConfig": {"bootDiskSizeGb": 200},
    }
    assert (submit.master_type, submit.master_config) == ("n1-standard-8", hardware)
    assert (submit.worker_type, submit.worker_count, submit.worker_config) == ("n1-standard-8", "2", hardware)
    assert submit.use_chief_in_tf_config is True
    assert submit.args == ["--epochs", "3", "--day={{ ds }}"]
    assert submit.retries == 2


@pytest.mark.parametrize(
    ("call", "decision"),
    [
        (
            "train = ",
            "dataset_id=create_dataset.output['dataset_id'], training_fraction_split=0.7: there are no managed",
        ),
        ("train = ", "model_serving_container_image_uri='us-docker"),
        ("train = ", "Vertex AI told the trainer its folder by AIP_MODEL_DIR"),
        (
            "train_on_three = ",
            "environment_variables={'LOGLEVEL': 'DEBUG'}: a job has no variables of its own",
        ),
        ("train_on_three = ", "CLUSTER_SPEC has the roles master and worker here"),
    ],
)
def test_what_a_person_must_decide_is_said_with_the_old_line(call: str, decision: str) -> None:
    said = [text for _, text in decisions_in(migrated(CONTAINER_DAG))]

    assert any(text.startswith(f"line {at(CONTAINER_DAG, call)}: {decision}") for text in said), said
    assert (
        f"not copied, as they train nothing: CreateDatasetOperator (line {at(CONTAINER_DAG, 'create_dataset =')})"
        in said
    )


def test_an_ml_engine_job_keeps_every_field_and_the_tasks_rules(tmp_path: Path, airflow_db: Path) -> None:
    source = migrated(ML_ENGINE_DAG)
    dag = read_dag(source, tmp_path)

    submit = dag.task_dict["training.submit"]
    assert submit.package_uris == ["gs://resources/trainer-0.1.tar.gz"]
    assert (submit.python_module, submit.runtime_version, submit.python_version) == (
        "trainer.task",
        "1.15",
        "3.7",
    )
    assert submit.args == ["--day", "{{ ds }}"]
    assert (submit.labels, submit.job_dir) == ({"job_type": "training"}, "gs://resources/jobs")
    assert (submit.trigger_rule, submit.owner) == ("all_done", "ml")
    assert dag.params["epochs"] == 3
    # Two params have no default any more, and Airflow schedules no such DAG.
    assert dag.schedule is None
    assert 'was "@daily"; Airflow wants a default for each param before it schedules' in source
    said = [text for _, text in decisions_in(source)]
    assert f"line {at(ML_ENGINE_DAG, 'on_failure_callback')}: on_failure_callback=print: not copied" in said
    loop = at(ML_ENGINE_DAG, "    for size") + 1
    assert any(text.startswith(f"line {loop}: was called in a loop") for text in said)
    assert f"line {loop}: **MORE cannot be read without running the file" in said


def test_a_script_becomes_a_package_and_a_mapped_call_is_said(tmp_path: Path, airflow_db: Path) -> None:
    source = migrated(SCRIPT_DAG)
    dag = read_dag(source, tmp_path)

    package, submit = dag.task_dict["script.package"], dag.task_dict["script.submit"]
    assert dag.dag_id == "nightly"
    assert (package.package_path, package.python_module, package.staging) == (
        "trainer",
        "trainer.task",
        "gs://bucket",
    )
    assert (submit.runtime_version, submit.region) == ("2.2", "europe-west4")
    assert dag.task_dict["package.submit"].package_uris == ["gs://bucket/trainer.tar.gz"]
    said = " ".join(text for _, text in decisions_in(source))
    assert "requirements=['pandas']: write them into install_requires" in said
    assert f"line {at(SCRIPT_DAG, '.partial(')}: expand(args=[['1'], ['2']])" in said


def test_a_job_in_vertex_ais_own_form_keeps_what_it_asks_for(tmp_path: Path, airflow_db: Path) -> None:
    source = migrated(CUSTOM_JOB_DAG)
    submit = read_dag(source, tmp_path).task_dict["own_form.submit"]

    assert submit.image == "europe-docker.pkg.dev/p/trainers/ranking:v2"
    assert submit.master_config == {"containerCommand": ["python", "rank.py"], "containerArgs": ["--k", "5"]}
    assert (submit.args, submit.labels) == (None, {"team": "ranking"})
    assert (submit.region, submit.scale_tier, submit.master_type) == (
        "europe-west4",
        "CUSTOM",
        "n1-highmem-8",
    )
    assert (submit.max_running_time, submit.max_wait_time) == ("7200s", None)
    assert submit.job_dir == "gs://{{ params.bucket }}/jobs"
    said = [text for _, text in decisions_in(source)]
    line = at(CUSTOM_JOB_DAG, "own_form = ")
    assert (
        f"line {line}: custom_job has job_spec.scheduling.restart_job_on_worker_restart=True: it has no counterpart "
        "and is left out"
    ) in said
    assert not [text for text in said if "timeout" in text or "deferrable" in text]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("alike.submit", {"master": ("python rank.py", "--k 5"), "worker": ("python rank.py", "--k 5")}),
        ("pools.submit", {"master": ("python rank.py", "--k 5"), "worker": ("", "--worker")}),
    ],
)
def test_the_service_takes_the_job_and_runs_what_each_pool_asked_for(
    task: str, expected: dict[str, tuple[str, str]], tmp_path: Path, airflow_db: Path
) -> None:
    source = migrated(KNOWN_JOBS_DAG)
    dag = read_dag(source, tmp_path)
    submit = dag.task_dict[task]
    context = {"params": {}, "dag": dag, "ds": "2026-01-01"}
    submit.render_template_fields(context)

    job = for_attempt(submit._request(context), "migrated", {})

    programs = {
        each.replica.role.value: (" ".join(each.command), " ".join(each.args).partition(" --job-dir")[0])
        for each in job_spec_from_wire("demo-project", job).replicas
    }
    assert programs == expected
    assert [text for _, text in decisions_in(source) if "service refuses" in text] == []


def test_a_job_that_only_a_run_could_tell_is_asked_for(tmp_path: Path, airflow_db: Path) -> None:
    source = migrated(CUSTOM_JOB_DAG)

    assert "computed.submit" in read_dag(source, tmp_path).task_dict
    line = at(CUSTOM_JOB_DAG, "computed = ")
    assert any(
        text.startswith(f"line {line}: custom_job=job_of('ranking') cannot be read without running the file")
        for _, text in decisions_in(source)
    )


def test_a_script_that_only_a_run_could_name_is_asked_for(tmp_path: Path, airflow_db: Path) -> None:
    dag = read_dag(migrated(CUSTOM_JOB_DAG), tmp_path)

    package, submit = dag.task_dict["script.package"], dag.task_dict["script.submit"]
    assert package.package_path == "{{ params.package_path }}"
    assert package.python_module == submit.python_module == "{{ params.python_module }}"
    assert "the folder of SCRIPT in line" in dag.params.get_param("package_path").description
    assert dag.schedule is None


def test_what_several_old_lines_have_in_common_is_said_once_and_their_order_too() -> None:
    said = [text for _, text in decisions_in(migrated(CUSTOM_JOB_DAG))]

    calls = [at(CUSTOM_JOB_DAG, f"{name} = Create") for name in ("own_form", "computed", "script")]
    same = f"lines {', '.join(map(str, calls))}: project_id='p': the connection training_default decides"
    assert len([text for text in said if text.startswith(same)]) == 1
    orders = f"lines {at(CUSTOM_JOB_DAG, 'own_form >>')}, {at(CUSTOM_JOB_DAG, 'chain(')}"
    assert f"not copied: the order of tasks, which {orders} of the old file set" in said


def test_the_file_is_read_and_never_run(tmp_path: Path, airflow_db: Path) -> None:
    dag = read_dag(migrated(NEVER_RUN), tmp_path)

    assert dag.dag_id == "old_style"
    assert dag.task_dict["submit"].image == "{{ params.value_1 }}"
    assert "was open('/dev/null').read() in line" in dag.params.get_param("value_1").description


@pytest.mark.parametrize(
    "source", [CONTAINER_DAG, ML_ENGINE_DAG, SCRIPT_DAG, CUSTOM_JOB_DAG, KNOWN_JOBS_DAG, NEVER_RUN]
)
def test_every_written_dag_is_formatted_and_clean(source: str, tmp_path: Path) -> None:
    file = tmp_path / "migrated.py"
    file.write_text(migrated(source))

    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    for command in (["check"], ["format", "--check", "--diff"], ["format", "--check", "--line-length", "88"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *config, str(file)],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout + done.stderr + file.read_text()


#: Arguments without a counterpart, by the provider's version that is installed: a new one shows here.
WITHOUT_COUNTERPART = {"model_encryption_spec_key_name", "psc_interface_config"}


@pytest.mark.extended
@pytest.mark.parametrize("operator", [CONTAINER, PACKAGE, SCRIPT])
def test_every_argument_of_the_providers_operators_is_known(operator: str) -> None:
    from airflow.providers.google.cloud.operators.vertex_ai import custom_job

    found = getattr(custom_job, operator)
    names = {
        parameter.name
        for base in found.__mro__[: found.__mro__.index(custom_job.CustomTrainingJobBaseOperator) + 1]
        for parameter in inspect.signature(inspect.unwrap(base.__init__)).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert {"container_uri", "machine_type", "poll_interval"} <= names
    given = ", ".join(f"{name}='gs://bucket/folder/x'" for name in sorted(names))

    said = " ".join(text for _, text in decisions_in(migrated(f"{operator}(task_id='t', {given})")))

    left_out = {name for name in names if f"{name}='gs://bucket/folder/x': has no counterpart" in said}
    assert left_out <= WITHOUT_COUNTERPART


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("def", {}, r"old\.py:1: is not Python"),
        (
            "BashOperator(task_id='x')",
            {},
            r"old\.py calls no training operator of Google's provider; migrate reads",
        ),
        (CONTAINER_DAG, {"context_dir": "trainer"}, r"--context is for one job, and old\.py has 2"),
        (
            CONTAINER_DAG + "\nwith DAG('b'):\n    CreateCustomContainerTrainingJobOperator(task_id='t')\n",
            {"dag_id": "mine"},
            r"--dag-id is for one DAG, and old\.py has 2",
        ),
    ],
)
def test_what_cannot_be_migrated_is_said(source: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidCommand, match=message):
        migrated(source, **options)
