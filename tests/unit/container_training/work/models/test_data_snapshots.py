"""
Snapshots on the real object store: what they record, and that they are kept.

Some are taken while somebody writes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from container_training.work.models.data_profile import profile_of
from container_training.work.models.data_snapshots import SnapshotStore
from container_training.work.models.versions import DataSnapshot
from container_training.work.object_store import ObjectStore
from tests.support import web
from tests.support.bed.model_versions import NOW
from tests.support.bed.object_store import connect
from training_api.errors import DataInvalid
from training_api.job.results import ResultFile


def put(store: ObjectStore, uri: str, content: bytes) -> None:
    store.write_if_changed(uri, content, "text/csv")


def test_a_snapshot_records_generations_and_outlives_the_data(store: ObjectStore, folder: str) -> None:
    snapshots = SnapshotStore(store, folder)
    put(store, f"{folder}/in/a.csv", b"1")
    put(store, f"{folder}/in/deep/b.csv", b"2")

    snapshot = snapshots.take([f"{folder}/in/"], now=NOW)
    put(store, f"{folder}/in/a.csv", b"3")

    assert [file.uri for file in snapshot.sources] == [f"{folder}/in/a.csv", f"{folder}/in/deep/b.csv"]
    assert all(file.generation for file in (*snapshot.sources, *snapshot.files))
    assert [store.read(uri, 10) for uri in snapshot.uris] == [b"1", b"2"]
    assert snapshot.files[1].uri.endswith(f"snapshots/{snapshot.snapshot_id}/data/deep/b.csv")


def test_the_same_data_are_the_same_snapshot_and_new_data_another(store: ObjectStore, folder: str) -> None:
    snapshots = SnapshotStore(store, folder)
    put(store, f"{folder}/in/a.csv", b"1")

    first, same = (snapshots.take([f"{folder}/in/"], now=NOW) for _ in range(2))
    put(store, f"{folder}/in/a.csv", b"2")
    other = snapshots.take([f"{folder}/in/"], now=NOW)

    assert first == same
    assert other.snapshot_id != first.snapshot_id


def test_where_the_bucket_keeps_versions_nothing_is_copied_and_the_data_stay(
    store: ObjectStore, store_url: str
) -> None:
    response = web.post(
        f"{store_url}/storage/v1/b", json={"name": "kept-versions", "versioning": {"enabled": True}}
    )
    response.raise_for_status()
    put(store, "gs://kept-versions/in/a.csv", b"1")

    snapshot = SnapshotStore(store, "gs://kept-versions/model").take(["gs://kept-versions/in/"], now=NOW)
    put(store, "gs://kept-versions/in/a.csv", b"2")

    assert snapshot.files == snapshot.sources
    assert [store.read(uri, 10) for uri in snapshot.uris] == [b"1"]


def test_without_copies_the_sources_themselves_are_the_files(store: ObjectStore, folder: str) -> None:
    put(store, f"{folder}/a.csv", b"1")

    snapshot = SnapshotStore(store, folder).take([f"{folder}/a.csv"], now=NOW, copy=False)

    assert snapshot.files == snapshot.sources


def test_several_sources_with_one_name_do_not_meet(store: ObjectStore, folder: str) -> None:
    for name in ("one", "two"):
        put(store, f"{folder}/{name}/a.csv", name.encode())

    snapshot = SnapshotStore(store, folder).take([f"{folder}/one/", f"{folder}/two/a.csv"], now=NOW)

    assert [store.read(uri, 10) for uri in snapshot.uris] == [b"one", b"two"]


def test_runs_that_take_one_snapshot_at_one_moment_share_it(
    store: ObjectStore, store_url: str, folder: str
) -> None:
    put(store, f"{folder}/in/a.csv", b"1")

    def take(_: int) -> DataSnapshot:
        with closing(connect(store_url)) as own_store:
            return SnapshotStore(own_store, folder).take([f"{folder}/in/"], now=NOW)

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(8)))

    assert len({snapshot.model_dump_json() for snapshot in taken}) == 1


class WrittenMeanwhile(ObjectStore):
    """Somebody replaces each object after it was looked at, ``times`` times."""

    times = 1

    def copy(self, source: str, target: str) -> ResultFile:
        if self.times:
            self.times -= 1
            uri = source.partition("#")[0]
            put(self, uri, (self.read(uri, 10) or b"") + b"+")
        return super().copy(source, target)


@pytest.mark.parametrize("times", [1, 2])
def test_data_that_change_while_they_are_copied_are_looked_at_again(
    times: int, store: ObjectStore, folder: str
) -> None:
    put(store, f"{folder}/in/a.csv", b"1")
    busy = WrittenMeanwhile(store._client)
    busy.times = times

    snapshot = SnapshotStore(busy, folder).take([f"{folder}/in/"], now=NOW)

    assert store.read(snapshot.uris[0], 10) == b"1" + b"+" * times


def test_data_that_never_rest_are_refused(store: ObjectStore, folder: str) -> None:
    put(store, f"{folder}/in/a.csv", b"1")
    busy = WrittenMeanwhile(store._client)
    busy.times = 99

    with pytest.raises(DataInvalid, match="changed 3 times"):
        SnapshotStore(busy, folder).take([f"{folder}/in/"], now=NOW)


@pytest.mark.parametrize("source", ["in/", "in/a.csv"])
def test_no_data_are_an_error(source: str, store: ObjectStore, folder: str) -> None:
    with pytest.raises(DataInvalid, match="sources must hold data, got"):
        SnapshotStore(store, folder).take([f"{folder}/{source}"], now=NOW)


def test_too_many_objects_are_an_error(store: ObjectStore, folder: str) -> None:
    for number in range(3):
        put(store, f"{folder}/in/{number}.csv", b"1")

    with pytest.raises(DataInvalid, match="more than 2 objects"):
        SnapshotStore(store, folder).take([f"{folder}/in/"], now=NOW, max_files=2)


def test_a_profile_is_kept_beside_its_snapshot(store: ObjectStore, folder: str) -> None:
    snapshots = SnapshotStore(store, folder)
    put(store, f"{folder}/in/a.csv", b"1")
    snapshot = snapshots.take([f"{folder}/in/"], now=NOW)
    profile = profile_of({"x": [1.0, 2.0]}, ["a", "b"])

    assert snapshots.read_profile(snapshot.manifest_uri) is None
    snapshots.write_profile(snapshot, profile)

    assert snapshots.read_profile(snapshot.manifest_uri) == profile
