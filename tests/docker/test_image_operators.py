"""The image operators on a real engine and registry: what works, and each way to fail."""

from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from docker.api import APIClient

from tests.support.bed.image_tasks import (
    LOCAL,
    OWN,
    build,
    make_context_dir,
    push,
    run_registry,
    run_test,
    signalled,
    task_context,
)
from tests.support.bed.own_engine import run_own_engine
from tests.support.full_memory import FULL_MEMORY
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image_connections")]

OWNER_LABEL = "container-training.owner"
#: In which a container starts and has written a line.
TIME_LIMIT_SECONDS = round(scaled(8))


@pytest.fixture(scope="module")
def python_image(api: APIClient, base_image: str) -> str:
    """An image whose arguments are Python source."""
    name = f"{LOCAL}/python:1"
    config = {"Config": {"Entrypoint": ["python", "-u", "-c"]}}
    container = api.create_container(base_image, command=["true"], labels=current_run().labels)["Id"]
    api.commit(container, f"{LOCAL}/python", "1", changes='ENTRYPOINT ["python", "-u", "-c"]')
    api.remove_container(container)
    assert api.inspect_image(name)["Config"]["Entrypoint"] == config["Config"]["Entrypoint"]
    return name


@pytest.fixture(scope="module")
def tiny_image(api: APIClient) -> str:
    """An image with one small file; it can be pushed, not run."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"), io.BytesIO())
    api.import_image_from_data(layer.getvalue(), repository=f"{LOCAL}/tiny", tag="1")
    return f"{LOCAL}/tiny:1"


def left_containers(api: APIClient, image: str) -> list[str]:
    """Containers of ``image``, which only tests of this file run."""
    containers = api.containers(all=True, filters={"label": OWNER_LABEL})
    return [container["Id"] for container in containers if container["Image"] == image]


SMALL = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\n{OWN}COPY note.txt /note.txt\nRUN cat /note.txt\n"


def test_an_image_is_built_tested_and_pushed_and_the_second_time_nothing_is_done(
    tmp_path: Path,
    api: APIClient,
    base_image: str,
    registry: str,
    task_log: list[str],
) -> None:
    context_dir = make_context_dir(tmp_path, SMALL, **{"note.txt": "first note"})
    name = f"{registry}/p-1/image-tests/small"

    image = build(context_dir, name, base_image)
    tested = run_test(image, args=["python", "-c", "print('ran in the image')"])
    pushed = push(image)
    first_log = "\n".join(task_log)
    task_log.clear()
    again = build(context_dir, name, base_image)
    pushed_again = push(again)

    tag, _, digest = image.removeprefix(f"{name}:").partition("@")
    assert tag.startswith("ctx-")
    assert tested == again == image
    assert "first note" in first_log
    assert "stdout | ran in the image" in first_log
    assert pushed == pushed_again
    answer = httpx.head(
        f"http://{registry}/v2/p-1/image-tests/small/manifests/{tag}",
        headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
        trust_env=False,
    )
    assert digest == answer.headers["Docker-Content-Digest"]
    assert pushed == f"{name}@{digest}"
    assert "on the engine already" in "\n".join(task_log)
    assert "in the registry already" in "\n".join(task_log)
    assert "pulling" not in first_log
    labels = api.inspect_image(image)["Config"]["Labels"]
    assert labels["org.opencontainers.image.base.name"] == base_image


def test_a_changed_file_makes_another_image(tmp_path: Path, base_image: str) -> None:
    name = f"{LOCAL}/changing"
    first = build(make_context_dir(tmp_path, SMALL, **{"note.txt": "one"}), name, base_image)

    second = build(make_context_dir(tmp_path, SMALL, **{"note.txt": "two"}), name, base_image)

    assert first != second


def test_a_failing_step_is_named_with_its_output_and_exit_code(
    tmp_path: Path, base_image: str, task_log: list[str]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    dockerfile = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN echo before; echo wrong >&2; exit 7\n"
    context_dir = make_context_dir(tmp_path, dockerfile)

    with pytest.raises(
        AirflowFailException, match=r"BuildFailed: Step 3/\d : RUN .* exited with 7"
    ) as caught:
        build(context_dir, f"{LOCAL}/broken", base_image)

    # The engine reads the two streams side by side, so that lines of one may overtake those of the other.
    assert sorted(str(caught.value).splitlines()[1:]) == ["    before", "    wrong"]
    assert "Step 3/" in "\n".join(task_log)
    assert "wrong" in "\n".join(task_log)


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("", "cannot be empty"),
        ("FORM scratch\n", "unknown instruction: FORM"),
        ("FROM scratch\nCOPY missing.txt /\n", r"COPY missing.txt / failed: .*missing.txt"),
    ],
)
def test_a_dockerfile_that_cannot_be_read_fails_by_name(
    tmp_path: Path, base_image: str, dockerfile: str, message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=f"BuildFailed: .*{message}"):
        build(make_context_dir(tmp_path, dockerfile), f"{LOCAL}/broken", base_image)


def test_a_missing_context_and_a_missing_dockerfile_fail_by_name(tmp_path: Path, base_image: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=r"BuildContextMissing: .*nowhere"):
        build(str(tmp_path / "nowhere"), f"{LOCAL}/none", base_image)
    with pytest.raises(
        AirflowFailException, match=r"BuildContextMissing: dockerfile .*must be a file in the"
    ):
        build(str(tmp_path), f"{LOCAL}/none", base_image)


def test_a_failing_build_is_not_retried_by_airflow(
    tmp_path: Path, base_image: str, register_dag: Any
) -> None:
    from airflow.sdk import DAG

    from container_training.operators.image import BuildImageOperator

    context_dir = make_context_dir(tmp_path, "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN exit 1\n")
    with DAG("failing_build") as dag:
        BuildImageOperator(
            task_id="build",
            context_dir="{{ params.context_dir }}",
            image=f"{LOCAL}/broken",
            build_args={"BASE_IMAGE": "{{ params.base }}"},
            params={"context_dir": context_dir, "base": base_image},
            retries=2,
            retry_delay=timedelta(0),
        )

    run = register_dag(dag).test()

    (task,) = run.get_task_instances()
    assert task.state == "failed"
    assert task.try_number == 1


def test_a_test_run_has_the_environment_of_a_job(python_image: str, task_log: list[str]) -> None:
    source = "import json, os, socket; print(json.dumps({**os.environ, 'host': socket.gethostname()}))"

    run_test(python_image, args=[source], environment={"MINE": "yes"}, job_dir="gs://b/out")

    (line,) = [line for line in task_log if line.startswith("stdout | {")]
    environment = json.loads(line.partition(" | ")[2])
    spec = json.loads(environment["CLUSTER_SPEC"])
    assert spec["task"]["type"] == "master"
    assert spec["cluster"]["master"] == [f"{environment['host']}:2222"]
    assert spec["job"]["jobDir"] == "gs://b/out"
    assert json.loads(environment["TF_CONFIG"])["environment"] == "cloud"
    assert environment["GOOGLE_CLOUD_PROJECT"] == "p-1"
    assert environment["STORAGE_EMULATOR_HOST"] == "http://emulator:1"
    assert environment["MINE"] == "yes"


def test_a_test_run_is_given_the_job_directory(python_image: str, task_log: list[str]) -> None:
    run_test(python_image, args=["import sys; print(sys.argv[1:])"], job_dir="gs://b/out")

    assert "stdout | ['--job-dir', 'gs://b/out']" in "\n".join(task_log)


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("import sys; print('so far'); sys.exit(3)", {}, r"exited with 3; its last output:\n    so far"),
        (
            "import time; print('waiting'); time.sleep(600)",
            {"timeout": TIME_LIMIT_SECONDS},
            rf"time limit of {TIME_LIMIT_SECONDS} s, and was killed; its last output:\n    waiting",
        ),
        (
            FULL_MEMORY,
            {"memory_bytes": 64 * 2**20},
            r"ran out of memory \(exit code 137, limit 64 MiB\)",
        ),
    ],
    ids=["exits 3", "hangs", "out of memory"],
)
def test_a_failing_test_run_says_how_it_ended_and_leaves_no_container(
    api: APIClient, python_image: str, source: str, arguments: dict[str, Any], message: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=f"ImageTestFailed: .*{message}"):
        run_test(python_image, args=[source], **arguments)

    assert left_containers(api, python_image) == []


def test_an_image_that_cannot_be_started_or_is_not_there_fails_by_name(base_image: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(
        AirflowFailException, match=r"ImageTestFailed: .*exited with 127 \(the program was not found\)"
    ):
        run_test(base_image, args=["/no/such/program"])
    with pytest.raises(AirflowFailException, match="ImageNotFound"):
        run_test(f"{LOCAL}/never-built:1")
    with pytest.raises(AirflowFailException, match=r"ImageNotFound: .*build it first"):
        push(f"{LOCAL}/never-built:1")


def test_killing_the_task_ends_the_container(api: APIClient, python_image: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from container_training.operators.image import TestImageOperator

    operator = TestImageOperator(
        task_id="test", image=python_image, args=["import time; time.sleep(600)"], timeout=60
    )

    def runs() -> bool:
        containers = api.containers(filters={"label": OWNER_LABEL})
        return any(container["Image"] == python_image for container in containers)

    with signalled(runs, operator.on_kill), pytest.raises(AirflowFailException, match="was cancelled"):
        operator.execute(task_context())

    assert left_containers(api, python_image) == []


def test_killing_the_task_ends_the_build(tmp_path: Path, api: APIClient, base_image: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from container_training.operators.image import BuildImageOperator

    step = f"sleep 612.{uuid.uuid4().int % 10**9}"  # of this test alone
    dockerfile = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\nRUN {step}\n"
    operator = BuildImageOperator(
        task_id="build",
        context_dir=make_context_dir(tmp_path, dockerfile),
        image=f"{LOCAL}/slow",
        build_args={"BASE_IMAGE": base_image},
    )

    def runs() -> bool:
        return any("sleep 612" in container["Command"] for container in api.containers())

    with signalled(runs, operator.on_kill), pytest.raises(AirflowFailException, match="build was cancelled"):
        operator.execute(task_context())

    wait_until(lambda: not runs(), "the build's container has ended")


def test_a_registry_that_is_down_is_asked_again_and_then_named(
    api: APIClient, tiny_image: str, task_log: list[str]
) -> None:
    from training_api.errors import RegistryUnavailable

    port = reserve_port()
    api.tag(tiny_image, f"127.0.0.1:{port}/image-tests/tiny", "1")

    with pytest.raises(RegistryUnavailable, match=f"registry 127.0.0.1:{port} did not answer in 3 attempts"):
        push(f"127.0.0.1:{port}/image-tests/tiny:1", attempts=3, max_wait_seconds=0.1)

    assert "attempt 1 of 3 failed" in "\n".join(task_log)
    assert "attempt 2 of 3 failed" in "\n".join(task_log)


def test_a_push_goes_on_when_the_registry_comes_up(tmp_path: Path, api: APIClient, tiny_image: str) -> None:
    port = reserve_port()
    api.tag(tiny_image, f"127.0.0.1:{port}/image-tests/tiny", "1")
    running: list[Any] = []

    def start_registry(_: float) -> None:
        if not running:
            running.append(run_registry(api, tmp_path, port))
            running[0].__enter__()

    try:
        with mock.patch("tenacity.nap.time.sleep", start_registry):
            pushed = push(f"127.0.0.1:{port}/image-tests/tiny:1", attempts=2)
    finally:
        for registry in running:
            registry.__exit__(None, None, None)

    assert pushed.startswith(f"127.0.0.1:{port}/image-tests/tiny@sha256:")


def test_an_engine_that_is_down_is_named_and_left_to_retries(tmp_path: Path, python_image: str) -> None:
    from training_api.errors import EngineUnavailable

    with pytest.raises(EngineUnavailable, match="no Docker Engine answers at unix:///"):
        run_test(python_image, docker_url=f"unix://{tmp_path / 'no.sock'}")


@pytest.fixture
def small_engine() -> Iterator[str]:
    """URL of a second engine, whose disk has 24 MB."""
    with run_own_engine() as url:
        yield url


@pytest.mark.parametrize("megabytes", [15, 40], ids=["the layer is too large", "the context is too large"])
def test_a_disk_without_room_for_the_image_is_named(
    tmp_path: Path, small_engine: str, megabytes: int
) -> None:
    from training_api.errors import DiskFull

    context_dir = make_context_dir(tmp_path, "FROM scratch\nCOPY large.bin /\n")
    (tmp_path / "large.bin").write_bytes(os.urandom(megabytes * 1_000_000))

    with pytest.raises(DiskFull, match="no space left on device"):
        build(context_dir, f"{LOCAL}/large", "", docker_url=small_engine)
