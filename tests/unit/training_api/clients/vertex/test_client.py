"""Jobs of Vertex AI through the client: its requests, and what answers mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.fakes.fake_service import PROJECT, error, make_job
from tests.support.fakes.fake_vertex import CUSTOM, PROJECT_NUMBER, REGION, TUNING, FakeVertex
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.vertex.client import AsyncVertexClient, VertexClient
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import (
    AccessDenied,
    InvalidJobSpec,
    JobConflict,
    JobNotFound,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TrainingError,
    TransportError,
)
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState
from training_api.vertex_jobs.address import VertexAddress

OTHER_REGION = "europe-west4"
ADDRESS = VertexAddress(project=PROJECT, regions=(REGION, OTHER_REGION))
ALL_LISTS = [f"GET {region}/{kind}" for region in ADDRESS.regions for kind in (CUSTOM, TUNING)]


@pytest.fixture
def vertex() -> FakeVertex:
    return FakeVertex()


def client_of(vertex: FakeVertex, address: VertexAddress = ADDRESS, **changes: Any) -> VertexClient:
    return VertexClient(address, transport=httpx.MockTransport(vertex.handle), **changes)


@pytest.fixture
def client(vertex: FakeVertex) -> VertexClient:
    return client_of(vertex)


def owned_job(**changes: Any) -> Job:
    return make_job(**{"state": None, "create_time": None, "labels": {OWNER_LABEL: "me"}, **changes})


def test_a_job_is_made_in_the_first_region_and_known_by_the_number_that_it_gets(
    vertex: FakeVertex, client: VertexClient
) -> None:
    created = client.create_job(owned_job())

    assert vertex.asked == [*ALL_LISTS, f"POST {REGION}/{CUSTOM}"]
    sent = vertex.requests[-1]
    assert sent.url.host == "us-central1-aiplatform.googleapis.com"
    body = json.loads(sent.content)
    assert (body["displayName"], body["labels"]) == ("digits_1", {OWNER_LABEL: "me"})
    assert created.job_id is not None
    assert created.job_id.isdecimal()
    assert created.state is JobState.PREPARING


def test_no_second_job_is_made_where_a_list_shows_one(vertex: FakeVertex, client: VertexClient) -> None:
    number = vertex.add(region=OTHER_REGION)

    with pytest.raises(JobConflict, match=f"'digits_1' is taken by job {number}"):
        client.create_job(owned_job())

    assert len(vertex.jobs) == 1


def test_a_job_that_vertex_ai_has_not_is_refused_without_a_request(
    vertex: FakeVertex, client: VertexClient
) -> None:
    training_input = {"region": REGION, "scaleTier": "BASIC_TPU", "masterConfig": {"imageUri": "r/p/i:1"}}
    for refuse in (client.create_job, client.check_job):
        with pytest.raises(InvalidJobSpec):
            refuse(owned_job(training_input=training_input))

    assert vertex.requests == []


@pytest.mark.parametrize("region", ADDRESS.regions)
@pytest.mark.parametrize("collection", [CUSTOM, TUNING])
def test_a_number_is_looked_for_in_each_region_and_kind_once(
    vertex: FakeVertex, client: VertexClient, region: str, collection: str
) -> None:
    number = vertex.add(region=region, collection=collection)

    assert client.get_job(number).job_id == number
    vertex.requests.clear()
    client.get_job(number)

    assert vertex.asked == [f"GET {region}/{collection}/{number}"]


def test_a_number_that_no_job_has_is_said_with_the_regions(client: VertexClient) -> None:
    with pytest.raises(JobNotFound, match=f"no job '7' of project '{PROJECT}' in us-central1, europe-west4"):
        client.get_job("7")


def test_a_chosen_id_is_the_oldest_job_of_that_name_that_a_task_made(
    vertex: FakeVertex, client: VertexClient
) -> None:
    vertex.add(owner="", createTime="2026-11-20T08:00:00Z")
    vertex.add("another", createTime="2026-11-20T08:00:00Z")
    vertex.add(createTime="2026-11-20T08:02:00Z")
    oldest = vertex.add(createTime="2026-11-20T08:01:00Z", region=OTHER_REGION, collection=TUNING)
    vertex.add(createTime="2026-11-20T08:01:00.5Z")

    assert client.get_job("digits_1").job_id == oldest


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "CANCELLING"])
def test_an_older_job_without_a_result_does_not_stand_for_one_that_lives(
    vertex: FakeVertex, client: VertexClient, state: str
) -> None:
    vertex.add(state=state, createTime="2026-11-20T08:00:00Z")
    living = vertex.add(createTime="2026-11-20T08:01:00Z")

    assert client.get_job("digits_1").job_id == living

    vertex.move(living, state)
    assert client.get_job("digits_1").job_id != living


def test_a_name_that_no_task_has_used_is_not_found(vertex: FakeVertex, client: VertexClient) -> None:
    vertex.add(owner="")

    with pytest.raises(JobNotFound, match="no job of a task has the display name 'digits_1'"):
        client.get_job("digits_1")


def test_a_name_with_quotes_asks_for_that_name_only(vertex: FakeVertex, client: VertexClient) -> None:
    number = vertex.add('say "yes\\no"')

    assert client.get_job('say "yes\\no"').job_id == number


def test_all_pages_of_a_name_are_read(vertex: FakeVertex, client: VertexClient) -> None:
    vertex.page_size = 2
    first, *_ = [vertex.add(createTime=f"2026-11-20T08:00:0{second}Z") for second in range(5)]

    assert client.get_job("digits_1").job_id == first


def test_pages_go_over_kinds_and_regions_and_miss_nothing(vertex: FakeVertex, client: VertexClient) -> None:
    added = {
        vertex.add(f"job_{place}", region=region, collection=kind)
        for region in ADDRESS.regions
        for kind in (CUSTOM, TUNING)
        for place in range(3)
    }
    found, token, pages = [], "", 0
    while token or not pages:
        page = client.list_jobs("", 2, token)
        found += [job.job_id for job in page.jobs or []]
        token, pages = page.next_page_token or "", pages + 1

    assert len(found) == len(added)
    assert set(found) == added
    assert pages == 8


def test_a_job_that_cannot_be_read_is_left_out_of_lists_and_named_when_asked_for(
    vertex: FakeVertex, client: VertexClient
) -> None:
    good = vertex.add()
    bad = vertex.add(createTime="yesterday")

    assert [job.job_id for job in client.list_jobs().jobs or []] == [good]
    with pytest.raises(ServiceError, match=f"{bad} cannot be read"):
        client.get_job(bad)


def test_a_cancel_asks_the_jobs_own_region_and_kind(vertex: FakeVertex, client: VertexClient) -> None:
    number = vertex.add(region=OTHER_REGION, collection=TUNING)

    client.cancel_job(number)

    assert vertex.asked[-1] == f"POST {OTHER_REGION}/{TUNING}/{number}:cancel"
    assert vertex.states() == {number: "CANCELLED"}


def test_a_cancel_of_a_job_that_has_ended_does_nothing(vertex: FakeVertex, client: VertexClient) -> None:
    number = vertex.add(state="SUCCEEDED")

    client.cancel_job(number)

    assert {request.method for request in vertex.requests} == {"GET"}


def test_duplicates_are_the_other_jobs_of_the_owner_that_run_or_will_run(
    vertex: FakeVertex, client: VertexClient
) -> None:
    own = vertex.add()
    others = {vertex.add("digits_1_2", "RUNNING"), vertex.add(region=OTHER_REGION, collection=TUNING)}
    vertex.add(owner="you")
    for state in ("SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"):
        vertex.add(state=state)

    assert {job.job_id for job in client.duplicates(client.get_job(own))} == others


def test_a_job_without_an_owner_has_no_duplicates(vertex: FakeVertex, client: VertexClient) -> None:
    number = vertex.add(owner="")
    vertex.add(owner="")
    job = client.get_job(number)
    vertex.requests.clear()

    assert client.duplicates(job) == []
    assert vertex.requests == []


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        (ADDRESS, [f"https://cloudresourcemanager.googleapis.com/v1/projects/{PROJECT}"]),
        (
            VertexAddress(project=PROJECT, regions=(REGION,), endpoint="http://127.0.0.1:8470/vertex"),
            [f"http://127.0.0.1:8470/v1/projects/{PROJECT}"],
        ),
        (
            VertexAddress(project=PROJECT, regions=(REGION,), resource_manager_endpoint="http://rm:1/"),
            [f"http://rm:1/v1/projects/{PROJECT}"],
        ),
        (VertexAddress(project=PROJECT, regions=(REGION,), project_number=PROJECT_NUMBER), []),
    ],
    ids=["Google", "one host", "its own host", "number"],
)
def test_the_service_agent_has_the_number_of_the_project(
    vertex: FakeVertex, address: VertexAddress, asked: list[str]
) -> None:
    agent = client_of(vertex, address).service_agent()

    assert agent == f"service-{PROJECT_NUMBER}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
    assert [str(request.url) for request in vertex.requests] == asked


def test_a_project_without_a_number_has_no_service_agent(vertex: FakeVertex, client: VertexClient) -> None:
    vertex.faults = [httpx.Response(200, json={"projectId": PROJECT})]

    with pytest.raises(ServiceError, match="set the extra project_number of the connection"):
        client.service_agent()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (ADDRESS, "https://logging.googleapis.com/v2/entries:list"),
        (
            VertexAddress(project=PROJECT, regions=(REGION,), endpoint="http://127.0.0.1:8470/vertex"),
            "http://127.0.0.1:8470/v2/entries:list",
        ),
        (
            VertexAddress(project=PROJECT, regions=(REGION,), logging_endpoint="http://logs:1/"),
            "http://logs:1/v2/entries:list",
        ),
    ],
    ids=["Google", "one host", "its own host"],
)
@pytest.mark.parametrize(("newest_first", "order"), [(False, "timestamp asc"), (True, "timestamp desc")])
def test_logs_are_asked_for_where_they_are(
    vertex: FakeVertex, address: VertexAddress, url: str, newest_first: bool, order: str
) -> None:
    vertex.write("7", "hello")
    vertex.write("8", "of another job")
    filter_ = job_log_filter("7")

    page = client_of(vertex, address).list_log_entries(filter_, 7, newest_first=newest_first)

    assert [entry.text_payload for entry in page.entries or []] == ["hello"]
    (request,) = vertex.requests
    assert str(request.url) == url
    assert json.loads(request.content) == {
        "projectIds": [],
        "resourceNames": [f"projects/{PROJECT}"],
        "filter": filter_,
        "orderBy": order,
        "pageSize": 7,
        "pageToken": "",
    }


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (error(403, "PERMISSION_DENIED", "no"), AccessDenied, "roles/aiplatform.user"),
        (error(401, "UNAUTHENTICATED", "no"), AccessDenied, "gcp_conn_id are not accepted"),
        (error(503, "UNAVAILABLE", "later"), ServiceUnavailable, "later"),
        (error(400, "INVALID_ARGUMENT", "bad"), ServiceError, "mend what the message names"),
        (httpx.ReadTimeout("slow"), TransportError, "Vertex AI at https://us-central1-aiplatform"),
        (httpx.Response(200, text="<html>"), TransportError, "something other than JSON"),
        (httpx.Response(200, json={}), TransportError, "what is no job"),
    ],
    ids=lambda value: str(getattr(value, "status_code", "")),
)
def test_an_error_says_what_to_do_and_ends_the_search(
    vertex: FakeVertex, client: VertexClient, fault: Any, kind: type[TrainingError], text: str
) -> None:
    vertex.faults = [fault]

    with pytest.raises(kind, match=text):
        client.get_job("7")

    assert len(vertex.requests) == 1


def test_a_refusal_for_now_says_for_how_long(vertex: FakeVertex, client: VertexClient) -> None:
    vertex.faults = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "42"})]

    with pytest.raises(Throttled) as caught:
        client.list_jobs()

    assert caught.value.retry_after_seconds == 42.0


def test_each_request_has_the_headers_of_the_connection(vertex: FakeVertex) -> None:
    vertex.add()
    client = client_of(vertex, headers={"X-Goog-User-Project": "payer"})

    client.get_job("digits_1")

    assert {request.headers["X-Goog-User-Project"] for request in vertex.requests} == {"payer"}


def test_a_list_may_lag_so_a_create_is_not_safe_to_send_again(vertex: FakeVertex) -> None:
    can = client_of(vertex, list_lag_seconds=7.0).capabilities

    assert (can.has_unique_ids, can.lists_by_id, can.list_lag_seconds) == (False, False, 7.0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get_job("digits_1"),
        lambda client: client.get_job("7"),
        lambda client: client.list_jobs('state="RUNNING"', 10),
        lambda client: client.cancel_job("digits_1"),
        lambda client: client.cancel_job("nobody"),
        lambda client: client.list_log_entries(job_log_filter("7")),
    ],
    ids=["get by name", "get", "list", "cancel", "cancel of nobody", "logs"],
)
def test_the_twin_for_asyncio_asks_and_answers_the_same(ask: Callable[[Any], Any]) -> None:
    def outcome(run: Callable[[FakeVertex], Any]) -> Any:
        vertex = FakeVertex()
        vertex.add(state="RUNNING", region=OTHER_REGION)
        try:
            answer = run(vertex)
        except TrainingError as caught:
            answer = repr(caught)
        return answer, [(request.method, request.url, request.content) for request in vertex.requests]

    async def ask_async(vertex: FakeVertex) -> Any:
        async with AsyncVertexClient(ADDRESS, transport=httpx.MockTransport(vertex.handle_async)) as client:
            assert client.capabilities == client_of(vertex).capabilities
            return await ask(client)

    assert outcome(lambda vertex: asyncio.run(ask_async(vertex))) == outcome(
        lambda vertex: ask(client_of(vertex))
    )


def test_a_job_is_made_in_the_region_of_its_options(vertex: FakeVertex, client: VertexClient) -> None:
    made = client.create_job(owned_job(), {"regions": [OTHER_REGION, REGION]})

    assert made.training_input is not None
    assert made.training_input.region == OTHER_REGION
    assert client.get_job("digits_1").job_id == made.job_id


def test_a_region_in_which_the_connection_finds_no_jobs_is_refused_before_a_request(
    vertex: FakeVertex, client: VertexClient
) -> None:
    with pytest.raises(
        InvalidJobSpec, match=r"must be among the regions of the connection, .*; got asia-east1"
    ):
        client.check_job(make_job(state=None), {"regions": [REGION, "asia-east1"]})

    assert vertex.requests == []


@pytest.mark.parametrize(
    ("message", "passes", "region"),
    [
        ("Resources are insufficient in region: us-central1.", True, OTHER_REGION),
        ("The replica workerpool0-0 exited with a non-zero status of 1.", False, REGION),
    ],
)
def test_a_failed_jobs_words_say_whether_and_where_another_attempt_may_help(
    vertex: FakeVertex, client: VertexClient, message: str, passes: bool, region: str
) -> None:
    job = make_job(state="FAILED", error_message=message)

    assert client.may_pass(message) is passes
    assert client.next_region({"regions": [REGION, OTHER_REGION]}, job) == region
    assert client.next_region({}, job) == ""
    assert vertex.requests == []
