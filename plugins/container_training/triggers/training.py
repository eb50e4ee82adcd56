"""Waiting for a job in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from container_training.hooks.training import TrainingHook
from container_training.runtime.killing import NOBODY_WAITS, TaskFate, fate_of
from container_training.triggers.poller import JobNews, watch_job
from container_training.triggers.settling import seconds_to_settle
from container_training.triggers.shown_log import ShownLog, read_shown_log
from container_training.work.waiting.job_watch import JobWatch, Outcome, Until, WaitEvent, WatchMemory
from training_api.clients.backend import AsyncTrainingBackend
from training_api.clients.log_cursor import LogQuestion, log_line
from training_api.dialects.ml_v1.cost import Meter
from training_api.dialects.ml_v1.intent import owner_within, why_left_alone
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import ServiceError, TrainingError
from training_api.retrying import TRANSIENT, backoff_seconds, draw_jitter
from training_api.states import JobState

#: Airflow gives ``on_kill`` 30 s.
_KILL_TRIES = 5
#: Acts upon jobs of killed tasks that are under way.
_KILLS: set[asyncio.Task[None]] = set()
#: The states in which a job's containers write.
_WRITING = frozenset({JobState.PREPARING, JobState.RUNNING, JobState.CANCELLING})
#: How often a limit of cost is compared with the time that has passed; this asks nobody.
_COST_SECONDS = 1.0
#: Half a second, so that nearly all changes are noticed within a second.
POLL_SECONDS = 0.5


def _utc_now() -> datetime:
    return datetime.now(UTC)


class JobTrigger(BaseTrigger):
    """
    Waits until a job has left a state or has ended, and yields one :class:`WaitEvent`.

    The waits of one service and project share one poller (``poller.py``); only pages of the log are asked
    for by each.

    A service that does not answer does not end the wait; only ``deadline_at``, the job itself, or an error
    that waiting cannot mend does. ``cleanup`` does nothing: it also runs when the triggerer stops, and the
    job must live on.

    :param until: value of :class:`Until`.
    :param deadline_at: aware time in ISO form at which the wait gives up; a moment, not a duration, so that a
        triggerer's restart does not prolong it.
    :param poll_interval_seconds: pause between two looks while something is about to change; else it grows,
        to 10 s at most.
    :param stream_logs: show the job's new log lines in the task's log.
    :param max_cost: cancel the job once it has cost so much; at the prices of the connection.
    :param owner: token of the job's owner label; a killed task cancels the job only if the label still has
        it.
    :param watch: what the task saw already, so that nothing is said twice. What a triggerer before this one
        has said stands in the task's log (``shown_log.py``).
    """

    def __init__(
        self,
        *,
        job_id: str,
        until: str,
        training_conn_id: str,
        deadline_at: str,
        poll_interval_seconds: float = POLL_SECONDS,
        stream_logs: bool = False,
        cancel_on_kill: bool = True,
        max_cost: float | None = None,
        owner: str = "",
        watch: WatchMemory | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.until = until
        self.training_conn_id = training_conn_id
        self.deadline_at = deadline_at
        self.poll_interval_seconds = poll_interval_seconds
        self.stream_logs = stream_logs
        self.cancel_on_kill = cancel_on_kill
        self.max_cost = max_cost
        self.owner = owner
        self.watch = watch
        self._shown = ShownLog()
        # Tests put a virtual clock here.
        self.now: Callable[[], datetime] = _utc_now
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and every argument."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "job_id": self.job_id,
                "until": self.until,
                "training_conn_id": self.training_conn_id,
                "deadline_at": self.deadline_at,
                "poll_interval_seconds": self.poll_interval_seconds,
                "stream_logs": self.stream_logs,
                "cancel_on_kill": self.cancel_on_kill,
                "max_cost": self.max_cost,
                "owner": self.owner,
                "watch": self.watch,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield exactly one event."""
        begun_at = self.now()
        watch = JobWatch.from_json(self.job_id, self.watch)
        await self._remember(watch)
        try:
            address, prices = await TrainingHook(self.training_conn_id).aget_service()
            if Until(self.until) is Until.FINISHED:
                watch.meter = Meter(prices=prices, max_cost=self.max_cost)
            async with watch_job(address, self.job_id, self.poll_interval_seconds) as news:
                event = await self._wait(news, watch)
        except (TrainingError, AirflowNotFoundException) as error:
            event = self._event(Outcome.REFUSED, watch, str(error), type(error).__name__)
        await self.sleep(seconds_to_settle(begun_at, self.now()))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _remember(self, watch: JobWatch) -> None:
        """Resume where the previous triggerer stopped."""
        try:
            read = sync_to_async(read_shown_log, thread_sensitive=False)
            self._shown = await read(self.task_instance, self.job_id)
        except OSError as error:
            self.log.warning("what was shown before cannot be read, and is shown again: %s", error)
        if self._shown.state is not None:
            watch.state, watch.since = self._shown.state, self._shown.since

    async def _wait(self, news: JobNews, watch: JobWatch) -> WaitEvent:
        until, deadline_at = Until(self.until), datetime.fromisoformat(self.deadline_at)
        job: Job | None = None
        pause: float | None = None
        while True:
            remaining = (deadline_at - self.now()).total_seconds()
            try:
                fresh = await _next(news, remaining if pause is None else min(pause, remaining))
                job = fresh or job
                if job is not None:
                    job = await self._look(news, watch, job, is_fresh=fresh is not None)
                    if job.state and until.is_reached(job.state):
                        return watch.reached(job)
                pause = self._pause(news, job)
            except TRANSIENT as error:
                for line in watch.miss(error, self.now(), deadline_at):
                    self.log.warning("%s", line)
                # A question of this wait's own is asked again; the poller does so by itself, and then tells.
                pause = None if news.has_error else self._backoff(watch.failures, error)
            if self.now() >= deadline_at:
                return self._event(Outcome.TIMED_OUT, watch, "")

    async def _look(self, news: JobNews, watch: JobWatch, job: Job, *, is_fresh: bool) -> Job:
        """Say what is new, and keep the limit of cost; return the job as it is now."""
        if is_fresh:
            self._say(watch.see(job, self.now()))
        # The service stores every line before it writes a state that ends the job: nothing is left behind.
        # While it is QUEUED nobody writes, and thousands of waits may begin at once.
        reads_log = self.stream_logs and job.state is not JobState.QUEUED
        if reads_log:
            async with news.poller.turn:
                await self._show_log(news.poller.client, watch)
        # Time has passed, and with it money; whether the service answers, only a question tells.
        if not is_fresh and (reads_log or not watch.failures):
            self._say(watch.see(job, self.now()))
        if reads_log or not self.stream_logs:
            self._shown = ShownLog()  # all of it was met
        if watch.has_to_cancel(job):
            await news.poller.client.cancel_job(self.job_id)
            self.log.warning("%s", watch.cancelled_line())
            return job.model_copy(update={"state": JobState.CANCELLING})
        return job

    def _pause(self, news: JobNews, job: Job | None) -> float | None:
        """Return when to look again without news; ``None``: not before there are."""
        is_writing = job is not None and job.state in _WRITING
        pause = news.poller.log_pause(news, reads=self.stream_logs and is_writing)
        if self.max_cost is None or not is_writing:
            return pause
        return _COST_SECONDS if pause is None else min(pause, _COST_SECONDS)

    def _backoff(self, failures: int, error: Exception) -> float:
        return backoff_seconds(failures, self.poll_interval_seconds, error, draw_jitter())

    async def _show_log(self, client: AsyncTrainingBackend, watch: JobWatch) -> None:
        question: LogQuestion | None = watch.log.begin(watch.place.job_id)
        while question is not None:
            try:
                page = await client.list_log_entries(question.filter, page_token=question.page_token)
            except TRANSIENT:
                raise
            except ServiceError as error:
                # The log is a courtesy: an account that may not read it can still wait for the job.
                self.log.warning("the log of job %s cannot be shown: %s", self.job_id, error)
                self.stream_logs = False
                return
            entries, question = watch.log.take(question, page)
            for level, line in map(log_line, entries):
                if not self._shown.take(line):
                    self.log.log(level, "%s", line)

    async def on_kill(self) -> None:
        """
        Cancel the job if the task was ended, or was the last of its run and marked successful.

        In all other cases the job is left.

        Runs in the triggerer, only after a person's act, and after that act is stored: so the task's state
        tells them apart. A cleared task runs again at once and adopts the job; cancelling it then would fail
        the new attempt. After one that was marked as successful, the rest of the run may need the job.

        Airflow may cancel this coroutine while it runs, and says nothing; the work goes on all the same.
        """
        if not self.cancel_on_kill:
            return
        work = asyncio.create_task(self._kill())
        # The loop itself keeps no more than a weak reference.
        _KILLS.add(work)
        work.add_done_callback(_KILLS.discard)
        await asyncio.shield(work)

    async def _kill(self) -> None:
        fate = await sync_to_async(fate_of)(self.task_instance)
        if fate not in NOBODY_WAITS:
            self.log.info("job %s keeps running: the task was %s", self.job_id, fate)
            return
        async with await TrainingHook(self.training_conn_id).get_async_conn() as client:
            for failures in range(1, _KILL_TRIES + 1):
                try:
                    await self._cancel_own(client, fate)
                    return
                except TRANSIENT as error:
                    self.log.warning("job %s could not be cancelled yet: %s", self.job_id, error)
                    await self.sleep(backoff_seconds(failures, 1.0, error, draw_jitter()))
        self.log.error(
            "job %s keeps running: the training service did not take the cancellation", self.job_id
        )

    async def _cancel_own(self, client: AsyncTrainingBackend, fate: TaskFate) -> None:
        job = await client.get_job(self.job_id)
        # The token may be unknown where the service was down when the wait began; then the job's labels
        # decide.
        task = self.task_instance
        owner = self.owner or (owner_within(job, task.dag_id, task.run_id) if task else "")
        if why := why_left_alone(job, owner, is_success=fate is TaskFate.LAST_DONE):
            self.log.info("job %s is left alone: %s", self.job_id, why)
            return
        await client.cancel_job(self.job_id)
        self.log.info("job %s is being cancelled, as its task was ended", self.job_id)

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            if not self._shown.take(line):
                self.log.info("%s", line)

    def _event(self, outcome: Outcome, watch: JobWatch, message: str, error: str = "") -> WaitEvent:
        event = watch.event(outcome, watch.state, message)
        if error:
            event["error"] = error
        return event


async def _next(news: JobNews, seconds: float) -> Job | None:
    """Return what is new of the job; ``None``: nothing for so long."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            return await news.next()
    except TimeoutError:
        return None
