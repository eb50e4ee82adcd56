"""What tests of images share: a registry, and the image operators as tasks with their log."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from docker.api import APIClient
from docker.utils import kwargs_from_env

from local_stack.parts.registry import find_registry_program
from local_stack.settings import StackSettings
from tests.support import web
from tests.support.kept_logs import logs_in
from tests.support.own_images import remove_own_images
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until

#: What names of images begin with that are on the engine only.
LOCAL = current_run().image("image-tests")
#: An instruction that makes an image this process's own: the builders' caches are everybody's, and outlast
#: the tests.
OWN = f"ENV PROCESS_OF_TESTS={current_run().id}-{current_run().member}\n"


@pytest.fixture(scope="module")
def api(engine_client: APIClient) -> Iterator[APIClient]:
    """The engine; this process's images named ``.../image-tests/...`` are removed at the end."""
    client = APIClient(**kwargs_from_env(), timeout=scaled(60))
    yield client
    remove_own_images(client, lambda name: "/image-tests/" in name)
    client.close()


@pytest.fixture(scope="module")
def registry(api: APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``HOST:PORT`` of an empty registry."""
    with run_registry(api, tmp_path_factory.mktemp("registry"), reserve_port()) as host:
        yield host


@contextmanager
def run_registry(api: APIClient, folder: Path, port: int) -> Iterator[str]:
    """Run the registry's program, or its image where there is no program."""
    settings = StackSettings()
    program = find_registry_program(settings)
    if program is None:
        with run_registry_image(api, settings.registry_image, port) as host:
            yield host
        return
    config = folder / "config.yml"
    config.write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"level": "error", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                "http": {"addr": f"127.0.0.1:{port}", "secret": "for-tests"},
            }
        )
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([str(program), "serve", str(config)], stderr=log)
    try:
        with logs_in(folder, "a registry"):
            wait_for_registry(port)
            yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(scaled(60))


@contextmanager
def run_registry_image(api: APIClient, image: str, port: int) -> Iterator[str]:
    host_config = api.create_host_config(port_bindings={5000: ("127.0.0.1", port)}, auto_remove=True)
    labels = current_run().labels
    container = api.create_container(image, ports=[5000], host_config=host_config, labels=labels)["Id"]
    api.start(container)
    try:
        wait_for_registry(port)
        yield f"127.0.0.1:{port}"
    finally:
        api.remove_container(container, force=True, v=True)


def wait_for_registry(port: int) -> None:
    def answers() -> bool:
        with suppress(httpx.TransportError):
            return web.get(f"http://127.0.0.1:{port}/v2/").is_success
        return False

    wait_until(answers, f"a registry answers on port {port}")


@pytest.fixture
def image_connections(monkeypatch: pytest.MonkeyPatch, airflow_db: Path) -> None:
    """The connections of a local stack: a training service, no registry login."""
    extra = {"project": "p-1", "container_env": json.dumps({"STORAGE_EMULATOR_HOST": "http://emulator:1"})}
    connection = {"conn_type": "container_training", "host": "127.0.0.1", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))


@pytest.fixture
def task_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the task log."""
    from container_training.operators.image import BuildImageOperator, PushImageOperator, TestImageOperator

    lines: list[str] = []
    log = SimpleNamespace(info=lambda message, *arguments: lines.append(message % arguments))
    for operator in (BuildImageOperator, PushImageOperator, TestImageOperator):
        monkeypatch.setattr(operator, "log", log)
    return lines


def make_context_dir(folder: Path, dockerfile: str, **files: str) -> str:
    (folder / "Dockerfile").write_text(dockerfile)
    for name, contents in files.items():
        (folder / name).write_text(contents)
    return str(folder)


def task_context() -> Any:
    # A task removes what an earlier attempt of the same run left on the engine.
    run_id = f"{current_run().id}-{current_run().member}"
    return {"ti": SimpleNamespace(dag_id="dag", task_id="task", run_id=run_id, map_index=-1)}


def build(context_dir: str, image: str, base_image: str, **arguments: Any) -> str:
    from container_training.operators.image import BuildImageOperator

    operator = BuildImageOperator(
        task_id="build",
        context_dir=context_dir,
        image=image,
        build_args={"BASE_IMAGE": base_image},
        **{**arguments, "labels": {**arguments.get("labels", {}), **current_run().labels}},
    )
    return operator.execute(task_context())


def run_test(image: str, **arguments: Any) -> str:
    from container_training.operators.image import TestImageOperator

    return TestImageOperator(task_id="test", image=image, **arguments).execute(task_context())


def push(image: str, **arguments: Any) -> str:
    from container_training.operators.image import PushImageOperator

    return PushImageOperator(task_id="push", image=image, **arguments).execute(task_context())


@contextmanager
def signalled(condition: Callable[[], object], handler: Callable[[], None]) -> Iterator[None]:
    """
    Call ``handler`` in a signal handler of this thread once ``condition`` holds.

    Airflow calls ``on_kill`` this way.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    left = threading.Event()

    def watch() -> None:
        while not left.wait(0.1):
            is_met = False
            with suppress(Exception):  # one failed look, as when the engine is slow, does not end the watch
                is_met = bool(condition())
            if is_met:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()
        signal.signal(signal.SIGALRM, before)


def processes_with(words: str) -> list[str]:
    """Return the command lines of this machine's processes that are ``words``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (
                (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            )
        except OSError:
            continue  # it has ended
        if command == words:
            found.append(command)
    return found
