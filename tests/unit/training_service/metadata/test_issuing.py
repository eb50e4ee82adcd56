"""Which tokens a job's account gets, whatever asks for them in its name."""

from __future__ import annotations

import jwt
import pytest

from training_service.access.identity import ACCOUNT_AUDIENCE, Authenticator, IdentityTokens
from training_service.access.registry_tokens import SERVICE
from training_service.access.signing_key import SigningKey
from training_service.metadata.callers import InvalidAudience
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import JobIdentity

EMAIL = "trainer@demo.iam.gserviceaccount.com"
KEY = SigningKey.generate()
CALLER = JobCaller(
    identity=JobIdentity(project="demo", number=12, email=EMAIL, job_id="job", job_uid="0a"),
    tokens=IdentityTokens(KEY),
)


def test_an_access_token_is_the_accounts_for_an_hour_and_is_not_shown() -> None:
    token = CALLER.access_token()

    caller = Authenticator({}, IdentityTokens(KEY)).caller_of(token.value)
    assert (caller.principal, token.seconds) == (f"serviceAccount:{EMAIL}", 3600)
    assert token.value not in repr(token)


def test_an_identity_token_is_for_its_audience() -> None:
    token = CALLER.identity_token("https://x")

    claims = jwt.decode(token, KEY.private.public_key(), algorithms=["ES256"], audience="https://x")
    assert (claims["email"], claims["azp"]) == (EMAIL, EMAIL)


@pytest.mark.parametrize("audience", ["", "x" * 1025, SERVICE, ACCOUNT_AUDIENCE])
def test_no_audience_one_that_is_too_long_and_reserved_ones_are_refused(audience: str) -> None:
    with pytest.raises(InvalidAudience):
        CALLER.identity_token(audience)
