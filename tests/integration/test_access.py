"""``--require-auth`` over HTTP: who is let in, what each may do, and the form of a refusal."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import pytest
from google.auth.credentials import Credentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from container_engines.memory.engine import MemoryEngine
from local_stack.people.credentials import (
    airflow_principal,
    airflow_token,
    developer_token,
    ensure_credentials,
    registry_login,
)
from local_stack.settings import StackSettings
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.errors import AccessDenied
from training_service.access.registry_tokens import SERVICE
from training_service.access.tokens_file import InvalidTokensFile
from training_service.settings import ServiceSettings
from training_service.wiring import build_service

ADMIN, OWNER, DEVELOPER, NOBODY = (f"{name}-token-of-some-length" for name in "abcd")
PRINCIPALS = {
    ADMIN: {"principal": "user:admin@example.com", "admin": True},
    OWNER: {"principal": "user:owner@example.com", "owns": ["demo-project"]},
    DEVELOPER: {"principal": "user:dev@example.com"},
    NOBODY: {"principal": "user:nobody@example.com"},
}
PROJECT = "/v1/projects/demo-project"
AGENT_OF_ANOTHER = "service-1@cloud-ml.google.com.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("service")
    tokens = folder / "tokens.json"
    tokens.write_text(
        json.dumps({"principals": [{**entry, "token": token} for token, entry in PRINCIPALS.items()]})
    )
    tokens.chmod(0o600)
    with run_service(folder, require_auth=True, tokens_file=tokens) as service:
        bind(service, "developer", "roles/ml.developer", "user:dev@example.com")
        yield service


def call(service: LiveService, method: str, path: str, token: str = "", **arguments: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return web.request(method, service.endpoint + path, headers=headers, **arguments)


def bind(service: LiveService, job_id: str, role: str, member: str) -> None:
    """Make a job of the owner's, and give ``member`` a role on it."""
    assert call(service, "POST", f"{PROJECT}/jobs", OWNER, json=job(job_id)).status_code == 200
    policy = call(service, "GET", f"{PROJECT}/jobs/{job_id}:getIamPolicy", OWNER).json()
    policy["bindings"].append({"role": role, "members": [member]})
    answer = call(service, "POST", f"{PROJECT}/jobs/{job_id}:setIamPolicy", OWNER, json={"policy": policy})
    assert answer.status_code == 200, answer.text


def job(job_id: str, **training_input: Any) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}, **training_input},
    }


def error(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()["error"]
    assert body["code"] == answer.status_code
    return answer.status_code, body["status"]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic YTpi", "Bearer"])
def test_without_a_good_token_the_answer_is_401_in_the_apis_form(
    service: LiveService, header: str | None
) -> None:
    headers = {"Authorization": header} if header is not None else {}
    answer = web.get(f"{service.endpoint}{PROJECT}/jobs", headers=headers)

    assert error(answer) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_missing_permission_is_a_403_that_names_it_and_the_resource(service: LiveService) -> None:
    answer = call(service, "GET", f"{PROJECT}/jobs/developer", NOBODY)

    assert error(answer) == (403, "PERMISSION_DENIED")
    message = answer.json()["error"]["message"]
    assert "'ml.jobs.get'" in message
    assert "'projects/demo-project/jobs/developer'" in message
    assert "user:nobody@example.com" in message


def test_who_may_not_see_jobs_cannot_tell_those_that_exist_from_others(service: LiveService) -> None:
    there, absent = (call(service, "GET", f"{PROJECT}/jobs/{name}", NOBODY) for name in ("developer", "no"))

    assert there.json()["error"]["message"].replace("developer", "no") == absent.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{PROJECT}:getConfig", None),
        ("GET", f"{PROJECT}/jobs", None),
        ("POST", f"{PROJECT}/jobs", job("never")),
        ("PATCH", f"{PROJECT}/jobs/developer?updateMask=labels", {"labels": {"a": "b"}}),
        ("POST", f"{PROJECT}/jobs/developer:cancel", {}),
        ("GET", f"{PROJECT}/jobs/developer:getIamPolicy", None),
        ("POST", f"{PROJECT}/jobs/developer:setIamPolicy", {"policy": {}}),
        ("GET", f"{PROJECT}/locations", None),
        ("GET", f"{PROJECT}/locations/us-central1", None),
        ("POST", "/v2/entries:list", {"resourceNames": ["projects/demo-project"]}),
        ("POST", "/v2/entries:list", {"projectIds": ["demo-project"]}),
    ],
)
def test_every_method_asks_for_its_permission(
    service: LiveService, method: str, path: str, body: Any
) -> None:
    assert error(call(service, method, path, json=body)) == (401, "UNAUTHENTICATED")
    assert error(call(service, method, path, NOBODY, json=body)) == (403, "PERMISSION_DENIED")
    if "never" not in str(body) and "setIamPolicy" not in path and "cancel" not in path:
        assert call(service, method, path, OWNER, json=body).status_code == 200


