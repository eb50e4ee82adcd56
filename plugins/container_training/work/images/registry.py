"""What an image registry answers over HTTP, and the logins for it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docker.auth
import docker.errors
import httpx

from training_api.clients.network import DEFAULT_NETWORK
from training_api.errors import PushFailed, RegistryUnavailable
from training_api.iam.registry_wire import MANIFEST_TYPES, manifest_url, registry_url
from training_api.job.image_ref import ImageRef

#: A login as docker-py's ``auth_config`` takes it; empty: anonymous (``None`` would mean: search for one).
Login = dict[str, Any]
FindLogin = Callable[[str], Login]

TIMEOUT_SECONDS = 10.0
#: Registries take no larger manifest. Source: distribution-spec, "Pushing Manifests".
MAX_ANSWER_BYTES = 4 * 1024**2
_CHALLENGE_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """
    What a registry keeps under a tag.

    :param digest: of the manifest, ``sha256:...``.
    :param config_digest: of the image's configuration, which is the engine's image id; ``None`` for a list of
        platforms.
    """

    digest: str
    config_digest: str | None


def stored_login(host: str) -> Login:
    """
    Return the login for ``host`` from ``docker login`` or a credential helper; else empty.

    :raises PushFailed: the credential helper cannot be run.
    """
    try:
        login = docker.auth.load_config().resolve_authconfig(host)
    except docker.errors.DockerException as error:
        raise PushFailed(f"the stored login of registry {host} cannot be read: {error}") from error
    return dict(login or {})


def registry_of(repository: str) -> str:
    """Return the registry host in an image's name: ``docker.io`` if it names none. Pure."""
    return docker.auth.resolve_repository_name(repository)[0]


def manifest_digest(
    ref: ImageRef, *, login: Login | None = None, client: httpx.Client | None = None
) -> str | None:
    """
    Return the digest of ``ref``'s manifest by one HEAD request; ``None``: there is none.

    :raises RegistryUnavailable: no answer, or a server error.
    :raises PushFailed: the registry wants another login.
    """
    answer = _ask("HEAD", manifest_url(ref), ref, login or {}, client)
    return answer.headers.get("Docker-Content-Digest") if answer is not None else None


def find_manifest(
    ref: ImageRef, *, login: Login | None = None, client: httpx.Client | None = None
) -> Manifest | None:
    """
    Return what the registry has under ``ref``; ``None``: nothing.

    :raises RegistryUnavailable: no answer, or a server error.
    :raises PushFailed: the registry wants another login, or answers with no manifest.
    """
    answer = _ask("GET", manifest_url(ref), ref, login or {}, client)
    if answer is None or "Docker-Content-Digest" not in answer.headers:
        return None
    config = answer.json_object(ref).get("config") or {}
    return Manifest(digest=answer.headers["Docker-Content-Digest"], config_digest=config.get("digest"))


def read_configuration(
    ref: ImageRef, digest: str, *, login: Login | None = None, client: httpx.Client | None = None
) -> dict[str, Any] | None:
    """
    Return the configuration of ``ref``'s image; ``None``: there is none.

    It has the labels.

    :param digest: ``config_digest`` of its manifest.
    :raises RegistryUnavailable: no answer, or a server error.
    :raises PushFailed: the registry wants another login, or answers with another configuration or none.
    """
    url = f"{registry_url(ref.host)}/v2/{ref.repository}/blobs/{digest}"
    answer = _ask("GET", url, ref, login or {}, client)
    if answer is None:
        return None
    found = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
    if found != digest:  # perhaps of another image: its labels would decide that nothing is built
        raise PushFailed(
            f"registry {ref.host} answered for {ref} with another content than its digest {digest}, got {found}; "
            "push the image again, or ask who keeps the registry, or a cache before it"
        )
    return answer.json_object(ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: httpx.Headers
    body: bytes

    def json_object(self, ref: ImageRef) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise PushFailed(f"registry {ref.host} answered for {ref} with no JSON object; is it a registry?")
        return found


def _ask(method: str, url: str, ref: ImageRef, login: Login, client: httpx.Client | None) -> _Answer | None:
    """Return the answer for ``url``, which is about ``ref``; ``None`` for 404."""
    if client is not None:
        return _ask_with(client, method, url, ref, login)
    # https: so may be the place that gives tokens for a registry without.
    transport = DEFAULT_NETWORK.transport(f"https://{ref.host}")
    with httpx.Client(timeout=TIMEOUT_SECONDS, transport=transport) as own_client:
        return _ask_with(own_client, method, url, ref, login)


def _ask_with(client: httpx.Client, method: str, url: str, ref: ImageRef, login: Login) -> _Answer | None:
    headers = {"Accept": ", ".join(MANIFEST_TYPES)}
    try:
        answer = _send(client, method, url, ref, headers)
        if answer.status == httpx.codes.UNAUTHORIZED:
            headers |= _authorization(client, answer.headers.get("WWW-Authenticate", ""), login)
            answer = _send(client, method, url, ref, headers)
    except (httpx.RequestError, httpx.InvalidURL) as error:  # also redirects without end, a broken body
        raise RegistryUnavailable(f"registry {ref.host} did not answer: {error}") from error
    if answer.status == httpx.codes.NOT_FOUND:
        return None
    if httpx.codes.is_server_error(answer.status) or answer.status == httpx.codes.TOO_MANY_REQUESTS:
        raise RegistryUnavailable(f"registry {ref.host} answered {answer.status} for {ref}")
    if not httpx.codes.is_success(answer.status):
        raise PushFailed(f"registry {ref.host} answered {answer.status} for {ref}; check the registry login")
    return answer


def _send(client: httpx.Client, method: str, url: str, ref: ImageRef, headers: Mapping[str, str]) -> _Answer:
    """Ask once, also where a redirect leads to; a registry may keep configurations elsewhere."""
    with client.stream(method, url, headers=headers, follow_redirects=True) as answer:
        body = bytearray()
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise PushFailed(
                    f"registry {ref.host} answered for {ref} with more than {MAX_ANSWER_BYTES} bytes"
                )
        return _Answer(status=answer.status_code, headers=answer.headers, body=bytes(body))


def _authorization(client: httpx.Client, challenge: str, login: Login) -> dict[str, str]:
    """
    Return the header that answers a 401, or nothing if there is no login to answer it with.

    Source: distribution.github.io/distribution/spec/auth/token.
    """
    user = login.get("username") or login.get("Username")
    password = login.get("password") or login.get("Password")
    basic = httpx.BasicAuth(user, password) if user and password else None
    scheme, _, rest = challenge.partition(" ")
    if scheme.lower() == "bearer":
        wanted = dict(_CHALLENGE_PARAMETER.findall(rest))
        realm = wanted.pop("realm", "")
        answer = client.get(realm, params=wanted, auth=basic or httpx.USE_CLIENT_DEFAULT)
        token = _token(answer)
        return {"Authorization": f"Bearer {token}"} if token else {}
    if basic is not None:
        return {
            "Authorization": next(basic.auth_flow(httpx.Request("GET", "http://unused"))).headers[
                "Authorization"
            ]
        }
    return {}


def _token(answer: httpx.Response) -> str | None:
    """Return the token in an answer; ``None``: there is none, also where it is no JSON object."""
    try:
        body = answer.json() if answer.is_success else None
    except ValueError:
        return None
    token = (body.get("token") or body.get("access_token")) if isinstance(body, dict) else None
    return str(token) if token else None
