"""The preflight on a real engine and object store: what passes, and each way to fail."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import docker
import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.preflight import PreflightOperator
from local_stack.people.credentials import registry_login
from local_stack.stack import LocalStack
from tests.support.bed.image_tasks import signalled
from tests.support.bed.real_parts import PROJECT
from tests.support.full_memory import FULL_MEMORY
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef
from training_api.job.job_id import TaskKey

pytestmark = pytest.mark.docker

OWNER_LABEL = "container-training.owner"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
#: Ends when every replica of the cluster, evaluators aside, listens under its name.
MEET = """
import json, os, socket, threading, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
if spec["task"]["type"] != "evaluator":
    server = socket.create_server(("", 2222))
if spec["task"]["type"] != "master":
    time.sleep(600)
for address in sum(spec["cluster"].values(), []):
    host, port = address.split(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    print("met", address)
"""
WRITE = """
import json, os, sys, urllib.parse, urllib.request
bucket, _, folder = sys.argv[sys.argv.index("--job-dir") + 1].removeprefix("gs://").partition("/")
name = urllib.parse.quote(f"{folder}/metrics.json", safe="")
url = f"{os.environ['STORAGE_EMULATOR_HOST']}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
urllib.request.urlopen(urllib.request.Request(url, data=b"{}", method="POST"))
print("arguments", sys.argv[1:])
"""
IGNORE_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch, airflow_db: Path, stack: LocalStack) -> None:
    """The connections and the environment that the stack's own Airflow has."""
    settings = stack.settings
    extra = {"project": PROJECT, "container_env": settings.container_environment}
    google = {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "is_anonymous": True}}
    training = {"conn_type": "container_training", "host": "127.0.0.1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(training))
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(google))
    login = registry_login(settings)
    registry = {
        "conn_type": "docker",
        "host": settings.registry,
        "login": login["username"],
        "password": login["password"],
    }
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps(registry))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", settings.object_store_url)


@pytest.fixture
def key() -> TaskKey:
    """The test's task."""
    return TaskKey(dag_id="d", task_id="preflight", run_id=uuid.uuid4().hex)


@pytest.fixture(autouse=True)
def own(engine_client: docker.APIClient, key: TaskKey) -> Iterator[dict[str, str]]:
    """The engine's filter for what the test's task made; after the test nothing of it is left."""
    current_run().own_label(OWNER_LABEL, f"airflow-{key.digest}")
    filters = {"label": f"{OWNER_LABEL}=airflow-{key.digest}"}
    yield filters
    assert engine_client.containers(all=True, filters=filters) == []
    assert engine_client.networks(filters=filters) == []


@pytest.fixture
def task_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the task log."""
    lines: list[str] = []
    log = SimpleNamespace(info=lambda message, *arguments: lines.append(message % arguments))
    monkeypatch.setattr(PreflightOperator, "log", log)
    return lines


def runs(program: str) -> dict[str, Any]:
    """Return what a role runs, without an image: the master's."""
    return {"containerCommand": ["python3", "-u", "-c", program]}


class Preflight:
    """A preflight of a job of ``image``, and what came of it."""

    def __init__(self, image: ImageRef, key: TaskKey) -> None:
        self._image = image
        self.context: Any = {"ti": SimpleNamespace(**asdict(key), xcom_push=mock.Mock())}

    def operator(
        self, master: dict[str, Any], others: dict[str, Any] | None = None, **arguments: Any
    ) -> PreflightOperator:
        training = {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "masterConfig": master,
            **(others or {}),
        }
        arguments.setdefault("image", str(self._image))
        return PreflightOperator(task_id="preflight", job={"trainingInput": training}, **arguments)

    def passes(self, *job: Any, **arguments: Any) -> dict[str, tuple[str, str]]:
        """Return ``{"check where": (result, why)}`` of a preflight that passes."""
        report = self.operator(*job, **arguments).execute(self.context)
        assert report["ok"]
        return rows_of(report)

    def fails(self, *job: Any, **arguments: Any) -> dict[str, tuple[str, str]]:
        """Return the rows of a preflight that ends its task for good, as they are in the XCom."""
        with pytest.raises(
            AirflowFailException, match=r"PreflightFailed: \d+ of \d+ checks failed"
        ) as caught:
            self.operator(*job, **arguments).execute(self.context)
        pushed = self.context["ti"].xcom_push.call_args.kwargs
        assert pushed["key"] == "return_value"
        rows = rows_of(pushed["value"])
        failed = [name for name, (result, _) in rows.items() if result == "failed"]
        assert failed
        assert all(name.partition("/")[2] in str(caught.value) for name in failed)
        return rows


