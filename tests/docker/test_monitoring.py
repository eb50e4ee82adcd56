"""Alerts and dashboard: promtool's tests, and every query on a real Prometheus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import httpx
import pytest

from local_stack.stack import LocalStack
from tests.docker.prometheus import OtelBridge, run_prometheus
from tests.support import web
from tests.support.bed.job_watch import until_state
from tests.support.bed.vertex import create, ended, make_real_pool, vertex_locations
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    TrainingInput,
)
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.needs_program("promtool"), pytest.mark.timeout(300)]

MONITORING = Path(__file__).resolve().parents[2] / "docker" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
QUERIES = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", [])
]
#: Reports as cloudml-hypertune does.
TRIAL = """
import json, os
report = {"global_step": "1", "timestamp": 1700000000, "trial": "1", "accuracy": "0.5"}
open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w").write(json.dumps(report) + "\\n")
"""
LABELS = {"model": "digits", "airflow-dag": "retrain_digits"}
VERTEX_LABELS = {"model": "vertex-digits", "airflow-dag": "retrain_by_vertex"}


@pytest.fixture(scope="module")
def prometheus(
    stack: LocalStack,
    engine_client: docker.APIClient,
    pushed_image: ImageRef,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[httpx.Client]:
    """
    Prometheus after it has scraped a service with jobs, and Airflow's metrics.

    The jobs succeeded, failed, were restarted and tuned; one was asked for by Vertex AI's API.
    """
    bridge = OtelBridge()
    service = stack.settings.training_url.removeprefix("http://")
    targets = {"training-service": service, "airflow": bridge.address}
    with (
        run_prometheus(tmp_path_factory.mktemp("prometheus"), targets) as prometheus,
        TrainingClient(stack.settings.training_url, stack.settings.project) as training,
        vertex_locations(stack.settings.training_url) as locations,
    ):
        body = {
            "displayName": "monitored",
            "labels": VERTEX_LABELS,
            "jobSpec": {"workerPoolSpecs": [make_real_pool(pushed_image, "import time; time.sleep(3)")]},
        }
        by_vertex = create(locations.customJobs(), stack.settings.project, body)
        _run_jobs(training, engine_client, str(pushed_image))
        assert ended(locations.customJobs(), by_vertex)["state"] == "JOB_STATE_SUCCEEDED"
        _report_as_airflow_does(bridge)
        # Two scrapes of each target that began when all was counted: an increase is between two.
        for _ in targets, targets:
            before = time.time()
            wait_until(
                lambda before=before: _oldest_scrape(prometheus) > before,  # type: ignore[misc]
                "Prometheus has scraped all targets again",
            )
        yield prometheus
    bridge.shutdown()
    bridge.server_close()


def _run_jobs(training: TrainingClient, engine: docker.APIClient, image: str) -> None:
    def submit(job_id: str, program: str, **fields: object) -> None:
        config = ReplicaConfig(image_uri=image, container_command=["python3", "-c", program])
        wanted = TrainingInput.model_validate({"master_config": config, **fields})
        training.create_job(Job(job_id=job_id, labels=LABELS, training_input=wanted))

    success, failure, restart, tuned = (
        f"monitored_{what}_{uuid.uuid4().hex[:8]}" for what in ("success", "failure", "restart", "study")
    )
    submit(success, "pass")
    submit(failure, "raise SystemExit(3)")
    submit(restart, f"import time; time.sleep({scaled(6)})")
    study = HyperparameterSpec(
        goal=Goal.MAXIMIZE,
        hyperparameter_metric_tag="accuracy",
        max_trials=1,
        params=[ParameterSpec(parameter_name="lr", type=ParameterType.DOUBLE, min_value=0, max_value=1)],
    )
    until_state(training, restart, JobState.RUNNING)
    (container,) = engine.containers(filters={"label": f"container-training.job={restart}"})
    engine.kill(container["Id"])
    submit(tuned, TRIAL, hyperparameters=study)
    until_state(training, failure, JobState.FAILED)
    for job_id in (success, restart, tuned):
        until_state(training, job_id, JobState.SUCCEEDED)


def _report_as_airflow_does(bridge: OtelBridge) -> None:
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{bridge.address}"}
    for process in ("task", "triggerer"):
        command = [sys.executable, "-m", "tests.docker.otel_reports", process]
        subprocess.run(command, env=environment, check=True, timeout=scaled(120))


def _oldest_scrape(prometheus: httpx.Client) -> float:
    """Return when the oldest of the targets' newest scrapes began; 0 if one has failed."""
    (found,) = _query(prometheus, "min(timestamp(up) * up)")
    return float(found["value"][1])  # type: ignore[arg-type]


def _query(prometheus: httpx.Client, expr: str) -> list[dict[str, list[object]]]:
    answer = prometheus.get("/api/v1/query", params={"query": expr})
    assert answer.status_code == 200, answer.text
    result: list[dict[str, list[object]]] = answer.json()["data"]["result"]
    return result


@pytest.mark.parametrize("expr", QUERIES)
def test_every_query_of_the_dashboard_finds_something(prometheus: httpx.Client, expr: str) -> None:
    wait_until(lambda: _query(prometheus, expr), f"{expr} finds something")


def test_the_figures_are_those_of_the_run(prometheus: httpx.Client) -> None:
    def value(expr: str) -> float:
        (found,) = wait_until(lambda: _query(prometheus, expr), f"{expr} finds something")
        return float(found["value"][1])  # type: ignore[arg-type]

    assert value('training_job_failures_total{kind="job",cause="PROGRAM_ERROR"}') >= 1
    assert value('training_replica_restarts_total{role="master"}') >= 1
    assert value('training_job_transitions_total{kind="trial",state="SUCCEEDED"}') >= 1
    assert value('training_machine_seconds_total{dag="retrain_digits",machine_type="n1-standard-4"}') >= 3
    assert value('training_machine_seconds_total{dag="retrain_by_vertex",machine_type="n1-standard-4"}') >= 2
    for model in ("digits", "vertex-digits"):
        assert value(f'time() - training_last_success_timestamp_seconds{{model="{model}"}}') < scaled(120)
    assert value('airflow_container_training_job_cost{currency="EUR"}') == 0.25


def test_a_histogram_names_a_job_as_its_exemplar(stack: LocalStack, prometheus: httpx.Client) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    text = web.get(f"{stack.settings.training_url}/metrics", headers=accept).text

    assert any(
        "training_job_state_seconds_bucket" in line and '# {job_id="' in line for line in text.splitlines()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing(promtool: Callable[..., str], arguments: tuple[str, ...]) -> None:
    assert "SUCCESS" in promtool(*arguments)


def test_every_alert_has_a_test() -> None:
    rules = (MONITORING / "alerts.yml").read_text()
    tests = (MONITORING / "alerts_test.yml").read_text()
    names = [line.split(":")[1].strip() for line in rules.splitlines() if "- alert:" in line]

    assert len(names) >= 9
    for name in names:
        assert f"alertname: {name}\n" in tests


@pytest.fixture
def promtool() -> Callable[..., str]:
    """Runs promtool in the folder of the rules, and returns what it prints."""

    def run(*arguments: str) -> str:
        command = ["promtool", *arguments]
        done = subprocess.run(command, cwd=MONITORING, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
