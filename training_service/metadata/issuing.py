"""Tokens of a job's account, as the service that has the key issues them."""

from __future__ import annotations

from dataclasses import dataclass, field

from training_service.access.identity import ACCOUNT_AUDIENCE, LIFETIME, IdentityTokens
from training_service.access.registry_tokens import SERVICE as REGISTRY_AUDIENCE
from training_service.metadata.callers import AccessToken, InvalidAudience
from training_service.metadata.tree import JobIdentity

_MAX_AUDIENCE_LENGTH = 1024
#: A job may name the audience of a token that says who it is; the tokens of these also say what it may do.
_RESERVED = frozenset({REGISTRY_AUDIENCE, ACCOUNT_AUDIENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCaller:
    """A ``Caller`` whose tokens are made here."""

    identity: JobIdentity
    tokens: IdentityTokens = field(repr=False)

    def access_token(self) -> AccessToken:
        """Return a new token of the job's account."""
        return AccessToken(
            value=self.tokens.issue(self.identity.principal), seconds=round(LIFETIME.total_seconds())
        )

    def identity_token(self, audience: str) -> str:
        """Return a new token for ``audience``. :raises InvalidAudience: nobody gets one for it."""
        if not audience or len(audience) > _MAX_AUDIENCE_LENGTH:
            raise InvalidAudience("non-empty audience parameter required")
        if audience in _RESERVED:
            raise InvalidAudience("this audience is reserved: its tokens say more than who their bearer is")
        email = self.identity.email
        return self.tokens.issue(self.identity.principal, audience=audience, email=email, azp=email)