def test_logs_of_one_project_do_not_come_with_those_of_another(service: LiveService) -> None:
    names = ["projects/demo-project", "projects/other"]

    answer = call(service, "POST", "/v2/entries:list", OWNER, json={"resourceNames": names})

    assert error(answer) == (403, "PERMISSION_DENIED")
    assert "'projects/other'" in answer.json()["error"]["message"]


def test_the_creator_owns_the_job_and_others_have_what_its_policy_says(service: LiveService) -> None:
    path = f"{PROJECT}/jobs/developer"
    bindings = call(service, "GET", f"{path}:getIamPolicy", OWNER).json()["bindings"]

    assert {"role": "roles/ml.jobOwner", "members": ["user:owner@example.com"]} in bindings
    assert call(service, "GET", path, DEVELOPER).status_code == 200
    assert error(call(service, "POST", f"{path}:cancel", DEVELOPER, json={})) == (403, "PERMISSION_DENIED")
    assert error(call(service, "GET", f"{PROJECT}/jobs", DEVELOPER)) == (403, "PERMISSION_DENIED")


def test_test_iam_permissions_answers_for_the_caller(service: LiveService) -> None:
    asked = {"permissions": ["ml.jobs.get", "ml.jobs.cancel", "ml.jobs.get"]}
    path = f"{PROJECT}/jobs/developer:testIamPermissions"

    assert call(service, "POST", path, OWNER, json=asked).json() == {
        "permissions": ["ml.jobs.get", "ml.jobs.cancel"]
    }
    assert call(service, "POST", path, DEVELOPER, json=asked).json() == {"permissions": ["ml.jobs.get"]}
    assert call(service, "POST", path, NOBODY, json=asked).json() == {}
    assert error(call(service, "POST", path, json=asked)) == (401, "UNAUTHENTICATED")


def test_a_job_runs_as_an_account_only_for_those_who_may_act_as_it(service: LiveService) -> None:
    own = "trainer@demo-project.iam.gserviceaccount.com"
    foreign = "trainer@other.iam.gserviceaccount.com"

    assert (
        call(service, "POST", f"{PROJECT}/jobs", OWNER, json=job("own", serviceAccount=own)).status_code
        == 200
    )
    for account in (foreign, AGENT_OF_ANOTHER):
        answer = call(service, "POST", f"{PROJECT}/jobs", OWNER, json=job("foreign", serviceAccount=account))
        assert error(answer) == (403, "PERMISSION_DENIED")
        assert "'iam.serviceAccounts.actAs'" in answer.json()["error"]["message"]


def test_the_page_with_a_jobs_log_is_for_those_who_may_read_logs(service: LiveService) -> None:
    path = "/logs/projects/demo-project/jobs/developer"

    assert error(call(service, "GET", path)) == (401, "UNAUTHENTICATED")
    assert error(call(service, "GET", path, NOBODY)) == (403, "PERMISSION_DENIED")
    assert call(service, "GET", path, OWNER).status_code == 200


def test_health_is_open_to_those_who_watch_and_metrics_to_administrators(service: LiveService) -> None:
    assert call(service, "GET", "/health").status_code == 200
    assert error(call(service, "GET", "/metrics")) == (401, "UNAUTHENTICATED")
    assert error(call(service, "GET", "/metrics", OWNER)) == (403, "PERMISSION_DENIED")
    assert call(service, "GET", "/metrics", ADMIN).status_code == 200


@pytest.mark.parametrize("path", ["/openapi.json", "/nothing", f"{PROJECT}/jobs"])
def test_who_has_no_token_learns_nothing_of_any_path(service: LiveService, path: str) -> None:
    assert error(call(service, "GET", path)) == (401, "UNAUTHENTICATED")


