"""
Waits as a triggerer runs them: many ``JobTrigger`` on one event loop, in a process.

``python -m benchmarks.support.waiting_triggers --jobs FILE --result FILE [--one-by-one]`` waits for the jobs
of a JSON file, a list of lanes, each a list of ids that are waited for one after the other. On SIGTERM it
writes when each wait that had ended did so: ``{job id: seconds since the epoch}``. The connection is that of
the environment. ``--one-by-one``: each wait asks for its own job, once a second, over connections that all
share: what the triggers of most providers do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from container_training.hooks.training import TrainingHook
from container_training.triggers.training import JobTrigger
from training_api.clients.backend import AsyncTrainingBackend

_INTERVAL_SECONDS = 1.0
#: More side by side only wait in the client's pool, which is slower at keeping a queue than asyncio is.
_CONNECTIONS = 50
_DEADLINE = timedelta(hours=1)


def main() -> None:
    """Wait until a signal comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", required=True, type=Path)
    parser.add_argument("--result", required=True, type=Path)
    parser.add_argument("--one-by-one", action="store_true")
    options = parser.parse_args()
    # Lines are made and thrown away: where they go is Airflow's affair.
    with Path("/dev/null").open("w") as nowhere:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(nowhere))
        asyncio.run(_wait_for_all(json.loads(options.jobs.read_text()), options.result, options.one_by_one))


async def _wait_for_all(lanes: list[list[str]], result: Path, one_by_one: bool) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    ends: dict[str, float] = {}
    client = await TrainingHook().get_async_conn()

    turn = asyncio.Semaphore(_CONNECTIONS)

    async def ask(job_id: str) -> None:
        await _ask_until_it_ends(client, turn, job_id)

    async def walk(lane: list[str], wait: Callable[[str], Awaitable[None]]) -> None:
        for job_id in lane:
            await wait(job_id)
            ends[job_id] = time.time()

    async with client:
        tasks = [asyncio.create_task(walk(lane, ask if one_by_one else _wait)) for lane in lanes]
        await stopped.wait()
        result.write_text(json.dumps(ends))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait(job_id: str) -> None:
    """One wait as the sensor makes it, with its log lines."""
    trigger = JobTrigger(
        job_id=job_id,
        until="finished",
        training_conn_id=TrainingHook.default_conn_name,
        deadline_at=(datetime.now(UTC) + _DEADLINE).isoformat(),
        stream_logs=True,
    )
    async for event in trigger.run():
        if event.payload["state"] != "SUCCEEDED":
            raise RuntimeError(f"the wait for {job_id} ended with {event.payload}")


async def _ask_until_it_ends(client: AsyncTrainingBackend, turn: asyncio.Semaphore, job_id: str) -> None:
    while True:
        async with turn:
            job = await client.get_job(job_id)
        if job.state and job.state.is_terminal:
            return
        await asyncio.sleep(_INTERVAL_SECONDS)


if __name__ == "__main__":
    main()
