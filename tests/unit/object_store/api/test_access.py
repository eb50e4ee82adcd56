"""What containers may do: asked of the training service, and kept to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from object_store.api import access as module
from object_store.api.access import ContainerAccess, Question
from object_store.api.routes import ROUTES
from object_store.errors import Forbidden, StoreError
from tests.unit.object_store.conftest import BUCKET, UPLOAD, MakeSite, Site

URL = "http://training.test"
ASKED = Question(address="172.18.0.2", permission="storage.objects.create", bucket="demo", object="jobs/j/x")


class Service:
    """A training service that answers as a test says, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.rule: Callable[[dict[str, str]], dict[str, Any]] = lambda _: answer(True)
        self.status = 200
        #: How many questions it answers with ``status``, before it is well.
        self.recovers_after = 10**9

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("POST", "/ops/v1/objects:checkAccess")
        self.asked.append(json.loads(request.content))
        status = self.status if len(self.asked) <= self.recovers_after else 200
        if status == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status, json=self.rule(self.asked[-1]))

    def access(self) -> ContainerAccess:
        return ContainerAccess(URL, httpx.MockTransport(self))


def answer(allowed: bool, *, may_replace: bool = True) -> dict[str, Any]:
    return {
        "allowed": allowed,
        "mayReplace": allowed and may_replace,
        "reason": "" if allowed else "it is not its",
    }


@pytest.fixture
def service() -> Service:
    """A service that lets everybody do everything."""
    return Service()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes when somebody sleeps."""
    now = [1000.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return now


def check(access: ContainerAccess, question: Question = ASKED) -> bool:
    return asyncio.run(access.check(question))


def test_without_a_training_service_containers_may_do_all_with_objects() -> None:
    assert check(ContainerAccess(None))


def test_a_yes_is_good_for_two_seconds_and_the_whole_folder(service: Service, clock: list[float]) -> None:
    access = service.access()
    beside = Question(**{**_fields(ASKED), "object": "jobs/j/y"})

    assert check(access)
    assert check(access, beside)
    assert len(service.asked) == 1
    clock[0] += 2.1
    assert check(access)
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"address": "172.18.0.3"},
        {"permission": "storage.objects.delete"},
        {"bucket": "other"},
        {"project": "other"},
        {"object": "jobs/k/x"},
        {"object": "jobs/j/deeper/x"},
        {"object": "jobs/j"},
    ],
)
def test_a_yes_is_good_for_nothing_else(service: Service, clock: list[float], change: dict[str, str]) -> None:
    access = service.access()
    check(access)

    check(access, Question(**{**_fields(ASKED), **change}))

    assert len(service.asked) == 2


def test_a_no_is_asked_for_again_and_ends_a_yes(service: Service, clock: list[float]) -> None:
    access = service.access()
    check(access)
    clock[0] += 3
    service.rule = lambda _: answer(False)

    for _ in range(2):
        with pytest.raises(Forbidden, match="it is not its"):
            check(access)

    assert len(service.asked) == 3


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_service_that_restarts_is_waited_for(service: Service, clock: list[float], status: int) -> None:
    service.status, service.recovers_after = status, 3

    assert check(service.access())
    assert len(service.asked) == 4
    assert clock[0] < 1010


@pytest.mark.parametrize("status", [0, 503])
def test_a_service_that_stays_away_is_said(service: Service, clock: list[float], status: int) -> None:
    service.status = status

    with pytest.raises(StoreError, match=f"the training service at {URL}") as caught:
        check(service.access())

    assert caught.value.status == 503
    assert 20 <= clock[0] - 1000 < 25


def test_a_service_that_refuses_the_question_is_not_waited_for(service: Service, clock: list[float]) -> None:
    service.status = 400

    with pytest.raises(StoreError, match="answers 400"):
        check(service.access())

    assert clock[0] == 1000


def test_while_the_service_is_away_an_older_yes_is_good(service: Service, clock: list[float]) -> None:
    access = service.access()
    check(access)
    clock[0] += 3600
    service.status = 0

    assert check(access)
    assert clock[0] == 4600
    with pytest.raises(StoreError):
        check(access, Question(**{**_fields(ASKED), "object": "elsewhere/x"}))


def test_what_is_kept_is_bounded(
    service: Service, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 10)
    access = service.access()

    for number in range(50):
        check(access, Question(**{**_fields(ASKED), "object": f"{number}/x"}))

    assert len(access._yes) <= 10


@pytest.fixture
def inside(make_site: MakeSite, service: Service) -> Site:
    """A container's view of a site with the bucket ``demo``, with ``theirs`` in it."""
    outside = make_site()
    outside.store.create_bucket("demo", {}, "p1")
    outside.put("theirs/x", b"theirs")
    return make_site(access=service.access(), containers_host="localhost")


