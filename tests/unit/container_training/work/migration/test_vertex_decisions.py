"""What is to be decided before a migrated job runs on Vertex AI."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from container_training.work.migration.airflow_dag import dags_of_file
from container_training.work.migration.dag_text import DagOptions, dags_source, decisions_in
from container_training.work.migration.gcloud_command import find_gcloud_command
from container_training.work.migration.legacy_job import job_from_command, job_from_file
from container_training.work.migration.shell_text import read_shell_text
from container_training.work.migration.vertex_decisions import for_vertex
from container_training.work.submission.job_attempt import for_attempt
from tests.support.written_dags import read_dag
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.writer import vertex_request

PACKAGES = {"packageUris": ["gs://bkt/a.tar.gz"], "pythonModule": "trainer.task"}


def of_file(**training: Any) -> list[str]:
    job = job_from_file({"trainingInput": {"jobDir": "gs://bkt/{job_id}", **training}}, "train")
    return [each.text for each in for_vertex(job).decisions]


def of_command(flags: str) -> list[str]:
    shell = read_shell_text(f"gcloud ai-platform jobs submit training a --region us-central1 {flags}")
    return [each.text for each in for_vertex(job_from_command(find_gcloud_command(shell), shell)).decisions]


def test_a_job_that_fits_needs_a_connection_only() -> None:
    (connection,) = of_file(scaleTier="BASIC")

    assert "vertex_training" in connection


def test_what_vertex_ai_does_not_have_is_told_with_the_nearest_choice() -> None:
    _, *told = of_file(
        scaleTier="STANDARD_1",
        scheduling={"priority": 5, "maxWaitTime": "1800s"},
        runtimeVersion="2.11",
        pythonVersion="3.7",
        **PACKAGES,
    )

    fields = ["scaleTier", "runtimeVersion", "scheduling.priority", "scheduling.maxWaitTime"]
    assert [each.partition(": ")[0] for each in told] == [
        f"Vertex AI refuses trainingInput.{field}" for field in fields
    ]
    assert "masterType n1-standard-8" in told[0]
    assert "executor_image_uri" in told[1]


def test_what_every_service_refuses_is_told_once() -> None:
    told = of_file(workerCount=2)

    assert len([each for each in told if "workerCount" in each]) == 1


def test_values_that_only_a_run_knows_are_not_judged() -> None:
    told = of_command("--scale-tier custom --master-machine-type $TYPE --master-image-uri $IMAGE")
    assert not [each for each in told if "Vertex AI refuses" in each]

    told = of_command(
        "--scale-tier custom --master-machine-type standard_gpu --worker-machine-type $TYPE --worker-count 2"
    )
    (refused,) = (each for each in told if "Vertex AI refuses" in each)
    assert "'standard_gpu'; the nearest is n1-standard-8" in refused


def test_numbers_that_only_a_run_knows_put_the_rules_off() -> None:
    told = of_command("--scale-tier custom --master-machine-type standard_gpu --worker-count $N")

    assert any("when the job is submitted" in each for each in told)


PROVIDER_DAG = """
from airflow import DAG
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomContainerTrainingJobOperator,
    CreateCustomJobOperator,
    CreateCustomPythonPackageTrainingJobOperator,
)

with DAG("d") as dag:
    CreateCustomContainerTrainingJobOperator(
        task_id="image", display_name="image", region="europe-west4", project_id="p",
        container_uri="europe-docker.pkg.dev/p/t/wide:1", base_output_dir="gs://bkt/{{ ds }}",
        environment_variables={"LOG_LEVEL": "debug", "DAY": "{{ ds }}"},
    )
    CreateCustomPythonPackageTrainingJobOperator(
        task_id="package", display_name="package", region="europe-west4", project_id="p",
        container_uri="europe-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11:latest",
        python_package_gcs_uri="gs://bkt/p.tar.gz", python_module_name="trainer.task",
    )
    CreateCustomJobOperator(
        task_id="own", region="europe-west4", project_id="p",
        custom_job={
            "display_name": "own",
            "job_spec": {
                "worker_pool_specs": [{
                    "machine_spec": {"machine_type": "n1-standard-8"}, "replica_count": 1,
                    "container_spec": {
                        "image_uri": "europe-docker.pkg.dev/p/t/wide:1", "env": [{"name": "A", "value": "1"}]
                    },
                }],
                "scheduling": {"strategy": "FLEX_START", "max_wait_duration": "3600s", "timeout": {"seconds": 7200}},
            },
        },
    )
"""


def of_provider(tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """Return what is written for Vertex AI, and the tasks that submit."""
    dags, text = dags_of_file(PROVIDER_DAG, "old.py")
    aimed = [replace(dag, jobs=[for_vertex(job) for job in dag.jobs]) for dag in dags]
    source = dags_source(aimed, DagOptions(source="old.py"), text)
    tasks = read_dag(source, tmp_path).task_dict
    return source, {name.partition(".")[0]: task for name, task in tasks.items() if name.endswith(".submit")}


def test_a_dag_of_googles_operators_keeps_what_only_vertex_ai_has(tmp_path: Path, airflow_db: Path) -> None:
    source, submits = of_provider(tmp_path)

    assert submits["image"].vertex_options == {"env": {"LOG_LEVEL": "debug", "DAY": "{{ ds }}"}}
    assert submits["package"].vertex_options == {
        "executor_image_uri": "europe-docker.pkg.dev/vertex-ai/training/tf-cpu.2-11:latest"
    }
    assert submits["own"].vertex_options == {"strategy": "FLEX_START", "env_of_roles": {"master": {"A": "1"}}}
    said = " ".join(text for _, text in decisions_in(source))
    assert "Vertex AI refuses" not in said
    for word in ("no variables of its own", "runtime version", "no counterpart"):
        assert word not in said


def test_vertex_ai_takes_the_jobs_of_the_written_tasks(tmp_path: Path, airflow_db: Path) -> None:
    _, submits = of_provider(tmp_path)
    context = {"params": {}, "ds": "2026-01-01"}
    written = {}
    for name, submit in submits.items():
        submit.render_template_fields(context)
        job = for_attempt(submit._request(context), "migrated", {})
        written[name] = vertex_request(job, VertexOptions.of(submit.vertex_options)).body["jobSpec"]

    (pool,) = written["image"]["workerPoolSpecs"]
    assert {"name": "DAY", "value": "2026-01-01"} in pool["containerSpec"]["env"]
    (pool,) = written["package"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"]["executorImageUri"].endswith("tf-cpu.2-11:latest")
    assert written["own"]["scheduling"] == {
        "timeout": "7200s",
        "strategy": "FLEX_START",
        "maxWaitDuration": "3600s",
    }
