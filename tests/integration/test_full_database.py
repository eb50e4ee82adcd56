"""A whole service whose database takes no write for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.bed.job_watch import until_state
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

LINES = ("epoch 1", "epoch 2")


class Disk:
    """What the database of every service in this process writes to."""

    def __init__(self) -> None:
        self.is_full = False

    def checkout(self, connection: Any, *_: Any) -> None:
        connection.execute(f"PRAGMA query_only={'ON' if self.is_full else 'OFF'}")


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    sa.event.listen(sa.Pool, "checkout", disk.checkout)
    yield disk
    sa.event.remove(sa.Pool, "checkout", disk.checkout)


@pytest.fixture
def service(disk: Disk, tmp_path: Path) -> Iterator[LiveService]:
    with run_service(tmp_path, Behaviour(run_seconds=1000, lines=LINES)) as service:
        yield service
        disk.is_full = False


def get(service: LiveService, path: str) -> httpx.Response:
    return web.get(f"{service.endpoint}{path}")


def submit(client: TrainingClient, job_id: str) -> None:
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    client.create_job(Job(job_id=job_id, training_input=training))


def test_everything_goes_on_when_there_is_room_again(
    service: LiveService, disk: Disk, client: TrainingClient
) -> None:
    submit(client, "first")
    until_state(client, "first", JobState.RUNNING)

    disk.is_full = True
    service.engine.advance(1000)
    wait_until(
        lambda: get(service, "/health").json().get("loop", "").startswith("no job moves"), "the loop fails"
    )
    ill, alive = get(service, "/health/ready"), get(service, "/health/live")
    during = client.get_job("first").state
    disk.is_full = False
    until_state(client, "first", JobState.SUCCEEDED)
    submit(client, "later")
    until_state(client, "later", JobState.RUNNING)
    service.engine.advance(1000)
    until_state(client, "later", JobState.SUCCEEDED)

    assert (ill.status_code, alive.status_code) == (503, 200)
    assert ill.json()["parts"]["store"]["reason"].startswith("OperationalError")
    assert during is JobState.RUNNING
    wait_until(lambda: not service.engine.observe().job_uids, "nothing is left on the engine")
    entries = client.list_log_entries(job_log_filter("first")).entries or []
    assert [entry.text_payload for entry in entries if entry.text_payload] == list(LINES)
    assert get(service, "/health/ready").status_code == 200
