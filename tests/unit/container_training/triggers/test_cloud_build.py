"""The wait for a build in the triggerer, by a server that speaks Cloud Build's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest
from google.cloud.devtools.cloudbuild_v1 import types  # noqa: TID253  # its messages

from container_training.hooks.cloud_build import CloudBuildHook
from container_training.triggers.cloud_build import PATIENCE_SECONDS, CloudBuildTrigger
from container_training.triggers.settling import SETTLE_SECONDS
from tests.support.fakes.cloud_build_server import CloudBuildServer
from tests.support.fakes.virtual_time import VirtualClock

ARGUMENTS: dict[str, Any] = {
    "build_id": "build-1",
    "project_id": "p-1",
    "location": "global",
    "gcp_conn_id": "google_cloud_default",
    "impersonation_chain": ["builder@p-1.iam.gserviceaccount.com"],
    "poll_interval_seconds": 4.0,
}


def run_trigger(clock: VirtualClock, **changes: Any) -> dict[str, Any]:
    trigger = CloudBuildTrigger(**{**ARGUMENTS, **changes})
    trigger.now = clock.now

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (event,) = clock.run(events())
    return event  # type: ignore[no-any-return]


@pytest.fixture
def looks(cloud: CloudBuildServer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The hook of each look."""
    found: list[Any] = []
    get = CloudBuildHook.get

    def remembered(self: CloudBuildHook, *given: Any, **named: Any) -> Any:
        found.append(self)
        return get(self, *given, **named)

    monkeypatch.setattr(CloudBuildHook, "get", remembered)
    return found


def add_build(cloud: CloudBuildServer, *course: str) -> None:
    cloud.course = list(course)
    cloud.add(types.Build(id="build-1"))


def refuse(cloud: CloudBuildServer, code: grpc.StatusCode | None) -> Callable[[], None]:
    def act() -> None:
        cloud.refusals.clear()
        if code is not None:
            cloud.refusals["GetBuild"] = code

    return act


def test_serialize_returns_every_argument() -> None:
    path, arguments = CloudBuildTrigger(**ARGUMENTS).serialize()

    assert path == "container_training.triggers.cloud_build.CloudBuildTrigger"
    assert arguments == ARGUMENTS


def test_the_wait_ends_when_the_build_has(cloud: CloudBuildServer, looks: list[Any]) -> None:
    add_build(cloud, "QUEUED", "STATUS_UNKNOWN", "PENDING", "WORKING", "SUCCESS")
    clock = VirtualClock()

    event = run_trigger(clock)

    assert event == {"message": "it ended with SUCCESS"}
    assert (len(looks), clock.seconds) == (4, 12.0)


def test_the_account_to_act_as_is_the_one_that_was_given(cloud: CloudBuildServer, looks: list[Any]) -> None:
    add_build(cloud, "SUCCESS")

    run_trigger(VirtualClock())

    assert looks[0].provider.impersonation_chain == ARGUMENTS["impersonation_chain"]


@pytest.mark.parametrize("status", ["SUCCESS", "FAILURE"])
def test_a_task_stays_deferred_until_the_scheduler_has_seen_its_worker_end(
    cloud: CloudBuildServer, status: str
) -> None:
    add_build(cloud, status)
    clock = VirtualClock()

    event = run_trigger(clock)

    assert event == {"message": f"it ended with {status}"}
    assert clock.seconds == SETTLE_SECONDS


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED]
)
def test_an_error_that_may_pass_is_asked_again_after_a_pause_and_said_once(
    cloud: CloudBuildServer, looks: list[Any], log_lines: Sequence[str], code: grpc.StatusCode
) -> None:
    add_build(cloud, "WORKING", "WORKING", "SUCCESS")
    cloud.refusals["GetBuild"] = code
    clock = VirtualClock(*[lambda: None] * 29, refuse(cloud, None))

    event = run_trigger(clock)

    assert event == {"message": "it ended with SUCCESS"}
    assert 5 <= len(looks) <= 12  # from 4 to 10 s apart
    assert sum("build-1 is asked for again" in line for line in log_lines) == 1


def test_a_long_interval_is_kept_after_an_error(cloud: CloudBuildServer, looks: list[Any]) -> None:
    add_build(cloud, "WORKING", "SUCCESS")
    cloud.refusals["GetBuild"] = grpc.StatusCode.UNAVAILABLE

    run_trigger(clock := VirtualClock(refuse(cloud, None)), poll_interval_seconds=60.0)

    assert (len(looks), clock.seconds) == (2, 60.0)


def test_after_an_error_there_is_a_pause_also_where_the_interval_is_none(
    cloud: CloudBuildServer, looks: list[Any]
) -> None:
    add_build(cloud, "WORKING", "SUCCESS")
    cloud.refusals["GetBuild"] = grpc.StatusCode.UNAVAILABLE

    run_trigger(VirtualClock(*[lambda: None] * 29, refuse(cloud, None)), poll_interval_seconds=0.0)

    assert 5 <= len(looks) <= 15


def test_a_cloud_build_that_stays_silent_is_left_to_the_task(cloud: CloudBuildServer) -> None:
    add_build(cloud, "WORKING")
    cloud.refusals["GetBuild"] = grpc.StatusCode.UNAVAILABLE
    clock = VirtualClock()

    event = run_trigger(clock)

    assert "reading build build-1 in project p-1 failed" in event["message"]
    assert PATIENCE_SECONDS <= clock.seconds <= PATIENCE_SECONDS + 10


def test_an_error_that_waiting_cannot_mend_ends_the_wait_and_no_sooner_than_it_may(
    cloud: CloudBuildServer, looks: list[Any]
) -> None:
    add_build(cloud, "WORKING")
    cloud.refusals["GetBuild"] = grpc.StatusCode.PERMISSION_DENIED
    clock = VirtualClock()

    event = run_trigger(clock)

    assert "was refused: GetBuild is refused; the account needs" in event["message"]
    assert (len(looks), clock.seconds) == (1, SETTLE_SECONDS)


def test_a_connection_that_is_gone_ends_the_wait(cloud: CloudBuildServer) -> None:
    clock = VirtualClock()

    event = run_trigger(clock, gcp_conn_id="nobody")

    assert "got 'nobody'" in event["message"]
    assert clock.seconds == SETTLE_SECONDS


def test_what_the_task_stores_of_it_is_json() -> None:
    _, arguments = CloudBuildTrigger(**ARGUMENTS).serialize()

    assert json.loads(json.dumps(arguments)) == arguments