def test_the_body_of_who_has_no_token_is_not_waited_for(service: LiveService) -> None:
    address = urlsplit(service.endpoint)
    head = f"POST {PROJECT}/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=scaled(30)) as stream:
        stream.sendall(head.encode())

        assert stream.recv(12) == b"HTTP/1.1 401"


def test_our_client_sends_its_token(service: LiveService) -> None:
    headers = {"Authorization": f"Bearer {OWNER}"}
    with TrainingClient(service.endpoint, "demo-project", headers=headers) as client:
        assert client.get_job("developer").job_id == "developer"
    with (
        TrainingClient(service.endpoint, "demo-project") as client,
        pytest.raises(AccessDenied, match="no credentials"),
    ):
        client.get_job("developer")


class Bearer(Credentials):
    """Credentials that are one token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: object) -> None:
        raise AssertionError("a fixed token cannot be renewed")


def test_googles_client_gets_in_with_a_token_and_names_the_reason_without_a_permission(
    service: LiveService,
) -> None:
    def get_job(token: str) -> Any:
        with discovery.build(
            "ml",
            "v1",
            credentials=Bearer(token),
            client_options={"api_endpoint": service.endpoint + "/"},
            cache_discovery=False,
        ) as ml:
            return ml.projects().jobs().get(name="projects/demo-project/jobs/developer").execute()

    assert get_job(OWNER)["jobId"] == "developer"
    with pytest.raises(HttpError) as caught:
        get_job(NOBODY)
    assert caught.value.status_code == 403
    assert "ml.jobs.get" in caught.value.reason


def test_no_token_gets_into_the_log(service: LiveService, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        call(service, "GET", f"{PROJECT}/jobs", OWNER)
        call(service, "GET", f"{PROJECT}/jobs", "a-wrong-token-of-some-length")
        call(service, "GET", f"{PROJECT}/jobs", NOBODY)

    assert " 401" in caplog.text  # something was logged
    assert not [token for token in (OWNER, NOBODY, "a-wrong-token-of-some-length") if token in caplog.text]


def test_an_open_service_refuses_nobody_and_knows_whom_it_can(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"principals": [{**PRINCIPALS[OWNER], "token": OWNER}]}))
    tokens.chmod(0o600)
    with run_service(tmp_path, tokens_file=tokens) as open_service:
        for job_id, token in (("known", OWNER), ("unknown", ""), ("foreign", "ya29.a-token-of-google")):
            assert call(open_service, "POST", f"{PROJECT}/jobs", token, json=job(job_id)).status_code == 200
        policies = [
            call(open_service, "GET", f"{PROJECT}/jobs/{job_id}:getIamPolicy").json().get("bindings")
            for job_id in ("known", "unknown", "foreign")
        ]

    owner = [{"role": "roles/ml.jobOwner", "members": ["user:owner@example.com"]}]
    assert policies == [owner, None, None]


def test_require_auth_without_a_tokens_file_does_not_start(tmp_path: Path) -> None:
    settings = ServiceSettings(database_url=f"sqlite:///{tmp_path / 'jobs.db'}", require_auth=True)

    with pytest.raises(InvalidTokensFile, match="needs --tokens-file"):
        build_service(settings, MemoryEngine())


@dataclass(frozen=True)
class Guarded:
    """A service with the local stack's principals, and how each of them asks it."""

    service: LiveService
    settings: StackSettings

    def airflow(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return call(self.service, method, path, airflow_token(self.settings), json=body)

    def developer(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return call(self.service, method, path, developer_token(self.settings), json=body)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Return the local stack's service with ``--require-auth``, and a job of the developer's."""
    folder = tmp_path_factory.mktemp("guarded")
    settings = StackSettings(state_dir=folder, require_auth=True)
    ensure_credentials(settings)
    with run_service(
        folder, require_auth=True, tokens_file=settings.tokens_file, registry=settings.registry
    ) as service:
        guarded = Guarded(service, settings)
        assert guarded.developer("POST", f"{PROJECT}/jobs", job("developers")).status_code == 200
        yield guarded


def test_airflow_runs_watches_and_cancels_the_jobs_of_its_project(guarded: Guarded) -> None:
    own = job("airflows", serviceAccount="trainer@demo-project.iam.gserviceaccount.com")
    ops = "/ops/v1/projects/demo-project"
    for method, path, body in (
        ("POST", f"{PROJECT}/jobs", own),
        ("GET", f"{PROJECT}/jobs", None),
        ("GET", f"{PROJECT}:getConfig", None),
        ("POST", "/v2/entries:list", {"resourceNames": ["projects/demo-project"]}),
        ("POST", f"{ops}/jobs:search", {}),
        ("GET", f"{ops}/fleet", None),
        (
            "POST",
            f"{ops}/fleet:history",
            {"windowSeconds": 3600, "stepSeconds": 60, "costStepSeconds": 60},
        ),
        ("GET", f"{ops}/version", None),
        *(("GET", f"{ops}/jobs/developers/{view}", None) for view in ("timeline", "usage", "curves")),
        ("POST", f"{PROJECT}/jobs/developers:cancel", {}),
    ):
        answer = guarded.airflow(method, path, body)
        assert answer.status_code == 200, f"{path}: {answer.text}"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/metrics", None),
        ("POST", f"{PROJECT}:setIamPolicy", {"policy": {}}),
        ("POST", f"{PROJECT}/locations/local/repositories/digits:setIamPolicy", {"policy": {}}),
        ("PUT", "/storage/v1/b/demo-bucket/iam", {}),
        ("POST", f"{PROJECT}/jobs/developers:setIamPolicy", {"policy": {}}),
        ("PATCH", f"{PROJECT}/jobs/developers?updateMask=labels", {"labels": {"a": "b"}}),
        ("GET", "/v1/projects/other/jobs", None),
        ("POST", "/v1/projects/other/jobs", job("never")),
        ("POST", f"{PROJECT}/jobs", job("never", serviceAccount="a@other.iam.gserviceaccount.com")),
        ("POST", "/v2/entries:list", {"resourceNames": ["projects/other"]}),
        ("POST", "/v1/projects/other:setIamPolicy", {"policy": {}}),
        ("POST", "/v1/projects/other/locations/local/repositories/digits:setIamPolicy", {"policy": {}}),
    ],
)
def test_airflow_is_no_administrator(guarded: Guarded, method: str, path: str, body: Any) -> None:
    assert guarded.airflow(method, path, body).status_code == 403


def test_airflow_pushes_the_images_of_its_project_and_deletes_none(guarded: Guarded) -> None:
    scopes = ["repository:demo-project/digits:pull,push,delete", "repository:other/digits:pull,push"]
    answer = web.get(
        f"{guarded.service.endpoint}/registry/token",
        params={"service": SERVICE, "scope": scopes},
        auth=(registry_login(guarded.settings)["username"], airflow_token(guarded.settings)),
    )

    token = jwt.decode(answer.json()["token"], options={"verify_signature": False})
    assert token["access"] == [
        {"type": "repository", "name": "demo-project/digits", "actions": ["pull", "push"]}
    ]


def test_the_owner_of_a_repository_lets_airflow_set_its_policy_and_no_other(guarded: Guarded) -> None:
    shared, other = (f"/v1/projects/other/locations/local/repositories/{name}" for name in ("shared", "kept"))
    binding = {"role": "roles/iam.securityAdmin", "members": [airflow_principal(guarded.settings)]}
    policy = {"policy": {"bindings": [binding]}}
    assert guarded.developer("POST", f"{shared}:setIamPolicy", policy).status_code == 200

    assert guarded.airflow("GET", f"{shared}:getIamPolicy").json()["bindings"] == [binding]
    assert guarded.airflow("POST", f"{shared}:setIamPolicy", policy).status_code == 200
    for resource in (other, "/v1/projects/other"):
        assert guarded.airflow("POST", f"{resource}:setIamPolicy", policy).status_code == 403


def test_the_audit_log_has_the_address_that_asked_whatever_the_headers_say(service: LiveService) -> None:
    web.get(f"{service.endpoint}{PROJECT}/jobs/forwarded", headers={"X-Forwarded-For": "203.0.113.9"})
    body = {
        "resourceNames": ["projects/demo-project"],
        "filter": 'logName:"cloudaudit.googleapis.com" AND protoPayload.resourceName:"forwarded"',
    }

    (entry,) = call(service, "POST", "/v2/entries:list", OWNER, json=body).json()["entries"]

    assert entry["protoPayload"]["requestMetadata"] == {"callerIp": "127.0.0.1"}
