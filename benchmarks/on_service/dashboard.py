"""
What does the dashboard cost, with 10,000 jobs in the store?

A service over an engine in memory, an API server of Airflow beside it, and a real Chromium, each of this
benchmark's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks.report import Figure, median_figure
from benchmarks.support.core_share import core_share
from benchmarks.support.memory_service import MemoryService, memory_service
from benchmarks.support.stored_jobs import TRAINING, stored_row, write_rows
from local_stack.parts.airflow import airflow_environment, airflow_state, passwords_file
from local_stack.people.airflow_users import ADMIN, ensure_password
from local_stack.processes.packages import find_program
from local_stack.processes.ports import free_port
from local_stack.settings import LOOPBACK, StackSettings

STORED = 10_000
PAGES = 50
ROUNDS = 5
CHANGES = 10
MAX_PAINT_SECONDS = 1.0
MAX_WEIGHT_KB = 500.0
MAX_ANSWER_SECONDS = 1.0
MAX_VISIBLE_SECONDS = 2.0
MAX_SERVICE_PERCENT = 10.0
_WATCH_SECONDS = 20.0
_START_SECONDS = 120.0
#: Loads the page anew, nothing of it being known to the browser; what it was told by the network, compressed.
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_WEIGHT = "performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)"
#: How long the page's question was on its way.
_ANSWER = "part => performance.getEntries().find((entry) => entry.name.includes(part)).duration"


def _job_id(place: int) -> str:
    return f"train_digits_train_submit_{place:012x}_1"


#: Name of a page, its path, and what it shows when its data have come; last the one that stays open.
_SEEN = (
    ("fleet", "fleet", ".tile"),
    ("job", f"jobs/{_job_id(STORED // 2)}", "#state .state"),
    ("jobs", "jobs", "#rows tr"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The parts: an Airflow with somebody who is logged in, and the service."""

    airflow: psutil.Process
    url: str
    token: str
    service: MemoryService


