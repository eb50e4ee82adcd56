"""Short-lived identity tokens: issued by the metadata endpoint, read from bearer tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta

import jwt

from training_api.errors import AccessDenied
from training_service.access.decision import Caller
from training_service.access.signing_key import ALGORITHM, SigningKey
from training_service.access.tokens_file import digest_of
from training_service.model.clock import Clock, utc_now

ISSUER = "training-service"
#: Whom an identity token of ours is for: this service's APIs, its registry and the object store.
AUDIENCE = "training-service-apis"
LIFETIME = timedelta(hours=1)
#: Longer ones are no tokens of anybody.
_MAX_TOKEN_LENGTH = 8192


class Unauthenticated(AccessDenied):
    """401: the request carries no token, or one that stands for nobody."""

    code, status = 401, "UNAUTHENTICATED"


class IdentityTokens:
    """Makes and reads signed tokens that say who their bearer is."""

    def __init__(self, key: SigningKey, clock: Clock = utc_now) -> None:
        self._key = key
        self._clock = clock

    def issue(
        self, principal: str, *, audience: str = AUDIENCE, lifetime: timedelta = LIFETIME, **claims: str
    ) -> str:
        """
        Return a token for ``principal``.

        :param audience: whom it is for; only those for this service are accepted by it.
        :param claims: more of them, e.g. ``email``.
        """
        now = self._clock()
        payload = {
            **claims,
            "iss": ISSUER,
            "sub": principal,
            "aud": audience,
            "iat": now,
            "nbf": now,
            "exp": now + lifetime,
            "jti": secrets.token_hex(8),
        }
        return jwt.encode(payload, self._key.private, ALGORITHM, headers={"kid": self._key.id})

    def principal_of(self, token: str) -> str:
        """
        Return the principal of ``token``.

        :raises Unauthenticated: it is not ours, not for us, or has expired.
        """
        try:
            claims = jwt.decode(
                token,
                self._key.private.public_key(),
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=ISSUER,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the bearer token is not valid: {_reason(error)}") from None
        return str(claims["sub"])


class Authenticator:
    """Tells who sends a token: one of the tokens file, or an identity token of this service."""

    def __init__(self, tokens: Mapping[str, Caller], identities: IdentityTokens) -> None:
        self._tokens = tokens
        self._identities = identities

    @property
    def lists_callers(self) -> bool:
        """Whether there is a tokens file, and somebody in it."""
        return bool(self._tokens)

    def caller_of(self, token: str) -> Caller:
        """Return who ``token`` stands for. :raises Unauthenticated: nobody."""
        if not token or len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
            raise Unauthenticated("the bearer token is not valid: it is none that this service knows")
        if found := self._tokens.get(digest_of(token)):
            return found
        return Caller(principal=self._identities.principal_of(token))

    def bearer(self, authorization: str | None) -> Caller | None:
        """
        Return who a request's ``Authorization`` header stands for; ``None`` without one.

        :raises Unauthenticated: it is not ``Bearer TOKEN``, or stands for nobody.
        """
        if authorization is None:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the Authorization header must be 'Bearer TOKEN'")
        return self.caller_of(token.strip())


def _reason(error: jwt.InvalidTokenError) -> str:
    """Return what is wrong in fixed words: PyJWT's own may quote the token."""
    if isinstance(error, jwt.ExpiredSignatureError):
        return "it has expired"
    if isinstance(error, jwt.InvalidAudienceError):
        return "it is for somebody else"
    return "it is none that this service knows"
