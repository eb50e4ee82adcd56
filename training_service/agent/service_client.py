"""The service as an agent asks it, over HTTP."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar

import httpx
from pydantic import ValidationError

from container_engines.swarm.facts import NO_FACTS, MachineFacts
from training_api.wire import WireModel
from training_service.agent.rows import disks_of, ends_of, placed_of, ref_of, row_of, stream_of, uses_of
from training_service.agent.wire import (
    IDENTIFY,
    ISSUE,
    KNOWN,
    MAX_BATCH_REPORTS,
    MAX_WARNING_LENGTH,
    STORE,
    SYNC,
    IdentityRequest,
    IdentityResponse,
    KnownRequest,
    KnownResponse,
    StoreRequest,
    StoreResponse,
    StreamReports,
    StreamWarning,
    SyncRequest,
    SyncResponse,
    TokenRequest,
    TokenResponse,
)
from training_service.intake.metric_stream import (
    KnownReports,
    PlacedReport,
    SinkUnavailable,
    StreamName,
)

#: Trainers that report wait for a post: the kernel lets them in after 45 s.
_TIMEOUT = httpx.Timeout(10.0, connect=3.0)
#: After a failed request, no other is tried for so long.
_PAUSE_SECONDS = 1.0
#: Characters of the tags of a batch; the service takes bodies of 1 MiB.
_BATCH_TAG_CHARACTERS = 100_000

#: A trainer waits for these: Google's libraries give up the first question after 3 s.
_TRAINER_TIMEOUT = httpx.Timeout(5.0, connect=2.0)

_Answer = TypeVar("_Answer", bound=WireModel)


class NotKnown(SinkUnavailable):
    """The service does not know, now, that this stream or container is of this machine."""


class ServiceClient:
    """
    A ``ReportSink`` at the service; safe for threads.

    :param url: ``http://HOST:PORT`` or ``https://HOST:PORT``.
    :param node: the id of this machine.
    :param authority: path of the certificates by which the service is known, PEM; no others count. Empty:
        those of the machine.
    """

    def __init__(
        self,
        url: str,
        token: str,
        node: str,
        transport: httpx.BaseTransport | None = None,
        *,
        authority: str = "",
    ) -> None:
        self._node = node
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=_TIMEOUT,
            verify=ssl.create_default_context(cafile=authority) if authority else True,
            transport=transport,
            trust_env=False,
        )
        self._lock = threading.Lock()
        self._paused_until = 0.0
        self._warnings: list[StreamWarning] = []
        #: What the service wants to have read now: of other streams it takes nothing.
        self._ordered: frozenset[StreamName] = frozenset()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def sync(
        self,
        *,
        seen: str,
        opened: Collection[StreamName],
        drained: Collection[StreamName],
        jobs: Sequence[str],
        facts: MachineFacts = NO_FACTS,
    ) -> SyncResponse:
        """Tell what is here; return what is to be done. :raises SinkUnavailable: ask again later."""
        asked = SyncRequest(
            node=self._node,
            seen=seen,
            opened=[ref_of(stream) for stream in opened],
            drained=[ref_of(stream) for stream in drained],
            jobs=list(jobs),
            ends=ends_of(facts),
            uses=uses_of(facts),
            egress=facts.egress,
            disks=disks_of(facts),
        )
        answer = self._post(SYNC, asked, SyncResponse)
        self._ordered = frozenset(map(stream_of, answer.streams))
        return answer

    def known(self, stream: StreamName) -> KnownReports:
        """Return what is stored of a stream. :raises SinkUnavailable: ask again later."""
        self._check_pause()
        if stream not in self._ordered:
            raise SinkUnavailable(f"the service does not ask for {stream.folder} now")
        asked = KnownRequest(node=self._node, stream=ref_of(stream))
        found = self._post(KNOWN, asked, KnownResponse)
        return KnownReports(
            newest=tuple(placed_of(row).report for row in found.newest), next_sequence=found.next_sequence
        )

    def store(self, new: Mapping[StreamName, Sequence[PlacedReport]]) -> Mapping[StreamName, int]:
        """
        Post reports, in as many requests as they take.

        :return: how many of each stream, from its first on, are stored for good.
        :raises SinkUnavailable: none is.
        """
        self._check_pause()
        stored: dict[StreamName, int] = {}
        ordered = {stream: reports for stream, reports in new.items() if stream in self._ordered}
        try:
            for part in _parts(ordered):
                self._store(part, stored)
        except SinkUnavailable:
            if not any(stored.values()):
                raise
        return stored

    def warn(self, stream: StreamName, message: str) -> None:
        """Send a warning with the next reports, or by ``send_warnings``."""
        with self._lock:
            self._warnings.append(StreamWarning(stream=ref_of(stream), message=message[:MAX_WARNING_LENGTH]))

    def send_warnings(self) -> None:
        """Send the warnings that wait. :raises SinkUnavailable: they go on waiting."""
        with self._lock:
            waiting = self._warnings[:100]
        if waiting:
            self._post(STORE, StoreRequest(node=self._node, warnings=waiting), StoreResponse)
            with self._lock:
                del self._warnings[: len(waiting)]

    def identify(self, container_id: str) -> IdentityResponse:
        """
        Return who a container of this machine is.

        :raises NotKnown: no replica that is known now.
        :raises SinkUnavailable: ask again later.
        """
        asked = IdentityRequest(node=self._node, container_id=container_id)
        return self._ask(IDENTIFY, asked, IdentityResponse)

    def issue(self, container_id: str, audience: str | None = None) -> TokenResponse:
        """
        Return a token of the account of a container of this machine.

        :param audience: whom an identity token is for; ``None``: an access token.
        :raises NotKnown: no replica that is known now.
        :raises SinkUnavailable: ask again later.
        """
        asked = TokenRequest(node=self._node, container_id=container_id, audience=audience)
        return self._ask(ISSUE, asked, TokenResponse)

    def _ask(self, path: str, asked: WireModel, kind: type[_Answer]) -> _Answer:
        """Post for a trainer, which asks again itself."""
        self._check_pause()
        return self._post(path, asked, kind, timeout=_TRAINER_TIMEOUT)

    def _store(
        self, part: Mapping[StreamName, Sequence[PlacedReport]], stored: dict[StreamName, int]
    ) -> None:
        asked = StoreRequest(
            node=self._node,
            streams=[
                StreamReports(stream=ref_of(stream), reports=[row_of(one) for one in reports])
                for stream, reports in part.items()
            ],
        )
        counts = self._post(STORE, asked, StoreResponse).stored
        for stream, count in zip(part, counts, strict=True):
            stored[stream] = stored.get(stream, 0) + count

    def _check_pause(self) -> None:
        if time.monotonic() < self._paused_until:
            raise SinkUnavailable("the service did not answer just now")

    def _post(
        self, path: str, asked: WireModel, kind: type[_Answer], timeout: httpx.Timeout = _TIMEOUT
    ) -> _Answer:
        try:
            # An older service refuses what it does not know, and so gets only what is said.
            content = asked.model_dump_json(by_alias=True, exclude_defaults=True)
            answer = self._http.post(path, content=content, timeout=timeout)
            answer.raise_for_status()
            return kind.model_validate_json(answer.content)
        except httpx.HTTPError as error:
            # One that is not known is no reason to leave the others alone.
            is_of_one = (
                isinstance(error, httpx.HTTPStatusError)
                and error.response.status_code == HTTPStatus.NOT_FOUND
            )
            if is_of_one:
                raise NotKnown(f"{path}: {error}") from error
            reason = str(error)
        except ValidationError:
            # Its own words quote the answer, in which may be a token.
            reason = f"the answer is no {kind.__name__}"
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        raise SinkUnavailable(f"{path}: {reason}")


def _parts(
    new: Mapping[StreamName, Sequence[PlacedReport]],
) -> Iterator[Mapping[StreamName, Sequence[PlacedReport]]]:
    """Yield what one request may have, in the order of each stream."""
    part: dict[StreamName, list[PlacedReport]] = {}
    count = characters = 0
    for stream, reports in new.items():
        for one in reports:
            characters += len(one.report.tag)
            if count >= MAX_BATCH_REPORTS or (count and characters > _BATCH_TAG_CHARACTERS):
                yield part
                part, count, characters = {}, 0, len(one.report.tag)
            part.setdefault(stream, []).append(one)
            count += 1
    if part:
        yield part
