"""
Keys of service accounts: which tokens their holders sign, and what those stand for.

Google's libraries sign two kinds with the key file of an account: a bearer token for an API [AIP-4111], and a
grant for which a token endpoint gives out a bearer token [RFC 7523]. The service has the public key alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from training_service.access.decision import Caller

#: What Google's keys sign with.
ALGORITHM = "RS256"
#: NIST SP 800-131A: shorter RSA keys must not be used for signing.
MIN_KEY_BITS = 2048
#: What google-auth names as the audience of a grant, wherever the token endpoint is.
GRANT_AUDIENCE = "https://oauth2.googleapis.com/token"
#: This service has no narrower scopes; a token with one was meant for another service.
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: AIP-4111: the service's URL, with the slash. The names are those of APIs that this service speaks.
_AUDIENCE = re.compile(
    r"https://(([a-z]+-[a-z]+[0-9]+-)?(aiplatform|ml)|logging|cloudresourcemanager|artifactregistry)\.googleapis\.com/"
)
#: Google's limit of what an account signs for itself.
_MAX_LIFETIME = timedelta(hours=1)
#: How far two clocks may differ.
_SKEW = timedelta(seconds=10)


class InvalidAccountKey(ValueError):
    """The text is no public key that an account can sign with."""


class InvalidAccountToken(ValueError):
    """The token identifies no known account; the message never quotes it."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    """One key of an account: whose, and its public half."""

    caller: Caller
    public: RSAPublicKey


def read_public_key(pem: str) -> RSAPublicKey:
    """
    Return the public key of a PEM text.

    :raises InvalidAccountKey: it is none, is not RSA, or has fewer than 2048 bits.
    """
    try:
        found = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidAccountKey(
            "public_key must be the PEM text of a public key (-----BEGIN PUBLIC KEY-----)"
        ) from None
    if not isinstance(found, RSAPublicKey) or found.key_size < MIN_KEY_BITS:
        raise InvalidAccountKey(f"public_key must be a key of RSA with at least {MIN_KEY_BITS} bits")
    return found


class AccountKeys:
    """Reads what service accounts sign."""

    def __init__(self, keys: Iterable[AccountKey] = ()) -> None:
        found: dict[str, list[AccountKey]] = {}
        for key in keys:
            found.setdefault(_email(key.caller.principal), []).append(key)
        self._keys: Mapping[str, Sequence[AccountKey]] = found

    def __bool__(self) -> bool:
        return bool(self._keys)

    def caller_of_account(self, principal: str) -> Caller | None:
        """Return the caller whose key is known; ``None``: there is no such key (any more)."""
        keys = self._keys.get(_email(principal), ())
        return keys[0].caller if keys and keys[0].caller.principal == principal else None

    def caller_of_token(self, token: str) -> Caller:
        """
        Return who signed this bearer token.

        :raises InvalidAccountToken: nobody that is known, or it is not for this service.
        """
        caller, claims = self._read(token)
        audience = claims.get("aud")
        if claims.get("sub") != claims["iss"]:
            raise InvalidAccountToken("its issuer and its subject must be the same account")
        if audience is None and _SCOPE not in _scopes(claims):
            raise InvalidAccountToken(f"without an audience it must have the scope {_SCOPE}")
        if audience is not None and not (isinstance(audience, str) and _AUDIENCE.fullmatch(audience)):
            raise InvalidAccountToken("it is for somebody else")
        return caller

    def caller_of_grant(self, assertion: str) -> Caller:
        """
        Return who asks for a bearer token.

        :raises InvalidAccountToken: nobody that is known, or it is not for this service.
        """
        caller, claims = self._read(assertion)
        if claims.get("aud") != GRANT_AUDIENCE:
            raise InvalidAccountToken(f"its audience must be {GRANT_AUDIENCE}")
        if claims.get("sub") not in (None, claims["iss"]):
            raise InvalidAccountToken("an account may ask for itself only")
        if _SCOPE not in _scopes(claims):
            raise InvalidAccountToken(f"it must have the scope {_SCOPE}")
        return caller

    def _read(self, token: str) -> tuple[Caller, dict[str, Any]]:
        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        except jwt.InvalidTokenError:
            raise InvalidAccountToken("it is none that this service knows") from None
        for key in self._keys.get(issuer, ()) if isinstance(issuer, str) else ():
            try:
                return key.caller, _verified(token, key.public)
            except jwt.ExpiredSignatureError:
                raise InvalidAccountToken("it has expired") from None
            except jwt.InvalidSignatureError:
                continue  # another key of the same account
            except jwt.InvalidTokenError:
                break
        raise InvalidAccountToken("it is none that this service knows")


def _verified(token: str, key: RSAPublicKey) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[ALGORITHM],
        leeway=_SKEW,
        options={"require": ["iss", "iat", "exp"], "verify_aud": False},
    )
    if int(claims["exp"]) - int(claims["iat"]) > _MAX_LIFETIME.total_seconds():
        raise InvalidAccountToken(f"it must expire within {_MAX_LIFETIME} of its issue")
    return claims


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    return str(claims.get("scope", "")).split()


def _email(principal: str) -> str:
    return principal.partition(":")[2]
