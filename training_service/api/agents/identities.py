"""
The routes by which node agents learn who containers are, and get their tokens.

``middleware/agent_gate.py`` has let them in. A token goes to a machine only for a replica that the engine has
on it.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import HTTPException
from fastapi.responses import JSONResponse

from training_api.errors import EngineError
from training_service.agent.wire import (
    IDENTIFY,
    ISSUE,
    IdentityRequest,
    IdentityResponse,
    TokenRequest,
    TokenResponse,
)
from training_service.api.agents.machine import TokenMachine, confirmed
from training_service.api.routes import Routes
from training_service.metadata.callers import Caller, InvalidAudience

#: From a machine's id, and the id of a container there, to the replica of a job that it is.
FindReplica = Callable[[str, str], Caller | None]

_NO_STORE = {"Cache-Control": "no-store"}


def agent_identities_router(find_replica: FindReplica) -> Routes:
    """Return the routes over ``find_replica``."""
    router = Routes(tags=["agents"], include_in_schema=False)

    def find(asked: IdentityRequest, machine: str) -> Caller:
        try:
            found = find_replica(confirmed(asked.node, machine), asked.container_id)
        except EngineError as error:
            raise HTTPException(503, "the swarm's manager does not answer; ask again") from error
        if found is None:
            raise HTTPException(404, "no replica of a job is known to run in this container of this machine")
        return found

    @router.post(IDENTIFY)
    def identify(asked: IdentityRequest, machine: TokenMachine) -> JSONResponse:
        """Answer who a container is."""
        identity = find(asked, machine).identity
        answer = IdentityResponse(
            project=identity.project,
            number=identity.number,
            email=identity.email,
            job_id=identity.job_id,
            job_uid=identity.job_uid,
            region=identity.region,
        )
        return JSONResponse(answer.to_wire())

    @router.post(ISSUE)
    def issue(asked: TokenRequest, machine: TokenMachine) -> JSONResponse:
        """Answer a token of a container's account."""
        return JSONResponse(_token(find(asked, machine), asked.audience).to_wire(), headers=_NO_STORE)

    return router


def _token(caller: Caller, audience: str | None) -> TokenResponse:
    if audience is None:
        token = caller.access_token()
        return TokenResponse(token=token.value, seconds=token.seconds)
    try:
        return TokenResponse(token=caller.identity_token(audience))
    except InvalidAudience as error:
        return TokenResponse(refusal=str(error))
