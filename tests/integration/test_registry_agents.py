"""Grants to the service agent of each API, against the live service."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.integration.live_service import LiveService
from tests.integration.registry_policies import (
    LOCAL_RESOURCE,
    READER,
    add,
    bindings,
    connect,
    grant,
    revoke,
)
from tests.support.fakes.task_state import TaskState
from training_api.clients.iam import IamPoliciesClient
from training_api.dialects.registry import DIALECTS
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind
from training_api.job.dialect import Dialect


@pytest.fixture
def context(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a task of a DAG has that is connected to the live service."""
    connect(monkeypatch, service)
    return {"task_state_store": TaskState()}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_each_api_has_an_agent_that_is_let_in_and_out(
    iam: IamPoliciesClient, context: Any, dialect: Dialect
) -> None:
    others = [f"serviceAccount:{each.agent.email('demo-project')}" for each in DIALECTS.values()]
    member = f"serviceAccount:{dialect.agent.email('demo-project')}"
    others.remove(member)
    add(iam, Grant(kind=ResourceKind.REPOSITORY, resource=LOCAL_RESOURCE, role=READER, member=others[0]))

    given = grant(context, agent=dialect.name)
    (held,) = bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE)
    revoke(given)

    assert (given["granted"], given["member"]) == (True, member)
    assert held == {"role": READER, "members": [*others, member]}
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) == [{"role": READER, "members": others}]


def test_an_agents_own_project_needs_no_grant(context: Any) -> None:
    given = grant(context, "127.0.0.1:5000/demo-project/digits:1", agent="vertex_v1")

    assert (given["granted"], "nothing has to be granted" in given["reason"]) == (False, True)
    assert given["service_account"] == DIALECTS["vertex_v1"].agent.email("demo-project")


def test_an_agent_of_no_api_is_refused(context: Any) -> None:
    with pytest.raises(AirflowFailException, match="agent must be one of ml_v1, vertex_v1; got 'vertex'"):
        grant(context, agent="vertex")


@pytest.mark.parametrize(
    ("agent", "role"),
    [("ml_v1", "roles/ml.serviceAgent"), ("vertex_v1", "roles/aiplatform.customCodeServiceAgent")],
)
def test_the_agents_role_on_the_whole_project_is_given_if_asked_for(
    iam: IamPoliciesClient, context: Any, agent: str, role: str
) -> None:
    given = grant(context, agent=agent, project_wide=True)

    (binding,) = bindings(iam, ResourceKind.PROJECT, "projects/images")
    assert binding == {"role": role, "members": [given["member"]]}
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) == []
