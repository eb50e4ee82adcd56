"""DAGs whose jobs run on a swarm, with an object store that every machine reaches."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from container_training.operators.training import SubmitTrainingJobOperator
from local_stack.parts.airflow import airflow_connections
from local_stack.stack import LocalStack
from tests.docker.reusable_trainer import TRAINER
from tests.support import web
from tests.support.bed.object_store import connect, start_object_store
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_service import Service, service_with_agents
from tests.support.ports import reserve_port
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "dags" / "train_from_image.py"
BUCKET = "swarm"
#: Reports what it was given, as cloudml-hypertune does.
TUNED = """
import json, os, sys
rate = next(word.partition("=")[2] for word in sys.argv if word.startswith("--rate="))
report = {"global_step": "1", "timestamp": 1.0, "trial": os.environ["CLOUD_ML_TRIAL_ID"], "accuracy": rate}
open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w").write(json.dumps(report) + "\\n")
"""
#: The master writes who has called it by name; the others call.
MEETS = """
import json, os, socket, sys, time, urllib.parse, urllib.request
spec = json.loads(os.environ["CLUSTER_SPEC"])
task = spec["task"]
if task["type"] == "master":
    met, server = [], socket.create_server(("", 2222))
    while len(met) < len(spec["cluster"]["worker"]):
        with server.accept()[0] as peer:
            met.append(peer.makefile().read())
    bucket, _, folder = sys.argv[sys.argv.index("--job-dir") + 1].removeprefix("gs://").partition("/")
    name = urllib.parse.quote(f"{folder.rstrip('/')}/metrics.json", safe="")
    url = f"{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps({"met": sorted(met)}).encode())).close()
else:
    host, _, port = spec["cluster"]["master"][0].rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=2) as peer:
                peer.sendall(socket.gethostname().encode())
            break
        except OSError:
            time.sleep(0.2)
    time.sleep(3600)
"""


@pytest.fixture(scope="module")
def store_url(swarm: Swarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An object store with a bucket, at an address that every machine reaches."""
    port, host = reserve_port(), swarm.switch.host_address
    process = start_object_store(port, tmp_path_factory.mktemp("swarm-store"), host=host)
    try:
        url = f"http://{host}:{port}"
        web.post(f"{url}/storage/v1/b", json={"name": BUCKET}).raise_for_status()
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def service(
    swarm: Swarm, agent_image: ImageRef, store_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    variables = {
        "TRAINING_STORAGE_ENDPOINT": store_url,
        "TRAINING_CONTAINER_ENV": json.dumps({"STORAGE_EMULATOR_HOST": store_url}),
    }
    with service_with_agents(swarm, agent_image, tmp_path_factory.mktemp("swarm-dags"), variables) as service:
        yield service


@pytest.fixture(autouse=True)
def connections(
    service: Service,
    swarm: Swarm,
    stack: LocalStack,
    store_url: str,
    base_image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Point Airflow at the swarm's service, and at the object store."""
    settings = stack.settings.model_copy(update={"training_port": service.port})
    found = airflow_connections(
        settings, base_image=base_image, token="", finder_password="", training_host=swarm.switch.host_address
    )
    found["training_default"]["extra"] |= {"job_bucket": f"gs://{BUCKET}/jobs", "container_env": {}}
    for name, connection in found.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store_url)


def returned(run: Any) -> dict[str, Any]:
    """Return what each task of a run has returned, by its id; all have succeeded."""
    ran = run.get_task_instances()
    assert {task.task_id: task.state for task in ran} == {task.task_id: "success" for task in ran}
    return {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in ran}


@pytest.mark.proves("example DAGs", on="swarm with agents")
def test_an_example_dag_goes_from_an_image_to_collected_results(
    register_dag: Callable[[DAG], DAG], store_url: str, agent_image: ImageRef
) -> None:
    bag = DagBag(str(EXAMPLE), collect_dags=False)
    bag.collect_dags(str(EXAMPLE))
    dag: Any = register_dag(bag.dags["train_from_image"])  # type: ignore[arg-type]
    data = f"gs://{BUCKET}/data/{uuid.uuid4().hex}.txt"
    with closing(connect(store_url)) as store:
        store.write_if_changed(data, b"one two", "text/plain")

    args = shlex.join(["python3", "-c", TRAINER, "--data", data])
    results = returned(dag.test(run_conf={"image": str(agent_image), "args": args}))

    assert (results["collect"]["state"], results["collect"]["metrics"]) == ("SUCCEEDED", {"rows": 2})


@pytest.mark.proves("DAGs that tune", on="swarm with agents")
@pytest.mark.proves("DAGs whose jobs have several replicas", on="swarm with agents")
def test_a_dag_tunes_and_then_trains_with_several_replicas(
    register_dag: Callable[[DAG], DAG], service: Service, agent_image: ImageRef
) -> None:
    name = f"swarm_{uuid.uuid4().hex[:8]}"
    with DAG(name, schedule=None) as dag:
        tune = SubmitTrainingJobOperator(
            task_id="tune",
            image=str(agent_image),
            command=["python3", "-c", TUNED],
            hyperparameters={
                "goal": "MAXIMIZE",
                "hyperparameterMetricTag": "accuracy",
                "algorithm": "GRID_SEARCH",
                "maxTrials": 3,
                "maxParallelTrials": 3,
                "params": [{"parameterName": "rate", "type": "DISCRETE", "discreteValues": [1, 2, 3]}],
            },
            job_dir=f"gs://{BUCKET}/jobs/{{job_id}}",
            wait_for_completion=True,
        )
        train = SubmitTrainingJobOperator(
            task_id="train",
            image=str(agent_image),
            command=["python3", "-c", MEETS],
            scale_tier="CUSTOM",
            master_type="n1-standard-4",
            worker_type="n1-standard-4",
            worker_count=3,
            worker_config={"container_command": ["python3", "-c", MEETS]},
            job_dir=f"gs://{BUCKET}/jobs/{{job_id}}",
            wait_for_completion=True,
        )
        tune >> train

    results = returned(register_dag(dag).test())

    with TrainingClient(service.url, "demo-project") as training:
        output = training.get_job(results["tune"]["job_id"]).training_output
    assert output is not None
    values = [trial.final_metric and trial.final_metric.objective_value for trial in output.trials or []]
    assert sorted(value or 0 for value in values) == [1, 2, 3]
    assert len(results["train"]["metrics"]["met"]) == 3
