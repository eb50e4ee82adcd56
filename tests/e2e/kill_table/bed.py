"""The parts of the kill table's campaign: services, gates that hold answers back, an engine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass

import docker
import psutil

from container_training.work.images.registry import find_manifest
from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ORPHAN_FINDER, ensure_password
from local_stack.people.credentials import registry_login
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import wait_until
from tests.e2e.kill_table.gate import Gate
from tests.e2e.kill_table.watch import Watch
from tests.support import web
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.service_process import ServiceProcess
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import parse_image_ref
from training_api.states import JobState

#: Nobody listens there; the service asks again and again, and the job stays PREPARING.
ABSENT_IMAGE = "127.0.0.1:9/demo-project/absent:1"


@dataclass(frozen=True)
class Bed:
    """
    The parts, as the campaign uses them.

    :param full: the second training service: one job fits, and that is there, so that all others stay QUEUED.
    :param submissions: holds the first answer to each submission; keyed by the label ``cell``.
    :param reads: holds the first answer to each look at a job; keyed by the job's id.
    :param listings: holds the first answer to each look into a one-task case's folder; keyed by its name.
    :param slowness: how many times longer than on an idle machine with two cores things take; at least 1.
    :param pushes: holds the first answer to each upload of a layer; keyed by the image's name.
    """

    stack: LocalStack
    image: str
    api: AirflowApi
    engine: docker.APIClient
    training: TrainingClient
    full: TrainingClient
    full_service: ServiceProcess
    submissions: Gate
    reads: Gate
    listings: Gate
    pushes: Gate
    slowness: float
    watch: Watch

    def tag_for_push(self, cell: str) -> None:
        """Name a tiny image of its own content, as the task ``push`` of ``cell`` wants it."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            content = cell.encode()
            entry = tarfile.TarInfo("cell")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        self.engine.import_image_from_data(archive.getvalue(), repository=self.pushed_name(cell), tag="t")

    def make_collected(self, job_id: str) -> None:
        """Have a job with results that is over."""
        folder = f"{self.stack.settings.job_bucket}/{job_id}"
        self.leave_metrics(folder)
        program = ["python3", "-c", "pass"]
        self.training.create_job(make_job(job_id, self.image, command=program, job_dir=folder))
        wait_until(
            lambda: self.training.get_job(job_id).state is JobState.SUCCEEDED, "the job to collect is over"
        )

    def folder(self, name: str) -> str:
        """Return the job folder of a one-task case."""
        return f"{self.stack.settings.job_bucket}/one/{name}"

    def leave_metrics(self, folder: str) -> None:
        """Write into ``folder`` what a trainer leaves."""
        bucket, _, name = f"{folder}/metrics.json".removeprefix("gs://").partition("/")
        web.post(
            f"{self.stack.settings.object_store_url}/upload/storage/v1/b/{bucket}/o",
            params={"uploadType": "media", "name": name},
            content=b'{"accuracy": 1}',
            headers={"content-type": "text/plain"},
        ).raise_for_status()

    def pushed_name(self, cell: str) -> str:
        """Return the name, without tag, under which ``cell`` pushes."""
        return f"127.0.0.1:{self.pushes.port}/{PROJECT}/{cell}"

    def is_pushed(self, cell: str) -> bool:
        """Whether the registry has the image of ``cell``."""
        ref = parse_image_ref(f"{self.stack.settings.registry}/{PROJECT}/{cell}:t")
        return find_manifest(ref, login=registry_login(self.stack.settings)) is not None

    def orphans(self) -> dict[str, str]:
        """Search for orphans on both services; return a verdict for the label ``cell`` of each job."""
        found = {}
        for client, port in (
            (self.training, self.stack.settings.training_port),
            (self.full, self.full_service.port),
        ):
            password = ensure_password(passwords_file(self.stack.settings), ORPHAN_FINDER)
            done = subprocess.run(
                [sys.executable, "-m", "container_training", "orphans", "--json", "--grace=0"],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ
                | {
                    "TRAINING_ENDPOINT": f"http://127.0.0.1:{port}",
                    "GOOGLE_CLOUD_PROJECT": PROJECT,
                    "AIRFLOW_URL": self.stack.settings.airflow_url,
                    "AIRFLOW_USER": ORPHAN_FINDER,
                    "AIRFLOW_PASSWORD": password,
                },
            )
            for row in json.loads(done.stdout)["orphans"]:
                labels = client.get_job(row["jobId"]).labels or {}
                found[labels.get("cell", row["jobId"])] = row["verdict"]
        return found


def make_job(job_id: str, image: str, *, command: list[str], job_dir: str | None = None) -> Job:
    """Return a job with one container."""
    config = ReplicaConfig(image_uri=image, container_command=command)
    return Job(
        job_id=job_id,
        training_input=TrainingInput(region="us-central1", master_config=config, job_dir=job_dir),
    )


def kill_program(stack: LocalStack, name: str) -> None:
    """SIGKILL to a program of the stack; it stays away until it is brought up again."""
    info = stack.processes.info(name)
    assert info is not None
    assert info.pid is not None
    psutil.Process(info.pid).kill()
    stack.processes.stop(name)
