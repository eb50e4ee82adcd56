"""Containers that died with their engine, by what Engine 20.10.24 says of them."""

from __future__ import annotations

from typing import Any

import pytest

from container_engines.docker.lost import was_half_started, was_lost

ENDPOINT = "9e5b75d3e489c5cbd4e705b682017c10e641cc9497c38f763823816cc737c029"


def described(exit_code: int, *, status: str = "exited", endpoint: str = "") -> dict[str, Any]:
    """Return the parts of an answer that matter, as the engine sent them."""
    return {
        "State": {
            "Status": status,
            "Running": status == "running",
            "OOMKilled": False,
            "Dead": False,
            "Pid": 0,
            "ExitCode": exit_code,
            "Error": "",
            "StartedAt": "2026-11-22T13:35:21.529417092Z",
            "FinishedAt": "2026-11-22T13:35:25.75697513Z",
        },
        "NetworkSettings": {
            # The engine keeps the id of the sandbox in either case.
            "SandboxID": "9609af8c",
            "Networks": {"ct-uid": {"EndpointID": endpoint, "IPAddress": "172.17.0.2" if endpoint else ""}},
        },
    }


def test_a_container_that_the_engine_found_dead_is_lost() -> None:
    assert was_lost(described(255, endpoint=ENDPOINT))


@pytest.mark.parametrize(
    "answer",
    [
        described(255),  # the program's own
        described(0),
        described(0, status="running", endpoint=ENDPOINT),
        # It ended while the engine was away, and its status is known.
        described(3, endpoint=ENDPOINT),
        described(0, endpoint=ENDPOINT),
        {"State": {"Status": "exited", "ExitCode": 255}},
        {"State": {"Status": "exited", "ExitCode": 255}, "NetworkSettings": {"Networks": {"host": None}}},
    ],
)
def test_any_other_is_not(answer: dict[str, Any]) -> None:
    assert not was_lost(answer)


def test_a_container_that_runs_since_never_was_half_started() -> None:
    state = described(0, status="running")["State"]

    assert not was_half_started(state)
    assert was_half_started(state | {"StartedAt": "0001-01-01T00:00:00Z"})
    assert not was_half_started(state | {"StartedAt": "0001-01-01T00:00:00Z", "Status": "created"})
