"""Forty jobs pull from a registry that takes their requests and never answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

HANGING = "hangs.test"
JOBS = [f"hangs_{number}" for number in range(40)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LiveService]:
    with run_service(tmp_path, Behaviour(run_seconds=10**9), overcommit=1000) as service:
        service.engine.hanging_registries.add(HANGING)
        yield service


@pytest.fixture
def client(service: LiveService) -> Iterator[TrainingClient]:
    with TrainingClient(service.endpoint, "demo-project") as client:
        yield client


def submit(client: TrainingClient, job_id: str, image: str) -> None:
    training = TrainingInput(master_config=ReplicaConfig(image_uri=image))
    client.create_job(Job(job_id=job_id, training_input=training))


def wait_for(client: TrainingClient, state: JobState, *job_ids: str) -> None:
    for job_id in job_ids:
        wait_until(partial(is_in, client, job_id, state), f"{job_id} is {state}", seconds=20)


def is_in(client: TrainingClient, job_id: str, state: JobState) -> bool:
    return client.get_job(job_id).state is state


def submit_all_that_hang(client: TrainingClient) -> None:
    for job_id in JOBS:
        submit(client, job_id, f"{HANGING}/demo-project/trainer:1")
    wait_for(client, JobState.PREPARING, *JOBS)


def test_each_is_cancelled_though_its_pull_hangs(client: TrainingClient) -> None:
    submit_all_that_hang(client)

    # One whose pull hangs, and one that has no place to pull yet.
    cancelled = (JOBS[0], JOBS[-1])
    for job_id in cancelled:
        client.cancel_job(job_id)

    wait_for(client, JobState.CANCELLED, *cancelled)
    assert is_in(client, JOBS[1], JobState.PREPARING)


def test_jobs_of_another_registry_run(client: TrainingClient) -> None:
    submit_all_that_hang(client)
    healthy = [f"healthy_{number}" for number in range(5)]

    for job_id in healthy:
        submit(client, job_id, IMAGE)

    wait_for(client, JobState.RUNNING, *healthy)
