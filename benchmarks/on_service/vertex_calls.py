"""
How long is a read of a job, by either dialect and transport?

``jobs.get``, ``customJobs.get``, and ``GetCustomJob`` over gRPC. The service is a process with SQLite and an
engine in memory, and has one job of each dialect, both running. They are asked in turns, one call after the
other on a connection that is kept, and by eight threads. The clients are the plainest that there are,
``http.client`` and gRPC's own, and read the answer into a resource; and those that Google's SDK has for both
transports, which are what DAGs call. A ratio is that of two in one turn. ``python -m benchmarks vertex``
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import grpc
import httpx
import psutil
from google.auth.credentials import AnonymousCredentials

from benchmarks.report import Figure, median_figure, print_report
from benchmarks.support.bench_jobs import new_job, submit, wait_until
from benchmarks.support.memory_service import IMAGE, memory_service
from benchmarks.support.vertex_jobs import collection_of, custom_job, wait_until_started
from local_stack.processes.ports import free_port
from training_api.clients.training import TrainingClient
from training_service.api.vertex_v1.messages import message_class

TURNS, CALLS, THREADS = 15, 160, 8
_PROJECT = "bench"
_METHOD = "/google.cloud.aiplatform.v1.JobService/GetCustomJob"
_ML, _REST, _GRPC = "jobs.get over REST", "customJobs.get over REST", "GetCustomJob over gRPC"
_SDK_REST, _SDK_GRPC = "the SDK's get_custom_job over REST", "the SDK's get_custom_job over gRPC"

#: Asks once; and what makes one, with a connection that is its own.
_Call = Callable[[], object]
_Caller = Callable[[], _Call]


@dataclass(frozen=True, slots=True)
class _Turn:
    """
    Milliseconds a call, by what was called.

    ``waited``: by its client; ``computed``: by the service's processor.
    """

    waited: Mapping[str, float]
    computed: Mapping[str, float]


def measure() -> list[Figure]:
    """Return the medians, and their ratios."""
    grpc_port = free_port()
    with memory_service(run_seconds=10**6, grpc_port=grpc_port) as service:
        callers = _callers(service.url, service.port, grpc_port)
        one_by_one = [_turn(callers, service.process, _in_line) for _ in range(TURNS)]
        side_by_side = [_turn(callers, service.process, _at_once) for _ in range(TURNS)]
    figures = []
    for how, turns in (("", one_by_one), (f", {THREADS} at once", side_by_side)):
        for name in callers:
            figures.append(median_figure(f"{name}{how}", [turn.waited[name] for turn in turns], unit="ms"))
        for name in callers:
            samples = [turn.computed[name] for turn in turns]
            figures.append(median_figure(f"{name}{how}, processor", samples, unit="ms"))
        figures.append(_ratio(f"customJobs.get to jobs.get{how}", turns, _REST, _ML, limit=1.3))
        figures.append(_ratio(f"gRPC to REST, plain clients{how}", turns, _GRPC, _REST))
        figures.append(_ratio(f"gRPC to REST, the SDK{how}", turns, _SDK_GRPC, _SDK_REST, limit=1.0))
    return figures


def _ratio(name: str, turns: list[_Turn], one: str, other: str, limit: float | None = None) -> Figure:
    samples = [turn.waited[one] / turn.waited[other] for turn in turns]
    return median_figure(name, samples, unit="x", limit=limit)


def _callers(url: str, port: int, grpc_port: int) -> Mapping[str, _Caller]:
    """Make a job of each dialect; return what asks for them when both run."""
    with TrainingClient(url, _PROJECT) as client:
        job_id = submit(client, new_job(IMAGE))
        wait_until(client, job_id, lambda job: job.start_time is not None)
    collection = collection_of(_PROJECT)
    with httpx.Client(base_url=url, trust_env=False) as api:
        made = api.post(collection, json=custom_job(IMAGE)).raise_for_status().json()
        path = f"{collection}/{made['name'].rpartition('/')[2]}"
        wait_until_started(api, path)
    name = path.removeprefix("/vertex/v1/")
    return {
        _ML: partial(_rest, port, f"/v1/projects/{_PROJECT}/jobs/{job_id}"),
        _REST: partial(_rest, port, path),
        _GRPC: partial(_grpc, grpc_port, name),
        _SDK_REST: partial(_sdk_over_rest, url, name),
        _SDK_GRPC: partial(_sdk_over_grpc, grpc_port, name),
    }


def _rest(port: int, path: str) -> _Call:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call() -> object:
        connection.request("GET", path)
        with connection.getresponse() as response:
            body = response.read()
        if response.status != httpx.codes.OK:
            raise RuntimeError(f"GET {path} answered {response.status}: {body!r}")
        return json.loads(body)

    return call


def _grpc(port: int, name: str) -> _Call:
    channel = _channel(port)
    request = message_class("GetCustomJobRequest")
    stub = channel.unary_unary(_METHOD, request.SerializeToString, message_class("CustomJob").FromString)
    return lambda: stub(request(name=name))


def _sdk_over_rest(url: str, name: str) -> _Call:
    options = {"api_endpoint": f"{url}/vertex"}
    anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]  # the library has no types for it
    client = _sdk()(credentials=anonymous, transport="rest", client_options=options)
    return lambda: client.get_custom_job(name=name)


def _sdk_over_grpc(port: int, name: str) -> _Call:
    kind = _sdk()
    client = kind(transport=kind.get_transport_class("grpc")(channel=_channel(port)))
    return lambda: client.get_custom_job(name=name)


def _sdk() -> Any:
    # Late, as the import takes seconds; by its name, as mypy takes google.cloud for a package of this alone.
    return import_module("google.cloud.aiplatform_v1").JobServiceClient


def _channel(port: int) -> grpc.Channel:
    # Without this option, all channels in a process share their connections.
    return grpc.insecure_channel(f"127.0.0.1:{port}", (("grpc.use_local_subchannel_pool", 1),))


def _turn(
    callers: Mapping[str, _Caller], service: psutil.Process, run: Callable[[_Caller, int], float]
) -> _Turn:
    waited: dict[str, float] = {}
    computed: dict[str, float] = {}
    for name, caller in callers.items():
        busy = _cpu(service)
        waited[name] = run(caller, CALLS) / CALLS
        computed[name] = 1000 * (_cpu(service) - busy) / CALLS
    return _Turn(waited, computed)


def _in_line(caller: _Caller, calls: int) -> float:
    """Return the milliseconds of ``calls``, each as long as the median of them."""
    call, took = caller(), []
    call()  # connects
    for _ in range(calls):
        started = time.perf_counter()
        call()
        took.append(time.perf_counter() - started)
    return 1000 * calls * statistics.median(took)


def _at_once(caller: _Caller, calls: int) -> float:
    """Return the milliseconds until ``calls`` of ``THREADS`` threads are answered."""
    with ThreadPoolExecutor(THREADS) as pool:
        ready = [caller() for _ in range(THREADS)]
        [*pool.map(lambda call: call(), ready)]  # connects
        started = time.perf_counter()
        [*pool.map(lambda call: [call() for _ in range(calls // THREADS)], ready)]
        return 1000 * (time.perf_counter() - started)


def _cpu(service: psutil.Process) -> float:
    used = service.cpu_times()
    return float(used.user + used.system)


if __name__ == "__main__":
    print_report({"reads by either dialect": measure()})
