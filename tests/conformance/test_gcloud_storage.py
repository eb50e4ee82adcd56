"""``gcloud storage`` as it is installed works against the object store's process."""

from __future__ import annotations

import filecmp
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local_stack.environment import client_environment
from local_stack.people.credentials import ensure_credentials
from local_stack.settings import StackSettings
from tests.conformance.gcloud import Result, run_gcloud
from tests.support import web

_LARGE_BYTES = 200 << 20

#: Runs ``gcloud storage`` with arguments and returns what it printed.
Storage = Callable[..., str]


@pytest.fixture(scope="session")
def gcloud_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gcloud-storage")


@pytest.fixture
def run(store_url: str, gcloud_folder: Path) -> Callable[..., Result]:
    """``gcloud storage`` with the environment of ``make env``; only the store is there."""
    settings = StackSettings(state_dir=gcloud_folder, object_store_port=urlsplit(store_url).port)
    ensure_credentials(settings)
    environment = client_environment(settings, base_image="none")

    def run(*arguments: str | Path) -> Result:
        return run_gcloud("storage", *arguments, environment=environment, config=gcloud_folder / "config")

    return run


@pytest.fixture
def gcloud_storage(run: Callable[..., Result]) -> Storage:
    def succeed(*arguments: str | Path) -> str:
        done = run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return succeed


@pytest.fixture
def place() -> str:
    """A folder of the bucket ``bkt`` that nobody used."""
    return f"gs://bkt/{uuid.uuid4().hex[:8]}"


def names(url: str, place: str) -> list[str]:
    """Return the names of the objects below ``place``."""
    prefix = place.removeprefix("gs://bkt/")
    answer = web.get(f"{url}/storage/v1/b/bkt/o", params={"prefix": prefix})
    return [item["name"] for item in answer.raise_for_status().json().get("items", [])]


def test_a_file_is_copied_listed_described_read_and_moved(
    gcloud_storage: Storage, run: Callable[..., Result], place: str, tmp_path: Path
) -> None:
    file = tmp_path / "grün.txt"
    file.write_text("hello")

    gcloud_storage("cp", file, f"{place}/a b.txt", "--custom-metadata=team=a")

    listed = gcloud_storage("ls", "-l", place)
    assert f"{place}/a b.txt\n" in listed
    assert "TOTAL: 1 objects, 5 bytes" in listed
    described = json.loads(gcloud_storage("objects", "describe", f"{place}/a b.txt", "--format=json"))
    assert (described["size"], described["content_type"]) == (5, "text/plain")
    assert described["custom_fields"] == {"team": "a"}
    gcloud_storage("mv", f"{place}/a b.txt", f"{place}/moved.txt")
    assert gcloud_storage("cat", f"{place}/moved.txt") == "hello"
    again = run("cp", "--if-generation-match=0", file, f"{place}/moved.txt")
    assert again.returncode == 1
    assert "pre-condition" in again.stderr


def test_folders_are_copied_synchronised_measured_and_removed(
    gcloud_storage: Storage, store_url: str, place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "d"
    (folder / "e").mkdir(parents=True)
    for name in ("1", "e/2", "empty"):
        (folder / name).write_text(name if name != "empty" else "")

    gcloud_storage("cp", "-r", folder, f"{place}/t/")
    used = [line.split() for line in gcloud_storage("du", f"{place}/t").splitlines()]
    sizes = {name.removeprefix(f"{place}/t/"): int(size) for size, name in used}
    assert sizes == {"d/1": 1, "d/e/2": 3, "d/empty": 0, "d/e/": 3, "d/": 4, "": 4}

    (folder / "1").unlink()
    gcloud_storage("rsync", "-r", "--delete-unmatched-destination-objects", folder, f"{place}/t/d")
    assert gcloud_storage("ls", f"{place}/t/**").split() == [f"{place}/t/d/e/2", f"{place}/t/d/empty"]
    gcloud_storage("rsync", "-r", f"{place}/t/d", tmp_path)
    assert (tmp_path / "e" / "2").read_text() == "e/2"

    gcloud_storage("rm", "-r", place)
    assert names(store_url, place) == []


def test_buckets_are_made_listed_and_removed(gcloud_storage: Storage, store_url: str) -> None:
    name = f"b-{uuid.uuid4().hex[:8]}"

    gcloud_storage("buckets", "create", f"gs://{name}", "--location=EUROPE-WEST1")
    gcloud_storage("buckets", "update", f"gs://{name}", "--versioning", "--update-labels=team=a")

    listed = json.loads(gcloud_storage("buckets", "list", "--format=json"))
    (found,) = [bucket for bucket in listed if bucket["name"] == name]
    assert (found["location"], found["labels"]) == ("EUROPE-WEST1", {"team": "a"})
    gcloud_storage("rm", "-r", f"gs://{name}")
    assert web.get(f"{store_url}/storage/v1/b/{name}").status_code == 404


def test_a_large_file_goes_up_in_components_and_comes_down_in_slices(
    gcloud_storage: Storage, store_url: str, place: str, tmp_path: Path
) -> None:
    """The components are gone afterwards; gcloud's own crc32c compares the bytes."""
    large = tmp_path / "large"
    piece = os.urandom(1 << 20)
    with large.open("wb") as file:
        for number in range(_LARGE_BYTES >> 20):
            file.write(piece[number:] + piece[:number])

    gcloud_storage("cp", large, f"{place}/large")
    described = json.loads(gcloud_storage("objects", "describe", f"{place}/large", "--format=json"))
    gcloud_storage("cp", f"{place}/large", tmp_path / "back")

    assert described["component_count"] > 1
    assert filecmp.cmp(large, tmp_path / "back", shallow=False)
    assert names(store_url, "gs://bkt/gcloud/tmp") == []
    for path in (large, tmp_path / "back"):
        path.unlink()
