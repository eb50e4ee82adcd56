"""
Tokens for the registry: granted as far as the repository's policy allows.

Source: distribution, "Token Authentication Specification" and its "Token Scope Documentation".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from training_api.errors import InvalidImageRef
from training_api.iam.registry_resources import PolicyResource, registry_resource
from training_api.job.image_ref import ImageRef
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.identity import Unauthenticated
from training_service.access.roles import DELETE, DOWNLOAD, UPLOAD
from training_service.access.signing_key import ALGORITHM, SigningKey
from training_service.model.clock import Clock, utc_now

#: The names that registry and service agree on.
SERVICE, ISSUER = "training-registry", "training-service"
#: Of a token that anybody asked for: long enough for one request after another, each pull asks for its own.
LIFETIME = timedelta(minutes=5)
#: The registry's clock may be a little behind.
_LEEWAY = timedelta(seconds=10)
#: More repositories than any push names.
MAX_SCOPES = 50

#: The permission behind each action; ``*`` is all of them.
PERMISSIONS = {"pull": DOWNLOAD, "push": UPLOAD, "delete": DELETE}
#: Whatever the registry is called, its repositories are those of the local one.
_LOCAL_HOST = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryToken:
    """
    A token and what it is good for.

    :param lifetime: from now on.
    :param principal: whose it is; empty: anybody's.
    :param access: the granted part of what was asked, as the token carries it; may be empty.
    """

    value: str
    access: list[dict[str, Any]]
    issued_at: datetime
    lifetime: timedelta
    principal: str


class RegistryTokens:
    """Gives out the registry's tokens."""

    def __init__(self, key: SigningKey, control: AccessControl, clock: Clock = utc_now) -> None:
        self._key = key
        self._control = control
        self._clock = clock

    def issue(self, caller: Caller, scopes: Iterable[str], lifetime: timedelta = LIFETIME) -> RegistryToken:
        """
        Return a token for the allowed part of ``scopes`` (``repository:NAME:pull,push``).

        The rest is left out.

        The registry refuses whoever comes with too little: it, not the token, says what was missing.
        """
        access = [granted for scope in list(scopes)[:MAX_SCOPES] if (granted := self._granted(caller, scope))]
        now = self._clock()
        return RegistryToken(
            value=_sign(self._key, caller.principal, access, now, lifetime),
            access=access,
            issued_at=now,
            lifetime=lifetime,
            principal=caller.principal,
        )

    def refresh(self, value: str) -> RegistryToken:
        """
        Return a token that was issued here and is still valid, as it is.

        It is good for no longer, and for nothing more. An engine that takes no token for its registry shows
        it to the token endpoint (Podman).

        :raises Unauthenticated: it is none, or is over.
        """
        try:
            claims = jwt.decode(
                value,
                self._key.private.public_key(),
                [ALGORITHM],
                audience=SERVICE,
                issuer=ISSUER,
                options={"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp"]},
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated("the refresh token is no token of this registry") from error
        now = self._clock()
        ends_at = datetime.fromtimestamp(claims["exp"], UTC)
        if ends_at <= now:
            raise Unauthenticated("the refresh token is over")
        return RegistryToken(
            value=value,
            access=claims["access"],
            issued_at=now,
            lifetime=ends_at - now,
            principal=claims["sub"],
        )

    def _granted(self, caller: Caller, scope: str) -> dict[str, Any] | None:
        kind, _, rest = scope.partition(":")
        name, _, wanted = rest.rpartition(":")
        if kind != "repository":
            return None  # the catalogue of all repositories is nobody's
        resource = local_repository(name)
        if resource is None:
            return None
        asked = set(PERMISSIONS) if wanted == "*" else set(wanted.split(","))
        actions = [
            action
            for action, permission in PERMISSIONS.items()
            if action in asked and self._control.may(caller, permission, resource.name)
        ]
        return {"type": "repository", "name": name, "actions": actions} if actions else None


def own_token(
    key: SigningKey, repository: str, actions: Sequence[str], lifetime: timedelta = timedelta(hours=1)
) -> str:
    """
    Return a token of this service itself for one repository; no policy is asked.

    :param actions: of ``PERMISSIONS``.
    :param lifetime: an engine asks for layer after layer with it, so that the slowest pull must end before.
    """
    access = [{"type": "repository", "name": repository, "actions": list(actions)}]
    return _sign(key, ISSUER, access, utc_now(), lifetime)


def _sign(
    key: SigningKey, principal: str, access: list[dict[str, Any]], now: datetime, lifetime: timedelta
) -> str:
    payload = {
        "iss": ISSUER,
        "sub": principal,
        "aud": SERVICE,
        "iat": now,
        "nbf": now - _LEEWAY,
        "exp": now + lifetime,
        "jti": secrets.token_hex(8),
        "access": access,
    }
    return jwt.encode(payload, key.private, ALGORITHM, headers={"kid": key.id})


def local_repository(name: str) -> PolicyResource | None:
    """
    Return the resource whose policy decides about a repository of the local registry.

    ``None``: no such name.
    """
    try:
        return registry_resource(ImageRef(host=_LOCAL_HOST, repository=name))
    except InvalidImageRef:
        return None


def registry_configuration(realm: str, certificate: str) -> dict[str, object]:
    """
    Return the ``auth`` section of the registry's configuration.

    :param realm: URL of the service's ``/registry/token``, as the registry's clients reach it.
    :param certificate: path of the certificate beside the service's key.
    """
    return {"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": certificate}}
