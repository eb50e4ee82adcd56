"""Uploads to the Model Registry by Google's provider, unmodified, over gRPC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import ModelVersion
from container_training.work.object_store import ObjectStore
from tests.integration.live_service import run_service
from tests.support.bed.model_tasks import make_result
from tests.support.ports import reserve_port
from tests.support.speed import scaled

MODELS = "/vertex/v1/projects/demo-project/locations/us-central1/models"
KILLED = 9
#: What the upload of a task does; with ``die`` the process ends when the service has taken the model.
BY_THE_TASK = f"""
import os, sys

from container_training.hooks.vertex_models import VertexModelsHook

if "die" in sys.argv:
    from google.api_core.operation import Operation

    Operation.result = lambda *_, **__: os._exit({KILLED})
model = {{
    "display_name": "digits",
    "artifact_uri": "gs://bucket/models/digits/versions/a/",
    "container_spec": {{"image_uri": "registry.test/p/server:1"}},
}}
print(VertexModelsHook().upload("version-1", model))
"""
#: The provider's own operator, as its users write it.
BY_THE_PROVIDER = """
from airflow.providers.google.cloud.operators.vertex_ai.model_service import UploadModelOperator

class Instance:
    def xcom_push(self, **_):
        pass

task = UploadModelOperator(
    task_id="upload",
    project_id="demo-project",
    region="us-central1",
    model={"display_name": "of the provider", "artifact_uri": "gs://bucket/model/"},
)
found = task.execute({"ti": Instance(), "task": task, "task_instance": Instance()})
print(f"{found['model']}@{found['model_version_id']}")
"""

#: The task that registers a version: its folder, the result of its job.
BY_THE_OPERATOR = """
import json, sys

from container_training.operators.models import RegisterModelOperator
from tests.support.bed.model_tasks import Context

task = RegisterModelOperator(
    task_id="register",
    model_folder=sys.argv[1],
    result=json.loads(sys.argv[2]),
    vertex_model={"container_spec": {"image_uri": "registry.test/p/server:1"}},
)
print(json.dumps(task.execute(Context())))
"""


@dataclass(frozen=True)
class Registry:
    """A live service, and the environment in which Google's address leads to it."""

    endpoint: str
    environment: dict[str, str]

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=scaled(120),
            check=False,
        )

    def models(self) -> list[dict[str, Any]]:
        found = httpx.get(self.endpoint + MODELS, trust_env=False, timeout=scaled(60)).raise_for_status()
        return list(found.json().get("models", []))


@pytest.fixture
def registry(tmp_path: Path, airflow_db: Path) -> Iterator[Registry]:
    proxy = reserve_port()
    google = {
        "conn_type": "google_cloud_platform",
        "extra": {"project": "demo-project", "is_anonymous": True},
    }
    inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment = {
        **inherited,
        "grpc_proxy": f"http://127.0.0.1:{proxy}",
        "no_grpc_proxy": "localhost,127.0.0.1",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(tmp_path / "tls" / "bundle.pem"),
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(google),
    }
    with run_service(tmp_path, grpc_port=reserve_port(), vertex_proxy_port=proxy) as service:
        yield Registry(service.endpoint, environment)


def test_a_kill_between_upload_and_answer_leaves_one_model_which_the_next_try_finds(
    registry: Registry,
) -> None:
    killed = registry.run(BY_THE_TASK, "die")
    assert killed.returncode == KILLED, killed.stderr[-3000:]
    (model,) = registry.models()

    retries = [registry.run(BY_THE_TASK) for _ in range(2)]

    for done in retries:
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines()[-1] == f"{model['name']}@1"
    assert registry.models() == [model]
    assert model["name"].endswith("/models/version-1")
    assert model["containerSpec"] == {"imageUri": "registry.test/p/server:1"}
    assert model["artifactUri"] == "gs://bucket/models/digits/versions/a/"


def test_a_version_that_is_registered_is_a_model_of_vertex_ai(
    registry: Registry, store: ObjectStore, store_url: str, folder: str
) -> None:
    result = json.dumps(make_result(store, folder, "a"))

    tries = [registry.run(BY_THE_OPERATOR, folder, result, STORAGE_EMULATOR_HOST=store_url) for _ in range(2)]

    for done in tries:
        assert done.returncode == 0, done.stderr[-3000:]
    (model,) = registry.models()
    version, again = (json.loads(done.stdout.splitlines()[-1]) for done in tries)
    assert version == again
    assert version["vertex_model"] == f"{model['name']}@1"
    assert model["artifactUri"] == f"{folder}/versions/a/"
    assert ModelRegistry(store, folder).find("a") == ModelVersion.model_validate(version)


@pytest.mark.extended
def test_the_providers_own_operator_uploads(registry: Registry) -> None:
    done = registry.run(BY_THE_PROVIDER)

    assert done.returncode == 0, done.stderr[-3000:]
    (model,) = registry.models()
    assert done.stdout.splitlines()[-1] == f"{model['name']}@1"
    assert model["displayName"] == "of the provider"
