"""The training services that Airflow has connections to."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

from container_training.airflow_internals.database import airflow_database, connection_ids
from container_training.hooks.backends import CONN_TYPES, backend_address, is_of_backend
from container_training.hooks.training import TrainingHook
from container_training.work.job_buckets import JobBuckets
from container_training.work.models.age import parse_limits
from training_api.clients.backend import TrainingBackend
from training_api.clients.watching import JobWatch
from training_api.dialects.ml_v1.cost import PriceList, parse_prices
from training_api.errors import InvalidPrice, InvalidRetrainingLimit, TrainingError

DEFAULT_CONN_ID = TrainingHook.default_conn_name
_ENVIRONMENT_PREFIX = "AIRFLOW_CONN_"
#: A person waits for the answer; what takes longer is shown as trouble.
_TIMEOUT_SECONDS = 10.0
#: How long a connection is believed to be what it was.
_FRESH_SECONDS = 10.0
#: How long after its connection changed a client may be in use: the longest download of a log, and more.
_IN_USE_SECONDS = 600.0


class UnknownConnection(TrainingError):
    """
    There is no connection of this name, or it is to something else.

    Which of the two is not said: not everybody may know what other connections there are.
    """

    def __init__(self, conn_id: str) -> None:
        super().__init__(
            f"connection {conn_id!r} cannot be found, or is not one to a training service; choose another one, "
            f"or add it with the type {' or '.join(map(repr, CONN_TYPES))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """
    A training service, as one connection describes it.

    :param log_seconds: shortest pause between two looks at the same log.
    :param price_problem: why the connection's prices cannot be read; empty: they can, or there are none.
    :param retraining_limits: model, or ``*``, -> how old it may become.
    :param limit_problem: why those cannot be read; the same.
    """

    conn_id: str
    project: str
    ops: JobWatch
    training: TrainingBackend
    prices: PriceList
    job_buckets: JobBuckets
    log_seconds: float = 0.0
    price_problem: str = ""
    retraining_limits: Mapping[str, timedelta] = field(default_factory=dict)
    limit_problem: str = ""

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self.ops.close()
        self.training.close()


class Services:
    """
    Services by connection id, each with clients that are kept; safe for several threads.

    When an Airflow connection changes, its clients are replaced. The old ones are closed once no thread can
    wait for an answer of theirs any more.

    :param clock: seconds; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, tuple[object, ...], Service]] = {}
        #: Clients that were replaced, and when.
        self._replaced: list[tuple[float, Service]] = []

    def get(self, conn_id: str) -> Service:
        """
        Return the service of the connection ``conn_id``.

        :raises UnknownConnection: there is none, or it is of another type.
        :raises InvalidConnection: it lacks a field.
        """
        now = self._clock()
        with self._lock:
            kept = self._kept.get(conn_id)
        if kept and now - kept[0] < _FRESH_SECONDS:
            return kept[2]
        connection = _connection(conn_id)
        key = (
            connection.host,
            connection.port,
            connection.schema,
            connection.password,
            connection.extra,
        )
        # The clients of a connection that did not change go on: their connections are open already.
        service = kept[2] if kept and kept[1] == key else _service(connection)
        with self._lock:
            before = self._kept.get(conn_id)
            self._kept[conn_id] = (now, key, service)
            if before and before[2] is not service:
                self._replaced.append((now, before[2]))
            over = [old for since, old in self._replaced if now - since > _IN_USE_SECONDS]
            self._replaced = [each for each in self._replaced if each[1] not in over]
        for old in over:
            old.close()
        return service

    def close(self) -> None:
        """Close the connections of all clients; may be called twice."""
        with self._lock:
            for service in [*(kept[2] for kept in self._kept.values()), *(old for _, old in self._replaced)]:
                service.close()


def training_connections() -> list[str]:
    """
    Return the ids of all connections to training services, sorted.

    Those of the environment are included.

    Connections of a secrets backend cannot be listed; they can be asked for by name.
    """
    with airflow_database() as session:
        found = {conn_id for conn_type in CONN_TYPES for conn_id in connection_ids(conn_type, session)}
    for name in os.environ:
        if name.startswith(_ENVIRONMENT_PREFIX):
            conn_id = name.removeprefix(_ENVIRONMENT_PREFIX).lower()
            try:
                _connection(conn_id)
            except UnknownConnection:
                continue
            found.add(conn_id)
    return sorted(found)


def _connection(conn_id: str) -> Connection:
    try:
        connection = TrainingHook.get_connection(conn_id)
    except (AirflowException, ValueError) as error:
        raise UnknownConnection(conn_id) from error
    if not is_of_backend(connection):
        # Whoever names a connection decides where its password goes: only to the kind of service that it is
        # for.
        raise UnknownConnection(conn_id)
    return connection


def _service(connection: Connection) -> Service:
    address = backend_address(connection)
    extra = connection.extra_dejson
    source = f"extra.prices of connection {connection.conn_id!r}"
    prices, problem = PriceList(source=source, per_second={}), ""
    try:
        prices = parse_prices(extra.get("prices"), source, extra.get("currency"))
    except InvalidPrice as error:
        problem = str(error)  # no reason to show no jobs
    limits, limit_problem = {}, ""
    try:
        limits = parse_limits(
            extra.get("retraining_max_age_days"),
            f"extra.retraining_max_age_days of connection {connection.conn_id!r}",
        )
    except InvalidRetrainingLimit as error:
        limit_problem = str(error)
    watch = address.connect_watch(_TIMEOUT_SECONDS)
    return Service(
        conn_id=connection.conn_id,
        project=address.project,
        ops=watch.jobs,
        training=watch.logs,
        log_seconds=watch.log_seconds,
        prices=prices,
        job_buckets=JobBuckets.of(connection.conn_id, address.project, extra),
        price_problem=problem,
        retraining_limits=limits,
        limit_problem=limit_problem,
    )