def measure() -> list[Figure]:
    """Return first paint, weight, delay of a change, and the cost of 50 open pages."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        database = f"sqlite:///{Path(folder) / 'jobs.db'}"
        _fill(database)
        service = stack.enter_context(memory_service(run_seconds=10**6, database_url=database))
        bench = stack.enter_context(_airflow(Path(folder), service))
        return [*_in_a_browser(bench), *_open_pages(bench)]


def _fill(url: str) -> None:
    """Write jobs that have ended, one a minute until now."""
    first_us = int(time.time() * 1e6) - STORED * 60_000_000
    write_rows(url, (_row(place, first_us + place * 60_000_000) for place in range(STORED)))


def _row(place: int, created_us: int) -> dict[str, Any]:
    return stored_row(
        "demo-project",
        _job_id(place),
        "FAILED" if place % 10 == 0 else "SUCCEEDED",
        created_us,
        labels={"airflow-dag": "train_digits", "team": f"t{place % 20}"},
        preparing_us=created_us + 2_000_000,
        running_us=created_us + 5_000_000,
        ended_us=created_us + 45_000_000,
    )


@contextmanager
def _airflow(folder: Path, service: MemoryService) -> Iterator[Bench]:
    """Run an API server alone, whose connection leads to ``service``."""
    settings = StackSettings(state_dir=folder, airflow_port=free_port(), training_port=service.port)
    environment = os.environ | airflow_environment(settings, base_image="")
    airflow_state(settings).mkdir(parents=True)
    password = ensure_password(passwords_file(settings), ADMIN)
    airflow = [sys.executable, "-m", "airflow"]
    quiet: dict[str, Any] = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*airflow, "db", "migrate"], check=True, **quiet)
    command = [*airflow, "api-server", "--host", LOOPBACK, "--port", str(settings.airflow_port)]
    with subprocess.Popen(command, **quiet) as process:
        try:
            login = {"username": ADMIN, "password": password}
            answer = _patiently(
                lambda: httpx.post(f"{settings.airflow_url}/auth/token", json=login, trust_env=False)
            )
            token = answer.raise_for_status().json()["access_token"]
            yield Bench(
                airflow=psutil.Process(process.pid), url=settings.airflow_url, token=token, service=service
            )
        finally:
            process.terminate()


def _patiently(ask: Callable[[], httpx.Response]) -> httpx.Response:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return ask()
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _in_a_browser(bench: Bench) -> list[Figure]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_program("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        figures = []
        for name, path, shown in _SEEN:
            paints, weights, answers = [], [], []
            for _ in range(ROUNDS + 1):
                context = browser.new_context(base_url=bench.url)
                context.add_cookies([{"name": "_token", "value": bench.token, "url": bench.url}])
                page = context.new_page()
                page.goto(f"/training/{path}")
                page.wait_for_selector(shown)
                paints.append(page.evaluate(_PAINT) / 1000)
                weights.append(page.evaluate(_WEIGHT) / 1000)
                answers.append(page.evaluate(_ANSWER, f"/api/{path}?") / 1000)
                if len(paints) <= ROUNDS:
                    context.close()
            figures += [
                # In the first one the server makes the app.
                median_figure(f"{name} page, first paint", paints[1:], limit=MAX_PAINT_SECONDS),
                median_figure(f"{name} page, weight", weights[1:], "kB", limit=MAX_WEIGHT_KB),
                median_figure(f"{name} page, answer", answers[1:], limit=MAX_ANSWER_SECONDS),
                median_figure(f"{name} page, first answer of a new API server", answers[:1]),
            ]
        seen = [_until_seen(bench, page, f"new_{turn}") for turn in range(CHANGES)]
        browser.close()
    return [
        *figures,
        median_figure("a new job is seen after", seen),
        Figure(
            name="a new job is seen after, at most",
            value=round(max(seen), 3),
            unit="s",
            limit=MAX_VISIBLE_SECONDS,
        ),
    ]


def _until_seen(bench: Bench, page: Page, job_id: str) -> float:
    with bench.service.client() as client:
        _create(client, job_id)
    started = time.perf_counter()
    page.wait_for_selector(f"a.job-id:text-is('{job_id}')")
    return time.perf_counter() - started


def _create(client: httpx.Client, job_id: str) -> None:
    body = {"jobId": job_id, "labels": {"airflow-dag": "train_digits"}, "trainingInput": TRAINING}
    client.post("/v1/projects/demo-project/jobs", json=body).raise_for_status()


def _open_pages(bench: Bench) -> list[Figure]:
    """
    Return the load of the two servers with many open pages.

    It is measured with no change, and with one change each second.
    """
    alone = _percents(bench, [])
    with _pages(bench):
        quiet = _percents(bench, [])
        busy = _percents(bench, [f"busy_{turn}" for turn in range(int(_WATCH_SECONDS))])
    limit = MAX_SERVICE_PERCENT
    return [
        _percent(f"service, for {PAGES} pages", quiet[0] - alone[0], limit),
        _percent(f"service, for {PAGES} pages and a new job a second", busy[0] - alone[0], None),
        _percent(f"Airflow's API server, for {PAGES} pages", quiet[1] - alone[1], None),
        _percent(f"Airflow's API server, for {PAGES} pages and a new job a second", busy[1] - alone[1], None),
    ]


def _percent(name: str, value: float, limit: float | None) -> Figure:
    return Figure(name=name, value=round(value, 2), unit="% of a core", limit=limit)


def _percents(bench: Bench, created: Sequence[str]) -> tuple[float, float]:
    """Return the share of a core that the service and Airflow use meanwhile."""
    with core_share(bench.service.process) as service, core_share(bench.airflow) as airflow:
        started = time.perf_counter()
        with bench.service.client() as client:
            for job_id in created:
                _create(client, job_id)
                time.sleep(1)
        time.sleep(max(_WATCH_SECONDS - (time.perf_counter() - started), 0))
    return service.percent, airflow.percent


@contextmanager
def _pages(bench: Bench) -> Iterator[None]:
    """
    Do what the script of each page does.

    It follows the stream, and requests the list when the stream says so.
    """
    done = threading.Event()
    threads = [threading.Thread(target=_page, args=(bench, done), daemon=True) for _ in range(PAGES)]
    for thread in threads:
        thread.start()
    time.sleep(3)  # what opening them costs is no part of having them open
    yield
    done.set()


def _page(bench: Bench, done: threading.Event) -> None:
    version = ""
    with httpx.Client(
        base_url=f"{bench.url}/training/api", cookies={"_token": bench.token}, timeout=60, trust_env=False
    ) as client:
        while not done.is_set():
            with client.stream("GET", "/events") as lines:
                for line in lines.iter_lines():
                    if done.is_set():
                        return
                    if line.startswith("data: ") and line != version:
                        version = line
                        newest = json.loads(line.removeprefix("data: "))
                        client.get("/jobs", params={"version": newest}).raise_for_status()
