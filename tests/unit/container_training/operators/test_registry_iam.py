"""
Grants that need no policy, and services that do not answer.

The others are in tests/integration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.registry_iam import GrantRegistryAccessOperator
from tests.support.fakes.fake_service import AGENT, FakeService
from training_api.errors import TransportError


def grant(context: Any, image: str) -> dict[str, Any]:
    return GrantRegistryAccessOperator(task_id="grant", image=image).execute(context)


def test_an_image_of_the_jobs_own_project_needs_no_grant(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    result = grant(context, "127.0.0.1:5000/demo/digits:1")

    assert (result["granted"], result["service_account"], result["image_project"]) == (False, AGENT, "demo")
    assert any("nothing has to be granted" in line for line in log_lines)


def test_no_policy_decides_about_an_image_of_another_registry(service: FakeService, context: Any) -> None:
    result = grant(context, "docker.io/library/python:3")

    assert (result["granted"], "resource" in result) == (False, False)
    assert "no IAM policy decides about images of docker.io" in result["reason"]


def test_an_image_without_a_registry_is_refused(service: FakeService, context: Any) -> None:
    with pytest.raises(
        AirflowFailException,
        match=r"InvalidImageRef: image .digits. has no registry host.* extra\.image_prefix",
    ):
        grant(context, "digits")


def test_a_service_that_is_down_leaves_the_task_to_airflows_retries(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("container_training.hooks.training.DEFAULT_PATIENCE_SECONDS", 0.1)
    service.faults = [httpx.ConnectError("refused")] * 99

    with pytest.raises(TransportError):
        grant(context, "127.0.0.1:5000/demo/digits:1")
