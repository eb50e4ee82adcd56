"""
Measure what waits cost triggerer and service, and how soon they notice a change.

The service, the waits and this program, which moves the jobs through their states, are processes of their
own. Beside the shared poller: one ``get`` a job and second. Calls are those that the service has counted.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import Figure, percentile_figure, tell
from benchmarks.support.memory_service import MemoryService, memory_service
from benchmarks.support.stored_jobs import CUSTOM_JOB_COLUMNS, stored_row, write_rows
from training_api.states import JobState
from training_service.store.database import open_database
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore

MANY, FEW = 5_000, 10
#: Limits of the issue: calls in an interval, percent of one core, seconds from a change to the wake-up.
MAX_CALLS, MAX_CPU_PERCENT, MAX_MANY_SECONDS, MAX_FEW_SECONDS = 1.0, 60.0, 2.0, 1.0
#: What the waits of a region may ask of Vertex AI: half of its quota of 600 requests a minute [unverified].
MAX_VERTEX_CALLS = 5.0
INTERVAL_SECONDS = 0.5
_WINDOW_SECONDS = 40.0
_SETTLE_LOOKS = 8
_PROJECT = "bench"
_STORED = 20_000
_STEPS = (JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """
    An API by which the waits ask for their jobs.

    :param connection: Airflow's, without the port.
    :param path: of its lists of jobs, below which each job is.
    :param columns: of the rows of its jobs, beside those of AI Platform Training's.
    :param first_id: so many is added to the number of a job, which is then its id; 0: ids are names.
    :param slack_seconds: how long after the last change a wait may notice it.
    """

    connection: Mapping[str, Any]
    path: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    first_id: int = 0
    slack_seconds: float = 2 * MAX_MANY_SECONDS

    def job_id(self, place: int) -> str:
        """Return the id of a job that is waited for."""
        return str(self.first_id + place) if self.first_id else f"job_{place:05d}"

    def calls(self, *, of_lists: bool) -> re.Pattern[str]:
        """Return what finds the number of its calls in the service's metrics."""
        route = re.escape(self.path if of_lists else f"{self.path}/{{job_id}}")
        return re.compile(rf'training_request_seconds_count\{{method="GET",route="{route}",.*\}} (\S+)')