#: Whatever a container could write, replace or delete of ``theirs/x``.
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", f"{UPLOAD}?uploadType=media&name=theirs/x", {"content": b"mine"}),
    ("POST", f"{UPLOAD}?uploadType=media&name=theirs/new", {"content": b"mine"}),
    ("POST", f"{UPLOAD}?uploadType=resumable&name=theirs/x", {}),
    ("POST", f"{UPLOAD}?uploadType=resumable", {"json": {"name": "theirs/x"}}),
    (
        "POST",
        f"{UPLOAD}?uploadType=multipart",
        {
            "content": b'--b\r\n\r\n{"name": "theirs/x"}\r\n--b\r\n\r\nmine\r\n--b--',
            "headers": {"content-type": "multipart/related; boundary=b"},
        },
    ),
    ("PATCH", f"{BUCKET}/o/theirs%2Fx", {"json": {"metadata": {"a": "b"}}}),
    ("PUT", f"{BUCKET}/o/theirs%2Fx", {"json": {"metadata": {"a": "b"}}}),
    ("DELETE", f"{BUCKET}/o/theirs%2Fx", {}),
    ("POST", f"{BUCKET}/o/theirs%2Fx", {"headers": {"x-http-method-override": "DELETE"}}),
    ("POST", f"{BUCKET}/o/mine%2Fx/copyTo/b/demo/o/theirs%2Fx", {}),
    ("POST", f"{BUCKET}/o/mine%2Fx/rewriteTo/b/demo/o/theirs%2Fx", {}),
    ("POST", f"{BUCKET}/o/mine%2Fx/moveTo/o/theirs%2Fx", {}),
    ("POST", f"{BUCKET}/o/theirs%2Fx/moveTo/o/mine%2Fy", {}),
    ("POST", f"{BUCKET}/o/theirs%2Fx/compose", {"json": {"sourceObjects": [{"name": "mine/x"}]}}),
    ("PUT", "/demo/theirs/x", {"content": b"mine"}),
    ("POST", "/demo/theirs/x?uploads", {}),
    ("DELETE", "/demo/theirs/x", {}),
]


@pytest.mark.parametrize(("method", "path", "options"), WRITES)
def test_a_container_writes_only_what_the_service_lets_it(
    inside: Site, service: Service, method: str, path: str, options: dict[str, Any]
) -> None:
    inside.put("mine/x", b"mine")
    service.rule = lambda asked: answer(
        asked["permission"] in ("storage.objects.get", "storage.objects.list")
        or asked["object"].startswith("mine/")
    )

    refused = inside.ask(method, path, **options)

    assert refused.status_code == 403, refused.text
    assert "it is not its" in refused.text
    assert service.asked[-1]["project"] == "p1"
    assert inside.get("theirs%2Fx") == b"theirs"
    assert [each["name"] for each in inside.ask("GET", f"{BUCKET}/o?prefix=theirs").json()["items"]] == [
        "theirs/x"
    ]


READS = [
    "/storage/v1/b?project=p1",
    BUCKET,
    f"{BUCKET}/storageLayout",
    f"{BUCKET}/managedFolders",
    f"{BUCKET}/o",
    f"{BUCKET}/o/theirs%2Fx",
    f"{BUCKET}/o/theirs%2Fx?alt=media",
    f"/download{BUCKET}/o/theirs%2Fx",
    "/demo/theirs/x",
]


@pytest.mark.parametrize("path", READS)
def test_a_container_reads_only_what_the_service_lets_it(inside: Site, service: Service, path: str) -> None:
    assert inside.ask("GET", path).status_code == 200
    service.rule = lambda _: answer(False)
    inside.app._access = service.access()

    assert inside.ask("GET", path).status_code == 403
    assert service.asked[-1]["address"] == "127.0.0.1"


def test_what_is_copied_is_read(inside: Site, service: Service) -> None:
    service.rule = lambda asked: answer(asked["object"].startswith("mine/"))

    for path in ("copyTo/b/demo/o/mine%2Fx", "rewriteTo/b/demo/o/mine%2Fx"):
        assert inside.ask("POST", f"{BUCKET}/o/theirs%2Fx/{path}").status_code == 403
    body = {"sourceObjects": [{"name": "theirs/x"}]}
    assert inside.ask("POST", f"{BUCKET}/o/mine%2Fx/compose", json=body).status_code == 403


def test_who_may_only_create_replaces_nothing(inside: Site, service: Service) -> None:
    service.rule = lambda _: answer(True, may_replace=False)
    upload = f"{UPLOAD}?uploadType=resumable&name=new/x"
    sessions = [inside.ask("POST", upload).headers["location"] for _ in range(2)]

    first, second = (inside.ask("PUT", each, content=b"1") for each in sessions)
    again = inside.ask("POST", f"{UPLOAD}?uploadType=media&name=new/x", content=b"2")

    assert [first.status_code, second.status_code, again.status_code] == [200, 412, 403]
    assert "to replace it the job needs storage.objects.delete" in again.text
    assert inside.get("new%2Fx") == b"1"


def test_each_route_says_what_containers_need() -> None:
    closed = {route.name for route in ROUTES if route.handler and route.permission is None}

    assert closed == {"buckets.insert", "buckets.patch", "buckets.delete", "buckets.use"}


def test_a_name_that_none_may_have_is_refused_before_the_service_is_asked(
    inside: Site, service: Service
) -> None:
    answered = inside.ask("POST", f"{UPLOAD}?uploadType=resumable", json={"name": "x" * 2000})

    assert answered.status_code == 400
    assert service.asked == []


def _fields(question: Question) -> dict[str, str]:
    return {name: getattr(question, name) for name in question.__slots__}
