"""
Policies of projects, repositories and buckets, over HTTP.

Google's client sends the requests. The tests send plain ones where it hides what is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from tests.integration.live_service import LiveService, run_service
from tests.support import web

AGENT = "serviceAccount:service-1@cloud-ml.google.com.iam.gserviceaccount.com"
READER = {"role": "roles/artifactregistry.reader", "members": [AGENT]}
UNTIL_SPRING = {"title": "until spring", "expression": "request.time < timestamp('2027-03-01T00:00:00Z')"}
REPOSITORY = "projects/{}/locations/local/repositories/digits"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """One service for all tests of this file; each uses a project or bucket of its own."""
    with run_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def http(shared: LiveService) -> Iterator[httpx.Client]:
    with web.client(base_url=shared.endpoint) as http:
        yield http


def build(service: LiveService, api: str, path: str = "") -> Any:
    """Return google-api-python-client's client of ``api`` with the bundled discovery document."""
    return discovery.build(
        api,
        "v1",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{service.endpoint}/{path}"},
        cache_discovery=False,
    )


class Methods:
    """One API's policy methods of one resource, in one form."""

    def __init__(self, collection: Any, name: str, api: str) -> None:
        key = {"resource": name} if api != "storage" else {"bucket": name}
        get, put = collection.getIamPolicy, collection.setIamPolicy
        if api == "cloudresourcemanager":
            self.get = lambda: get(**key, body={"options": {"requestedPolicyVersion": 3}}).execute()
        elif api == "artifactregistry":
            self.get = lambda: get(**key, options_requestedPolicyVersion=3).execute()
        else:
            self.get = lambda: get(**key, optionsRequestedPolicyVersion=3).execute()
        if api == "storage":
            self.set = lambda policy: put(**key, body=policy).execute()
            self.test = lambda names: collection.testIamPermissions(**key, permissions=names).execute()
        else:
            self.set = lambda policy: put(**key, body={"policy": policy}).execute()
            self.test = lambda names: collection.testIamPermissions(
                **key, body={"permissions": names}
            ).execute()


@pytest.fixture(params=["cloudresourcemanager", "artifactregistry", "storage"])
def methods(shared: LiveService, request: pytest.FixtureRequest) -> Iterator[Methods]:
    """The policy methods of a resource that no other test uses."""
    api = request.param
    project = request.node.originalname.replace("_", "-")[-50:].lstrip("-")
    client = build(shared, api, "storage/v1/" if api == "storage" else "")
    if api == "cloudresourcemanager":
        yield Methods(client.projects(), project, api)
    elif api == "artifactregistry":
        repositories = client.projects().locations().repositories()
        yield Methods(repositories, REPOSITORY.format(project), api)
    else:
        yield Methods(client.buckets(), project, api)
    client.close()


def test_a_new_resource_has_an_empty_policy_with_an_etag(methods: Methods) -> None:
    policy = methods.get()

    assert policy["etag"]
    assert "bindings" not in policy


def test_a_policy_is_read_back_as_it_was_written(methods: Methods) -> None:
    empty = methods.get()

    written = methods.set({"bindings": [READER], "etag": empty["etag"]})

    assert written["bindings"] == [READER]
    assert methods.get() == written
    assert written["etag"] != empty["etag"]


def test_of_two_writers_with_one_etag_the_second_is_refused(methods: Methods) -> None:
    policy = {"bindings": [READER], "etag": methods.get()["etag"]}
    methods.set(policy)

    with pytest.raises(HttpError) as refused:
        methods.set({**policy, "bindings": []})

    error = refused.value
    assert "has changed since etag" in error.reason
    assert error.status_code == (412 if "/storage/" in error.uri else 409)
    assert methods.get()["bindings"] == [READER]


def test_conditions_need_version_3_and_come_back_whole(methods: Methods) -> None:
    conditional = {**READER, "condition": UNTIL_SPRING}

    with pytest.raises(HttpError, match="must be 3 where bindings have conditions"):
        methods.set({"bindings": [conditional], "version": 1})
    written = methods.set({"bindings": [READER, conditional], "version": 3})

    assert written["version"] == 3
    assert methods.get()["bindings"] == [READER, conditional]


def test_a_member_that_is_no_principal_is_refused_by_its_place(methods: Methods) -> None:
    binding = {"role": "roles/viewer", "members": [AGENT, "somebody"]}

    with pytest.raises(HttpError, match=r"policy.bindings\[0\].members\[1\]: must be a principal") as refused:
        methods.set({"bindings": [binding]})

    assert refused.value.status_code == 400


def test_more_principals_than_a_policy_may_name_are_refused(methods: Methods) -> None:
    crowd = [f"user:user{number}@example.com" for number in range(1501)]

    with pytest.raises(HttpError, match="must have at most 1500 members, got 1501") as refused:
        methods.set({"bindings": [{"role": "roles/viewer", "members": crowd}]})

    assert refused.value.status_code == 400
    assert "bindings" not in methods.get()


def test_permissions_of_another_service_are_refused(methods: Methods) -> None:
    with pytest.raises(HttpError, match="permissions: must be of the form") as refused:
        methods.test(["storage.buckets.*"])

    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    ("path", "permission"),
    [
        ("/v1/projects/demo:testIamPermissions", "resourcemanager.projects.get"),
        (f"/v1/{REPOSITORY.format('demo')}:testIamPermissions", "artifactregistry.repositories.get"),
    ],
)
def test_the_open_service_grants_every_permission_once(
    http: httpx.Client, path: str, permission: str
) -> None:
    answer = http.post(path, json={"permissions": [permission, permission]})

    assert answer.json() == {"permissions": [permission]}