ML_V1 = Api(
    connection={"conn_type": "container_training", "host": "127.0.0.1", "extra": {"project": _PROJECT}},
    path="/v1/projects/{project}/jobs",
)
#: With the pauses that its connection has by default; a page of Vertex AI's lists has 100 jobs.
VERTEX = Api(
    connection={
        "conn_type": "vertex_training",
        "host": "http://127.0.0.1/vertex",
        "extra": {"project": _PROJECT, "region": "us-central1", "list_lag_seconds": 0},
    },
    path="/vertex/v1/projects/{project}/locations/{location}/customJobs",
    columns=CUSTOM_JOB_COLUMNS,
    first_id=10**15,
    slack_seconds=40.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run of waits.

    :param delays: seconds from the change that ended a job to the end of its wait.
    :param missed: waits whose job had ended, and that had not noticed when the run was over.
    """

    delays: Sequence[float]
    missed: int
    cpu_percent: float
    service_cpu_percent: float
    calls_per_second: float


def measure() -> list[Figure]:
    """Return the figures of many waits, of many that ask one by one, and of few."""
    load = Figure(
        name=f"load average of {os.cpu_count()} cores, before", value=round(os.getloadavg()[0], 1), unit=""
    )
    lanes = [[ML_V1.job_id(place)] for place in range(MANY)]
    # Each of them prepares and runs for two seconds; more than eight a second do not end on one machine.
    many = _run(lanes, ends_per_second=8, seconds_in_state=2.0)
    of_vertex = [[VERTEX.job_id(place)] for place in range(MANY)]
    # Each end costs a ``get`` of the same quota.
    vertex = _run(of_vertex, ends_per_second=2, seconds_in_state=2.0, api=VERTEX)
    apart = _run(lanes, ends_per_second=8, seconds_in_state=2.0, one_by_one=True)
    few_lanes = [[f"job_{lane}_{place:03d}" for place in range(100)] for lane in range(FEW)]
    # A wait stays deferred for six seconds at least (triggers/settling.py): of each lane one ends in eight.
    few = _run(few_lanes, ends_per_second=FEW / 8, seconds_in_state=1.0)
    return [
        load,
        Figure(
            name=f"list calls an interval ({INTERVAL_SECONDS:g} s), {MANY:,} waits",
            value=round(many.calls_per_second * INTERVAL_SECONDS, 3),
            unit="calls",
            limit=MAX_CALLS,
        ),
        _percent(f"triggerer, {MANY:,} waits", many.cpu_percent, MAX_CPU_PERCENT),
        _percent(f"service, {MANY:,} waits", many.service_cpu_percent),
        *_delays(f"change to wake-up, {MANY:,} waits", many, MAX_MANY_SECONDS),
        Figure(
            name=f"get calls a second, {MANY:,} waits one by one",
            value=round(apart.calls_per_second, 1),
            unit="calls",
        ),
        _percent(f"triggerer, {MANY:,} waits one by one", apart.cpu_percent),
        _percent(f"service, {MANY:,} waits one by one", apart.service_cpu_percent),
        *_delays(f"change to wake-up, {MANY:,} waits one by one", apart),
        Figure(
            name=f"list calls a second, {MANY:,} waits for Vertex AI",
            value=round(vertex.calls_per_second, 2),
            unit="calls",
            limit=MAX_VERTEX_CALLS,
        ),
        _percent(f"triggerer, {MANY:,} waits for Vertex AI", vertex.cpu_percent, MAX_CPU_PERCENT),
        _percent(f"service, {MANY:,} waits for Vertex AI", vertex.service_cpu_percent),
        *_delays(f"change to wake-up, {MANY:,} waits for Vertex AI", vertex),
        _percent(f"triggerer, {FEW} waits", few.cpu_percent),
        *_delays(f"change to wake-up, {FEW} waits", few, MAX_FEW_SECONDS),
    ]


def _percent(name: str, value: float, limit: float | None = None) -> Figure:
    return Figure(name=f"{name}, of one core", value=round(value, 1), unit="%", limit=limit)


def _delays(name: str, run: Run, limit: float | None = None) -> Iterable[Figure]:
    # A wait that noticed nothing at all is told, and is over any limit.
    yield Figure(
        name=f"{name}, not noticed", value=run.missed, unit="jobs", limit=None if limit is None else 0
    )
    yield percentile_figure(f"{name}, p50", run.delays, 50)
    yield percentile_figure(f"{name}, p99 of {len(run.delays)}", run.delays, 99, limit=limit)


def _run(
    lanes: list[list[str]],
    ends_per_second: float,
    seconds_in_state: float,
    *,
    one_by_one: bool = False,
    api: Api = ML_V1,
) -> Run:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'jobs.db'}"
        _fill(url, itertools.chain(*lanes), api)
        with (
            memory_service(run_seconds=1.0, database_url=url, has_engine=False) as service,
            _waits(folder, {**api.connection, "port": service.port}, lanes, one_by_one) as triggerer,
        ):
            pattern = api.calls(of_lists=not one_by_one)
            _settle(service, pattern)
            calls, started = _count(service, pattern), time.time()
            for process in (triggerer, service.process):
                process.cpu_percent()
            ended = _move(url, lanes, ends_per_second, seconds_in_state)
            seconds = time.time() - started
            cpu, service_cpu = triggerer.cpu_percent(), service.process.cpu_percent()
            calls = _count(service, pattern) - calls
            time.sleep(api.slack_seconds)
        noticed = json.loads((folder / "result.json").read_text())
    delays = [noticed[job_id] - at for job_id, at in ended.items() if job_id in noticed]
    return Run(
        delays=delays,
        missed=len(ended) - len(delays),
        cpu_percent=cpu,
        service_cpu_percent=service_cpu,
        calls_per_second=calls / seconds,
    )


@contextmanager
def _waits(
    folder: Path, connection: Mapping[str, Any], lanes: list[list[str]], one_by_one: bool
) -> Iterator[psutil.Process]:
    """Run the waits; at the end their result is in ``folder``."""
    (folder / "jobs.json").write_text(json.dumps(lanes))
    command = [sys.executable, "-m", "benchmarks.support.waiting_triggers"]
    options = ["--jobs", str(folder / "jobs.json"), "--result", str(folder / "result.json")]
    # The service is open: no token is asked for.
    google = {"conn_type": "google_cloud_platform", "extra": {"is_anonymous": True}}
    environment = {
        **os.environ,
        "AIRFLOW_CONN_TRAINING_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(google),
    }
    with subprocess.Popen(
        [*command, *options, *(["--one-by-one"] if one_by_one else [])],
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _settle(service: MemoryService, calls: re.Pattern[str]) -> None:
    """
    Return once every wait has had its first poll.

    From then on calls come at an even pace, if they ever do.
    """
    before, rate = -1.0, -1.0
    for _ in range(_SETTLE_LOOKS):
        time.sleep(4.0)
        now = _count(service, calls)
        if rate > 0 and abs((now - before) - rate) <= 0.2 * rate:
            return
        before, rate = now, now - before if before >= 0 else -1.0


def _count(service: MemoryService, calls: re.Pattern[str]) -> float:
    with service.client() as client:
        return sum(float(count) for count in calls.findall(client.get("/metrics").text))


def _move(
    url: str, lanes: list[list[str]], ends_per_second: float, seconds_in_state: float
) -> dict[str, float]:
    """
    Move jobs to their end at an even pace; return when each ended.

    Those that are waited for end first.
    """
    database = open_database(url)
    store = JobStore(database, LogStore(database))
    order = [job_id for turn in itertools.zip_longest(*lanes) for job_id in turn if job_id]
    begun, ended = time.time(), {}
    count = int((_WINDOW_SECONDS - 2 * seconds_in_state) * ends_per_second)
    plan = sorted(
        (place / ends_per_second + step * seconds_in_state, job_id, state)
        for place, job_id in enumerate(order[:count])
        for step, state in enumerate(_STEPS)
    )
    for due, job_id, state in plan:
        time.sleep(max(begun + due - time.time(), 0.0))
        at = datetime.now(UTC)
        if not store.advance(store.get(_PROJECT, job_id), state, at=at, message=f"Job {job_id} is {state}."):
            raise RuntimeError(f"{job_id} cannot become {state}")
        if state.is_terminal:
            ended[job_id] = at.timestamp()
    database.dispose()
    return ended


def _fill(url: str, waiting: Iterable[str], api: Api) -> None:
    """Write the jobs that are waited for, and many that ended long ago."""
    now_us = int(time.time() * 1e6)
    rows = [_row(f"old_{place}", "SUCCEEDED", now_us - 10**12 + place, {}) for place in range(_STORED)]
    write_rows(url, rows)
    rows = [_row(job_id, "QUEUED", now_us, api.columns) for job_id in waiting]
    write_rows(url, rows)


def _row(job_id: str, state: str, created_us: int, columns: Mapping[str, Any]) -> dict[str, Any]:
    is_queued = state == "QUEUED"
    return stored_row(
        _PROJECT,
        job_id,
        state,
        created_us,
        running_us=None if is_queued else created_us + 1,
        ended_us=None if is_queued else created_us + 2,
        **columns,
    )


if __name__ == "__main__":
    sys.exit(tell({"waits": measure()}, "waits-"))
