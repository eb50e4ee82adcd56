"""Who moves the jobs: the lock, the lease and the token, on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime

import pytest
import sqlalchemy as sa

from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.bed.postgresql import PostgresServer
from tests.support.fakes.world import World
from tests.support.speed import drawn_out, scaled
from tests.support.waiting import wait_until
from training_api.states import JobState
from training_service.store.database import Databases, open_databases, writing
from training_service.store.jobs.job_store import JobStore
from training_service.store.leadership import Leadership, NotActive, Role
from training_service.store.logs.log_store import LogStore
from training_service.store.tables import leadership

pytestmark = pytest.mark.postgresql


class Service:
    """One service's part, and what it was told."""

    def __init__(
        self, url: str, silence_seconds: float = 20.0, adopt: Callable[[], object] = lambda: None
    ) -> None:
        self.databases: Databases = open_databases(url)
        self.became_active = threading.Event()
        self.was_lost = threading.Event()
        self.has_ticked = threading.Event()
        self._adopt = adopt
        self.leadership = Leadership(
            self.databases.loop,
            self.databases.name,
            lease_seconds=drawn_out(4),
            on_active=self._begin,
            on_tick=self.has_ticked.set,
            on_lost=self.was_lost.set,
            silence_seconds=silence_seconds,
        )
        self.pool = self.databases.loop.execution_options(fence=self.leadership.fence)
        self.store = JobStore(self.pool, LogStore(self.pool))

    def start(self) -> None:
        self.leadership.start()

    def close(self) -> None:
        self.leadership.stop()
        self.databases.dispose()

    def _begin(self) -> None:
        self._adopt()
        self.became_active.set()

    def renewed_at(self) -> datetime:
        with self.databases.api.connect() as connection:
            found: datetime = connection.execute(sa.select(leadership.c.renewed_at)).scalar_one()
            return found

    def is_active(self) -> bool:
        return self.leadership.role is Role.ACTIVE


@pytest.fixture
def make(postgresql: PostgresServer) -> Iterator[Callable[[], Service]]:
    """Return a function that starts a service on the test's database."""
    url = postgresql.make_database()
    with ExitStack() as services:

        def make() -> Service:
            service = Service(url)
            services.callback(service.close)
            service.start()
            return service

        yield make


def take_over(service: Service) -> None:
    """Do in the database what a service does that takes over."""
    with service.databases.api.connect() as connection:
        values = {"token": leadership.c.token + 1, "holder": "other"}
        connection.execute(sa.update(leadership).values(**values))
        connection.commit()


def test_the_first_one_is_active_and_the_next_stands_by(make: Callable[[], Service]) -> None:
    first = make()
    wait_until(first.is_active, "the first one is active")
    second = make()

    assert not second.became_active.wait(1.5)
    first.leadership.check()
    with pytest.raises(NotActive):
        second.leadership.check()


def test_the_lease_is_renewed_while_jobs_are_adopted(postgresql: PostgresServer) -> None:
    adopted = threading.Event()
    service = Service(postgresql.make_database(), adopt=adopted.wait)
    with closing(service):
        service.start()
        wait_until(service.is_active, "it is active")
        taken_over_at = service.renewed_at()

        wait_until(lambda: service.renewed_at() > taken_over_at, "the lease is renewed")
        assert not service.has_ticked.is_set()

        adopted.set()
        wait_until(service.has_ticked.is_set, "the tick is called")


def test_a_service_without_the_lease_cannot_write(make: Callable[[], Service]) -> None:
    first = make()
    wait_until(first.is_active, "the first one is active")
    world = World(first.databases.loop)
    world.submit("job")
    record = first.store.list_active()[0]
    take_over(first)

    with pytest.raises(NotActive):
        first.store.advance(record, JobState.PREPARING, at=record.created_at, message="moved")
    with pytest.raises(NotActive):
        first.leadership.check()

    assert first.store.get("project", "job").state is JobState.QUEUED
    wait_until(first.was_lost.is_set, "the first service knows that it lost the lead")
    assert first.leadership.role is Role.STANDBY


def test_a_takeover_waits_for_a_write_that_has_begun_and_a_renewal_does_not(
    make: Callable[[], Service],
) -> None:
    service = make()
    wait_until(service.is_active, "it is active")

    with writing(service.pool).begin(), service.databases.api.connect() as other:
        other.execute(sa.update(leadership).values(renewed_at=sa.func.clock_timestamp()))
        other.exec_driver_sql("SET LOCAL lock_timeout = '300ms'")
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            other.execute(sa.update(leadership).values(token=leadership.c.token + 1))


def test_nobody_writes_before_the_first_is_active(
    make: Callable[[], Service], postgresql: PostgresServer
) -> None:
    service = Service(postgresql.make_database())

    with pytest.raises(NotActive), writing(service.pool).begin():
        pass

    service.databases.dispose()


def test_who_ends_in_order_is_replaced(make: Callable[[], Service]) -> None:
    first = make()
    wait_until(first.is_active, "the first one is active")
    second = make()

    first.leadership.stop()

    wait_until(second.is_active, "the second one is active")
    with pytest.raises(NotActive):
        first.leadership.check()


def test_a_service_whose_connection_hangs_for_good_gives_up(postgresql: PostgresServer) -> None:
    with FaultyProxy(postgresql.socket) as network:
        service = Service(postgresql.make_database(port=network.port), silence_seconds=1)
        service.start()
        wait_until(service.is_active, "it is active")

        network.suffer(Fault.HALF_OPEN)

        assert service.was_lost.wait(scaled(60))
        assert not service.is_active()
    service.close()
