"""A service whose PostgreSQL hangs while it starts ends, says why, and may start again."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.bed.postgresql import PostgresServer
from tests.support.bed.service_process import ServiceProcess
from tests.support.fakes.docker_api import run_fake_docker
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_service.store.database import SCHEMA_LOCK
from training_service.store.start_watch import SILENCE_SECONDS

pytestmark = [pytest.mark.postgresql, pytest.mark.extended]

_SESSIONS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND application_name LIKE 'training-service-%%'"
)


def test_a_service_whose_database_hangs_while_it_starts_ends_and_may_start_again(
    postgresql: PostgresServer, tmp_path: Path
) -> None:
    with FaultyProxy(postgresql.socket) as network, run_fake_docker() as engine:
        url = postgresql.make_database(port=network.port)
        name = str(sa.make_url(url).database)
        service = ServiceProcess(tmp_path, url, TRAINING_DOCKER_HOST=engine.url)
        try:
            with postgresql.connect(name) as other:
                # While another service makes the tables, this one waits for its turn.
                other.execute("SELECT pg_advisory_lock(%s)", (SCHEMA_LOCK,))
                process = service.launch()
                wait_until(lambda: other.execute(_SESSIONS, (name,)).fetchone(), "the service has connected")
                network.suffer(Fault.HALF_OPEN)

                status = process.wait(SILENCE_SECONDS + scaled(20))

            network.heal()
            service.start()
        finally:
            service.kill()

    (line,) = (line for line in (tmp_path / "service.log").read_text().splitlines() if "cannot start" in line)
    assert status == 1
    assert "keeps the connection and has answered nothing for" in line
    assert "a supervisor starts it again" in line
