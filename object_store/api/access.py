"""What containers may do: the training service decides, which knows the job of an address."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from http import HTTPStatus

import httpx

from object_store.api.training_client import TIMEOUT_SECONDS, training_client
from object_store.errors import Forbidden, StoreError

#: Permissions of Cloud Storage's IAM.
CREATE, DELETE, GET = "storage.objects.create", "storage.objects.delete", "storage.objects.get"
LIST, UPDATE = "storage.objects.list", "storage.objects.update"
GET_BUCKET, LIST_BUCKETS = "storage.buckets.get", "storage.buckets.list"

_CHECK = "/ops/v1/objects:checkAccess"
#: For a question whose last answer was yes.
_SHORT_SECONDS = 2.0
#: How long a yes is good for. A no is asked for again each time.
_KEPT_SECONDS = 2.0
_MOST_KEPT = 10_000
#: How long a container waits for a training service that restarts.
_PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    What a container wants to do.

    :param address: of the container.
    :param bucket: empty: all buckets.
    :param project: which the bucket belongs to; empty: to every one.
    :param object: its name; empty: the bucket's list.
    """

    address: str
    permission: str
    bucket: str = ""
    project: str = ""
    object: str = ""

    def kind(self) -> tuple[str, ...]:
        """Return what all questions with the same answer have in common: rights end at folders."""
        folder = self.object.rpartition("/")[0]
        return (self.address, self.permission, self.bucket, self.project, folder)


@dataclass(frozen=True, slots=True)
class _Yes:
    may_replace: bool
    at: float


class ContainerAccess:
    """
    Asks the training service, and keeps a yes for two seconds.

    While the service does not answer, an older yes is good: it starts no containers then, and so no address
    passes to another job.

    :param training_url: ``None``: containers may do all with objects.
    """

    def __init__(self, training_url: str | None, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = training_url.rstrip("/") + _CHECK if training_url else None
        self._http = training_client(training_url, transport)
        self._yes: dict[tuple[str, ...], _Yes] = {}

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()

    async def check(self, question: Question) -> bool:
        """
        Return whether the container may also replace or delete what is there.

        :raises Forbidden: it may not do what ``question`` says.
        :raises StoreError: 503: the training service does not answer.
        """
        if self._url is None:
            return True
        kind = question.kind()
        kept = self._yes.get(kind)
        if kept and time.monotonic() - kept.at < _KEPT_SECONDS:
            return kept.may_replace
        try:
            answer = await self._ask(self._url, question, 0.0 if kept else _PATIENCE_SECONDS)
        except StoreError:
            if kept is None:
                raise
            return kept.may_replace
        if not answer["allowed"]:
            self._yes.pop(kind, None)
            raise Forbidden(str(answer["reason"]))
        if len(self._yes) >= _MOST_KEPT:
            self._yes.clear()
        self._yes[kind] = _Yes(bool(answer["mayReplace"]), time.monotonic())
        return bool(answer["mayReplace"])

    async def _ask(self, url: str, question: Question, patience_seconds: float) -> dict[str, object]:
        """Return the service's answer; wait for it while it restarts."""
        give_up = time.monotonic() + patience_seconds
        while True:
            may_pass = True
            try:
                timeout = TIMEOUT_SECONDS if patience_seconds else _SHORT_SECONDS
                answer = await self._http.post(url, json=asdict(question), timeout=timeout)
                if answer.is_success:
                    body: dict[str, object] = answer.json()
                    return body
                problem = f"answers {answer.status_code}"
                may_pass = answer.is_server_error
            except httpx.RequestError as error:
                problem = f"does not answer: {str(error) or type(error).__name__}"
            if not may_pass or time.monotonic() >= give_up:
                message = f"the training service at {url}, which knows what jobs may do, {problem}; ask again"
                raise StoreError(HTTPStatus.SERVICE_UNAVAILABLE, "backendError", message)
            await asyncio.sleep(_PAUSE_SECONDS)
