"""Short-lived identity tokens: issued by the metadata endpoint, read from bearer tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import jwt

from training_api.errors import AccessDenied
from training_service.access.account_keys import AccountKeys, InvalidAccountToken
from training_service.access.decision import Caller
from training_service.access.signing_key import ALGORITHM, SigningKey
from training_service.access.tokens_file import digest_of
from training_service.model.clock import Clock, utc_now

ISSUER = "training-service"
#: Whom an identity token of ours is for: this service's APIs, its registry and the object store.
AUDIENCE = "training-service-apis"
#: The same, for tokens given in exchange for an account's key. They carry the rights that the tokens file
#: gives the account, which a job running as it does not get.
ACCOUNT_AUDIENCE = "training-service-accounts"
LIFETIME = timedelta(hours=1)
#: Longer ones are no tokens of anybody.
_MAX_TOKEN_LENGTH = 8192
_UNKNOWN = "it is none that this service knows"


class Unauthenticated(AccessDenied):
    """401: the request carries no token, or one that stands for nobody."""

    code, status = 401, "UNAUTHENTICATED"


class SignedOtherwise(Unauthenticated):
    """401: the token has another algorithm; perhaps an account has signed it."""


class IdentityTokens:
    """Makes and reads signed tokens that say who their bearer is."""

    def __init__(self, key: SigningKey, clock: Clock = utc_now) -> None:
        self._key = key
        self._public = key.private.public_key()
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

    def claims_of(self, token: str) -> Mapping[str, Any]:
        """
        Return what ``token`` says, which is for either audience of this service.

        :raises SignedOtherwise: it is signed with another algorithm; its signature is not checked.
        :raises Unauthenticated: it is not ours, not for this service, or has expired.
        """
        try:
            return jwt.decode(
                token,
                self._public,
                algorithms=[ALGORITHM],
                audience=[AUDIENCE, ACCOUNT_AUDIENCE],
                issuer=ISSUER,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.InvalidAlgorithmError as error:
            raise SignedOtherwise(_refusal(_reason(error))) from None
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(_refusal(_reason(error))) from None


class Authenticator:
    """
    Tells who sends a token.

    It is one of the tokens file, one that an account has signed, or an identity token of this service.

    :param tokens: callers by the digests of their tokens.
    :param keys: those of service accounts.
    """

    def __init__(
        self, tokens: Mapping[str, Caller], identities: IdentityTokens, keys: AccountKeys | None = None
    ) -> None:
        self._tokens = tokens
        self._identities = identities
        self._keys = keys or AccountKeys()

    @property
    def lists_callers(self) -> bool:
        """Whether there is a tokens file, and somebody in it."""
        return bool(self._tokens or self._keys)

    def caller_of(self, token: str) -> Caller:
        """Return who ``token`` stands for. :raises Unauthenticated: nobody."""
        if not token or len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
            raise Unauthenticated(_refusal(_UNKNOWN))
        if found := self._tokens.get(digest_of(token)):
            return found
        try:
            # Verified at once: a look at the token before would read it twice.
            claims = self._identities.claims_of(token)
        except SignedOtherwise:
            return self._signed_by_account(token)
        principal = str(claims["sub"])
        if claims["aud"] != ACCOUNT_AUDIENCE:
            return Caller(principal=principal)
        if found := self._keys.caller_of_account(principal):
            return found
        raise Unauthenticated(_refusal("the key that it was given for is gone"))

    def _signed_by_account(self, token: str) -> Caller:
        try:
            return self._keys.caller_of_token(token)
        except InvalidAccountToken as error:
            raise Unauthenticated(_refusal(str(error))) from None

    def token_for(self, assertion: str) -> str:
        """
        Return a bearer token for who has signed ``assertion``, a grant by RFC 7523.

        :raises Unauthenticated: nobody whose key is known.
        """
        if len(assertion) > _MAX_TOKEN_LENGTH:
            raise Unauthenticated("the assertion is not valid: it is none that this service knows")
        try:
            caller = self._keys.caller_of_grant(assertion)
        except InvalidAccountToken as error:
            raise Unauthenticated(f"the assertion is not valid: {error}") from None
        return self._identities.issue(caller.principal, audience=ACCOUNT_AUDIENCE)

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


def _refusal(reason: str) -> str:
    return f"the bearer token is not valid: {reason}"


def _reason(error: jwt.InvalidTokenError) -> str:
    """Return what is wrong in fixed words: PyJWT's own may quote the token."""
    if isinstance(error, jwt.ExpiredSignatureError):
        return "it has expired"
    if isinstance(error, jwt.InvalidAudienceError):
        return "it is for somebody else"
    return _UNKNOWN
