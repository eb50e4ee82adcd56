"""Waiting for a build of Google Cloud Build in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from container_training.hooks.cloud_build import CloudBuildHook
from container_training.triggers.settling import seconds_to_settle
from training_api.errors import TrainingError
from training_api.retrying import backoff_seconds, draw_jitter, is_worth_a_retry

#: How long Cloud Build is asked without an answer; then the task asks, and Airflow's retries take over.
PATIENCE_SECONDS = 600.0
#: How long one question may take. A thread waits for the answer, which the triggerer has few of.
_ANSWER_SECONDS = 30.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class CloudBuildTrigger(BaseTrigger):
    """
    Waits until a build has ended, and yields one event.

    The event says in words how the wait has ended; what came of the build, the task asks itself.

    If Cloud Build does not answer, it is asked again after growing pauses, for ten minutes. An error that
    waiting cannot mend ends the wait.

    :param build_id: of the project and the location.
    :param impersonation_chain: account to act as, as for the provider's hooks.
    :param poll_interval_seconds: pause between two looks.
    """

    def __init__(
        self,
        *,
        build_id: str,
        project_id: str,
        location: str,
        gcp_conn_id: str,
        impersonation_chain: str | Sequence[str] | None,
        poll_interval_seconds: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.build_id = build_id
        self.project_id = project_id
        self.location = location
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.poll_interval_seconds = poll_interval_seconds
        # Tests put a virtual clock here.
        self.now: Callable[[], datetime] = _utc_now

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and every argument."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "build_id": self.build_id,
                "project_id": self.project_id,
                "location": self.location,
                "gcp_conn_id": self.gcp_conn_id,
                "impersonation_chain": self.impersonation_chain,
                "poll_interval_seconds": self.poll_interval_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield exactly one event."""
        begun_at = self.now()
        try:
            # It reads a connection, which Airflow allows in one thread only.
            with await sync_to_async(self._open)() as cloud:
                message = await self._wait(cloud)
        except (TrainingError, AirflowNotFoundException) as error:
            message = str(error)
        await asyncio.sleep(seconds_to_settle(begun_at, self.now()))
        yield TriggerEvent({"message": message})  # type: ignore[no-untyped-call]

    def _open(self) -> CloudBuildHook:
        cloud = CloudBuildHook(
            self.gcp_conn_id,
            project_id=self.project_id,
            location=self.location,
            impersonation_chain=self.impersonation_chain,
        )
        cloud.get_conn()
        return cloud

    async def _wait(self, cloud: CloudBuildHook) -> str:
        """
        Return how the build has ended.

        :raises TrainingError: waiting does not help, or did not for ``PATIENCE_SECONDS``.
        """
        look = sync_to_async(cloud.get, thread_sensitive=False)
        answered_at, failures = self.now(), 0
        while True:
            pause = self.poll_interval_seconds
            try:
                build = await look(self.build_id, seconds=_ANSWER_SECONDS)
            except TrainingError as error:
                silence = (self.now() - answered_at).total_seconds()
                if not is_worth_a_retry(error) or silence >= PATIENCE_SECONDS:
                    raise
                failures += 1
                if failures == 1:
                    self.log.warning("build %s is asked for again: %s", self.build_id, error)
                pause = max(pause, backoff_seconds(failures, 1.0, error, draw_jitter()))
            else:
                if build.is_over:
                    return f"it ended with {build.status}"
                answered_at, failures = self.now(), 0
            await asyncio.sleep(pause)
