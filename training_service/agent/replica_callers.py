"""The containers of jobs on this machine as callers of its metadata endpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from training_service.agent.replica_addresses import ReplicaAddresses
from training_service.agent.service_client import NotKnown, ServiceClient
from training_service.intake.metric_stream import SinkUnavailable
from training_service.metadata.callers import AccessToken, CallerUnknown, InvalidAudience
from training_service.metadata.tree import JobIdentity

#: How long the manager may need to hear of a container that has just been started. Google's libraries give up
#: the first question after 3 s.
_KNOWN_SECONDS, _ASK_AGAIN_SECONDS = 2.0, 0.2
#: A token with less left is replaced, if the service answers. Google's libraries want a new one 225 s before
#: the end (google.auth._helpers.REFRESH_THRESHOLD).
_FRESH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _KeptToken:
    """An access token; ``until``: when it ends, by the clock."""

    value: str = field(repr=False)
    until: float


class ReplicaCallers:
    """
    Finds callers; safe for threads.

    The engine is asked for each question, as addresses are used again. Who a container is does not change
    while it lives, and its access token is kept while it is valid: in memory, and nowhere else.

    :param clock: seconds, from any origin.
    :param sleep: waits that many seconds.
    """

    def __init__(
        self,
        addresses: ReplicaAddresses,
        service: ServiceClient,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._addresses = addresses
        self._service = service
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._callers: dict[str, ReplicaCaller] = {}

    def at(self, address: str) -> ReplicaCaller | None:
        """
        Return the container that has ``address``; ``None``: none of the service.

        :raises CallerUnknown: the engine does not answer.
        """
        container_id = self._addresses.container_at(address)
        if container_id is None:
            return None
        with self._lock:
            found = self._callers.get(container_id)
            if found is None:
                there = self._addresses.of_service
                self._callers = {key: value for key, value in self._callers.items() if key in there}
                found = ReplicaCaller(container_id, self._service, self._clock, self._sleep)
                self._callers[container_id] = found
            return found


class ReplicaCaller:
    """A ``Caller`` of which the service says who it is, and issues the tokens; safe for threads."""

    def __init__(
        self,
        container_id: str,
        service: ServiceClient,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._container_id = container_id
        self._service = service
        self._clock = clock
        self._sleep = sleep
        self._identity: JobIdentity | None = None
        self._token: _KeptToken | None = None

    @property
    def identity(self) -> JobIdentity:
        """Who it is. :raises CallerUnknown: the service does not answer, or does not know it yet."""
        if self._identity is None:
            self._identity = self._identify()
        return self._identity

    def access_token(self) -> AccessToken:
        """Return a token of the job's account: the one before, if it is valid for a while."""
        kept, now = self._token, self._clock()
        if kept is None or kept.until - now < _FRESH_SECONDS:
            try:
                answer = self._service.issue(self._container_id)
                self._token = kept = _KeptToken(answer.token, now + answer.seconds)
            except SinkUnavailable as error:
                if kept is None or kept.until - now < 1:
                    raise _silent() from error
        return AccessToken(value=kept.value, seconds=int(kept.until - now))

    def identity_token(self, audience: str) -> str:
        """Return a new token for ``audience``."""
        try:
            answer = self._service.issue(self._container_id, audience)
        except SinkUnavailable as error:
            raise _silent() from error
        if answer.refusal:
            raise InvalidAudience(answer.refusal)
        return answer.token

    def _identify(self) -> JobIdentity:
        until = self._clock() + _KNOWN_SECONDS
        while True:
            try:
                return JobIdentity(**self._service.identify(self._container_id).model_dump())
            except NotKnown as error:
                if self._clock() > until:
                    raise CallerUnknown(
                        "the training service knows of no such replica of a job that runs; ask again"
                    ) from error
            except SinkUnavailable as error:
                raise _silent() from error
            self._sleep(_ASK_AGAIN_SECONDS)


def _silent() -> CallerUnknown:
    return CallerUnknown("the training service does not answer; ask again")
