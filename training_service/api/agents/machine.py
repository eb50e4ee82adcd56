"""The machine whose agent asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from training_service.api.middleware.agent_gate import MACHINE


# Async, or FastAPI would hand it to a thread for each request.
async def _machine_of_token(request: Request) -> str:
    return str(request.scope[MACHINE])


#: The machine of whose agent the request's token is, for a route's parameters.
TokenMachine = Annotated[str, Depends(_machine_of_token)]


def confirmed(named: str, machine: str) -> str:
    """
    Return the machine that a request is about.

    :param named: the one that its body names.
    :param machine: the one whose token it has.
    :raises HTTPException: 403, they differ.
    """
    if named != machine:
        raise HTTPException(403, f"the token is of the agent of machine {machine}, and not of {named!r}")
    return machine
