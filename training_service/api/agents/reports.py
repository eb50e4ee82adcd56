"""
The routes of node agents: what they are to read, and what they have read.

``middleware/agent_gate.py`` has let them in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from container_engines.swarm.facts import NodeFacts
from training_service.access.agent_token import AgentTokens
from training_service.agent.rows import facts_of, placed_of, ref_of, row_of, stream_of
from training_service.agent.wire import (
    KNOWN,
    STORE,
    SYNC,
    KnownRequest,
    KnownResponse,
    StoreRequest,
    StoreResponse,
    StreamOrder,
    SyncRequest,
    SyncResponse,
)
from training_service.api.agents.identities import FindReplica
from training_service.api.agents.machine import TokenMachine, confirmed
from training_service.api.routes import Routes
from training_service.intake.metric_stream import PlacedReport, SinkUnavailable
from training_service.intake.node_streams import NodeStreams

#: How long an agent waits for news; as long as that a service that stops waits for it.
_HOLD_SECONDS = 2.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class AgentApi:
    """
    What serves agents.

    :param facts: keeps what they say of containers.
    :param find_replica: from a machine and a container there to the job's caller.
    :param tokens: what they show.
    :param is_active: whether this service moves the jobs now.
    """

    streams: NodeStreams
    facts: NodeFacts
    find_replica: FindReplica
    tokens: AgentTokens
    is_active: Callable[[], bool]


def agents_router(streams: NodeStreams, facts: NodeFacts) -> Routes:
    """Return the routes over ``streams`` and ``facts``: what agents read and know."""
    router = Routes(tags=["agents"], include_in_schema=False)

    @router.post(SYNC)
    async def sync(asked: SyncRequest, machine: TokenMachine) -> JSONResponse:
        """Take what an agent has; answer what it is to do, at once if that is news."""
        node, until = confirmed(asked.node, machine), time.monotonic() + _HOLD_SECONDS
        facts.tell(node, facts_of(asked))
        await run_in_threadpool(
            streams.hear, node, map(stream_of, asked.opened), map(stream_of, asked.drained)
        )
        while streams.version(node) == asked.seen and time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)
        orders = await run_in_threadpool(streams.orders, node, asked.jobs)
        answer = SyncResponse(
            version=orders.version,
            streams=[
                StreamOrder(**ref_of(stream).model_dump(), has_ended=has_ended)
                for stream, has_ended in orders.streams.items()
            ],
            remove=list(orders.remove),
        )
        return JSONResponse(answer.to_wire())

    @router.post(KNOWN)
    def known(asked: KnownRequest, machine: TokenMachine) -> JSONResponse:
        """Answer what is stored of a stream."""
        node = confirmed(asked.node, machine)
        try:
            found = streams.known(node, stream_of(asked.stream))
        except SinkUnavailable as error:
            raise HTTPException(
                503, "stored reports cannot be read now: the database does not answer"
            ) from error
        if found is None:
            raise HTTPException(404, "this machine is not to read the stream now; ask again later")
        first = found.next_sequence - len(found.newest)
        rows = [row_of(PlacedReport(sequence=n, report=one)) for n, one in enumerate(found.newest, first)]
        return JSONResponse(KnownResponse(newest=rows, next_sequence=found.next_sequence).to_wire())

    @router.post(STORE)
    def store(asked: StoreRequest, machine: TokenMachine) -> JSONResponse:
        """Store reports; the answer comes after the commit."""
        node = confirmed(asked.node, machine)
        try:
            new = {stream_of(each.stream): [placed_of(row) for row in each.reports] for each in asked.streams}
        except ValueError as error:
            raise HTTPException(400, f"a report cannot be read: {error}") from error
        for warning in asked.warnings:
            streams.warn(node, stream_of(warning.stream), warning.message)
        try:
            stored = streams.store(node, new)
        except SinkUnavailable as error:
            raise HTTPException(503, "reports cannot be stored now: the database takes no write") from error
        return JSONResponse(
            StoreResponse(stored=[stored[stream_of(each.stream)] for each in asked.streams]).to_wire()
        )

    return router