def rows_of(report: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {f"{row['check']}/{row['where']}": (row["result"], row["why"]) for row in report["rows"]}


@pytest.fixture
def preflight(pushed_image: ImageRef, key: TaskKey) -> Preflight:
    """Preflights of jobs whose image runs ``python3``."""
    return Preflight(pushed_image, key)


def workers(program: str, count: int = 1, **config: Any) -> dict[str, Any]:
    return {"workerType": "n1-standard-4", "workerCount": count, "workerConfig": runs(program) | config}


CLUSTER = {
    **workers(MEET, count=5),
    "parameterServerType": "n1-standard-4",
    "parameterServerCount": 1,
    "parameterServerConfig": runs(MEET),
    "evaluatorType": "n1-standard-4",
    "evaluatorCount": 1,
    "evaluatorConfig": runs(SLEEP),
}


@pytest.mark.proves("preflight", on="one machine")
def test_members_of_a_reduced_cluster_meet_by_name(preflight: Preflight, task_log: list[str]) -> None:
    rows = preflight.passes(runs(MEET), CLUSTER)

    log = "\n".join(task_log)
    for role, count in (("master", 1), ("worker", 2), ("ps", 1)):
        assert sum(f"met cmle-training-{role}-" in line for line in task_log) == count, log
    started = {name for name in rows if name.startswith("start/")}
    assert started == {
        f"start/{name}"
        for name in (
            "master-replica-0",
            "worker-replica-0",
            "worker-replica-1",
            "ps-replica-0",
            "evaluator-replica-0",
        )
    }
    assert rows["start/master-replica-0"][1].startswith("ended with 0 after")
    assert rows["cluster variables/all replicas"] == (
        "ok",
        "CLUSTER_SPEC and TF_CONFIG of 5 replicas can be read and agree",
    )
    others = started - {
        "start/master-replica-0"
    }  # the master is asked in a second run, which may be over too soon
    assert {rows[f"SIGTERM/{name.partition('/')[2]}"][0] for name in others} == {"ok"}
    assert "check" in log
    assert "\x1b[" not in log


@pytest.mark.extended
def test_what_the_trainer_writes_is_named_and_removed(
    preflight: Preflight, task_log: list[str], stack: LocalStack
) -> None:
    from container_training.hooks.storage import StorageHook

    rows = preflight.passes(
        {"containerCommand": ["python3", "-c", WRITE]},
        job_dir=f"{stack.settings.job_bucket}/{{job_id}}",
        args=["--epochs", "100"],
        preflight_args="--epochs 1",
    )

    assert rows["job directory/the trainer"] == ("ok", "it wrote metrics.json; deleted")
    result, why = rows["job directory/this worker"]
    assert result == "ok"
    folder = why.rpartition(" ")[2]
    assert folder.startswith(f"{stack.settings.job_bucket}/d_preflight_")
    assert "/preflight/" in folder
    assert any(line.endswith(folder) for line in task_log)
    assert f"arguments ['--epochs', '1', '--job-dir', '{folder}']" in "\n".join(task_log)
    with StorageHook() as storage:
        assert storage.get_conn().list_files(folder, 10) == ([], False)


def test_an_entry_point_that_is_missing_is_named(preflight: Preflight) -> None:
    rows = preflight.fails({"containerCommand": ["/no/such/program"]})

    result, why = rows["start/master-replica-0"]
    assert result == "failed"
    assert "exited with 127" in why
    assert "the program was not found" in why
    assert rows["SIGTERM/master-replica-0"][0] == "not checked"


@pytest.mark.extended
def test_a_traceback_about_the_cluster_variables_is_told_from_another(preflight: Preflight) -> None:
    reads = "import json, os; print(json.loads(os.environ['TF_CONFIG'])['cluster']['chief'])"

    other = preflight.fails(runs("raise RuntimeError('no such data')"))
    about = preflight.fails(runs(reads))

    result, why = other["start/master-replica-0"]
    assert result == "failed"
    assert "exited with 1 after" in why
    assert "RuntimeError: no such data" in why
    result, why = about["cluster variables/master-replica-0"]
    assert result == "failed"
    assert "set useChiefInTfConfig" in why
    assert preflight.passes(runs(reads), {"useChiefInTfConfig": True})


@pytest.mark.extended
def test_a_replica_that_ends_is_started_again_to_be_asked_to_end(preflight: Preflight) -> None:
    rows = preflight.passes(runs("import time; time.sleep(6)"))

    assert rows["start/master-replica-0"][1].startswith("ended with 0 after")
    assert rows["SIGTERM/master-replica-0"][0] == "ok"


@pytest.mark.extended
def test_a_replica_that_ignores_sigterm_fails(preflight: Preflight) -> None:
    rows = preflight.fails(runs(IGNORE_SIGTERM), seconds=8, grace_seconds=2)

    assert rows["start/master-replica-0"][0] == "ok"
    result, why = rows["SIGTERM/master-replica-0"]
    assert result == "failed"
    assert "SIGTERM did not end it within 2 s" in why


def test_running_out_of_memory_is_named_with_the_limit(preflight: Preflight) -> None:
    rows = preflight.fails(runs(FULL_MEMORY), memory_bytes=64 * 2**20)

    result, why = rows["start/master-replica-0"]
    assert result == "failed"
    assert "ran out of memory" in why
    assert "limit 64 MiB" in why


def test_a_missing_bucket_is_named(preflight: Preflight) -> None:
    rows = preflight.fails(runs("pass"), job_dir="gs://no-such-bucket/jobs")

    result, why = rows["job directory/this worker"]
    assert result == "failed"
    assert "bucket 'no-such-bucket' of gs://no-such-bucket/jobs/preflight/" in why
    assert rows["start/master-replica-0"][0] == "ok"


@pytest.mark.extended
def test_a_broken_worker_fails_although_the_master_is_fine(preflight: Preflight) -> None:
    broken = preflight.fails(
        runs("pass"), workers("import time; time.sleep(1); raise SystemExit(3)", count=2)
    )

    assert broken["start/master-replica-0"][0] == "ok"
    # Those that still run a moment after the first failure are not waited for.
    failures = [
        why for (what, why) in (broken[f"start/worker-replica-{n}"] for n in (0, 1)) if what == "failed"
    ]
    assert failures
    assert all("exited with 3 after" in why for why in failures)


def test_an_image_that_cannot_be_had_is_an_error_of_its_replicas(
    preflight: Preflight, pushed_image: ImageRef
) -> None:
    missing = f"{pushed_image.name}-missing:1"

    rows = preflight.fails(runs(SLEEP), workers("pass", imageUri=missing))

    assert rows["start/master-replica-0"][0] == "ok"
    result, why = rows["start/worker-replica-0"]
    assert result == "failed"
    assert f"image {missing} is not on the engine and cannot be pulled" in why


@pytest.mark.extended
def test_an_image_is_pulled_that_the_engine_lacks(
    preflight: Preflight,
    engine_client: docker.APIClient,
    stack: LocalStack,
    pushed_image: ImageRef,
    task_log: list[str],
) -> None:
    repository = f"{pushed_image.name}-elsewhere"
    engine_client.tag(str(pushed_image), repository, "1")
    login = registry_login(stack.settings)
    lines = engine_client.push(repository, tag="1", stream=True, decode=True, auth_config=login)
    assert not [line for line in lines if "error" in line]
    engine_client.remove_image(f"{repository}:1")

    try:
        preflight.passes(runs("pass"), image=f"{repository}:1")
    finally:
        engine_client.remove_image(f"{repository}:1")

    assert f"pulling {repository}:1" in task_log


def test_variables_that_the_connection_overrides_do_not_agree(
    preflight: Preflight, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {
        "project": PROJECT,
        "container_env": {"TF_CONFIG": '{"cluster": {}, "task": {}}', "CLUSTER_SPEC": "{"},
    }
    connection = {"conn_type": "container_training", "host": "127.0.0.1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))

    rows = preflight.fails(runs("pass"))

    assert rows["start/master-replica-0"][0] == "ok"
    assert rows["cluster variables/all replicas"][0] == "failed"


def test_killing_the_task_removes_everything_at_once(
    preflight: Preflight, engine_client: docker.APIClient, own: dict[str, str]
) -> None:
    operator = preflight.operator(runs(SLEEP), workers(SLEEP, count=2), seconds=600)
    killed_at: list[float] = []

    def kill() -> None:
        killed_at.append(time.monotonic())
        operator.on_kill()

    killed = signalled(lambda: len(engine_client.containers(filters=own)) == 3, kill)
    with killed, pytest.raises(AirflowFailException, match="preflight was cancelled"):
        operator.execute(preflight.context)

    assert time.monotonic() - killed_at[0] < scaled(20)


@pytest.mark.extended
def test_what_a_killed_attempt_left_is_removed_first(
    preflight: Preflight, engine_client: docker.APIClient, own: dict[str, str]
) -> None:
    pid = os.fork()
    if pid == 0:  # the attempt that is killed: nothing of it is left to clean up
        try:
            preflight.operator(runs(SLEEP), workers(SLEEP), seconds=60).execute(preflight.context)
        finally:
            os._exit(1)
    wait_until(lambda: len(engine_client.containers(filters=own)) == 2, "both replicas run")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    left = {item["Id"] for item in engine_client.containers(filters=own)}

    preflight.passes(runs("pass"))

    assert len(left) == 2
