"""The metadata protocol as google-auth, gcloud and people use it, and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import jwt
import pytest
from starlette.types import ASGIApp

from training_service.access.identity import (
    ACCOUNT_AUDIENCE,
    Authenticator,
    IdentityTokens,
    Unauthenticated,
)
from training_service.access.registry_tokens import SERVICE
from training_service.access.signing_key import SigningKey
from training_service.metadata.app import create_metadata_app
from training_service.metadata.callers import CallerUnknown
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import JobIdentity

EMAIL = "trainer@demo.iam.gserviceaccount.com"
JOB = JobIdentity(project="demo", number=12, email=EMAIL, job_id="a_job", job_uid="0a", region="europe-west4")
CONTAINER = "172.18.0.2"
ROOT = "/computeMetadata/v1"
ACCOUNT = f"{ROOT}/instance/service-accounts"
HEADER = {"Metadata-Flavor": "Google"}


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def ask(key: SigningKey, path: str, *, source: str = CONTAINER, **arguments: Any) -> httpx.Response:
    app = create_metadata_app({CONTAINER: JobCaller(identity=JOB, tokens=IdentityTokens(key))}.get)
    return ask_app(app, path, source=source, **arguments)


def ask_app(app: ASGIApp, path: str, *, source: str = CONTAINER, **arguments: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(source, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://172.17.0.1:8471") as client:
            return await client.get(path, **({"headers": HEADER} | arguments))

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "computeMetadata/\n"),
        ("/computeMetadata/", "v1/\n"),
        (f"{ROOT}/", "instance/\nproject/\nuniverse/\n"),
        (f"{ROOT}/project/project-id", "demo"),
        (f"{ROOT}/project/numeric-project-id", "12"),
        (f"{ROOT}/universe/universe-domain", "googleapis.com"),
        (f"{ROOT}/instance/zone", "projects/12/zones/europe-west4-a"),
        (f"{ROOT}/instance/id", "10"),
        (f"{ROOT}/instance/attributes/", ""),
        (f"{ACCOUNT}/", f"default/\n{EMAIL}/\n"),
        (f"{ACCOUNT}/default/", "aliases\nemail\nidentity\nscopes\ntoken\n"),
        (f"{ACCOUNT}/default/email", EMAIL),
        (f"{ACCOUNT}/{EMAIL}/email", EMAIL),
        (f"{ACCOUNT}/{EMAIL.replace('@', '%40')}/aliases", "default\n"),
        (f"{ACCOUNT}/default/scopes", "https://www.googleapis.com/auth/cloud-platform\n"),
    ],
)
def test_values_and_listings(key: SigningKey, path: str, text: str) -> None:
    answer = ask(key, path)

    assert (answer.status_code, answer.text) == (200, text)
    assert answer.headers["Metadata-Flavor"] == "Google"


def test_a_folder_with_all_that_is_in_it(key: SigningKey) -> None:
    expected = {
        "aliases": ["default"],
        "email": EMAIL,
        "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
    }
    for path in (f"{ACCOUNT}/default/", f"{ACCOUNT}/default", f"{ACCOUNT}/{EMAIL}/"):
        answer = ask(key, path, params={"recursive": "true"})
        assert answer.json() == expected
        assert answer.headers["Content-Type"] == "application/json"
    project = ask(key, f"{ROOT}/project/?recursive=true").json()
    assert project == {"attributes": {}, "numericProjectId": 12, "projectId": "demo"}
    everything = ask(key, f"{ROOT}/?recursive=true").json()
    assert set(everything["instance"]["serviceAccounts"]) == {"default", EMAIL}
    assert ask(key, f"{ROOT}/project/project-id?alt=json").json() == "demo"


def test_a_folder_without_its_slash_is_somewhere_else(key: SigningKey) -> None:
    answer = ask(key, f"{ROOT}/project")

    assert (answer.status_code, answer.headers["Location"]) == (301, f"{ROOT}/project/")


def test_the_token_says_who_the_job_is_and_is_good_for_this_service(key: SigningKey) -> None:
    for account in ("default", EMAIL):
        answer = ask(key, f"{ACCOUNT}/{account}/token", params={"scopes": "x"})
        body = answer.json()
        caller = Authenticator({}, IdentityTokens(key)).caller_of(body["access_token"])
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
        assert (caller.principal, caller.is_admin) == (f"serviceAccount:{EMAIL}", False)
        assert answer.headers["Cache-Control"] == "no-store"


def test_an_identity_token_is_for_its_audience_alone(key: SigningKey) -> None:
    token = ask(key, f"{ACCOUNT}/default/identity", params={"audience": "https://x", "format": "full"}).text

    claims = jwt.decode(token, key.private.public_key(), algorithms=["ES256"], audience="https://x")
    assert (claims["sub"], claims["email"]) == (f"serviceAccount:{EMAIL}", EMAIL)
    with pytest.raises(Unauthenticated, match="for somebody else"):
        Authenticator({}, IdentityTokens(key)).caller_of(token)


@pytest.mark.parametrize("query", ["", "?audience=", f"?audience={'x' * 2000}"])
def test_an_identity_token_needs_an_audience(key: SigningKey, query: str) -> None:
    answer = ask(key, f"{ACCOUNT}/default/identity{query}")

    assert (answer.status_code, answer.text) == (400, "non-empty audience parameter required\n")


@pytest.mark.parametrize("audience", [SERVICE, ACCOUNT_AUDIENCE])
def test_a_job_gets_no_token_that_says_more_than_who_it_is(key: SigningKey, audience: str) -> None:
    answer = ask(key, f"{ACCOUNT}/default/identity", params={"audience": audience})

    assert (answer.status_code, answer.text) == (
        400,
        "this audience is reserved: its tokens say more than who their bearer is\n",
    )


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/project/absent",
        f"{ROOT}/project/project-id/deeper",
        f"{ACCOUNT}/other@demo.iam.gserviceaccount.com/token",
        f"{ACCOUNT}/token",
        f"{ROOT}/instance/attributes/cluster-name",
        "/computeMetadata/v2/project/project-id",
        "/elsewhere/computeMetadata/v1/project/project-id",
        "/computeMetadata/v1x/project/project-id",
        "/latest/meta-data/",
        f"{ROOT}/project/%2e%2e/project/project-id",
    ],
)
def test_what_is_not_there_is_a_404(key: SigningKey, path: str) -> None:
    answer = ask(key, path)

    assert answer.status_code == 404
    assert answer.headers["Metadata-Flavor"] == "Google"


@pytest.mark.parametrize(
    "headers", [{}, {"Metadata-Flavor": "Amazon"}, HEADER | {"X-Forwarded-For": CONTAINER}]
)
def test_without_the_header_or_through_a_proxy_nothing_is_told(
    key: SigningKey, headers: dict[str, str]
) -> None:
    for path in (f"{ACCOUNT}/default/token", f"{ROOT}/project/project-id", f"{ROOT}/"):
        assert ask(key, path, headers=headers).status_code == 403
    assert ask(key, "/", headers={}).status_code == 200


@pytest.mark.parametrize("source", ["172.17.0.1", "127.0.0.1", "172.18.0.3", ""])
def test_whoever_is_no_jobs_container_learns_nothing(key: SigningKey, source: str) -> None:
    for path in ("/", f"{ROOT}/", f"{ACCOUNT}/default/token"):
        answer = ask(key, path, source=source, headers=HEADER | {"Host": CONTAINER})
        assert (answer.status_code, answer.text) == (403, "not a container of a job\n")
        assert "Metadata-Flavor" not in answer.headers


def test_a_caller_that_cannot_be_known_now_is_told_to_ask_again() -> None:
    def find(address: str) -> JobCaller | None:
        raise CallerUnknown("the engine does not answer; ask again")

    answer = ask_app(create_metadata_app(find), f"{ACCOUNT}/default/token")

    assert (answer.status_code, answer.text) == (503, "the engine does not answer; ask again\n")
