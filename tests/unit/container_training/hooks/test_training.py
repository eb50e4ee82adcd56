"""The connection type: from an Airflow connection to a client, and what Airflow sees of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from airflow.providers_manager import ProvidersManager

from container_training.hooks.service_address import InvalidConnection
from container_training.hooks.training import TrainingHook
from tests.support.fakes.fake_service import AGENT, FakeService, error, make_job
from tests.support.fresh_airflow import FreshAirflow
from training_api.errors import ServiceError, Throttled


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    connection = {
        "conn_type": "container_training",
        "host": "h",
        "port": 1,
        "extra": {"project": "p"},
    } | fields
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))


def endpoint() -> str:
    return TrainingHook().get_conn()._requests.endpoint


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({}, "http://h:1"),
        ({"schema": "https"}, "https://h:1"),
        ({"host": "https://h", "port": None}, "https://h"),
        ({"port": None}, "http://h"),
    ],
)
def test_host_port_and_scheme_give_the_endpoint(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], address: str
) -> None:
    connect(monkeypatch, **fields)

    assert endpoint() == address


@pytest.mark.parametrize(("fields", "missing"), [({"host": None}, "host"), ({"extra": {}}, "extra.project")])
def test_a_connection_that_lacks_a_field_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], missing: str
) -> None:
    connect(monkeypatch, **fields)

    with pytest.raises(InvalidConnection, match=f"connection 'training_default' has no {missing}"):
        TrainingHook().get_conn()


def test_the_connections_password_goes_along_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, password="a-token")
    asynchronous = asyncio.run(TrainingHook().get_async_conn())

    for requests in (TrainingHook().get_conn()._requests, asynchronous._requests):
        assert requests.get("job").headers["Authorization"] == "Bearer a-token"


def test_without_a_password_no_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch)

    assert "Authorization" not in TrainingHook().get_conn()._requests.get("job").headers


def test_the_client_is_made_once(service: FakeService) -> None:
    hook = TrainingHook()

    assert hook.get_conn() is hook.get_conn()


def test_the_async_client_asks_the_same_service(service: FakeService) -> None:
    service.add(make_job())

    async def get() -> str | None:
        async with await TrainingHook().get_async_conn() as client:
            return (await client.get_job("digits_1")).job_id

    assert asyncio.run(get()) == "digits_1"


def test_the_connection_can_be_tested_from_the_ui(service: FakeService) -> None:
    assert TrainingHook().test_connection() == (True, f"the service answers; jobs of 'demo' run as {AGENT}")

    service.faults = [httpx.ConnectError("refused")]
    is_good, message = TrainingHook().test_connection()
    assert not is_good
    assert "did not answer" in message


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        *(error(code, "UNAVAILABLE", "later") for code in (429, 500, 502, 503, 504)),
    ],
    ids=lambda fault: str(getattr(fault, "status_code", fault)),
)
def test_a_question_without_an_answer_is_asked_again(
    service: FakeService, fault: httpx.Response | Exception
) -> None:
    service.add(make_job())
    service.faults = [fault] * 3
    hook, naps = TrainingHook(), []
    hook._sleep = naps.append

    assert hook.get_job("digits_1").job_id == "digits_1"
    assert [0.25 * 2**place <= nap <= 0.5 * 2**place for place, nap in enumerate(naps)] == [True] * 3


def test_a_hook_waits_as_long_as_the_service_asks_but_not_beyond_its_patience(service: FakeService) -> None:
    service.add(make_job())
    service.faults = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "42"})]
    hook, naps = TrainingHook(), []
    hook._sleep = naps.append
    hook.cancel_job("digits_1")
    assert naps == [42.0]

    service.faults = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "61"})] * 2
    with pytest.raises(Throttled):
        hook.get_job("digits_1")
    assert naps == [42.0]
    assert len(service.faults) == 1


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (400, "mend what the message names"),
        (401, "the password of the Airflow connection"),
        (403, "give this account a role"),
        (404, "look at the job's id and at the connection's project"),
    ],
)
def test_a_refusal_is_not_asked_again_and_says_what_to_do(
    service: FakeService, code: int, advice: str
) -> None:
    service.faults = [error(code, "NO", "no")] * 2
    hook = TrainingHook()
    hook._sleep = lambda _: pytest.fail("it asks again")

    with pytest.raises(ServiceError, match=f"no; .*{advice}"):
        hook.get_job("digits_1")


def test_airflow_knows_the_connection_type_and_its_form() -> None:
    manager = ProvidersManager()

    hook = manager.hooks["container_training"]
    assert hook is not None
    assert hook.hook_class_name == "container_training.hooks.training.TrainingHook"
    assert (hook.connection_id_attribute_name, hook.hook_name) == ("training_conn_id", "Container training")
    fields = [
        name for name in manager.connection_form_widgets if name.startswith("extra__container_training__")
    ]
    assert {name.rsplit("__", 1)[1] for name in fields} == {
        "project",
        "job_bucket",
        "buckets",
        "image_prefix",
        "registry",
        "base_image",
        "container_env",
        "prices",
        "currency",
        "min_poll_seconds",
        "verify",
        "client_certificate",
        "client_key",
        "proxy",
        "resource_manager_endpoint",
        "artifact_registry_endpoint",
        "storage_endpoint",
    }


def test_airflow_loads_one_file_of_the_plugins_folder_and_shadows_no_module(
    fresh_airflow: FreshAirflow,
) -> None:
    code = """
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
shadowed = {"training", "image", "jobs", "storage", "failures", "killing"} & set(sys.modules)
print(json.dumps([[p.name for p in plugins if "container" in p.name], errors, sorted(shadowed)]))
"""

    assert fresh_airflow.run(code) == [["container_training"], {}, []]
