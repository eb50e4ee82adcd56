"""The parts of the kill table's campaign: services, gates that hold answers back, an engine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

import docker

from container_training.work.images.registry import find_manifest
from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ORPHAN_FINDER, ensure_password
from local_stack.people.credentials import registry_login
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import wait_until
from tests.e2e.kill_table.gate import Gate
from tests.e2e.kill_table.table import Phase
from tests.e2e.kill_table.watch import Watch
from tests.support import web
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.service_process import ServiceProcess
from training_api.clients.backend import TrainingBackend
from training_api.clients.training import TrainingClient
from training_api.clients.vertex.client import VertexClient
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
    :param vertex: the service ``training``, by Vertex AI's API.
    :param gates: by the phases that they keep a task in. Each holds a first answer: to a submission (keyed by
        the label ``cell``), to a look at a job (by its id), to a look into a one-task case's folder (by the
        case's name), or to the upload of a layer (by the image's name).
    :param slowness: the factor of deadlines, ``scaled(1.0)``; at least 1.
    """

    stack: LocalStack
    image: str
    api: AirflowApi
    engine: docker.APIClient
    training: TrainingClient
    full: TrainingClient
    full_service: ServiceProcess
    vertex: VertexClient
    gates: Mapping[Phase, Gate]
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

    def make_collected(self, service: TrainingBackend, name: str) -> str:
        """Have a job with results that is over; return its id."""
        folder = f"{self.stack.settings.job_bucket}/{name}"
        self.leave_metrics(folder)
        program = ["python3", "-c", "pass"]
        job_id = service.create_job(make_job(name, self.image, command=program, job_dir=folder)).job_id or ""
        wait_until(lambda: service.get_job(job_id).state is JobState.SUCCEEDED, "the job to collect is over")
        return job_id

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
        return f"127.0.0.1:{self.gates[Phase.PUSHING].port}/{PROJECT}/{cell}"

    def is_pushed(self, cell: str) -> bool:
        """Whether the registry has the image of ``cell``."""
        ref = parse_image_ref(f"{self.stack.settings.registry}/{PROJECT}/{cell}:t")
        return find_manifest(ref, login=registry_login(self.stack.settings)) is not None

    def orphans(self) -> dict[str, str]:
        """Search for orphans on both services; return a verdict for the label ``cell`` of each job."""
        ids: dict[str, str] = {}
        for port in (self.stack.settings.training_port, self.full_service.port):
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
            ids |= {row["jobId"]: row["verdict"] for row in json.loads(done.stdout)["orphans"]}
        jobs = self.watch.jobs() if ids else {}
        return {cell: ids[job.job_id] for cell, made in jobs.items() for job in made if job.job_id in ids}


def make_job(job_id: str, image: str, *, command: list[str], job_dir: str | None = None) -> Job:
    """Return a job with one container."""
    config = ReplicaConfig(image_uri=image, container_command=command)
    return Job(
        job_id=job_id,
        training_input=TrainingInput(region="us-central1", master_config=config, job_dir=job_dir),
    )
