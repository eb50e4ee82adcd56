"""
Compare the tasks of an unchanged run with ``docker build`` and ``docker push``.

All is there already: the image on the engine and in the registry, every layer in the cache. Each task runs as
Airflow runs it, in a fresh process that is forked from one with the DAG's file imported, so that what an
operator imports in ``execute`` counts. By hand it is the two commands of docker's own command line. The two
take turns.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import docker

from benchmarks.report import Figure, median_figure, tell
from benchmarks.support.by_hand import time_by_hand
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import registry_login
from local_stack.processes.ports import free_port
from local_stack.settings import REPOSITORY_ROOT, Part, StackSettings
from local_stack.stack import LocalStack

ROUNDS = 11
#: Of both tasks together.
MAX_SECONDS = 2.0
_CONTEXT = REPOSITORY_ROOT / "docker" / "trainers" / "digits"


def measure(stack: LocalStack) -> list[Figure]:
    """Return the medians, and their ratio; the stack's engine and registry are up."""
    settings = stack.settings
    _connect(settings)
    # Imported by whoever reads the DAG's file, before it forks.
    from container_training.operators.image import BuildImageOperator, PushImageOperator

    build_args = {"BASE_IMAGE": BaseImage.name_of(settings)}
    name = f"{settings.image_prefix}/digits"

    def build() -> str:
        task = BuildImageOperator(
            task_id="build", context_dir=str(_CONTEXT), image=name, build_args=build_args
        )
        return str(task.execute({}))

    def push(image: str) -> str:
        return str(PushImageOperator(task_id="push", image=image).execute({}))

    image, _ = _in_a_process(build)
    _in_a_process(push, image)
    _time_by_hand(settings)
    builds, pushes, by_hand = [], [], []
    for _ in range(ROUNDS):
        by_hand.append(_time_by_hand(settings))
        builds.append(_in_a_process(build)[1])
        pushes.append(_in_a_process(push, image)[1])
    both = [build + push for build, push in zip(builds, pushes, strict=True)]
    return [
        median_figure("unchanged: build task", builds),
        median_figure("unchanged: push task", pushes),
        median_figure("both tasks", both, limit=MAX_SECONDS),
        median_figure("docker build and docker push, warm", by_hand),
        median_figure("ratio", [task / hand for task, hand in zip(both, by_hand, strict=True)], unit="x"),
    ]


def _connect(settings: StackSettings) -> None:
    """Give the operators the stack's engine and registry login, as its Airflow has them."""
    login = registry_login(settings)
    connection = {
        "conn_type": "docker",
        "host": settings.image_prefix.partition("/")[0],
        "login": login.get("username", ""),
        "password": login.get("password", ""),
    }
    os.environ["AIRFLOW_CONN_DOCKER_DEFAULT"] = json.dumps(connection)
    os.environ["DOCKER_HOST"] = settings.engine_url


def _in_a_process(work: Any, *arguments: str) -> tuple[str, float]:
    """Run ``work`` in a forked process; return its result and the seconds that it took there."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, sys.stdout.fileno())
        os.dup2(silence, sys.stderr.fileno())
        started = time.perf_counter()
        result = work(*arguments)
        sender.send((result, time.perf_counter() - started))

    process = context.Process(target=run)
    process.start()
    sender.close()
    answer: tuple[str, float] = receiver.recv()
    process.join()
    return answer


def _time_by_hand(settings: StackSettings) -> float:
    image = f"{settings.image_prefix}/digits:unchanged-by-hand"
    base = f"BASE_IMAGE={BaseImage.name_of(settings)}"
    commands = [
        ["docker", "build", "--quiet", "--build-arg", base, "--tag", image, str(_CONTEXT)],
        ["docker", "push", "--quiet", image],
    ]
    return time_by_hand(settings, commands)


def _remove_images(settings: StackSettings) -> None:
    """Remove the names that the registry of this run gave to images; other names stay."""
    client = docker.APIClient(base_url=settings.engine_url)
    for image in client.images(name=f"{settings.image_prefix}/digits"):
        for name in image.get("RepoTags") or ():
            client.remove_image(name)
    client.close()


def main() -> int:
    """Measure on a separate stack without Airflow; return 0 if the figure is within its limit."""
    with tempfile.TemporaryDirectory() as folder:
        settings = StackSettings(
            state_dir=Path(folder),
            base_image=BaseImage.name_of(StackSettings()),
            registry_port=free_port(),
            object_store_port=free_port(),
            training_port=free_port(),
            grpc_port=0,
            metadata_port=free_port(),
            airflow_port=free_port(),
        )
        with LocalStack(settings) as stack:
            stack.up([Part.ENGINE, Part.REGISTRY, Part.OBJECT_STORE, Part.TRAINING])
            figures = {"unchanged images": measure(stack)}
            _remove_images(settings)
    return tell(figures, "images-")


if __name__ == "__main__":
    sys.exit(main())
