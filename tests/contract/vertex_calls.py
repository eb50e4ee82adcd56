"""The calls of the Vertex backend that are recorded, and the benches that they are made on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from tests.contract.vertex_tape import Answer, to_service
from tests.integration.live_service import IMAGE, LiveService
from tests.support.fakes.fake_service import make_job
from tests.support.fakes.fake_vertex import REGION, FakeVertex
from tests.support.waiting import wait_until
from training_api.clients.backend import NO_OPTIONS
from training_api.clients.iam import IamEndpoints, IamPoliciesClient
from training_api.clients.job_lists import listed_jobs
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.vertex.client import VertexClient
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobConflict, JobNotFound
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState
from training_api.vertex_jobs.address import VertexAddress

PROJECT = "demo"
ELSEWHERE = "europe-west4"
#: What a container of the recorded jobs writes.
LINES = ("epoch 1", "epoch 2")

_NOBODY = "9000000000000000009"


class Bench(ABC):
    """A Vertex AI on which calls are made; its jobs are moved by hand."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def client(self, transport: httpx.BaseTransport | None = None, *regions: str) -> VertexClient:
        """Return a client of Google's hosts, by default with the bench behind them."""
        address = VertexAddress(project=PROJECT, regions=regions or (REGION,))
        return VertexClient(address, transport=transport or httpx.MockTransport(self.answer))

    def add(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> str:
        """Make a job that runs; return its number."""
        number = self.client(None, REGION, ELSEWHERE).create_job(job, options).job_id or ""
        self.run(number)
        return number

    @abstractmethod
    def run(self, number: str) -> None:
        """Have a job run, and write its log."""

    @abstractmethod
    def fail(self, number: str) -> None:
        """Have the only replica of a running job end with 1."""


class LiveBench(Bench):
    """The project's own service."""

    def __init__(self, service: LiveService, http: httpx.Client) -> None:
        super().__init__(to_service(service.endpoint, http))
        self._service = service

    def run(self, number: str) -> None:
        """See :class:`Bench`."""
        self.wait(number, JobState.RUNNING)
        with self.client() as client:
            wait_until(lambda: len(lines_of(client, number)) == len(LINES), "the log is there")

    def fail(self, number: str) -> None:
        """See :class:`Bench`."""
        (launch,) = self._service.engine.launches()
        self._service.engine.end(launch.job_uid, launch.replica, 1)
        self.wait(number, JobState.FAILED)

    def wait(self, number: str, state: JobState) -> None:
        """Wait until a job is in a state."""
        with self.client(None, REGION, ELSEWHERE) as client:
            wait_until(lambda: client.get_job(number).state is state, f"the job is {state}")


class FakeBench(Bench):
    """The fake of the unit tests."""

    def __init__(self) -> None:
        self._fake = FakeVertex()
        super().__init__(self._fake.handle)

    def run(self, number: str) -> None:
        """See :class:`Bench`."""
        self._fake.move(number, "RUNNING")
        for line in LINES:
            self._fake.write(number, line)

    def fail(self, number: str) -> None:
        """See :class:`Bench`."""
        message = "The replica workerpool0-0 exited with a non-zero status of 1."
        self._fake.move(number, "FAILED", error={"code": 3, "message": message})


#: Prepares a bench, and returns the call: from the transport to JSON of what the client has understood.
Call = Callable[[Bench], Callable[[httpx.BaseTransport], Any]]


def small_job(name: str = "digits_1", **changes: Any) -> Job:
    """Return a job of one replica that a task asks for."""
    fields: dict[str, Any] = {
        "job_id": name,
        "state": None,
        "create_time": None,
        "labels": {OWNER_LABEL: "task-1"},
        "training_input": {"region": REGION, "masterConfig": {"imageUri": IMAGE}},
    }
    return make_job(**{**fields, **changes})


def lines_of(client: VertexClient, number: str) -> list[str | None]:
    """Return the lines of a job's log, from pages of one line."""
    lines, token = [], ""
    while True:
        page = client.list_log_entries(job_log_filter(number, task_name="workerpool0-0"), 1, token)
        lines += [entry.text_payload for entry in page.entries or []]
        token = page.next_page_token or ""
        if not token:
            return lines


def submit_custom_job(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A job of three roles, with all that the local service takes."""
    image = {"imageUri": IMAGE, "containerCommand": ["python3", "-m", "trainer.task"]}
    disk = {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}
    training_input = {
        "region": REGION,
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-8",
        "masterConfig": {**image, "containerArgs": ["--epochs", "3"], "diskConfig": disk},
        "workerType": "n1-standard-4",
        "workerCount": 2,
        "workerConfig": image,
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": 1,
        "parameterServerConfig": image,
        "jobDir": "gs://bucket/jobs/digits_1",
        "scheduling": {"maxRunningTime": "3600s"},
    }
    options = {
        "strategy": "SPOT",
        "env": {"LOG_LEVEL": "debug"},
        "disable_retries": True,
        "restart_job_on_worker_restart": True,
    }
    job = small_job(training_input=training_input)
    return lambda way: bench.client(way).create_job(job, options).to_wire()


def submit_tuning_job(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A search over parameters of each kind."""
    params = [
        {
            "parameterName": "rate",
            "type": "DOUBLE",
            "minValue": 0.001,
            "maxValue": 0.1,
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterName": "layers", "type": "INTEGER", "minValue": 1, "maxValue": 4},
        {"parameterName": "dropout", "type": "DISCRETE", "discreteValues": [0.1, 0.5]},
        {"parameterName": "optimizer", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
    ]
    search = {
        "goal": "MAXIMIZE",
        "hyperparameterMetricTag": "accuracy",
        "maxTrials": 4,
        "maxParallelTrials": 2,
        "maxFailedTrials": 1,
        "algorithm": "RANDOM_SEARCH",
        "enableTrialEarlyStopping": True,
        "params": params,
    }
    training_input = {
        "region": REGION,
        "masterConfig": {"imageUri": IMAGE},
        "jobDir": "gs://bucket/jobs/search_1",
        "hyperparameters": search,
    }
    job = small_job("search_1", training_input=training_input)
    return lambda way: bench.client(way).create_job(job).to_wire()


def submit_a_second_time(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A create whose name a job of a task has: nothing is made."""
    bench.add(small_job())

    def refused(way: httpx.BaseTransport) -> None:
        with suppress(JobConflict):
            raise AssertionError(f"a second job was made: {bench.client(way).create_job(small_job())}")

    return refused


def find_by_name(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """How a task finds the job that an earlier try has made, whose answer was lost."""
    bench.add(small_job())
    return lambda way: bench.client(way).get_job("digits_1").to_wire()


def find_duplicates(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """How a task finds the jobs that lost answers have made beside its own."""
    own = bench.add(small_job())
    bench.add(small_job("digits_1_2"))
    job = bench.client().get_job(own)
    return lambda way: [each.to_wire() for each in bench.client(way).duplicates(job)]


def get_a_failed_job(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A job whose trainer ended with 1."""
    number = bench.add(small_job())
    bench.fail(number)
    return lambda way: bench.client(way).get_job(number).to_wire()


def get_a_job_of_another_region(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A job that is looked for by its number in each region and kind, and in the last one found."""
    number = bench.add(small_job(), {"regions": [ELSEWHERE]})
    return lambda way: bench.client(way, REGION, ELSEWHERE).get_job(number).to_wire()


def get_no_job(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A number that no job has."""

    def missed(way: httpx.BaseTransport) -> None:
        with suppress(JobNotFound):
            raise AssertionError(f"there is a job: {bench.client(way).get_job(_NOBODY)}")

    return missed


def list_jobs(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """The living jobs of tasks, in pages of one: what the poller of waits asks."""
    numbers = [bench.add(small_job(name)) for name in ("digits_1", "digits_2")]
    bench.add(small_job("other", labels=None))
    filter_ = f"labels.{OWNER_LABEL}:* AND (state=QUEUED OR state=RUNNING)"

    def listed(way: httpx.BaseTransport) -> Any:
        client = bench.client(way)
        found = [each.to_wire() for each in listed_jobs(lambda token: client.list_jobs(filter_, 1, token))]
        assert {each["jobId"] for each in found} == set(numbers)
        return found

    return listed


def cancel_a_job(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A cancel of a job that runs."""
    number = bench.add(small_job())
    return lambda way: bench.client(way).cancel_job(number)


def read_a_log(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """The lines of a replica, in pages of one."""
    number = bench.add(small_job())
    return lambda way: lines_of(bench.client(way), number)


def name_the_service_agent(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """The account that pulls the images of jobs."""
    return lambda way: bench.client(way).service_agent()


def grant_the_registry(bench: Bench) -> Callable[[httpx.BaseTransport], Any]:
    """A role of the service agent on a repository."""
    given = Grant(
        kind=ResourceKind.REPOSITORY,
        resource=f"projects/images/locations/{REGION}/repositories/training",
        role="roles/artifactregistry.reader",
        member=f"serviceAccount:{bench.client().service_agent()}",
    )

    def granted(way: httpx.BaseTransport) -> bool:
        with IamPoliciesClient(IamEndpoints(), transport=way) as iam:
            return iam.edit_policy(given.kind, given.resource, given.added_to).was_written

    return granted


#: What the fake has, too.
OF_BACKENDS: Mapping[str, Call] = {
    call.__name__: call
    for call in (
        submit_custom_job,
        submit_tuning_job,
        submit_a_second_time,
        find_by_name,
        find_duplicates,
        get_a_failed_job,
        get_a_job_of_another_region,
        get_no_job,
        list_jobs,
        cancel_a_job,
        read_a_log,
        name_the_service_agent,
    )
}
CALLS: Mapping[str, Call] = {**OF_BACKENDS, "grant_the_registry": grant_the_registry}
