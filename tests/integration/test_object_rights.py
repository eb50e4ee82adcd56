"""Jobs in the object store: each is known by the address of its container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.live_service import IMAGE, LiveService
from tests.support import web
from tests.support.bed.store_thread import CONTAINERS_HOST, store_in_thread
from tests.support.waiting import wait_until

PROJECT = "p"
JOBS = f"/v1/projects/{PROJECT}/jobs"
#: As the memory engine gives them to containers.
FIRST, SECOND, A_PERSONS = "127.1.0.1", "127.1.0.2", "127.1.0.9"


@pytest.fixture
def store(service: LiveService, tmp_path: Path) -> Iterator[httpx.Client]:
    """An object store over the live service, with the bucket ``team``; two jobs run."""
    # Jobs that are there at once start in any order, which is the order of the engine's addresses.
    for name, address in (("first", FIRST), ("second", SECOND)):
        body = {
            "jobId": name,
            "trainingInput": {"masterConfig": {"imageUri": IMAGE}, "jobDir": f"gs://team/jobs/{name}"},
        }
        web.post(service.endpoint + JOBS, json=body).raise_for_status()
        wait_until(lambda at=address: service.engine.job_at(at), f"the {name} job runs")
    with store_in_thread(tmp_path / "store", service.endpoint) as url, web.client(url) as store:
        store.post("/storage/v1/b", params={"project": PROJECT}, json={"name": "team"}).raise_for_status()
        yield store


def container(store: httpx.Client, address: str) -> httpx.Client:
    """Return a client that comes from ``address``, as the container there would."""
    url = f"http://{CONTAINERS_HOST}:{store.base_url.port}"
    transport = httpx.HTTPTransport(local_address=address)
    return web.client(url, transport=transport)


def write(client: httpx.Client, name: str) -> httpx.Response:
    return client.post("/upload/storage/v1/b/team/o", params={"name": name}, content=b"bytes")


def test_each_job_writes_below_its_directory_and_reads_all(store: httpx.Client) -> None:
    with container(store, FIRST) as first, container(store, SECOND) as second:
        assert write(first, "jobs/first/model").status_code == 200
        assert write(second, "jobs/second/model").status_code == 200
        refused = write(first, "jobs/second/model")
        read = first.get("/storage/v1/b/team/o/jobs%2Fsecond%2Fmodel", params={"alt": "media"})
        deleted = first.delete("/storage/v1/b/team/o/jobs%2Fsecond%2Fmodel")

    assert (refused.status_code, deleted.status_code) == (403, 403)
    assert refused.json()["error"]["errors"][0]["reason"] == "forbidden"
    assert "writes below its job directory gs://team/jobs/first/" in refused.json()["error"]["message"]
    assert read.content == b"bytes"


def test_people_and_the_containers_they_start_write_everywhere(
    store: httpx.Client, service: LiveService
) -> None:
    service.engine.addresses_of_others.add(A_PERSONS)
    with container(store, A_PERSONS) as local_run:
        assert write(local_run, "jobs/first/x").status_code == 200
        assert local_run.delete("/storage/v1/b/team").status_code == 403
    assert write(store, "jobs/first/x").status_code == 200


def test_the_policy_of_the_bucket_gives_a_job_more(store: httpx.Client, service: LiveService) -> None:
    config = web.get(f"{service.endpoint}/v1/projects/{PROJECT}:getConfig").json()
    member = f"serviceAccount:{config['serviceAccount']}"
    policy = {"bindings": [{"role": "roles/storage.objectCreator", "members": [member]}]}

    with container(store, FIRST) as first:
        before = write(first, "shared/model")
        store.put("/storage/v1/b/team/iam", json=policy).raise_for_status()
        created, again = write(first, "shared/model"), write(first, "shared/model")

    assert [before.status_code, created.status_code, again.status_code] == [403, 200, 403]
    assert "storage.objects.delete" in again.json()["error"]["message"]


def test_a_bucket_of_another_project_is_not_read(store: httpx.Client) -> None:
    store.post("/storage/v1/b", params={"project": "other"}, json={"name": "theirs"}).raise_for_status()

    with container(store, FIRST) as first:
        assert first.get("/storage/v1/b/theirs/o").status_code == 403
        listed = first.get("/storage/v1/b", params={"project": PROJECT}).json()
        assert [each["name"] for each in listed["items"]] == ["team"]
        assert first.get("/storage/v1/b", params={"project": "other"}).status_code == 403


def test_a_job_that_is_cancelled_has_no_rights_after_it(store: httpx.Client, service: LiveService) -> None:
    with container(store, SECOND) as second:
        assert write(second, "jobs/second/model").status_code == 200
        web.post(f"{service.endpoint}{JOBS}/second:cancel", json={}).raise_for_status()
        # A yes is good for two seconds.
        wait_until(lambda: write(second, "jobs/second/model").status_code == 403, "the job may write no more")
