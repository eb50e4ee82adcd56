"""
The stack of docker/compose.yaml, from nothing: DAG, upgrade, takeover, secrets, metrics.

The training services begin in the version before Compose; all else is as it is here.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import docker
import httpx
import pytest

from local_stack.production import Production
from local_stack.settings import StackSettings
from local_stack.stack import LocalStack
from tests.docker.compose_bed import (
    JOB_ID,
    SUBNET,
    Bed,
    WaitingJob,
    build_previous,
    push_trainer,
    start_previous,
)
from tests.support import web
from tests.support.bed.job_watch import until_state
from tests.support.dead_runs import remove_tree
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.needs_root, pytest.mark.timeout(1500)]

PORTS = ("AIRFLOW", "REGISTRY", "OBJECT_STORE", "METADATA", "TRAINING")


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """A stack that was brought up from nothing, with training services of the previous version."""
    run = current_run()
    folder = run.make_folder("compose")
    name = f"ct{os.getpid()}"
    ports = {f"LOCAL_STACK_{part}_PORT": str(reserve_port()) for part in PORTS}
    environment = {
        **os.environ,
        **ports,
        "LOCAL_STACK_STATE_DIR": str(folder),
        "LOCAL_STACK_COMPOSE_SUBNET": SUBNET,
        "COMPOSE_PROJECT_NAME": name,
        "STACK_TAG": name,
        "PROMETHEUS_PORT": str(reserve_port()),
        "GRAFANA_PORT": str(reserve_port()),
        "COMPOSE_PROGRESS": "plain",
    }
    stack = LocalStack(
        StackSettings.model_validate(
            {
                "state_dir": folder,
                "compose_subnet": SUBNET,
                **{f"{part.lower()}_port": int(ports[f"LOCAL_STACK_{part}_PORT"]) for part in PORTS},
            }
        )
    )
    production = Production(stack)
    bed = Bed(production, environment, docker.DockerClient(stack.settings.engine_url))
    try:
        production.prepare()
        build_previous(bed, production, folder / "previous")
        start_previous(bed)
        yield bed
    finally:
        bed.run("compose-down", "--volumes")
        for image in bed.docker.images.list():
            for tag in image.tags:
                if tag.partition(":")[2].startswith(name) or f":{bed.settings.registry_port}/" in tag:
                    bed.docker.images.remove(tag, force=True)
        bed.docker.close()
        remove_tree(folder)


def test_a_dag_trains_on_the_celery_workers(bed: Bed) -> None:
    with bed.airflow() as airflow:
        wait_until(lambda: airflow.has_dag("train_digits"), "the DAG was parsed", seconds=120)
        airflow.unpause("train_digits")
        run = airflow.trigger("train_digits", {"epochs": 1})
        state = wait_until(
            lambda: (state := airflow.run_state("train_digits", run)) in ("success", "failed") and state,
            "the run has ended",
            seconds=600,
        )
        tasks = airflow.task_instances("train_digits", run)
        assert state == "success", {task["task_id"]: task["state"] for task in tasks}
        job = airflow.xcom("train_digits", run, "train.collect")
    assert job["metrics"]
    workers = {each.id[:12] for each in bed.containers() if "worker" in each.name}
    assert len(workers) == 2
    assert {task["hostname"] for task in tasks if task["state"] == "success"} <= workers


@pytest.fixture(scope="module")
def waiting_job(bed: Bed, base_image: str) -> WaitingJob:
    """Submit a job to the services of the previous version, and return it when it runs."""
    image = push_trainer(bed, base_image)
    with bed.training() as training:
        earlier = frozenset(job.job_id for job in training.list_jobs().jobs or ())
        job = Job(
            job_id=JOB_ID,
            training_input=TrainingInput(
                region="us-central1",
                master_config=ReplicaConfig(image_uri=image),
                args=["released"],
                job_dir=f"{bed.settings.job_bucket}/{JOB_ID}",
            ),
        )
        training.create_job(job)
        until_state(training, JOB_ID, JobState.RUNNING)
    (trainer,) = bed.docker.containers.list(filters={"ancestor": image})
    return WaitingJob(trainer, earlier)


def test_an_upgrade_keeps_a_running_job(bed: Bed, waiting_job: WaitingJob) -> None:
    (previous,) = bed.training_images().values()

    bed.run("compose-up")

    images = bed.training_images()
    assert set(images) == {f"container-training/service:{bed.environment['STACK_TAG']}"}
    assert previous not in images.values()
    with bed.training() as training:
        waiting_job.check_running(training)


def test_the_standby_takes_over_and_the_killed_service_stands_by(bed: Bed) -> None:
    wait_until(lambda: list(bed.roles().values()).count("active") == 1, "one of them is active", seconds=120)
    before = bed.roles()
    (active,) = [name for name, role in before.items() if role == "active"]
    (standby,) = set(before) - {active}

    os.kill(bed.container(f"training-{active}").attrs["State"]["Pid"], signal.SIGKILL)

    wait_until(
        lambda: bed.roles() == {active: "standby", standby: "active"},
        "the roles are exchanged",
        seconds=120,
        ignoring=httpx.HTTPError,  # It is away until the engine has started it again.
    )


def test_no_secret_is_in_an_environment_a_log_or_an_image(bed: Bed) -> None:
    folder = bed.settings.state_dir / "secrets"
    files = [path for path in folder.iterdir() if path.is_file()]
    assert len(files) > 15
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    made_up = [
        path.read_text("utf-8") for path in files if path.suffix == "" and "\n" not in path.read_text()
    ]
    values = [value for value in made_up if len(value) in (43, 44)]
    assert len(values) > 8
    for container in bed.containers():
        shown = json.dumps(container.attrs) + container.logs().decode(errors="replace")
        shown += json.dumps(container.image.history())
        assert [value for value in values if value in shown] == [], container.name


def test_only_what_runs_containers_has_the_socket_of_the_engine(bed: Bed) -> None:
    having = {
        each.labels["com.docker.compose.service"]
        for each in bed.containers()
        if any("docker.sock" in mount.get("Source", "") for mount in each.attrs["Mounts"])
    }
    assert having == {"training-a", "training-b", "worker"}


def test_prometheus_reads_both_services_and_the_object_store(bed: Bed) -> None:
    url = f"http://127.0.0.1:{bed.environment['PROMETHEUS_PORT']}/api/v1"

    def is_scraped() -> bool:
        found = web.get(f"{url}/query", params={"query": "up == 1"}).json()["data"]["result"]
        return {each["metric"]["instance"].partition(":")[0] for each in found} == {
            "training-a",
            "training-b",
            "object-store",
        }

    wait_until(is_scraped, "all are scraped", seconds=90)
    groups = web.get(f"{url}/rules").json()["data"]["groups"]
    assert "TrainingServiceDown" in {rule["name"] for group in groups for rule in group["rules"]}


def test_what_was_stopped_has_its_volumes_and_its_running_job_when_it_is_started_again(
    bed: Bed, waiting_job: WaitingJob
) -> None:
    """The last test: it starts only what it asks, for the start of Airflow takes a minute."""
    bed.run("compose-down")
    assert bed.containers() == []
    bed.production.compose(
        "up", "--detach", "--wait", "object-store", "training-a", environment=bed.environment
    )

    with bed.training("a") as training:
        waiting_job.check_running(training)
        assert {job.job_id for job in training.list_jobs().jobs or ()} == waiting_job.earlier | {JOB_ID}
        web.post(f"{bed.objects}/upload/storage/v1/b/demo-bucket/o?uploadType=media&name=released")
        until_state(training, JOB_ID, JobState.SUCCEEDED)
