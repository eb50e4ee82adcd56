"""Choosing among training services: one's own while it has room, else the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack, cast

from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # the stub lacks it

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook
from container_training.runtime.job_description import JobArguments, JobDescriptionOperator
from container_training.work.submission.job_attempt import for_attempt
from container_training.work.submission.room import why_no_room
from container_training.work.template_values import connections, flag, mapping, number
from training_api.clients.backend import NO_OPTIONS
from training_api.errors import InvalidArgument, InvalidJobSpec
from training_api.job.job_id import TaskKey, job_id_for

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Under which a task keeps what it has chosen.
_CHOICE = "training_service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """
    When a job leaves a service that has no room for it.

    :param queue_minutes: how long the service's oldest queued job may have waited, in minutes.
    :param scaled_down: the service may run the job with less than its machine types have, as it does when a
        job is sent to it; only accelerators and the number of replicas then decide whether the job fits.
    """

    queue_minutes: float | str = 10.0
    scaled_down: bool | str = False


class ChooseServiceOperator(JobDescriptionOperator):
    """
    Chooses the training service that a run's job goes to, and returns its connection.

    Services are tried in order. The first one that can run the job and has room is chosen; if none has room,
    the last one that can run it. A service of this project reports its room. Vertex AI does not, and always
    counts as having room. The job's arguments are those of ``SubmitTrainingJobOperator``; its image need not
    exist yet.

    The choice is stored before it is returned. A later try of the task, also of a cleared one, returns the
    same: the job may be there already.

    :param training_conn_ids: connections of the services, best first. (templated)
    :param queue_minutes: the same as for :class:`Burst`. (templated)
    :param scaled_down: the same as for :class:`Burst`. (templated)
    :param vertex_options: the same as for ``SubmitTrainingJobOperator``; returned if the chosen service takes
        them. (templated)
    :return: ``training_conn_id``, ``vertex_options`` and ``reason``, why it is not an earlier service; each
        is under the XCom key of its name, too.
    """

    template_fields: Sequence[str] = (
        *JobDescriptionOperator.template_fields,
        "training_conn_ids",
        "queue_minutes",
        "scaled_down",
        "vertex_options",
    )
    template_fields_renderers = {
        **JobDescriptionOperator.template_fields_renderers,
        "training_conn_ids": "json",
        "vertex_options": "json",
    }
    ui_color = "#eeeeee"

    def __init__(
        self,
        *,
        training_conn_ids: Sequence[str],
        queue_minutes: float | str = 10.0,
        scaled_down: bool | str = False,
        vertex_options: Mapping[str, Any] | str | None = None,
        **kwargs: Unpack[JobArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.training_conn_ids = training_conn_ids
        self.queue_minutes = queue_minutes
        self.scaled_down = scaled_down
        self.vertex_options = vertex_options

    def execute(self, context: Context) -> dict[str, Any]:
        """Look at the services, log why each is left, and return the choice."""
        choice = self._choice(context)
        for key, value in choice.items():
            context["ti"].xcom_push(key=key, value=value)
        return choice

    def _choice(self, context: Context) -> dict[str, Any]:
        store = context.get("task_state_store")
        chosen = cast("dict[str, Any] | None", store.get(_CHOICE)) if store is not None else None
        with final_unless_transient():
            if chosen:
                self.log.info("this run's job goes to %s, as chosen before", chosen["training_conn_id"])
            else:
                chosen = self._choose(context)
                if store is not None:
                    store.set(_CHOICE, chosen, retention=NEVER_EXPIRE)
            # As the DAG file says them now: only the service is chosen once.
            with TrainingHook(chosen["training_conn_id"]) as hook:
                return {**chosen, "vertex_options": dict(self._options_for(hook))}

    def _options_for(self, hook: TrainingHook) -> Mapping[str, Any]:
        has_options = hook.client.capabilities.has_options
        return mapping("vertex_options", self.vertex_options) if has_options else NO_OPTIONS

    def _choose(self, context: Context) -> dict[str, Any]:
        names = connections("training_conn_ids", self.training_conn_ids, at_least=1)
        left: dict[str, str] = {}
        able: list[str] = []
        image = self.image
        for name in names:
            self.image = image
            with TrainingHook(name) as hook:
                try:
                    reason = self._why_not(hook, context)
                except InvalidJobSpec as error:
                    left[name] = f"it cannot run the job: {error}"
                    self.log.info("not %s: %s", name, left[name])
                    continue
                able.append(name)
            if not reason:
                return self._chosen(name, left)
            left[name] = reason
            self.log.info("not %s: %s", name, reason)
        if not able:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in left.items())
            raise InvalidArgument(f"no service of training_conn_ids can run the job: {reasons}")
        return self._chosen(able[-1], left)

    def _chosen(self, name: str, left: Mapping[str, str]) -> dict[str, Any]:
        reason = "; ".join(f"not {other}: {why}" for other, why in left.items() if other != name)
        self.log.info("the job goes to %s", name)
        return {"training_conn_id": name, "reason": reason}

    def _why_not(self, hook: TrainingHook, context: Context) -> str:
        """
        Return why the job should not go to a service; empty: it should.

        :raises InvalidJobSpec: the service has no such job.
        """
        # Names of images and folders are those of the connection.
        self.training_conn_id = hook.training_conn_id
        job = for_attempt(
            self._request(context), self.job_id or job_id_for(TaskKey.of(context["ti"]), attempt=1), {}
        )
        spec = hook.client.check_job(job, self._options_for(hook))
        if not hook.client.capabilities.tells_room:
            return ""
        return why_no_room(
            spec.replicas,
            hook.ops.fleet(),
            datetime.now(UTC),
            longest_wait=timedelta(minutes=number("queue_minutes", self.queue_minutes)),
            is_scaled_down=flag("scaled_down", self.scaled_down),
        )
