"""
Forty jobs under kills of the service, the engine and PostgreSQL.

Every job ends as it must, no line is lost or doubled, and nothing is left on the engine.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from pathlib import Path

import docker
import pytest

from local_stack.stack import LocalStack
from tests.docker.troubled_jobs import check_log, check_nothing_is_left, run_service, submit, wait_for_ends
from tests.support.bed.postgresql import running_server
from tests.support.bed.service_process import ServiceProcess
from tests.support.bed.swarm import Swarm
from tests.support.speed import slowness
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

JOBS_UNDER_LOAD = 40
KILLS = 6


@pytest.mark.postgresql
def test_forty_jobs_end_well_while_service_and_database_are_killed(
    stack: LocalStack, pushed_image: ImageRef, engine_client: docker.APIClient, tmp_path: Path, job_id: str
) -> None:
    chance = random.Random(15)
    names = [f"{job_id}_{number}" for number in range(JOBS_UNDER_LOAD)]
    docker_host = f"unix://{stack.settings.engine_socket}"
    with (
        running_server() as database,
        run_service(tmp_path, docker_host, database.make_database()) as (service, client),
        service.supervised(),
    ):
        submit(client, pushed_image, names)
        for kill in range(KILLS):
            time.sleep(slowness() * chance.uniform(0.5, 4))
            if kill % 2:
                service.kill()
            else:
                database.kill()
                database.start()
        wait_for_ends(client, names)
        for name in names:
            check_log(client, name)
        check_nothing_is_left(engine_client, service)


@pytest.mark.extended
@pytest.mark.swarm
def test_forty_jobs_end_well_while_service_and_engine_are_killed(
    swarm: Swarm, swarm_image: ImageRef, tmp_path: Path, job_id: str
) -> None:
    # Any machine of the swarm is an engine for itself, too; this one manages nothing.
    machine = swarm.nodes[1]
    chance = random.Random(15)
    names = [f"{job_id}_{number}" for number in range(JOBS_UNDER_LOAD)]

    with run_service(tmp_path, machine.docker_host) as (service, client):
        submit(client, swarm_image, names)
        engine_kills = []
        for _ in range(KILLS):
            time.sleep(slowness() * chance.uniform(0.5, 4))
            if chance.random() < 0.5:
                restart(service)
            else:
                begun = datetime.now(UTC)
                machine.kill_engine()
                engine_kills.append((begun, datetime.now(UTC)))
                machine.start_engine()
        wait_for_ends(client, names)
        for name in names:
            check_log(client, name, engine_kills)
        engine = machine.client()
        check_nothing_is_left(engine, service)
        engine.close()


def restart(service: ServiceProcess) -> None:
    service.kill()
    service.start()
