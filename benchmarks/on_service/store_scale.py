"""
What does a request cost with 1,000 stored jobs, and what with 100,000?

Two services, each a process with a SQLite file of its own and an engine in memory, answer in turns.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import Figure, percentile_figure, print_report
from benchmarks.support.memory_service import memory_service
from benchmarks.support.stored_jobs import TRAINING, stored_row, write_rows
from training_service.store.database import from_us

SMALL, LARGE = 1_000, 100_000
ROUNDS = 150
#: How many times longer get and list may take with the large store.
MAX_RATIO = 2.0
#: Jobs that wait, in a project of their own.
_QUEUED = 200
_FIRST_US = 1_700_000_000_000_000
_JOBS = "/v1/projects/bench/jobs"
_QUEUE = "/v1/projects/queue/jobs"
_FAILED_EVERY, _TEAMS = 10, 20

#: Sends the request of one round to one service.
Ask = Callable[[httpx.Client, int], httpx.Response]


def measure() -> list[Figure]:
    """Return p50 and p99 of each request with both stores, and the ratio of the two p50."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        clients = [stack.enter_context(_service(Path(folder), size)) for size in (SMALL, LARGE)]
        figures = []
        for name, (ask, limit) in _questions().items():
            small, large = _ask_in_turns(ask, clients)
            figures += _compared(name, small, large, limit)
        return figures


@contextmanager
def _service(folder: Path, size: int) -> Iterator[httpx.Client]:
    url = f"sqlite:///{folder / f'{size}.db'}"
    _fill(url, size)
    with (
        memory_service(run_seconds=10**6, database_url=url) as service,
        service.client() as client,
    ):
        yield client


def _fill(url: str, size: int) -> None:
    """Write ``size`` jobs that have ended, and some that wait."""
    ended = (
        _row("bench", place, "SUCCEEDED" if place % _FAILED_EVERY else "FAILED") for place in range(size)
    )
    queued = (_row("queue", place, "QUEUED") for place in range(_QUEUED))
    write_rows(url, itertools.chain(ended, queued))


def _row(project: str, place: int, state: str) -> dict[str, Any]:
    created_us = _FIRST_US + place * 1_000_000
    return stored_row(
        project,
        f"job_{place:06d}",
        state,
        created_us,
        labels={"team": f"t{place % _TEAMS}", "run": f"r{place}"},
        ended_us=None if state == "QUEUED" else created_us + 1,
    )


def _questions() -> dict[str, tuple[Ask, float | None]]:
    """Return each request with its limit on the ratio; ``None``: it is only told."""
    return {
        "get": (lambda client, turn: client.get(f"{_JOBS}/job_{turn * 6:06d}"), MAX_RATIO),
        "list of 20": (_listing(), MAX_RATIO),
        "list, a page from the middle": (_listing(pageToken=_token_after(SMALL // 2)), MAX_RATIO),
        "list state=FAILED": (_listing(filter="state=FAILED"), MAX_RATIO),
        "list state=RUNNING (none)": (_listing(filter="state=RUNNING"), MAX_RATIO),
        "list labels.team=t3": (_listing(filter="labels.team=t3"), MAX_RATIO),
        # Labels have no index: every job's are looked at until the page is full, here to the oldest job.
        "list labels.run=r17 (one)": (_listing(filter="labels.run=r17"), None),
        "list createTime, the oldest": (_listing(filter=f'createTime<"{_moment(50)}"'), MAX_RATIO),
        "list createTime, none": (_listing(filter='createTime>"2100-01-01T00:00:00Z"'), MAX_RATIO),
        "list jobId, a range": (_listing(filter="jobId>=job_0000 AND jobId<job_0001"), MAX_RATIO),
        # A part may stand anywhere in the id, so that every job's id is looked at.
        "list jobId:part (one)": (_listing(filter="jobId:b_000017"), None),
        "list of 20 that wait": (_listing(_QUEUE), MAX_RATIO),
        "metrics": (lambda client, _: client.get("/metrics"), None),
        "create": (_create, MAX_RATIO),
    }


def _listing(path: str = _JOBS, **params: str) -> Ask:
    return lambda client, _: client.get(path, params={"pageSize": "20", **params})


def _create(client: httpx.Client, turn: int) -> httpx.Response:
    return client.post(_JOBS, json={"jobId": f"new_{turn}", "trainingInput": TRAINING})


def _token_after(place: int) -> str:
    """
    Return the token of the page after the job at ``place``.

    Its sequence is one more than its place.
    """
    return f"{_FIRST_US + place * 1_000_000}-{place + 1}"


def _moment(place: int) -> str:
    return from_us(_FIRST_US + place * 1_000_000).isoformat()


def _ask_in_turns(ask: Ask, clients: Sequence[httpx.Client]) -> list[list[float]]:
    samples: list[list[float]] = [[] for _ in clients]
    for turn in range(ROUNDS):
        for client, found in zip(clients, samples, strict=True):
            started = time.perf_counter()
            response = ask(client, turn)
            found.append(time.perf_counter() - started)
            response.raise_for_status()
    return samples


def _compared(name: str, small: list[float], large: list[float], limit: float | None) -> list[Figure]:
    figures = []
    for size, samples in ((SMALL, small), (LARGE, large)):
        milliseconds = [1000 * sample for sample in samples]
        figures += [
            percentile_figure(f"{name}, {size:,} jobs, p{percent}", milliseconds, percent, unit="ms")
            for percent in (50, 99)
        ]
    ratio = statistics.median(large) / statistics.median(small)
    return [*figures, Figure(name=f"{name}, ratio of p50", value=round(ratio, 2), unit="x", limit=limit)]


if __name__ == "__main__":
    print_report({"store": measure()})
