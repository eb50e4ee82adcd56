"""
One job of a task runs on Vertex AI, whatever happens to creates and lists.

The service is the real one, over HTTP, and so are the submission and the poller of waits; a gateway between
them loses, repeats and delays creates, and lets lists lag. Time is virtual: a minute of lag takes none.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from container_training.hooks import vertex_address
from container_training.hooks.backends import BackendAddress, backend_address
from container_training.hooks.training import TrainingHook
from container_training.triggers.poller import watch_job
from tests.integration.live_service import IMAGE, LiveService
from tests.support import web
from tests.support.fakes.fake_service import make_job
from tests.support.fakes.losing_gateway import Fault, Harm, LosingGateway
from tests.support.fakes.submission_tries import FIRST, LAG, Try
from tests.support.fakes.virtual_time import VirtualClock
from tests.support.selection import cases
from training_api.dialects.ml_v1.intent import request_hash
from training_api.dialects.ml_v1.resources import Job
from training_api.job.labels import OWNER_LABEL
from training_api.retrying import TRANSIENT
from training_api.states import ACTIVE

PROJECT = "demo-project"
REQUEST = make_job(
    job_id=None,
    state=None,
    create_time=None,
    training_input={"region": "us-central1", "masterConfig": {"imageUri": IMAGE}},
)
#: The pause of Vertex AI's poller.
POLL_SECONDS = 5.0
#: Airflow's pause between two tries of a task.
RETRY_SECONDS = 300.0
#: 8 seeds, of 25 tasks each.
SEEDS, TASKS = range(8), 25


@dataclass(frozen=True)
class World:
    """A service behind a gateway, and the clock of all."""

    gateway: LosingGateway
    clock: VirtualClock
    address: BackendAddress
    direct: httpx.Client

    def submit(self, name: str) -> Job:
        """Settle the job of a task, which is tried again as Airflow would."""
        intent = replace(FIRST, request_hash=request_hash(REQUEST), job_id=name, owner=name)
        with TrainingHook() as hook:
            task = Try(hook.client, self.clock)
            while True:
                try:
                    return task.run(intent, REQUEST)
                except TRANSIENT:
                    intent = task.stored[-1]
                    self.clock.seconds += RETRY_SECONDS

    def wait_for(self, job: Job, seconds: float) -> None:
        """Wait for a job for so long, by the poller, as a deferred sensor does."""
        start = self.clock.seconds

        async def watch() -> None:
            async with watch_job(self.address, job.job_id or "", POLL_SECONDS) as news:
                while True:
                    await news.next()

        async def main() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(watch(), seconds)

        self.clock.run(main())
        assert self.clock.seconds >= start + seconds

    def active(self, name: str) -> list[str]:
        """Return the numbers of the jobs of a task that run or will run, as the service itself says."""
        answer = self.direct.get(
            f"/v1/projects/{PROJECT}/locations/us-central1/customJobs",
            params={"filter": f'labels.{OWNER_LABEL}="{name}"'},
        )
        jobs: list[dict[str, Any]] = answer.raise_for_status().json().get("customJobs", [])
        states = {f"JOB_STATE_{state}" for state in ACTIVE} | {"JOB_STATE_PENDING"}
        return [job["name"].rpartition("/")[2] for job in jobs if job["state"] in states]


@pytest.fixture
def world(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    clock = VirtualClock()
    endpoint = f"{service.endpoint}/vertex"
    connection = {
        "conn_type": "vertex_training",
        "host": endpoint,
        "password": "a-token",
        "extra": {"project": PROJECT, "list_lag_seconds": LAG},
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    with web.client(endpoint) as direct:
        gateway = LosingGateway(direct.send, lambda: clock.seconds)
        for name, handler in (("VertexClient", gateway.handle), ("AsyncVertexClient", gateway.handle_async)):
            client = functools.partial(getattr(vertex_address, name), transport=httpx.MockTransport(handler))
            monkeypatch.setattr(vertex_address, name, client)
        address = backend_address(TrainingHook.get_connection("training_default"))
        yield World(gateway, clock, address, direct)


def faults_of(rng: random.Random) -> list[Fault]:
    """Return what happens to the first creates of a task, one fault at least."""
    count = rng.choice((1, 1, 2, 3))
    return [Fault(rng.choice(list(Harm)), rng.uniform(1.0, 60.0)) for _ in range(count)]


@pytest.mark.parametrize("seed", cases(SEEDS, witnesses=[0, 1]))
def test_one_job_of_a_task_is_left_and_each_other_is_cancelled_by_the_poll_that_shows_it(
    world: World, seed: int
) -> None:
    rng = random.Random(seed)
    gateway, seen = world.gateway, Counter[str]()
    for place in range(TASKS):
        name = f"digits_{seed}_{place}"
        before = set(gateway.born)
        gateway.faults, gateway.lag = faults_of(rng), rng.choice((0.0, 60.0, rng.uniform(0.0, 60.0)))
        story = f"{[str(fault) for fault in gateway.faults]}, lag {gateway.lag:.1f}"
        planned = len(gateway.faults)

        job = world.submit(name)
        settled = world.clock.seconds
        world.wait_for(job, max(gateway.settles_at - settled, 0.0) + 2 * POLL_SECONDS)

        number = job.job_id or ""
        assert world.active(name) == [number], story
        others = gateway.born.keys() - before - {number}
        late = {
            each: (gateway.shown_at(each), gateway.cancelled.get(each))
            for each in others
            if gateway.cancelled.get(each, float("inf")) > max(gateway.shown_at(each), settled) + POLL_SECONDS
        }
        assert not late, story
        assert number not in gateway.cancelled, story
        seen["faults"] += planned - len(gateway.faults)
        seen["duplicates"] += len(others)
        gateway.faults = []
        gateway.handle(httpx.Request("POST", f"{world.direct.base_url}v1/{_name(number)}:cancel", json={}))
    assert seen["faults"] >= TASKS
    assert seen["duplicates"] >= 1, "no fault made a duplicate: nothing was tried"


def _name(number: str) -> str:
    return f"projects/{PROJECT}/locations/us-central1/customJobs/{number}"
