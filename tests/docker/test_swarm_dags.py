"""DAGs whose jobs run on a swarm, with an object store that every machine reaches."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from container_training.dashboard.airflow_side.rights import Rights
from container_training.operators.package import PackageTrainerOperator
from container_training.operators.preflight import PreflightOperator
from container_training.operators.training import SubmitTrainingJobOperator
from local_stack.parts.airflow import airflow_connections
from local_stack.parts.runtime_image import runtime_image
from local_stack.processes.progress import Progress
from local_stack.stack import LocalStack
from tests.docker.reusable_trainer import TRAINER
from tests.support import web
from tests.support.bed.object_store import connect, start_object_store
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_service import Service, service_with_agents
from tests.support.dashboard import dashboard_app
from tests.support.ports import reserve_port
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

DAGS = Path(__file__).parents[2] / "dags"
BUCKET, CONNECTION = "swarm", "training_default"
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
    swarm: Swarm,
    agent_image: ImageRef,
    push_to_swarm: Callable[[str], ImageRef],
    base_image: str,
    store_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    image = runtime_image(base_image)
    with closing(docker.from_env()) as client:
        image.ensure(client, Progress(quiet=True))
    variables = {
        "TRAINING_RUNTIME_IMAGES": json.dumps({"2.11": push_to_swarm(image.name).pullable}),
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
    found[CONNECTION]["extra"] |= {
        "job_bucket": f"gs://{BUCKET}/jobs",
        "container_env": {"STORAGE_EMULATOR_HOST": store_url},
    }
    for name, connection in found.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store_url)


def example(dag_id: str) -> Any:
    """Return an example DAG, as it is shipped."""
    bag = DagBag(str(DAGS / f"{dag_id}.py"), collect_dags=False)
    bag.collect_dags(str(DAGS / f"{dag_id}.py"))
    return bag.dags[dag_id]


@pytest.fixture
def page(connections: None) -> Iterator[Callable[..., Any]]:
    """Return a function that asks the dashboard's API, for a user who may read all DAGs."""
    rights = Rights(known=frozenset(), readable=frozenset(), reads_all=True, may_edit=lambda _: True)
    with TestClient(dashboard_app(rights), base_url="http://127.0.0.1:8080") as client:

        def page(path: str) -> Any:
            answer = client.get(f"/api/{path}", params={"conn_id": CONNECTION})
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield page


def returned(run: Any) -> dict[str, Any]:
    """Return what each task of a run has returned, by its id; all have succeeded."""
    ran = run.get_task_instances()
    assert {task.task_id: task.state for task in ran} == {task.task_id: "success" for task in ran}
    return {task.task_id: task.xcom_pull(task_ids=task.task_id) for task in ran}


@pytest.mark.extended
@pytest.mark.proves("example DAGs", on="swarm with agents")
def test_an_example_dag_goes_from_an_image_to_collected_results(
    register_dag: Callable[[DAG], DAG], store_url: str, agent_image: ImageRef
) -> None:
    dag = register_dag(example("train_from_image"))
    data = f"gs://{BUCKET}/data/{uuid.uuid4().hex}.txt"
    with closing(connect(store_url)) as store:
        store.write_if_changed(data, b"one two", "text/plain")

    args = shlex.join(["python3", "-c", TRAINER, "--data", data])
    results = returned(dag.test(run_conf={"image": str(agent_image), "args": args}))

    assert (results["collect"]["state"], results["collect"]["metrics"]) == ("SUCCEEDED", {"rows": 2})


