"""
The stack of docker/compose.yaml, from nothing: DAG, upgrade, takeover, secrets, metrics.

The training services begin in the version before Compose; all else is as it is here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest

from local_stack.parts.base_image import pack_context
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.people.credentials import developers_header, registry_login
from local_stack.production import Production
from local_stack.settings import REPOSITORY_ROOT, StackSettings
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.job_watch import messages, until_state
from tests.support.dead_runs import remove_tree
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.needs_root, pytest.mark.timeout(1500)]

#: The newest version before docker/compose.yaml. From the next release on: that release, with its own file.
PREVIOUS = "ebb3185"
PORTS = ("AIRFLOW", "REGISTRY", "OBJECT_STORE", "METADATA", "TRAINING")
SUBNET = "172.30.77"
#: Runs until the object of its first argument is there; the object store is away during an upgrade.
TRAINER = """
import os, sys, time, urllib.error, urllib.request
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/demo-bucket/o/" + sys.argv[1])
        break
    except urllib.error.HTTPError as error:
        if error.code not in (404, 503):
            raise
    except OSError as error:
        print(error)
    time.sleep(0.2)
print("released")
"""


@dataclass(frozen=True)
class Bed:
    """A stack of the test's own."""

    settings: StackSettings
    environment: Mapping[str, str]
    docker: docker.DockerClient

    @property
    def project(self) -> str:
        return self.environment["COMPOSE_PROJECT_NAME"]

    @property
    def objects(self) -> str:
        return self.settings.object_store_url

    @property
    def addresses(self) -> dict[str, str]:
        """Return the training services' addresses."""
        return {name: f"http://{SUBNET}.{host}:8470" for name, host in (("a", 1), ("b", 129))}

    def run(self, *command: str, **environment: str) -> None:
        """Run what ``make compose-up`` or ``compose-down`` runs."""
        command = (sys.executable, "-m", "local_stack", *command)
        subprocess.run(command, check=True, env={**self.environment, **environment})

    def container(self, service: str) -> Any:
        label = f"com.docker.compose.service={service}"
        (found,) = self.docker.containers.list(filters={"label": [label, self._label]})
        return found

    def containers(self) -> list[Any]:
        return self.docker.containers.list(all=True, filters={"label": self._label})

    def training(self) -> TrainingClient:
        """Return a client of the developer's."""
        return TrainingClient(
            self.addresses["b"], self.settings.project, headers=developers_header(self.settings)
        )

    def airflow(self) -> AirflowApi:
        users = json.loads((self.settings.state_dir / "secrets" / "airflow-users").read_text("utf-8"))
        passwords = self.settings.state_dir / "passwords-of-the-test.json"
        passwords.write_text(json.dumps({name: user["password"] for name, user in users.items()}))
        return AirflowApi(self.settings.airflow_url, ADMIN, passwords)

    def roles(self) -> dict[str, str]:
        """Return what each training service says that it is."""
        return {name: web.get(f"{url}/health").json()["role"] for name, url in self.addresses.items()}

    @property
    def _label(self) -> str:
        return f"com.docker.compose.project={self.project}"


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
    bed = Bed(production.settings, environment, docker.DockerClient(stack.settings.engine_url))
    try:
        production.prepare()
        build_previous(bed, production, folder / "previous")
        bed.run("compose-up", TRAINING_TAG=f"{name}-previous")
        yield bed
    finally:
        bed.run("compose-down", "--volumes")
        for image in bed.docker.images.list():
            for tag in image.tags:
                if tag.partition(":")[2].startswith(name) or f":{bed.settings.registry_port}/" in tag:
                    bed.docker.images.remove(tag, force=True)
        bed.docker.close()
        remove_tree(folder)


def build_previous(bed: Bed, production: Production, folder: Path) -> None:
    """Build the training service of the previous version, by the Dockerfile of this one."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", PREVIOUS], cwd=REPOSITORY_ROOT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    shutil.copytree(REPOSITORY_ROOT / "docker" / "compose", folder / "docker" / "compose")
    for file in ("compose.yaml", "compose.debian.yaml"):
        shutil.copy(REPOSITORY_ROOT / "docker" / file, folder / "docker")
    production.compose(
        "build",
        "object-store",
        folder=folder / "docker",
        environment={**bed.environment, "STACK_TAG": f"{bed.environment['STACK_TAG']}-previous"},
    )


def push_trainer(bed: Bed, base_image: str) -> str:
    """Build the trainer that waits, and push it as the developer."""
    name = f"{bed.settings.image_prefix}/waiting:1"
    dockerfile = f'FROM {base_image}\nCOPY task.py /\nENTRYPOINT ["python3", "-u", "/task.py"]\n'
    context = pack_context({"Dockerfile": dockerfile.encode(), "task.py": TRAINER.encode()})
    bed.docker.images.build(fileobj=context, custom_context=True, tag=name, rm=True)
    for line in bed.docker.images.push(
        name, auth_config=registry_login(bed.settings), stream=True, decode=True
    ):
        assert "error" not in line, line
    return name


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


def test_an_upgrade_keeps_the_volumes_and_a_running_job(bed: Bed, base_image: str) -> None:
    image = push_trainer(bed, base_image)
    with bed.training() as training:
        before = {job.job_id for job in training.list_jobs().jobs or ()}
        job = Job(
            job_id="through_the_upgrade",
            training_input=TrainingInput(
                region="us-central1",
                master_config=ReplicaConfig(image_uri=image),
                args=["released"],
                job_dir=f"{bed.settings.job_bucket}/through_the_upgrade",
            ),
        )
        training.create_job(job)
        until_state(training, "through_the_upgrade", JobState.RUNNING)
    (trainer,) = bed.docker.containers.list(filters={"ancestor": image})

    bed.run("compose-up")

    tags = {each.attrs["Config"]["Image"] for each in bed.containers() if "training" in each.name}
    assert tags == {f"container-training/service:{bed.environment['STACK_TAG']}"}
    check_running(bed, trainer)

    bed.run("compose-down")
    assert bed.containers() == []
    bed.run("compose-up")

    check_running(bed, trainer)
    with bed.training() as training:
        assert {job.job_id for job in training.list_jobs().jobs or ()} == before | {"through_the_upgrade"}
        web.post(f"{bed.objects}/upload/storage/v1/b/demo-bucket/o?uploadType=media&name=released")
        until_state(training, "through_the_upgrade", JobState.SUCCEEDED)


def check_running(bed: Bed, trainer: Any) -> None:
    """Check that the job runs, in the container that it began in."""
    with bed.training() as training:
        running = training.get_job("through_the_upgrade").state is JobState.RUNNING
        assert running, messages(training, "through_the_upgrade")
    trainer.reload()
    assert trainer.status == "running"


def test_the_standby_takes_over_and_the_killed_service_stands_by(bed: Bed) -> None:
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
