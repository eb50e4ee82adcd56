"""A training service in memory behind ``training_default``, and the context of a task."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import httpx
import pytest
import structlog

from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import PROJECT, FakeService


class StateStore(dict[str, Any]):
    """``context["task_state_store"]``: like Airflow's, it keeps JSON only."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = json.loads(json.dumps(value))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """Return the service that every hook of the test talks to."""
    from container_training.hooks import training

    fake = FakeService()
    connection = {
        "conn_type": "container_training",
        "host": "training.test",
        "port": 8470,
        "extra": {"project": PROJECT},
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    for name, handler in (("TrainingClient", fake.handle), ("AsyncTrainingClient", fake.handle_async)):
        client = functools.partial(getattr(training, name), transport=httpx.MockTransport(handler))
        monkeypatch.setattr(training, name, client)
    return fake


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> FakeBucket:
    """Return the bucket that every hook of the test reads and writes."""
    from container_training.hooks.storage import StorageHook
    from container_training.work.object_store import ObjectStore

    fake = FakeBucket()
    monkeypatch.setattr(StorageHook, "store", ObjectStore(fake))
    return fake


@pytest.fixture
def context() -> dict[str, Any]:
    """Return the context of the first try of ``train.submit`` in the run ``manual__1``."""
    ti = SimpleNamespace(
        dag_id="train_digits",
        task_id="train.submit",
        run_id="manual__1",
        map_index=-1,
        try_number=1,
        xcom_push=mock.Mock(),
        get_first_reschedule_date=lambda _: None,
    )
    return {"ti": ti, "task_state_store": StateStore()}


class LogLines(Sequence[str]):
    """The lines logged so far, as they would be read."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: Any) -> Any:
        return [str(entry["event"]) for entry in self._entries][place]


@pytest.fixture
def log_lines() -> Iterator[Sequence[str]]:
    """Return what hooks, operators, sensors and triggers log during the test."""
    with structlog.testing.capture_logs() as entries:
        yield LogLines(entries)


@pytest.fixture(autouse=True)
def no_pause_before_deferring(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a wait poll its job without a pause before it is deferred.

    Otherwise it polls for three seconds.
    """
    monkeypatch.setattr("container_training.sensors.training._PAUSE_BEFORE_DEFERRING", 0.0)