@pytest.mark.extended
@pytest.mark.proves("jobs of packages", on="swarm with agents")
def test_a_dag_runs_a_package_in_each_replica_on_the_runtime_image(
    register_dag: Callable[[DAG], DAG], tmp_path: Path
) -> None:
    # The package requires no other: these machines reach no package index.
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    (trainer / "__init__.py").touch()
    (trainer / "task.py").write_text(MEETS)
    with DAG(f"swarm_{uuid.uuid4().hex[:8]}", schedule=None) as dag:
        package = PackageTrainerOperator(
            task_id="package",
            package_path=str(trainer),
            staging=f"gs://{BUCKET}/packages",
            python_module="trainer.task",
        )
        train = SubmitTrainingJobOperator(
            task_id="train",
            package_uris=package.output,
            python_module="trainer.task",
            runtime_version="2.11",
            python_version="3.7",
            scale_tier="CUSTOM",
            master_type="n1-standard-4",
            worker_type="n1-standard-4",
            worker_count=1,
            job_dir=f"gs://{BUCKET}/jobs/{{job_id}}",
            wait_for_completion=True,
        )
        package >> train

    results = returned(register_dag(dag).test())

    assert len(results["train"]["metrics"]["met"]) == 1


@pytest.mark.proves("DAGs that tune", on="swarm with agents")
@pytest.mark.proves("DAGs whose jobs have several replicas", on="swarm with agents")
@pytest.mark.proves("preflight", on="swarm with agents")
@pytest.mark.proves("dashboard", on="swarm with agents")
def test_a_dag_checks_tunes_and_trains_with_several_replicas_and_is_on_the_dashboard(
    register_dag: Callable[[DAG], DAG],
    service: Service,
    swarm: Swarm,
    agent_image: ImageRef,
    page: Callable[..., Any],
) -> None:
    name = f"swarm_{uuid.uuid4().hex[:8]}"
    cluster: Mapping[str, Any] = {
        "image": str(agent_image),
        "command": ["python3", "-c", MEETS],
        "scale_tier": "CUSTOM",
        "master_type": "n1-standard-4",
        "worker_type": "n1-standard-4",
        "worker_count": 3,
        "worker_config": {"container_command": ["python3", "-c", MEETS]},
        "job_dir": f"gs://{BUCKET}/jobs/{{job_id}}",
    }
    with DAG(name, schedule=None) as dag:
        # On the engine of an Airflow worker, which is a machine of the swarm.
        check = PreflightOperator(task_id="check", docker_url=swarm.manager.docker_host, **cluster)
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
        train = SubmitTrainingJobOperator(task_id="train", wait_for_completion=True, **cluster)
        check >> tune >> train

    results = returned(register_dag(dag).test())

    rows = {f"{row['check']}/{row['where']}": row["result"] for row in results["check"]["rows"]}
    assert results["check"]["ok"]
    assert rows["start/master-replica-0"] == rows["cluster variables/all replicas"] == "ok"
    tuned, trained = results["tune"]["job_id"], results["train"]["job_id"]
    with TrainingClient(service.url, "demo-project") as training:
        output = training.get_job(tuned).training_output
    assert output is not None
    values = [trial.final_metric and trial.final_metric.objective_value for trial in output.trials or []]
    assert sorted(value or 0 for value in values) == [1, 2, 3]
    assert len(results["train"]["metrics"]["met"]) == 3
    check_pages(page, tuned, trained)


def check_pages(page: Callable[..., Any], tuned: str, trained: str) -> None:
    """Look at the two jobs as the dashboard has them."""
    assert {tuned, trained} <= {job["id"] for job in page("jobs")["jobs"]}
    assert page("fleet")["now"]["capacity"]
    assert len(page(f"jobs/{tuned}")["study"]["trials"]) == 3
    assert [metric["tag"] for metric in page(f"jobs/{tuned}/curves")["metrics"]] == ["accuracy"]
    lanes = [lane["replica"] for lane in page(f"jobs/{trained}/timeline")["lanes"]]
    assert lanes == ["master-replica-0", *(f"worker-replica-{number}" for number in range(3))]
    files = page(f"jobs/{trained}/files")
    assert [file["name"] for file in files["files"]] == ["metrics.json"]
    assert len(files["metrics"]["met"]) == 3
    assert {line["replica"] for line in page(f"jobs/{trained}/log")["lines"]} >= {"service"}
