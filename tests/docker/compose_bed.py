"""A stack of docker/compose.yaml, and a job that runs on it until it is released."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from local_stack.parts.base_image import pack_context
from local_stack.parts.object_store import make_bucket
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.people.credentials import developers_header, registry_login
from local_stack.production import Production
from local_stack.settings import REPOSITORY_ROOT, StackSettings
from tests.support import web
from tests.support.bed.job_watch import messages
from tests.support.earlier_version import unpack_earlier_version
from training_api.clients.training import TrainingClient
from training_api.states import JobState

#: The newest version before docker/compose.yaml; a shallow clone takes the oldest that it has. From the next
#: release on: that release, with its own file.
PREVIOUS = "ebb3185"
#: Private, and not among the addresses that an engine gives networks by itself (172.17 to 172.31, 192.168):
#: the fourteenth network of a machine would have 172.30.
SUBNET = "172.16.77"
JOB_ID = "through_the_upgrade"
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

    production: Production
    environment: Mapping[str, str]
    docker: docker.DockerClient

    @property
    def settings(self) -> StackSettings:
        return self.production.settings

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

    def run(self, *command: str) -> None:
        """Run what ``make compose-up`` or ``compose-down`` runs."""
        command = (sys.executable, "-m", "local_stack", *command)
        subprocess.run(command, check=True, env=dict(self.environment))

    def container(self, service: str) -> Any:
        label = f"com.docker.compose.service={service}"
        (found,) = self.docker.containers.list(filters={"label": [label, self._label]})
        return found

    def containers(self) -> list[Any]:
        return self.docker.containers.list(all=True, filters={"label": self._label})

    def training_images(self) -> dict[str, str]:
        """Return the image that the training services run, by its name."""
        running = [each.attrs for each in self.containers() if "training" in each.name]
        return {each["Config"]["Image"]: each["Image"] for each in running}

    def training(self, name: str = "b") -> TrainingClient:
        """Return a client of the developer's."""
        return TrainingClient(
            self.addresses[name], self.settings.project, headers=developers_header(self.settings)
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


def build_previous(bed: Bed, production: Production, folder: Path) -> None:
    """Build the training service of the previous version, by the Dockerfile of this one."""
    which = unpack_earlier_version(REPOSITORY_ROOT, PREVIOUS, folder)
    print(f"the training services begin in the version of {which}")
    # Where it is today's version, the image is another one all the same.
    with (folder / "training_api" / "version.py").open("a", encoding="utf-8") as version:
        version.write("# an earlier version, for a test\n")
    shutil.copytree(REPOSITORY_ROOT / "docker" / "compose", folder / "docker" / "compose", dirs_exist_ok=True)
    for file in ("compose.yaml", "compose.debian.yaml"):
        shutil.copy(REPOSITORY_ROOT / "docker" / file, folder / "docker")
    production.compose(
        "build",
        "object-store",
        folder=folder / "docker",
        environment={**bed.environment, "STACK_TAG": f"{bed.environment['STACK_TAG']}-previous"},
    )


def start_previous(bed: Bed) -> None:
    """
    Start the stack with the training services of the previous version.

    Callers are as in that version's own stack: its service refuses a tokens file with what it does not know,
    and has no endpoint where a key is taken.
    """
    secrets = bed.settings.state_dir / "secrets"
    callers = json.loads((secrets / "training-tokens").read_text("utf-8"))
    for entry in callers["principals"]:
        entry.pop("public_key", None)
        for roles in entry.get("roles", {}).values():
            roles[:] = [role for role in roles if not role.startswith("roles/aiplatform.")]
    connections = json.loads((secrets / "airflow-connections").read_text("utf-8"))
    google = connections["google_cloud_default"]["extra"]
    del google["keyfile_dict"]
    google["is_anonymous"] = True
    for name, content in (("training-tokens", callers), ("airflow-connections", connections)):
        # The file stays the same one: its owner is the stack's user.
        (secrets / name).write_text(json.dumps(content), "utf-8")
    environment = {**bed.environment, "TRAINING_TAG": f"{bed.environment['STACK_TAG']}-previous"}
    bed.production.compose("build", environment=environment)
    bed.production.compose("up", "--detach", "--wait", environment=environment)
    make_bucket(bed.objects, bed.settings)


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


@dataclass(frozen=True)
class WaitingJob:
    """
    A job that runs until it is released.

    :param container: the one that it began in.
    :param earlier: ids of the jobs before it.
    """

    container: Any
    earlier: frozenset[str | None]

    def check_running(self, training: TrainingClient) -> None:
        """Check that it runs, in the same container."""
        running = training.get_job(JOB_ID).state is JobState.RUNNING
        assert running, messages(training, JOB_ID)
        self.container.reload()
        assert self.container.status == "running"
