"""What a connection says of a training service: where it is, and how it is reached."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from airflow.sdk import Connection

from container_training.hooks.service_address import (
    InvalidConnection,
    bearer_headers,
    endpoint_of,
    network_of,
    seconds_of,
    service_address,
)
from training_api.clients.network import Network


def connection(extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    return Connection(
        **{
            "conn_id": "training_default",
            "conn_type": "container_training",
            "host": "h",
            "extra": json.dumps({"project": "p", **(extra or {})}),
            **fields,
        }
    )


def test_equal_connections_lead_to_one_service_whatever_they_are_called() -> None:
    assert service_address(connection()) == service_address(connection(conn_id="other"))
    assert service_address(connection()) != service_address(connection({"project": "q"}))
    assert service_address(connection()) != service_address(connection(password="a-token"))


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        ({"port": 8470}, "http://h:8470"),
        ({"schema": "https"}, "https://h"),
        ({"host": "https://h/v"}, "https://h/v"),
    ],
)
def test_policies_and_jobs_have_one_endpoint(fields: dict[str, Any], endpoint: str) -> None:
    assert endpoint_of(connection(**fields)) == service_address(connection(**fields)).endpoint == endpoint


def test_the_password_is_a_token_that_is_never_shown() -> None:
    secret = connection({"proxy": "http://me:a-secret@proxy:3128"}, password="a-secret")
    address = service_address(secret)

    assert address.headers == bearer_headers(secret) == {"Authorization": "Bearer a-secret"}
    assert bearer_headers(connection()) == service_address(connection()).headers == {}
    assert "a-secret" not in repr(address)
    assert "a-secret" not in address.endpoint


@pytest.mark.parametrize(("value", "seconds"), [(None, 3.0), ("", 3.0), (0, 0.0), ("2.5", 2.5)])
def test_a_number_of_seconds_may_be_text_or_missing(value: Any, seconds: float) -> None:
    assert seconds_of(connection({"pause": value}), "pause", 3.0) == seconds


@pytest.mark.parametrize("value", [-1, "soon", "nan", "inf", [1]])
def test_what_is_no_number_of_seconds_is_refused(value: Any) -> None:
    with pytest.raises(
        InvalidConnection, match=r"extra\.min_poll_seconds: it must be a number of seconds >= 0"
    ):
        service_address(connection({"min_poll_seconds": value}))


@pytest.mark.parametrize(
    ("extra", "network"),
    [
        ({}, Network()),
        ({"verify": "", "proxy": "", "client_certificate": "", "client_key": ""}, Network()),
        ({"verify": False}, Network(verify=False)),
        ({"verify": "False"}, Network(verify=False)),
        ({"verify": "{file}"}, Network(verify="{file}")),
        ({"client_certificate": "{file}"}, Network(certificate=("{file}", "{file}"))),
        (
            {"client_certificate": "{file}", "client_key": "/dev/null"},
            Network(certificate=("{file}", "/dev/null")),
        ),
        ({"proxy": "http://proxy:3128"}, Network(proxy="http://proxy:3128")),
    ],
)
def test_the_connection_says_how_the_service_is_reached(extra: dict[str, Any], network: Network) -> None:
    filled = {name: __file__ if value == "{file}" else value for name, value in extra.items()}

    found = network_of(connection(extra=filled))

    assert str(asdict(found)) == str(asdict(network)).replace("{file}", __file__)


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        (
            {"verify": "/no/such/file"},
            "verify: it must be the path of a file on this machine, got '/no/such/file'",
        ),
        ({"verify": 7}, "verify: it must be the path"),
        ({"client_certificate": "/no/such/file"}, "client_certificate: it must be the path"),
        ({"client_key": ["a"]}, "client_key: it must be the path"),
        ({"proxy": "proxy:3128"}, "proxy: it must be a URL like http://HOST:PORT"),
    ],
)
def test_a_way_that_cannot_be_gone_is_refused_by_its_name(extra: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidConnection, match=f"has no usable extra.{rule}"):
        service_address(connection(extra=extra))
