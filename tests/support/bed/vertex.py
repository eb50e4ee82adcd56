"""Vertex AI of a service, by google-api-python-client as it is published."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery

from local_stack.parts.base_image import BaseImage
from local_stack.parts.runtime_image import image_aliases, runtime_image
from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef

PREBUILT = "us-docker.pkg.dev/vertex-ai/training/scikit-learn-cpu.1-0:latest"
#: The image has setuptools, and pip needs nothing of an index.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}


@contextmanager
def vertex_locations(url: str) -> Iterator[Any]:
    """
    Yield ``projects.locations`` of ``aiplatform`` v1.

    The discovery document is that of the client's package.

    :param url: of a training service.
    """
    client = discovery.build(
        "aiplatform",
        "v1",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{url}/vertex/"},
        cache_discovery=False,
    )
    with client:
        yield client.projects().locations()


@pytest.fixture
def locations(stack: LocalStack) -> Iterator[Any]:
    """``projects.locations`` of the stack's service."""
    with vertex_locations(stack.settings.training_url) as locations:
        yield locations


def source_package(task: str) -> bytes:
    """Return the source distribution of a package whose module ``trainer.task`` is the program."""
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='trainer', version='0.0.0', packages=['trainer'])\n",
        "trainer/__init__.py": "",
        "trainer/task.py": task,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"trainer-0.0.0/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


@contextmanager
def aliases(stack: LocalStack, images: Mapping[str, str]) -> Iterator[None]:
    """Have the stack's service run ``images`` in place of others, beside its own."""
    known = {**image_aliases(runtime_image(BaseImage.name_of(stack.settings)).name), **images}
    environment = {**stack.settings.training_environment, "TRAINING_IMAGE_ALIASES": json.dumps(known)}
    LocalStack(stack.settings.model_copy(update={"training_environment": environment})).up([Part.TRAINING])
    try:
        yield
    finally:
        stack.up([Part.TRAINING])


def create(jobs: Any, project: str, body: dict[str, Any]) -> str:
    """Create a job and return its name."""
    parent = f"projects/{project}/locations/us-central1"
    return str(jobs.create(parent=parent, body=body).execute()["name"])


def ended(jobs: Any, name: str, *, seconds: float = 240) -> dict[str, Any]:
    """Return the job once it has ended."""

    def job() -> dict[str, Any]:
        found: dict[str, Any] = jobs.get(name=name).execute()
        assert "endTime" in found, found["state"]
        return found

    return wait_until(job, f"{name} has ended", seconds=seconds, ignoring=AssertionError)


def run_custom_job(jobs: Any, project: str, pools: list[dict[str, Any]], **job_spec: Any) -> dict[str, Any]:
    """Create a job and return it when it has ended."""
    body = {"displayName": "real", "jobSpec": {"workerPoolSpecs": pools, **job_spec}}
    return ended(jobs, create(jobs, project, body), seconds=120)


def make_real_pool(image: ImageRef | str, program: str = "", *args: str, **env: str) -> dict[str, Any]:
    """Return a pool of one replica that runs a Python program; empty: what the image runs."""
    container = {
        "imageUri": str(image),
        **({"command": ["python3", "-u", "-c", program]} if program else {}),
        "args": list(args),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
