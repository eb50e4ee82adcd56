"""What lies between a client and Vertex AI, and loses, repeats and delays creates."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import httpx

from tests.support.fakes.fake_service import error

_LISTS = ("customJobs", "hyperparameterTuningJobs")


class Harm(StrEnum):
    """What is done to one create."""

    NOT_SENT = "the service never sees it"
    REFUSED = "429, and the service never sees it"
    CUT = "written, and the connection is reset"
    UNAVAILABLE = "written, and the answer is 503"
    SENT_TWICE = "written twice, and the second answer comes"
    SENT_TWICE_AND_CUT = "written twice, and the connection is reset"
    SENT_LATER = "504, and written some time later"


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A harm to one create.

    :param seconds: how much later it is written.
    """

    harm: Harm
    seconds: float = 0.0


class LosingGateway:
    """
    Passes requests on to a service, in virtual time, and harms creates.

    :param send: the way to the service.
    :param seconds: what the clock shows.
    :param faults: those of the coming creates.
    :param lag: for so long lists do not show a new job.
    """

    def __init__(self, send: Callable[[httpx.Request], httpx.Response], seconds: Callable[[], float]) -> None:
        self.faults: list[Fault] = []
        self.lag = 0.0
        #: When each job was written, and when its cancel was asked for, by its number.
        self.born: dict[str, float] = {}
        self.cancelled: dict[str, float] = {}
        self._send = send
        self._seconds = seconds
        self._held: list[tuple[float, httpx.Request]] = []

    @property
    def settles_at(self) -> float:
        """The moment when all that was sent is written, and all that was written is listed."""
        due = [*self.born.values(), *(moment for moment, _ in self._held)]
        return max(due, default=0.0) + self.lag

    def shown_at(self, number: str) -> float:
        """Return when lists show a job for the first time."""
        return self.born[number] + self.lag

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        self._write_what_is_due()
        path = request.url.path
        if request.method == "POST" and path.endswith(_LISTS):
            return self._create(request, self.faults.pop(0) if self.faults else None)
        if path.endswith(":cancel"):
            number = path.rpartition("/")[2].removesuffix(":cancel")
            self.cancelled.setdefault(number, self._seconds())
        return self._with_lag(self._send(request))

    async def handle_async(self, request: httpx.Request) -> httpx.Response:
        return self.handle(request)

    def _create(self, request: httpx.Request, fault: Fault | None) -> httpx.Response:
        match fault and fault.harm:
            case Harm.NOT_SENT:
                raise httpx.ConnectError("refused")
            case Harm.REFUSED:
                return error(429, "RESOURCE_EXHAUSTED", "slow down")
            case Harm.CUT:
                self._write(request, self._seconds())
                raise httpx.ReadError("connection reset")
            case Harm.UNAVAILABLE:
                self._write(request, self._seconds())
                return error(503, "UNAVAILABLE", "later")
            case Harm.SENT_TWICE:
                self._write(request, self._seconds())
            case Harm.SENT_TWICE_AND_CUT:
                self._write(request, self._seconds())
                self._write(request, self._seconds())
                raise httpx.ReadError("connection reset")
            case Harm.SENT_LATER:
                assert fault is not None
                self._held.append((self._seconds() + fault.seconds, request))
                return error(504, "DEADLINE_EXCEEDED", "no answer in time")
        return self._write(request, self._seconds())

    def _write(self, request: httpx.Request, moment: float) -> httpx.Response:
        answer = self._send(request)
        assert answer.is_success, answer.text
        self.born[answer.json()["name"].rpartition("/")[2]] = moment
        return answer

    def _write_what_is_due(self) -> None:
        now = self._seconds()
        due = [held for held in self._held if held[0] <= now]
        self._held = [held for held in self._held if held[0] > now]
        for moment, request in due:
            self._write(request, moment)

    def _with_lag(self, answer: httpx.Response) -> httpx.Response:
        """Take the jobs out of a list that it does not show yet."""
        body = json.loads(answer.content)
        now = self._seconds()
        for kind in body.keys() & {*_LISTS}:
            body[kind] = [
                job
                for job in body[kind]
                if self.born.get(job["name"].rpartition("/")[2], -self.lag) + self.lag <= now
            ]
        return httpx.Response(answer.status_code, json=body, headers=_without_length(answer.headers))


def _without_length(headers: httpx.Headers) -> dict[str, str]:
    left_out = {"content-length", "content-encoding", "transfer-encoding"}
    return {name: value for name, value in headers.items() if name not in left_out}
