"""What a run removes of a killed run, and what it leaves alone, on a real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import psutil
import pytest

from tests.support.dead_runs import clean_up_after_dead_runs
from tests.support.ports import reserve_port
from tests.support.run_id import RUN_LABEL, RUN_VARIABLE, STATE_VARIABLE, current_run

pytestmark = pytest.mark.docker

#: A run that makes one of each, says what, and stays; ``service`` is how a training service marks what it
#: makes for the run.
PROGRAM = """
import io, json, subprocess, sys, time
import docker
from docker.utils import kwargs_from_env
from tests.support.own_images import build_image
from tests.support.run_id import current_run

base, service, port = sys.argv[1:]
run, client = current_run(), docker.APIClient(**kwargs_from_env())
run.use_engine(client)
labels, others = run.labels, {"container-training.service": service}
run.own_label("container-training.service", service)
assert run.claim("port", port)
pushed = f"127.0.0.1:{port}/demo-project/python:1"
client.tag(base, *pushed.rsplit(":", 1))
built = run.image("built:1")
build_image(client, built, fileobj=io.BytesIO(f"FROM {base}\\nENV RUN={run.id}\\n".encode()))
unmarked = client.create_container(built, ["sleep", "600"])["Id"]
client.start(unmarked)
containers = [unmarked, *(client.create_container(base, ["true"], labels=each)["Id"] for each in (labels, others))]
networks = [client.create_network(f"{run.id}-{n}", labels=each)["Id"] for n, each in enumerate((labels, others))]
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
made = {"containers": containers, "networks": networks, "images": [pushed, built], "folder": str(run.make_folder("x")), "child": child.pid}
print(json.dumps(made), flush=True)
time.sleep(600)
"""


@dataclass(frozen=True)
class Made:
    """What a run has made."""

    containers: list[str]
    networks: list[str]
    images: list[str]
    folder: str
    child: int

    def left(self, client: docker.APIClient) -> list[str]:
        """Return what of it is there."""
        ids = {item["Id"] for item in (*client.containers(all=True), *client.networks())}
        names = {name for image in client.images() for name in image["RepoTags"] or ()}
        left = [name for name in (*self.containers, *self.networks, *self.images) if name in ids | names]
        left += [self.folder] if Path(self.folder).exists() else []
        return left + ([f"process {self.child}"] if _runs(self.child) else [])

    def everything(self) -> list[str]:
        """Return all of it, as ``left`` does."""
        return [*self.containers, *self.networks, *self.images, self.folder, f"process {self.child}"]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Begin = Callable[[str], tuple[subprocess.Popen[str], Made]]


@pytest.fixture
def begin(engine_client: docker.APIClient, base_image: str, tmp_path: Path) -> Iterator[Begin]:
    """Begin a run of that id, with separate records; all that is left of it goes at the end."""
    processes: list[subprocess.Popen[str]] = []

    def begin(run_id: str) -> tuple[subprocess.Popen[str], Made]:
        environment = os.environ | {RUN_VARIABLE: run_id, STATE_VARIABLE: str(tmp_path)}
        service, port = f"service-of-{run_id}", reserve_port()
        # Should this process be killed, what these runs leave is this run's.
        for name, value in ((RUN_LABEL, run_id), ("container-training.service", service)):
            current_run().own_label(name, value)
        command = [sys.executable, "-c", PROGRAM, base_image, service, str(port)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return process, Made(**json.loads(process.stdout.readline()))

    yield begin
    for process in processes:
        with process:
            process.kill()
    clean_up_after_dead_runs(engine_client, tmp_path)


def test_the_next_run_removes_what_a_killed_run_left_and_nothing_else(
    engine_client: docker.APIClient, base_image: str, begin: Begin, tmp_path: Path
) -> None:
    mine = current_run()
    killed_id, live_id = f"{mine.member}killed", f"{mine.member}live"
    killed, dead = begin(killed_id)
    _, alive = begin(live_id)
    stranger = engine_client.create_container(base_image, ["true"], labels=mine.labels)["Id"]
    network = engine_client.create_network(f"{killed_id}-stranger", labels=mine.labels)["Id"]
    image = mine.image("stranger:1")
    engine_client.tag(base_image, *image.rsplit(":", 1))
    try:
        killed.kill()
        killed.wait()
        before = dead.left(engine_client)

        cleaned = clean_up_after_dead_runs(engine_client, tmp_path)

        assert before == dead.everything()
        assert cleaned == [killed_id]
        assert dead.left(engine_client) == []
        assert alive.left(engine_client) == alive.everything()
        assert engine_client.inspect_container(stranger)
        assert engine_client.inspect_network(network)
        assert engine_client.inspect_image(image)
        assert engine_client.inspect_image(base_image)
        assert clean_up_after_dead_runs(engine_client, tmp_path) == []
    finally:
        engine_client.remove_container(stranger)
        engine_client.remove_network(network)
        engine_client.remove_image(image)


def test_a_run_on_another_engine_keeps_its_record(
    engine_client: docker.APIClient, begin: Begin, tmp_path: Path
) -> None:
    run_id = f"{current_run().member}away"
    killed, dead = begin(run_id)
    killed.kill()
    killed.wait()
    engine = tmp_path / run_id / "engine"
    here = engine.read_text()
    engine.write_text("another engine")

    cleaned = clean_up_after_dead_runs(engine_client, tmp_path)
    engine.write_text(here)

    assert cleaned == []
    assert dead.left(engine_client)
    assert clean_up_after_dead_runs(engine_client, tmp_path) == [run_id]
