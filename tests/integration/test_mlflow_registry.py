"""
MLflow follows the pointer: a real server with SQLite, in a separate environment.

``make mlflow`` makes it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from container_training.hooks.model_registry import ModelRegistryHook
from container_training.work.models.mlflow_registry import VERSION_TAG, MlflowRegistry
from container_training.work.models.registry import ModelRegistry
from container_training.work.object_store import ObjectStore
from tests.support import web
from tests.support.bed.model_versions import make_author, make_version, registered
from tests.support.bed.object_store import connect
from tests.support.ports import reserve_port
from tests.support.run_id import RUN_VARIABLE, current_run, exclusive
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.errors import ChampionMoved, RegistryMirrorFailed
from training_api.retrying import is_worth_a_retry

# A new machine first installs MLflow, which is optional.
pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def mlflow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """
    The URL of a server.

    The first time on a machine, MLflow is installed into ``.local/mlflow-venv``.
    """
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (version,) = re.findall(r"^MLFLOW_VERSION := (\S+)$", makefile, re.MULTILINE)
    venv = ROOT / ".local" / "mlflow-venv"
    with exclusive("mlflow-venv"):
        subprocess.run(
            ["make", "-s", f".local/mlflow-venv/.installed-{version}"],
            cwd=ROOT,
            check=True,
            timeout=scaled(600),
        )
    folder, port = tmp_path_factory.mktemp("mlflow"), reserve_port()
    command = [
        str(venv / "bin" / "mlflow"),
        "server",
        f"--port={port}",
        "--workers=1",
        f"--backend-store-uri=sqlite:///{folder / 'mlflow.db'}",
        f"--artifacts-destination={folder / 'artifacts'}",
    ]
    with (folder / "log").open("wb") as log:
        # A session of its own: the server's workers end with it.
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env={
                "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
                "HOME": str(folder),
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "MLFLOW_DISABLE_TELEMETRY": "true",
                RUN_VARIABLE: current_run().id,
            },
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(
            lambda: server.poll() is not None or _answers(url),
            f"MLflow's server answers ({folder / 'log'})",
            seconds=120,
            poll_seconds=0.3,
        )
        assert server.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(scaled(60))


def _answers(url: str) -> bool:
    try:
        return web.get(f"{url}/health", timeout=scaled(5)).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def model() -> str:
    """A name that nobody used."""
    return f"digits-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def mlflow(mlflow_url: str, model: str) -> Iterator[MlflowRegistry]:
    with MlflowRegistry(mlflow_url, model) as registry:
        yield registry


def test_versions_have_their_origin_and_the_alias_is_the_champion(
    store: ObjectStore, folder: str, mlflow: MlflowRegistry, mlflow_url: str, model: str
) -> None:
    registry = ModelRegistry(store, folder, mlflow)
    assert mlflow.champion() is None

    generation = 0
    for name in ("a", "b"):
        kept = registry.register(make_version(name), _model(store, folder, name))
        generation = registry.promote(kept, make_author(name), generation=generation).generation
        assert mlflow.champion() == name
    registry.roll_back(make_author("back"))

    assert mlflow.champion() == "a"
    answer = web.get(
        f"{mlflow_url}/api/2.0/mlflow/model-versions/search", params={"filter": f"name = '{model}'"}
    ).json()
    found = {
        tag["value"]: version
        for version in answer["model_versions"]
        for tag in version["tags"]
        if tag["key"] == VERSION_TAG
    }
    assert set(found) == {"a", "b"}
    tags = {tag["key"]: tag["value"] for tag in found["b"]["tags"]}
    kept_b = registry.find("b")
    assert kept_b is not None
    assert found["b"]["source"] == kept_b.model.uri
    assert tags["image"] == kept_b.image
    assert tags["metric.accuracy"] == "0.9"


def test_what_is_repeated_is_there_once_and_what_is_deleted_is_gone(
    store: ObjectStore, folder: str, mlflow: MlflowRegistry
) -> None:
    registry = ModelRegistry(store, folder, mlflow)
    source = _model(store, folder, "a")

    for _ in range(3):
        registry.register(make_version("a"), source)
    numbers = mlflow._numbers("a")
    registry.delete_version("a")
    registry.delete_version("a")

    assert len(numbers) == 1
    assert mlflow._numbers("a") == []


def test_after_many_changes_at_once_the_alias_is_the_last_champion(
    store: ObjectStore, store_url: str, folder: str, mlflow: MlflowRegistry, mlflow_url: str, model: str
) -> None:
    versions = [registered(store, folder, f"v{number}") for number in range(4)]

    def until_promoted(number: int) -> None:
        with MlflowRegistry(mlflow_url, model) as mirror, closing(connect(store_url)) as own_store:
            registry = ModelRegistry(own_store, folder, mirror)
            for _ in range(50):
                try:
                    registry.promote(
                        versions[number], make_author(str(number)), generation=registry.read().generation
                    )
                except ChampionMoved:
                    continue
                return
        raise AssertionError("never promoted")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(until_promoted, range(4)))

    champion = ModelRegistry(store, folder).read().champion
    assert champion is not None
    assert mlflow.champion() == champion.version_id


def test_without_mlflow_the_champion_changes_and_a_retry_brings_mlflow_in_line(
    store: ObjectStore, folder: str, mlflow: MlflowRegistry, model: str
) -> None:
    version = registered(store, folder, "a")
    nobody = MlflowRegistry(f"http://127.0.0.1:{reserve_port()}", model)

    with nobody, pytest.raises(RegistryMirrorFailed, match="does not answer") as caught:
        ModelRegistry(store, folder, nobody).promote(version, make_author("a"), generation=0)
    champion = ModelRegistry(store, folder).read().champion
    changed = ModelRegistry(store, folder, mlflow).promote(version, make_author("a"), generation=0)

    assert is_worth_a_retry(caught.value)
    assert champion == version
    assert not changed.is_new
    assert mlflow.champion() == "a"


def test_a_connection_chooses_mlflow(
    store: ObjectStore, folder: str, mlflow_url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("container_training.hooks.model_registry.StorageHook.get_conn", lambda _self: store)
    connection = {
        "conn_type": "mlflow_registry",
        "host": "127.0.0.1",
        "port": int(mlflow_url.rpartition(":")[2]),
        "extra": {"model": model},
    }
    monkeypatch.setenv("AIRFLOW_CONN_MODEL_REGISTRY_DEFAULT", json.dumps(connection))
    version = registered(store, folder, "a")

    with ModelRegistryHook(folder) as hook:
        hook.registry.promote(version, make_author("a"), generation=0)

    with MlflowRegistry(mlflow_url, model) as mirror:
        assert mirror.champion() == "a"


def _model(store: ObjectStore, folder: str, name: str) -> str:
    uri = f"{folder}/jobs/{name}/model.joblib"
    store.write_if_changed(uri, name.encode(), "text/plain")
    found = store.find(uri)
    assert found is not None
    return found.pinned_uri
