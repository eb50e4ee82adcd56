"""
The protocol between the service and the agents of machines: ``POST /agent/v1/...``, JSON.

The two may be of neighbouring versions, as agents are updated one after the other, and a service may be put
back. So a field that the other side does not know is left out by it, and each new field has a default that
means that nothing was said.

An agent asks what it is to read (``SyncRequest``), what is stored of a stream (``KnownRequest``), and posts
reports (``StoreRequest``). For the metadata endpoint it asks who a container is (``IdentityRequest``), and
for tokens of its account (``TokenRequest``). Every request may be repeated.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from training_api.job.tuning.metric_file import KNOWN_REPORTS
from training_api.wire import Double, Int64, WireModel

PREFIX = "/agent/v1"
SYNC, KNOWN, STORE = (f"{PREFIX}/{name}" for name in ("streams:sync", "streams:known", "reports:store"))
IDENTIFY, ISSUE = (f"{PREFIX}/{name}" for name in ("replicas:identify", "replicas:issueToken"))
PATHS = (SYNC, KNOWN, STORE, IDENTIFY, ISSUE)
#: What a batch of reports has at most: it fits into the service's limit of bodies.
MAX_BATCH_REPORTS = 1000
MAX_WARNING_LENGTH = 1000
#: Streams that one machine has at a time, jobs with a folder on it, and containers.
_MAX_LISTED = 5000

_Name = Annotated[str, Field(max_length=128)]


class _Message(WireModel):
    """What either side says; unknown fields are those of a newer version, and are left out."""

    model_config = ConfigDict(extra="ignore")


class StreamRef(_Message):
    """Names a stream: see ``StreamName``."""

    job_uid: _Name
    task_name: _Name
    source: _Name


class StreamOrder(StreamRef):
    """A stream that the agent is to read; ``has_ended``: to its last report."""

    has_ended: bool = False


class ContainerEnd(_Message):
    """How a container ended."""

    container_id: _Name
    out_of_memory: bool


class ContainerUse(_Message):
    """What a running container uses: see ``Usage``."""

    container_id: _Name
    cpu_seconds: Double
    memory_bytes: Int64
    age_seconds: Double
    gpus: Double | None = None
    gpu_memory_bytes: Int64 | None = None


class ContainerDisk(_Message):
    """What a running container has written to its root."""

    container_id: _Name
    bytes: Int64


class SyncRequest(_Message):
    """
    What an agent has, and what it knows.

    :param node: the id of its machine.
    :param seen: ``version`` of the newest answer; empty: none.
    :param opened: streams whose folders are there.
    :param drained: streams that have ended and are stored to the last report.
    :param jobs: uids of the jobs that have a folder.
    :param ends: containers of the machine that have ended.
    :param uses: containers that run.
    :param disks: the same containers; only to a service that has asked for it.
    :param egress: the digest of the egress that the machine's rules hold; empty: there are none.
    """

    node: _Name
    seen: _Name = ""
    opened: list[StreamRef] = Field([], max_length=_MAX_LISTED)
    drained: list[StreamRef] = Field([], max_length=_MAX_LISTED)
    jobs: list[_Name] = Field([], max_length=_MAX_LISTED)
    ends: list[ContainerEnd] = Field([], max_length=_MAX_LISTED)
    uses: list[ContainerUse] = Field([], max_length=_MAX_LISTED)
    egress: _Name = ""
    disks: list[ContainerDisk] = Field([], max_length=_MAX_LISTED)


class SyncResponse(_Message):
    """
    What an agent is to do.

    :param version: changes whenever ``streams`` does.
    :param remove: uids of jobs whose folders go.
    """

    version: str
    streams: list[StreamOrder] = []
    remove: list[str] = []


class ReportRow(_Message):
    """A report and its place; short names, as there are thousands."""

    n: Int64
    tag: str
    step: Int64
    value: Double
    us: Int64


class KnownRequest(_Message):
    """Asks what is stored of a stream."""

    node: _Name
    stream: StreamRef


class KnownResponse(_Message):
    """The newest stored reports, oldest first, and the place of the next."""

    newest: list[ReportRow] = Field([], max_length=KNOWN_REPORTS)
    next_sequence: Int64 = 0


class StreamReports(_Message):
    """Reports of one stream, in their order."""

    stream: StreamRef
    reports: list[ReportRow] = Field([], max_length=MAX_BATCH_REPORTS)


class StreamWarning(_Message):
    """A line for the log of a stream's job."""

    stream: StreamRef
    message: Annotated[str, Field(max_length=MAX_WARNING_LENGTH)]


class StoreRequest(_Message):
    """Reports and warnings of a machine."""

    node: _Name
    streams: list[StreamReports] = Field([], max_length=MAX_BATCH_REPORTS)
    warnings: list[StreamWarning] = Field([], max_length=100)


class StoreResponse(_Message):
    """
    What is stored for good.

    :param stored: how many reports of each stream of the request, in its order. 0 of a stream that the
        machine is not to read now: the agent keeps them and asks again.
    """

    stored: list[int]


class IdentityRequest(_Message):
    """Asks who a container is that runs on the agent's machine."""

    node: _Name
    container_id: _Name


class IdentityResponse(_Message):
    """Who it is: see ``JobIdentity``."""

    project: str
    number: Int64
    email: str
    job_id: str
    job_uid: str
    region: str


class TokenRequest(IdentityRequest):
    """
    Asks for a token of the container's account.

    :param audience: whom an identity token is to tell who the account is; ``None``: an access token.
    """

    #: As a trainer has sent it, however long: the service answers why not.
    audience: str | None = None


class TokenResponse(_Message):
    """
    A token.

    :param seconds: how long an access token is valid.
    :param refusal: why nobody gets an identity token for the audience; then ``token`` is empty.
    """

    token: Annotated[str, Field(repr=False)] = ""
    seconds: Int64 = 0
    refusal: str = ""
