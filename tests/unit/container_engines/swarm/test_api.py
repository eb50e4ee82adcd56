"""The swarm's own secrets, made once and removed with their job."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from container_engines.labels import JOB_UID, SERVICE
from container_engines.swarm.api import SwarmApi
from tests.support.fakes.docker_api import FakeDocker, run_fake_docker


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        yield engine


def labels(job_uid: str) -> dict[str, str]:
    return {SERVICE: "mine", JOB_UID: job_uid}


def test_a_secret_is_made_once_and_goes_with_its_job(engine: FakeDocker) -> None:
    swarm = SwarmApi("mine", engine.url)

    # Another's name begins with it.
    other = swarm.ensure_secret("ct-1-ab", labels("2"), b"y")
    made = [swarm.ensure_secret("ct-1-a", labels("1"), b"x") for _ in range(2)]
    contents = [base64.b64decode(each["Data"]) for each in engine.secrets.values()]
    swarm.remove_secrets("1")
    swarm.close()

    assert (made, other) == (["id-ct-1-a"] * 2, "id-ct-1-ab")
    assert contents == [b"y", b"x"]
    assert list(engine.secrets) == ["ct-1-ab"]
