"""Grant and revoke against the live service: single, in a DAG, killed midway, refused."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from tests.integration.live_service import LiveService, run_service
from tests.integration.registry_policies import (
    LOCAL,
    LOCAL_RESOURCE,
    READER,
    VIEWER,
    add,
    bindings,
    connect,
    grant,
    make_grant,
    revoke,
)
from tests.support.fakes.task_state import TaskState
from tests.support.speed import scaled
from training_api.clients.iam import IamPoliciesClient
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind

UNTIL = {"title": "until spring", "expression": "request.time < timestamp('2027-03-01T00:00:00Z')"}


@pytest.fixture
def context() -> dict[str, Any]:
    return {"task_state_store": TaskState()}


@pytest.fixture(autouse=True)
def connection(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, service)


CASES = [
    (LOCAL, ResourceKind.REPOSITORY, LOCAL_RESOURCE, READER),
    (
        "europe-docker.pkg.dev/images/repo/digits:1",
        ResourceKind.REPOSITORY,
        "projects/images/locations/europe/repositories/repo",
        READER,
    ),
    ("gcr.io/images/digits", ResourceKind.BUCKET, "buckets/artifacts.images.appspot.com", VIEWER),
    ("eu.gcr.io/images/digits", ResourceKind.BUCKET, "buckets/eu.artifacts.images.appspot.com", VIEWER),
    (
        "gcr.io/example.com/images/digits",
        ResourceKind.BUCKET,
        "buckets/artifacts.images.example.com.a.appspot.com",
        VIEWER,
    ),
]


@pytest.mark.parametrize(("image", "kind", "resource", "role"), CASES)
def test_the_least_role_is_granted_on_the_one_resource_and_taken_back(
    iam: IamPoliciesClient, context: Any, image: str, kind: ResourceKind, resource: str, role: str
) -> None:
    given = grant(context, image)
    held = bindings(iam, kind, resource)
    taken = revoke(given)

    agent = given["service_account"]
    assert (given["granted"], given["resource"], given["role"]) == (True, resource, role)
    assert held == [{"role": role, "members": [f"serviceAccount:{agent}"]}]
    assert taken["kept"] == []
    assert [entry["resource"] for entry in taken["revoked"]] == [resource]
    assert bindings(iam, kind, resource) == []
    assert bindings(iam, ResourceKind.PROJECT, "projects/images") == []


def test_the_services_own_registry_may_be_at_an_address_that_other_machines_reach(
    service: LiveService, iam: IamPoliciesClient, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, service, extra={"registry": "10.0.0.5:5000"})

    given = grant(context, "10.0.0.5:5000/images/digits:1")

    assert (given["granted"], given["resource"], given["role"]) == (True, LOCAL_RESOURCE, READER)
    assert revoke(given)["kept"] == []
    elsewhere = grant(context, "10.0.0.5:5001/images/digits:1")
    assert "no IAM policy decides about images of 10.0.0.5:5001" in elsewhere["reason"]


def test_a_second_grant_says_what_is_there_and_its_revoke_leaves_it(
    iam: IamPoliciesClient, context: Any
) -> None:
    first = grant(context)

    second = grant({"task_state_store": TaskState()})
    left = revoke(second)

    assert (first["granted"], second["granted"]) == (True, False)
    assert "already: nothing has to be granted" in second["reason"]
    assert left["revoked"] == []
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) != []


def test_a_retry_knows_that_the_grant_is_its_own(context: Any) -> None:
    grant(context)

    again = grant(context)

    assert (again["granted"], "earlier try" in again["reason"]) == (True, True)


def test_a_cleared_run_grants_anew_and_leaves_what_somebody_else_granted_meanwhile(
    iam: IamPoliciesClient, register_dag: Callable[[DAG], DAG]
) -> None:
    with DAG("cleared_grant", schedule=None) as dag:
        grant_task = GrantRegistryAccessOperator(task_id="grant", image=LOCAL)
        revoke_task = RevokeRegistryAccessOperator(task_id="revoke", grant=grant_task.output)
        grant_task >> revoke_task.as_teardown(setups=grant_task)
    results: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def run_again(before: Callable[[], object]) -> None:
        """Run both tasks as in a cleared run: with their store, and the XComs of their last try."""
        before()
        given = grant_task.execute(cleared)
        results.append((given, revoke_task_of(given)))

    def revoke_task_of(given: dict[str, Any]) -> dict[str, Any]:
        taken = revoke(given)
        xcoms[:] = [taken]
        return taken

    xcoms: list[Any] = []
    ti = SimpleNamespace(xcom_pull=lambda *, task_ids: xcoms if task_ids == ["revoke"] else [])
    cleared: Any = {"task_state_store": TaskState(), "dag": dag, "ti": ti}
    run_again(lambda: None)
    run_again(lambda: None)
    run_again(lambda: add(iam, Grant.from_json(results[0][0])))

    assert [(given["granted"], len(taken["revoked"])) for given, taken in results] == [
        (True, 1),
        (True, 1),
        (False, 0),
    ]
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) != []


def test_a_grant_whose_task_died_after_a_clear_is_still_its_own(iam: IamPoliciesClient, context: Any) -> None:
    with DAG("dies", schedule=None) as dag:
        grant_task = GrantRegistryAccessOperator(task_id="grant", image=LOCAL)
        RevokeRegistryAccessOperator(task_id="revoke", grant=grant_task.output)
    taken = revoke(grant(context))
    context |= {"dag": dag, "ti": SimpleNamespace(xcom_pull=lambda *, task_ids: [taken])}

    lost = grant_task.execute(context)  # its result never reaches Airflow
    again = grant_task.execute(context)

    assert (lost["granted"], again["granted"]) == (True, True)
    assert "earlier try" in again["reason"]


def test_revoking_twice_is_fine_and_a_skipped_or_mapped_grant_is_understood(context: Any) -> None:
    images = [f"127.0.0.1:5000/images/model{number}" for number in range(3)]
    given = [grant({"task_state_store": TaskState()}, image) for image in images]
    given.append(grant({"task_state_store": TaskState()}, "127.0.0.1:5000/demo-project/own"))

    first, second = revoke(given), revoke(given)

    assert [entry["resource"].rpartition("/")[2] for entry in first["revoked"]] == [
        "model0",
        "model1",
        "model2",
    ]
    assert (len(first["kept"]), second["revoked"], len(second["kept"])) == (1, [], 4)
    assert revoke(None) == {"revoked": [], "kept": []}


def test_what_is_no_grant_cannot_be_revoked() -> None:
    with pytest.raises(AirflowFailException, match="InvalidGrant"):
        revoke("projects/images")


def test_a_dry_run_shows_the_change_and_makes_none(iam: IamPoliciesClient, context: Any) -> None:
    with structlog.testing.capture_logs() as entries:
        planned = grant(context, dry_run=True)

    assert (planned["granted"], planned["dry_run"], context["task_state_store"]) == (False, True, {})
    assert "dry run" in planned["reason"]
    (diff,) = [line for entry in entries if (line := str(entry["event"])).startswith("---")]
    assert f"+  - {planned['member']}" in diff.splitlines()
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) == []

    given = grant(context)
    left = revoke(given, dry_run=True)

    assert left["revoked"] == []
    assert left["kept"][0].startswith("dry run: gcloud artifacts repositories remove-iam-policy-binding")
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) != []


def test_an_account_that_is_named_gets_the_role_in_its_own_project_too(
    iam: IamPoliciesClient, context: Any
) -> None:
    account = "Trainer@demo-project.iam.gserviceaccount.com"

    given = grant(context, "127.0.0.1:5000/demo-project/digits", service_account=account)

    assert given["member"] == f"serviceAccount:{account.lower()}"
    (binding,) = bindings(iam, ResourceKind.REPOSITORY, given["resource"])
    assert binding["members"] == [given["member"]]


def test_conditions_of_others_come_through_a_grant_and_a_revoke(
    iam: IamPoliciesClient, service: LiveService, context: Any
) -> None:
    agent = grant(context, dry_run=True)["member"]
    conditional = {"role": READER, "members": [agent], "condition": UNTIL}
    iam.set_policy(ResourceKind.REPOSITORY, LOCAL_RESOURCE, {"version": 3, "bindings": [conditional]})

    given = grant(context)
    held = bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE)
    revoke(given)

    assert held == [conditional, {"role": READER, "members": [agent]}]
    assert bindings(iam, ResourceKind.REPOSITORY, LOCAL_RESOURCE) == [conditional]


def test_a_full_policy_fails_the_task_at_once(iam: IamPoliciesClient, context: Any) -> None:
    crowd = [f"user:user{number}@example.com" for number in range(1500)]
    iam.set_policy(
        ResourceKind.REPOSITORY, LOCAL_RESOURCE, {"bindings": [{"role": "roles/viewer", "members": crowd}]}
    )

    with pytest.raises(AirflowFailException, match=r"PolicyTooLarge: .* at most 1500 principals"):
        grant(context)


def test_who_may_not_set_the_policy_is_told_what_to_ask_the_owner_for(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, context: Any
) -> None:
    folder = tmp_path_factory.mktemp("guarded")
    tokens, token = folder / "tokens.json", "airflow-token-of-some-length"
    principal = {"principal": "user:airflow@example.com", "token": token, "owns": ["demo-project"]}
    tokens.write_text(json.dumps({"principals": [principal]}))
    tokens.chmod(0o600)
    with run_service(folder, require_auth=True, tokens_file=tokens) as guarded:
        connect(monkeypatch, guarded, password=token)
        own = grant(context, "127.0.0.1:5000/demo-project/digits", service_account="a@b.example.com")

        with pytest.raises(AirflowFailException) as refused:
            grant(context)

    assert own["granted"]
    message = str(refused.value)
    assert message.startswith("AccessDenied: ")
    assert "ask its owner to run: gcloud artifacts repositories add-iam-policy-binding digits" in message
    assert token not in message


@pytest.mark.parametrize(
    ("image", "hint"), [("gcr.io/images/digits", "roles/artifactregistry.reader"), (LOCAL, "check the image")]
)
def test_an_unknown_bucket_or_repository_is_named_and_its_grant_needs_no_revoke(
    service: LiveService, monkeypatch: pytest.MonkeyPatch, context: Any, image: str, hint: str
) -> None:
    given = grant(context, image)
    absent = {"error": {"code": 404, "message": "no such thing", "status": "NOT_FOUND"}}
    original = httpx.HTTPTransport.handle_request

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        asked_for_policy = "am" in request.url.path.rpartition("/")[2]
        return httpx.Response(404, json=absent) if asked_for_policy else original(self, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)

    with pytest.raises(AirflowFailException) as refused:
        grant(context, image)

    assert f"ResourceNotFound: {given['resource']} does not exist" in str(refused.value)
    assert hint in str(refused.value)
    assert "nothing has to be revoked" in revoke(given)["kept"][0]


def test_endpoints_are_taken_from_the_connection(
    service: LiveService, monkeypatch: pytest.MonkeyPatch, context: Any
) -> None:
    nowhere = {"extra": {"artifact_registry_endpoint": "http://127.0.0.1:9"}}
    connect(monkeypatch, service, **nowhere)
    monkeypatch.setattr("training_api.clients.iam.DEFAULT_PATIENCE_SECONDS", 0.1)
    seen: list[str] = []
    original = httpx.HTTPTransport.handle_request

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.url.host}:{request.url.port}")
        if request.url.port == 9:
            return httpx.Response(200, json={"bindings": []})
        return original(self, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)

    grant(context)

    assert seen[-2:] == ["127.0.0.1:9"] * 2


@pytest.mark.parametrize("is_failing", [True, False])
def test_as_a_teardown_the_revoke_runs_however_the_job_ends(
    iam: IamPoliciesClient, register_dag: Callable[[DAG], DAG], is_failing: bool
) -> None:
    images = ["127.0.0.1:5000/images/one:1", "127.0.0.1:5000/images/two:1"]
    seen: list[list[Mapping[str, Any]]] = []
    with DAG(f"shared_images_{is_failing}", schedule=None) as dag:
        grants = GrantRegistryAccessOperator.partial(task_id="grant").expand(image=images)

        @task
        def work() -> None:
            for name in ("one", "two"):
                resource = f"projects/images/locations/local/repositories/{name}"
                seen.append(bindings(iam, ResourceKind.REPOSITORY, resource))
            if is_failing:
                raise ValueError("the job failed")

        taken = RevokeRegistryAccessOperator(task_id="revoke", grant=grants.output)
        grants >> work() >> taken.as_teardown(setups=grants)

    run = register_dag(dag).test()

    assert [str(ti.state) for ti in run.get_task_instances() if ti.task_id == "work"] == [
        "failed" if is_failing else "success"
    ]
    assert [[binding["role"] for binding in held] for held in seen] == [[READER], [READER]]
    for name in ("one", "two"):
        resource = f"projects/images/locations/local/repositories/{name}"
        assert bindings(iam, ResourceKind.REPOSITORY, resource) == []


def test_a_process_that_is_killed_between_read_and_write_does_no_harm(
    service: LiveService, iam: IamPoliciesClient, context: Any
) -> None:
    add(iam, make_grant(7))
    before = iam.get_policy(ResourceKind.REPOSITORY, LOCAL_RESOURCE)
    code = f"""
        import os, signal
        from training_api.clients.iam import IamEndpoints, IamPoliciesClient
        from training_api.iam.registry_resources import ResourceKind

        url = {service.endpoint!r}
        client = IamPoliciesClient(IamEndpoints(resource_manager=url, artifact_registry=url, storage=url))
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
        client.edit_policy(ResourceKind.REPOSITORY, {LOCAL_RESOURCE!r}, lambda policy: {{}}, kill)
    """

    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=scaled(60))

    assert killed.returncode == -9
    assert iam.get_policy(ResourceKind.REPOSITORY, LOCAL_RESOURCE) == before
    assert grant(context)["granted"]