def test_the_open_service_grants_permissions_on_buckets(http: httpx.Client) -> None:
    names = ["storage.objects.get", "storage.objects.list"]

    answer = http.get("/storage/v1/b/demo/iam/testPermissions", params={"permissions": names})

    assert answer.json() == {"kind": "storage#testIamPermissionsResponse", "permissions": names}


def test_policies_of_different_resources_are_different(http: httpx.Client) -> None:
    body = {"policy": {"bindings": [READER]}}
    paths = ["/v1/projects/one", f"/v1/{REPOSITORY.format('one')}", f"/v1/{REPOSITORY.format('two')}"]

    assert http.post(f"{paths[1]}:setIamPolicy", json=body).status_code == 200

    assert "bindings" not in http.post(f"{paths[0]}:getIamPolicy").json()
    assert "bindings" in http.get(f"{paths[1]}:getIamPolicy").json()
    assert "bindings" not in http.get(f"{paths[2]}:getIamPolicy").json()


def test_a_stale_etag_is_told_in_each_apis_own_form(http: httpx.Client) -> None:
    stale = {"bindings": [READER], "etag": "AAAAAAAAAGM="}

    ours = http.post("/v1/projects/stale:setIamPolicy", json={"policy": stale})
    storage = http.put("/storage/v1/b/stale/iam", json=stale)

    assert (ours.status_code, ours.json()["error"]["status"]) == (409, "ABORTED")
    assert storage.status_code == 412
    error = storage.json()["error"]
    assert error == {
        "code": 412,
        "message": error["message"],
        "errors": [{"message": error["message"], "domain": "global", "reason": "conditionNotMet"}],
    }


@pytest.mark.parametrize(
    ("body", "said"), [({"binding": []}, "binding"), ({"version": 2}, "must be 0, 1 or 3"), ([], "valid")]
)
def test_a_bad_policy_of_a_bucket_is_refused_in_storages_form(
    http: httpx.Client, body: Any, said: str
) -> None:
    answer = http.put("/storage/v1/b/demo/iam", json=body)

    (error,) = answer.json()["error"]["errors"]
    assert (answer.status_code, error["reason"]) == (400, "invalid")
    assert said in error["message"]


def test_any_project_and_repository_is_described(shared: LiveService, http: httpx.Client) -> None:
    resources = build(shared, "cloudresourcemanager")
    project = resources.projects().get(projectId="example.com:vision").execute()
    resources.close()
    name = REPOSITORY.format("demo")

    assert (project["projectId"], project["lifecycleState"]) == ("example.com:vision", "ACTIVE")
    agent = http.get("/v1/projects/example.com:vision:getConfig").json()
    assert agent["serviceAccountProject"] == project["projectNumber"]
    assert http.get(f"/v1/{name}").json() == {
        "name": name,
        "format": "DOCKER",
        "mode": "STANDARD_REPOSITORY",
    }


def test_an_unknown_method_of_a_project_is_no_project(http: httpx.Client) -> None:
    assert http.get("/v1/projects/demo:fly").status_code == 400


OWNER, OTHER = "owner-token-of-some-length", "other-token-of-some-length"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service that wants tokens; ``OWNER`` owns the project ``demo``."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens.json"
    principals = [
        {"principal": "user:owner@example.com", "token": OWNER, "owns": ["demo"]},
        {"principal": "user:other@example.com", "token": OTHER},
    ]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    with (
        run_service(folder, require_auth=True, tokens_file=tokens) as service,
        web.client(base_url=service.endpoint) as http,
    ):
        yield http


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/projects/demo:setIamPolicy"),
        ("POST", f"/v1/{REPOSITORY.format('demo')}:setIamPolicy"),
        ("PUT", "/storage/v1/b/artifacts.demo.appspot.com/iam"),
    ],
)
def test_who_may_set_a_policy_is_decided_by_policies(guarded: httpx.Client, method: str, path: str) -> None:
    policy: dict[str, Any] = {"bindings": [READER]}
    body = policy if method == "PUT" else {"policy": policy}

    def ask(token: str | None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return guarded.request(method, path, json=body, headers=headers)

    unknown, other, owner = ask(None), ask(OTHER), ask(OWNER)

    assert [answer.status_code for answer in (unknown, other, owner)] == [401, 403, 200]
    assert unknown.headers["WWW-Authenticate"].startswith("Bearer")
    assert "setIamPolicy" in other.json()["error"]["message"]
    if method == "PUT":
        reasons = [answer.json()["error"]["errors"][0]["reason"] for answer in (unknown, other)]
        assert reasons == ["required", "forbidden"]


@pytest.mark.parametrize(
    ("token", "expected"), [(OWNER, ["storage.buckets.setIamPolicy", "storage.objects.get"]), (OTHER, None)]
)
def test_permissions_are_tested_for_the_caller(
    guarded: httpx.Client, token: str, expected: list[str] | None
) -> None:
    answer = guarded.get(
        "/storage/v1/b/artifacts.demo.appspot.com/iam/testPermissions",
        params={"permissions": ["storage.buckets.setIamPolicy", "storage.objects.get"]},
        headers={"Authorization": f"Bearer {token}"},
    )

    assert answer.json().get("permissions") == expected
