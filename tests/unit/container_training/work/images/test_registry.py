"""What registries answer, played by ``httpx.MockTransport``."""

from __future__ import annotations

import gzip
import hashlib

import httpx
import pytest

from container_training.work.images.registry import (
    Manifest,
    find_manifest,
    manifest_digest,
    read_configuration,
    registry_of,
)
from training_api.errors import PushFailed, RegistryUnavailable
from training_api.job.image_ref import ImageRef

DIGEST = "sha256:" + "a" * 64
REF = ImageRef(host="registry.example", repository="p/digits", tag="1")


def client_for(handler: object) -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(handler))  # type: ignore[arg-type]


def test_the_digest_is_asked_for_by_head_in_the_current_formats() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.method == "HEAD"
        assert str(request.url) == "https://registry.example/v2/p/digits/manifests/1"
        assert "application/vnd.oci.image.manifest.v1+json" in request.headers["Accept"]
        return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})

    assert manifest_digest(REF, client=client_for(answer)) == DIGEST


def test_a_tag_that_is_not_there_has_no_manifest() -> None:
    client = client_for(lambda request: httpx.Response(404))

    assert manifest_digest(REF, client=client) is None
    assert find_manifest(REF, client=client) is None


def test_a_manifest_names_its_config() -> None:
    client = client_for(
        lambda request: httpx.Response(
            200, headers={"Docker-Content-Digest": DIGEST}, json={"config": {"digest": "sha256:1"}}
        )
    )

    assert find_manifest(REF, client=client) == Manifest(digest=DIGEST, config_digest="sha256:1")


def test_a_bearer_challenge_is_answered_with_a_token_for_the_login() -> None:
    challenge = 'Bearer realm="https://tokens.example/token",service="s",scope="repository:p/digits:pull"'

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "tokens.example":
            assert dict(request.url.params) == {"service": "s", "scope": "repository:p/digits:pull"}
            assert request.headers["Authorization"].startswith("Basic ")
            return httpx.Response(200, json={"token": "t"})
        if request.headers.get("Authorization") == "Bearer t":
            return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})
        return httpx.Response(401, headers={"WWW-Authenticate": challenge})

    login = {"username": "u", "password": "p"}
    assert manifest_digest(REF, login=login, client=client_for(answer)) == DIGEST


def test_a_basic_challenge_is_answered_with_the_login() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("Authorization", "").startswith("Basic "):
            return httpx.Response(200, headers={"Docker-Content-Digest": DIGEST})
        return httpx.Response(401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    login = {"Username": "u", "Password": "p"}
    assert manifest_digest(REF, login=login, client=client_for(answer)) == DIGEST


def challenge(realm: str) -> dict[str, str]:
    return {"WWW-Authenticate": f'Bearer realm="{realm}"'}


def at_tokens(request: httpx.Request) -> bool:
    return request.url.host == "tokens.example"


BEARER, GZIP = challenge("https://tokens.example/token"), {"Content-Encoding": "gzip"}


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (refuse, RegistryUnavailable),
        (lambda request: httpx.Response(307, headers={"Location": "/again"}), RegistryUnavailable),
        (lambda request: httpx.Response(200, headers=GZIP, content=b"no gzip"), RegistryUnavailable),
        (
            lambda request: httpx.Response(401, headers=challenge("https://tokens.example:port")),
            RegistryUnavailable,
        ),
        (lambda request: httpx.Response(200 if at_tokens(request) else 401, headers=BEARER), PushFailed),
        (lambda request: httpx.Response(503), RegistryUnavailable),
        (lambda request: httpx.Response(429), RegistryUnavailable),
        (lambda request: httpx.Response(401), PushFailed),
        (lambda request: httpx.Response(403), PushFailed),
    ],
)
def test_refusals_and_silence_are_told_apart(handler: object, expected: type[Exception]) -> None:
    with pytest.raises(expected, match=r"registry registry\.example"):
        manifest_digest(REF, client=client_for(handler))


def test_a_name_without_a_host_belongs_to_docker_io() -> None:
    assert registry_of("python") == "docker.io"
    assert registry_of("gcr.io/p/x") == "gcr.io"


CONFIGURATION = b'{"config": {"Labels": {"a": "b"}}}'
CONFIGURATION_DIGEST = f"sha256:{hashlib.sha256(CONFIGURATION).hexdigest()}"


def test_a_configuration_is_read_also_from_where_the_registry_keeps_it() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "blobs.example":
            assert "Authorization" not in request.headers
            return httpx.Response(200, headers=GZIP, content=gzip.compress(CONFIGURATION))
        if "Authorization" not in request.headers:
            return httpx.Response(401, headers={"WWW-Authenticate": "Basic realm=r"})
        assert str(request.url) == f"https://registry.example/v2/p/digits/blobs/{CONFIGURATION_DIGEST}"
        return httpx.Response(307, headers={"Location": "https://blobs.example/1"})

    login = {"username": "u", "password": "p"}
    found = read_configuration(REF, CONFIGURATION_DIGEST, login=login, client=client_for(answer))

    assert found == {"config": {"Labels": {"a": "b"}}}
    assert read_configuration(REF, DIGEST, client=client_for(lambda request: httpx.Response(404))) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"1" * (4 * 1024**2 + 1), "more than 4194304 bytes"),
    ],
)
def test_an_answer_that_is_none_of_a_registry_is_refused(body: bytes, message: str) -> None:
    headers = {"Docker-Content-Digest": DIGEST}
    client = client_for(lambda request: httpx.Response(200, headers=headers, content=body))

    with pytest.raises(PushFailed, match=message):
        find_manifest(REF, client=client)
    with pytest.raises(PushFailed, match=message):
        read_configuration(REF, f"sha256:{hashlib.sha256(body).hexdigest()}", client=client)


def test_a_configuration_of_another_content_is_refused() -> None:
    client = client_for(lambda request: httpx.Response(200, content=CONFIGURATION + b" "))

    with pytest.raises(PushFailed, match=rf"with another content than its digest {CONFIGURATION_DIGEST}"):
        read_configuration(REF, CONFIGURATION_DIGEST, client=client)
