"""The step of `docker build` that Cloud Build gets, run by hand as Cloud Build would run it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from docker.api import APIClient

from container_training.work.images.build_context import open_context
from container_training.work.images.builders.docker_cli import find_buildkit_cli
from container_training.work.images.cloud_build import CloudMachine, StoredContext, build_request
from container_training.work.images.content import image_content
from container_training.work.images.labels import image_labels, is_made_of
from tests.support.bed.image_tasks import OWN, make_context_dir
from tests.support.run_id import current_run

pytestmark = pytest.mark.docker

SECRET = "correct-horse-battery-staple"
STEPS = (
    'RUN --mount=type=secret,id=hub-token test "$(cat /run/secrets/hub-token)" = "correct-horse-battery-staple"\n'
    "ARG PRICE\nRUN echo $PRICE > /price\n"
)


def test_docker_takes_the_step_and_the_image_has_its_labels(
    tmp_path: Path, api: APIClient, base_image: str
) -> None:
    (tmp_path / "context").mkdir()
    folder = make_context_dir(
        tmp_path / "context", f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\n{OWN}{STEPS}COPY note /\n", note="hello"
    )
    context = open_context(folder, build_args={"BASE_IMAGE": base_image, "PRICE": "5$USD"})
    archive = io.BytesIO()
    # As it would be called in a registry that Cloud Build pushes to.
    name = f"europe-docker.pkg.dev/p-1/image-tests/{current_run().id}"
    content = image_content(context, name, archive, lambda base: "sha256:1", ["secret hub-token"])
    labels = {**current_run().labels, "team": "vision, and others"}
    request = build_request(
        content,
        StoredContext(bucket="b", name="c.tar.gz", generation=1),
        dockerfile=context.dockerfile,
        dockerfile_text=context.dockerfile_text(),
        build_args=context.build_args,
        labels=image_labels(context, content, labels, datetime.now(UTC)),
        secrets={"hub-token": "projects/p-1/secrets/hub/versions/1"},
        machine=CloudMachine(timeout=timedelta(minutes=5)),
    )
    (step,) = request["steps"]
    workspace = tmp_path / "workspace"
    archive.seek(0)
    with tarfile.open(fileobj=archive) as packed:
        packed.extractall(workspace, filter="data")

    environment = dict(variable.split("=", 1) for variable in step["env"])
    arguments = [word.replace("$$", "$") for word in step["args"]]
    subprocess.run(
        [find_buildkit_cli(), *arguments],
        check=True,
        cwd=workspace,
        env={**os.environ, **environment, step["secret_env"][0]: SECRET},
    )

    image = api.inspect_image(request["images"][0])
    assert is_made_of(image, content)
    assert image["Config"]["Labels"]["team"] == "vision, and others"
    assert b"5$USD\n" in b"".join(api.get_image(image["Id"]))
