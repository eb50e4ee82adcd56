"""
The watch over data, on a real object store.

What it reports, what it does not, and that a restart loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from container_training.triggers.object_changes import SEEN, ObjectChangeTrigger, _look
from container_training.work.models.versions import snapshot_id_of
from container_training.work.object_store import ObjectStore
from training_api.job.results import ResultFile

#: More than a look ever held in memory.
MANY = 10_100
#: More than two pages of a list.
PAGES = 2_100


class StateStore:
    """The state store of one asset."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


class Ended(Exception):
    """The script has no further step."""


def watch(
    store: ObjectStore,
    uri: str,
    steps: list[Callable[[], object]],
    state: StateStore,
    monkeypatch: pytest.MonkeyPatch,
) -> list[dict[str, Any]]:
    """Return the payloads of a watch during which the ``steps`` happen, one after each look."""
    trigger = ObjectChangeTrigger(uri=uri)
    trigger.asset_state_store = state  # type: ignore[assignment]
    script = iter(steps)

    async def sleep(_seconds: float) -> None:
        step = next(script, None)
        if step is None:
            raise Ended
        step()

    trigger.sleep = sleep
    monkeypatch.setattr(
        "container_training.triggers.object_changes.StorageHook.get_conn", lambda _self: store
    )

    async def collect() -> list[dict[str, Any]]:
        events = []
        try:
            async for event in trigger.run():
                events.append(event.payload)
        except Ended:
            return events
        raise AssertionError("the watch ended by itself")

    return asyncio.run(collect())


def nothing() -> None:
    """Let a look pass."""


def test_it_tells_of_new_data_once_they_rest_and_not_of_old_ones(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = lambda name: lambda: store.write_if_changed(f"{folder}/in/{name}", name.encode(), "text/csv")  # noqa: E731
    put("old")()

    events = watch(
        store,
        f"{folder}/in/",
        [nothing, put("a"), put("b"), nothing, nothing, put("c"), nothing],
        StateStore(),
        monkeypatch,
    )

    assert [event["count"] for event in events] == [3, 4]
    assert {uri.partition("#")[0] for uri in events[0]["objects"]} == {
        f"{folder}/in/{name}" for name in ("old", "a", "b")
    }
    assert all(uri.rpartition("#")[2].isdecimal() for event in events for uri in event["objects"])
    json.dumps(events)


def test_a_write_of_the_same_name_is_news_and_an_emptied_place_is_not(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"{folder}/a.csv"
    store.write_if_changed(uri, b"1", "text/csv")

    events = watch(
        store,
        uri,
        [
            nothing,
            lambda: store.write_if_changed(uri, b"2", "text/csv"),
            nothing,
            lambda: store.delete_folder(folder),
            nothing,
            nothing,
        ],
        StateStore(),
        monkeypatch,
    )

    assert [event["count"] for event in events] == [1]


def test_a_restart_tells_of_what_was_written_meanwhile_and_of_nothing_twice(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, uri = StateStore(), f"{folder}/in/"
    store.write_if_changed(f"{uri}a", b"1", "text/csv")
    watch(store, uri, [nothing], state, monkeypatch)

    quiet = watch(store, uri, [nothing, nothing], state, monkeypatch)
    store.write_if_changed(f"{uri}a", b"2", "text/csv")
    events = watch(store, uri, [nothing, nothing], state, monkeypatch)
    after = watch(store, uri, [nothing, nothing], state, monkeypatch)

    assert (len(quiet), len(events), len(after)) == (0, 1, 0)
    assert list(state.values) == [f"{SEEN}:{uri}"]


def test_a_store_that_does_not_answer_is_asked_again(
    store: ObjectStore,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"{folder}/in/"
    failures = iter([True, True])
    real = store.files

    def flaky(place: str) -> Any:
        if next(failures, False):
            raise ConnectionError("refused")
        return real(place)

    monkeypatch.setattr(store, "files", flaky)
    put = lambda: store.write_if_changed(f"{uri}a", b"1", "text/csv")  # noqa: E731

    events = watch(store, uri, [nothing, nothing, put, nothing], StateStore(), monkeypatch)

    assert len(events) == 1
    # Airflow's logger writes to one or the other, by which of its parts were imported before.
    assert (caplog.text + capsys.readouterr().out).count("asked again: refused") == 1


def test_the_bucket_comes_from_the_connection(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "container_training", "host": "h", "extra": {"job_bucket": folder}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    put = lambda: store.write_if_changed(f"{folder}/in/a", b"1", "text/csv")  # noqa: E731

    events = watch(store, "{job_bucket}/in/", [put, nothing], StateStore(), monkeypatch)

    assert [event["uri"] for event in events] == [f"{folder}/in/"]


def test_it_survives_the_database() -> None:
    trigger = ObjectChangeTrigger(uri="gs://b/in/", poll_interval_seconds=5)

    path, arguments = trigger.serialize()

    assert path == "container_training.triggers.object_changes.ObjectChangeTrigger"
    assert ObjectChangeTrigger(**json.loads(json.dumps(arguments))).serialize() == (path, arguments)


@pytest.mark.extended
def test_a_place_of_several_pages_is_watched_to_its_last_name(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = lambda name: store.write_if_changed(f"{folder}/in/{name}", name.encode(), "text/csv")  # noqa: E731
    names = [f"{number:05}.csv" for number in range(PAGES)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(put, names))

    events = watch(
        store,
        f"{folder}/in/",
        [nothing, lambda: put("zz-last.csv"), nothing, nothing],
        StateStore(),
        monkeypatch,
    )

    (event,) = events
    assert event["count"] == PAGES + 1
    assert len(event["objects"]) == 20
    assert event["objects"][0].startswith(f"{folder}/in/zz-last.csv#")


def test_a_look_holds_no_more_than_the_newest_objects_in_memory() -> None:
    alive: weakref.WeakSet[ResultFile] = weakref.WeakSet()
    most = 0

    class Place:
        def files(self, uri: str) -> Iterator[ResultFile]:
            nonlocal most
            for number in range(MANY):
                file = ResultFile(uri=f"{uri}{number:05}", size_bytes=1, crc32c="", generation=number + 1)
                alive.add(file)
                most = max(most, len(alive))
                yield file

    look = _look(Place(), "gs://b/in/")  # type: ignore[arg-type]

    assert look.count == MANY
    assert most < 50
    assert look.snapshot_id == snapshot_id_of(Place().files("gs://b/in/"))
