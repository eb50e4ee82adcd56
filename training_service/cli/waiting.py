"""Waits for a job and shows its log: a live line on a terminal, else a line per change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.status import Status

from training_api.clients.fleet import OpsClient
from training_api.clients.log_cursor import LogCursor, LogQuestion
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.errors import ServiceUnavailable, TransportError
from training_api.states import JobState
from training_service.cli.job_screen import JobScreen, describe_progress

_POLL_SECONDS = 1.0
#: A restarted service is back within seconds; waiting for ever would hide that it is gone.
_PATIENCE_SECONDS = 60.0
_T = TypeVar("_T")


class JobWait:
    """
    Waits for one job and shows its progress.

    :param sleep: for tests.
    """

    def __init__(
        self,
        client: OpsClient,
        screen: JobScreen,
        job_id: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._screen = screen
        self._job_id = job_id
        self._sleep = sleep
        self._shown = ""

    def until_ended(self, between: Callable[[], None] = lambda: None) -> JobRow:
        """
        Return the job once it has ended.

        :param between: called after each poll of the job, including the last one.
        :raises TransportError: the service was away for a minute.
        """
        with self._progress() as show:
            while True:
                job = self.patiently(lambda: self._client.job(self._job_id).job)
                show(job)
                self.patiently(between)
                if job.state.is_terminal:
                    return job
                self._sleep(_POLL_SECONDS)

    def patiently(self, ask: Callable[[], _T]) -> _T:
        """Return what ``ask`` returns; retry while the service is away for a moment."""
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        is_told = False
        while True:
            try:
                return ask()
            except (TransportError, ServiceUnavailable) as error:
                if time.monotonic() > give_up_at:
                    raise
                if not is_told:
                    self._screen.say(f"{error}; asking again for {_PATIENCE_SECONDS:.0f} s")
                    is_told = True
                self._sleep(_POLL_SECONDS)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[JobRow], None]]:
        console = self._screen.progress
        if not console.is_terminal:
            yield self._say_state
            return
        with Status("", console=console) as status:

            def show(job: JobRow) -> None:
                status.update(f"{self._job_id}: {describe_progress(job)}")

            yield show

    def _say_state(self, job: JobRow) -> None:
        state = job.state.value
        position = (
            f", position {job.job_position}" if job.state is JobState.QUEUED and job.job_position else ""
        )
        if state + position != self._shown:
            self._shown = state + position
            self._screen.say(f"{self._job_id} is {self._shown}")


class LogReader:
    """
    Shows the lines of a job's log, each once.

    :param severity: the least severe that is shown; empty: all.
    """

    def __init__(
        self, client: TrainingClient, screen: JobScreen, job_id: str, task_name: str, severity: str
    ) -> None:
        self._client = client
        self._screen = screen
        self._job_id = job_id
        self._task_name = task_name
        self._severity = severity
        self._cursor = LogCursor()

    def show_new(self) -> None:
        """Show what came since the last call; a call that failed may be repeated."""
        question: LogQuestion | None = self._cursor.begin(self._job_id, self._task_name, self._severity)
        while question is not None:
            page = self._client.list_log_entries(question.filter, page_token=question.page_token)
            entries, question = self._cursor.take(question, page)
            for entry in entries:
                self._screen.show_entry(entry)
