"""Waiting for a job in the triggerer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from container_training.clients.training_api import AsyncTrainingClient, job_log_filter
from container_training.core.cost import Meter
from container_training.core.errors import ServiceError, TrainingError
from container_training.core.intent import is_owned, owner_within
from container_training.core.log_cursor import log_line
from container_training.core.retrying import TRANSIENT, backoff_seconds
from container_training.core.waiting import JobWatch, Outcome, Until, WaitEvent, WatchMemory
from container_training.hooks.training import TrainingHook
from container_training.triggers.killing import TaskFate, fate_of

#: Airflow gives ``on_kill`` 30 s.
_KILL_TRIES = 5


def _utc_now() -> datetime:
    return datetime.now(UTC)


class JobTrigger(BaseTrigger):
    """
    Waits until a job has left a state or has ended, and yields one :class:`WaitEvent`.

    A service that does not answer does not end the wait; only ``deadline_at``, the job itself, or an error that waiting
    cannot mend does. ``cleanup`` does nothing: it also runs when the triggerer stops, and the job must live on.

    :param until: value of :class:`Until`.
    :param deadline_at: aware time in ISO form at which the wait gives up; a moment, not a duration, so that a triggerer's
        restart does not prolong it.
    :param stream_logs: show the job's new log lines in the task's log.
    :param max_cost: cancel the job once it has cost so much; at the prices of the connection.
    :param owner: token of the job's owner label; a killed task cancels the job only if the label still has it.
    :param watch: what the task saw already, so that nothing is said twice.
    """

    def __init__(
        self,
        *,
        job_id: str,
        until: str,
        training_conn_id: str,
        deadline_at: str,
        poll_interval_seconds: float = 1.0,
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
        watch = JobWatch.from_json(self.job_id, self.watch)
        try:
            hook = TrainingHook(self.training_conn_id)
            if Until(self.until) is Until.FINISHED:
                watch.meter = Meter(prices=await hook.aget_prices(), max_cost=self.max_cost)
            async with await hook.get_async_conn() as client:
                event = await self._wait(client, watch)
        except (TrainingError, AirflowNotFoundException) as error:
            event = self._event(Outcome.REFUSED, watch, str(error), type(error).__name__)
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _wait(self, client: AsyncTrainingClient, watch: JobWatch) -> WaitEvent:
        until, deadline_at = Until(self.until), datetime.fromisoformat(self.deadline_at)
        while True:
            delay = self.poll_interval_seconds
            try:
                job = await client.get_job(self.job_id)
                self._say(watch.see(job, self.now()))
                # The service stores every line before it writes a state that ends the job: nothing is left behind.
                await self._show_log(client, watch)
                if job.state and until.is_reached(job.state):
                    return watch.reached(job)
                if watch.has_to_cancel(job):
                    await client.cancel_job(self.job_id)
                    self.log.warning("%s", watch.cancelled_line())
            except TRANSIENT as error:
                for line in watch.miss(error, self.now(), deadline_at):
                    self.log.warning("%s", line)
                delay = backoff_seconds(watch.failures, delay, error, random.random())  # noqa: S311 - jitter
            remaining = (deadline_at - self.now()).total_seconds()
            if remaining <= 0:
                return self._event(Outcome.TIMED_OUT, watch, "")
            await self.sleep(min(delay, remaining))

    async def _show_log(self, client: AsyncTrainingClient, watch: JobWatch) -> None:
        if not self.stream_logs:
            return
        watch.log.restart()
        filter_, token = job_log_filter(self.job_id, watch.log.received_after), ""
        while True:
            try:
                page = await client.list_log_entries(filter_, page_token=token)
            except TRANSIENT:
                raise
            except ServiceError as error:
                # The log is a courtesy: whoever may not read it can still wait for the job.
                self.log.warning("the log of job %s cannot be shown: %s", self.job_id, error)
                self.stream_logs = False
                return
            for entry in watch.log.take(page.entries or []):
                level, line = log_line(entry)
                self.log.log(level, "%s", line)
            token = page.next_page_token or ""
            if not token:
                watch.log.finish()
                return

    async def on_kill(self) -> None:
        """
        Cancel the job if a person ended the task for good; leave it if the task was cleared or marked as successful.

        Runs in the triggerer, only after a person's act, and after that act is stored: so the task's state tells them
        apart. A cleared task runs again at once and adopts the job; cancelling it then would fail the new attempt.
        """
        if not self.cancel_on_kill:
            return
        fate = await sync_to_async(fate_of)(self.task_instance)
        if fate is not TaskFate.ENDED:
            self.log.info("job %s goes on: the task was %s", self.job_id, fate)
            return
        async with await TrainingHook(self.training_conn_id).get_async_conn() as client:
            for failures in range(1, _KILL_TRIES + 1):
                try:
                    await self._cancel_own(client)
                    return
                except TRANSIENT as error:
                    self.log.warning("job %s could not be cancelled yet: %s", self.job_id, error)
                    await self.sleep(backoff_seconds(failures, 1.0, error, random.random()))  # noqa: S311 - jitter
        self.log.error("job %s goes on: the training service did not take the cancellation", self.job_id)

    async def _cancel_own(self, client: AsyncTrainingClient) -> None:
        job = await client.get_job(self.job_id)
        # The token may be unknown where the service was down when the wait began; then the job's labels decide.
        task = self.task_instance
        owner = self.owner or (owner_within(job, task.dag_id, task.run_id) if task else "")
        if not is_owned(job, owner):
            self.log.warning("job %s goes on: this DAG run did not submit it", self.job_id)
            return
        await client.cancel_job(self.job_id)
        self.log.info("job %s is being cancelled, as its task was ended", self.job_id)

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.log.info("%s", line)

    def _event(self, outcome: Outcome, watch: JobWatch, message: str, error: str = "") -> WaitEvent:
        event: WaitEvent = {
            "outcome": outcome,
            "job_id": self.job_id,
            "state": watch.state,
            "message": message,
        }
        if error:
            event["error"] = error
        return event
