"""A training service over an engine in memory as a process that tests kill and freeze."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.support.memory_service import IMAGE
from tests.support import web
from tests.support.speed import drawn_out
from tests.support.waiting import wait_until

PATH = "/v1/projects/demo-project/jobs"


class MemoryProcess:
    """
    A service on ``url``; its containers run a tenth of a second.

    :param folder: of its key, its metrics and its log.
    """

    def __init__(self, url: str, folder: Path, name: str) -> None:
        self.log = folder / f"{name}.log"
        settings = {
            "TRAINING_KEY_DIR": str(folder),
            "TRAINING_METRICS_DIR": str(folder / "metrics"),
            "TRAINING_LEASE_SECONDS": f"{drawn_out(4):g}",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.support.memory_service", "--database-url", url],
                env={name: value for name, value in os.environ.items() if not name.startswith("TRAINING_")}
                | settings,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port, self.log.read_text("utf-8")[-3000:]
        self._http = web.client(base_url=f"http://127.0.0.1:{port}")

    def role(self) -> str:
        """Return what ``/health`` says; empty: nothing."""
        try:
            return str(self._http.get("/health").json()["role"])
        except httpx.TransportError:
            return ""

    def create(self, job_id: str) -> None:
        """Create a job."""
        body = {"jobId": job_id, "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
        self._http.post(PATH, json=body).raise_for_status()

    def state(self, job_id: str) -> str:
        """Return a job's state."""
        job: dict[str, Any] = self._http.get(f"{PATH}/{job_id}").raise_for_status().json()
        return str(job["state"])

    def until_succeeded(self, job_id: str) -> None:
        """Wait for a job's end."""
        wait_until(lambda: self.state(job_id) == "SUCCEEDED", f"{job_id} has succeeded")

    def until_role(self, role: str) -> None:
        """Wait until ``/health`` says ``role``."""
        wait_until(lambda: self.role() == role, f"{self.log.stem} is {role}")

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL, also if it is frozen."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it, and all that belongs to it."""
        self.kill()
        self._http.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def memory_process(url: str, folder: Path, name: str) -> Iterator[MemoryProcess]:
    """Run a service until the block ends."""
    process = MemoryProcess(url, folder, name)
    try:
        yield process
    finally:
        process.close()
