"""Waiting for a job, as a task."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    TaskDeferralTimeout,
)

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook
from container_training.links.training import JOB_LINKS
from container_training.runtime.job_group import given, retries_of_mapped, with_default_retries
from container_training.runtime.job_poll import JobPoll
from container_training.runtime.job_report import make_report, report_of
from container_training.runtime.killing import NOBODY_WAITS, TaskFate, fate_in_signal_handler
from container_training.runtime.supervision import WorkerWatch
from container_training.runtime.task_arguments import SensorArguments
from container_training.runtime.triggerer import is_deferrable, warn_without_triggerer
from container_training.runtime.wait_end import WaitLimit, state_at_end
from container_training.runtime.watch_memory import remember, remembered_watch
from container_training.triggers.training import POLL_SECONDS, JobTrigger
from container_training.work.job_pages import JobPlace
from container_training.work.results.job_report import JobReport
from container_training.work.template_values import flag, is_unset
from container_training.work.waiting.job_watch import (
    JobWatch,
    Until,
    WaitEvent,
    place_of,
    poll_timeout,
)
from training_api.cached import cached_property
from training_api.dialects.ml_v1.cost import Meter, parse_max_cost
from training_api.dialects.ml_v1.intent import owner_within, why_left_alone
from training_api.dialects.ml_v1.resources import Job

if TYPE_CHECKING:
    from airflow.sdk import Context

_POKE_SECONDS = 1.0
#: A reschedule costs the scheduler and a process start, far more than the question itself.
_RESCHEDULE_SECONDS = 15.0
#: How often a deferrable wait polls its job before it is deferred, and the pause between; less often where
#: the connection wants longer pauses. A deferral costs two process starts and ``SETTLE_SECONDS``; most jobs
#: leave QUEUED and PREPARING sooner, and short ones end.
_POLLS_BEFORE_DEFERRING = 11
_PAUSE_BEFORE_DEFERRING = 0.5
#: The trigger's own limit comes first; this one is for a triggerer that is gone.
_TRIGGERER_GRACE = timedelta(minutes=2)


class TrainingJobSensor(BaseSensorOperator):
    """
    Waits until a job has left a state or has ended; fails if the job failed or was cancelled.

    While the training service does not answer, the wait continues and the log says so, until ``timeout``. A
    job that outlives the wait continues. ``until="finished"`` shows the job's new log lines in the task's
    log, the progress of a tuning job's trials, and, if the connection has prices, what the job has cost.

    A deferrable sensor occupies no worker, but for the first five seconds, in which it polls its job itself:
    what comes so soon is not worth a deferral. With ``deferrable=False`` the modes ``poke`` and
    ``reschedule`` work as for every sensor.

    :param job_id: the job, usually the output of ``SubmitTrainingJobOperator``. (templated)
    :param until: ``left_queued``, ``left_preparing`` or ``finished``. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :param deferrable: wait in the triggerer; default: Airflow's ``[operators] default_deferrable``. Airflow
        must know this before it renders templates.
    :param stream_logs: show the job's log; ``None``: only with ``until="finished"``. (templated)
    :param cancel_on_kill: cancel the job if this task is marked as failed, or marked as successful when no
        later task of its run is left, provided that this DAG run submitted the job. A cleared task leaves the
        job alone and waits for it again. (templated)
    :param max_cost: cancel the job once it has cost this much, and fail. Only with ``until="finished"``; any
        job can be limited. The prices are those of the connection (its extra ``prices``), which must then
        have all machine types of the job. (templated)
    :param poke_interval: seconds between two polls: 1, or 15 in reschedule mode. Deferred waits share their
        polls; there it is the shortest pause that this wait asks for (0.5). The pause grows with the time
        that a job has been in its state, to 10 s at most.
    :param retries: of this task; default: Airflow's ``[core] default_task_retries``, or else 2, because a
        second try only waits again. A wait whose job failed is not retried.
    :param retry_delay: before a retry; default: 10 s where ``retries`` has its default of 2.
    :param timeout: seconds until the wait gives up; default: Airflow's ``[sensors] default_timeout`` (7
        days). ``execution_timeout`` limits each try, also while it is deferred, and unlike ``timeout`` it
        leaves the task to its retries.
    :return: the job's state. The XCom key ``study`` has the figures of a tuning job and its best trial so
        far, and ``cost`` what the job has cost; both are also set if the task fails.
    """

    # cancel_on_kill is here so that the API server, which has only the rendered fields, can read it
    # (listener.py).
    template_fields: Sequence[str] = (
        "job_id",
        "until",
        "training_conn_id",
        "stream_logs",
        "cancel_on_kill",
        "max_cost",
    )
    operator_extra_links = JOB_LINKS
    ui_color = "#dbe9f6"

    def __init__(
        self,
        *,
        job_id: str,
        until: Until | str = Until.FINISHED,
        training_conn_id: str = TrainingHook.default_conn_name,
        deferrable: bool | None = None,
        stream_logs: bool | str | None = None,
        cancel_on_kill: bool | str = True,
        max_cost: float | str | None = None,
        poke_interval: timedelta | float | None = None,
        retries: int | None = None,
        retry_delay: timedelta | float | None = None,
        **kwargs: Unpack[SensorArguments],
    ) -> None:
        deferrable = is_deferrable(deferrable)
        if poke_interval is None:
            is_rescheduled = kwargs.get("mode") == "reschedule" and not deferrable
            seconds = POLL_SECONDS if deferrable else _POKE_SECONDS
            poke_interval = _RESCHEDULE_SECONDS if is_rescheduled else seconds
        retrying = given(retries=retries, retry_delay=retry_delay)
        super().__init__(poke_interval=poke_interval, **with_default_retries(retrying), **kwargs)
        self.job_id = job_id
        # A wrong word is found while the DAG is read, unless it is still to be rendered.
        self.until = until if "{" in str(until) else Until.of(until)
        self.training_conn_id = training_conn_id
        self.deferrable = deferrable
        self.stream_logs = stream_logs
        self.cancel_on_kill = cancel_on_kill
        self.max_cost = max_cost
        #: The job as it was seen last, for extra links and callbacks.
        self.report: JobReport | None = None
        self._watch: JobWatch | None = None
        #: When a poke looked last.
        self._looked_at: datetime | None = None
        self._owner = ""
        self._deadline_at: datetime | None = None
        self._task_instance: Any = None
        self._worker: WorkerWatch | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Return what Airflow maps, with the retries that an unmapped wait has."""
        partial = super().partial(**kwargs)
        partial.kwargs |= retries_of_mapped(partial, kwargs)
        return partial

    @cached_property
    def hook(self) -> TrainingHook:
        """The hook of this task's connection; the wait itself asks again."""
        return TrainingHook(self.training_conn_id, patience_seconds=0.0)

    @cached_property
    def _goal(self) -> Until:
        return Until.of(self.until)

    @cached_property
    def _poll(self) -> JobPoll:
        is_last = self._goal is Until.FINISHED
        shows_log = is_last if is_unset(self.stream_logs) else flag("stream_logs", self.stream_logs)
        return JobPoll(self.hook, self.job_id, self.log, self._now, shows_log=shows_log)

    def execute(self, context: Context) -> Any:
        """Look once, then wait: in the triggerer, or by poking."""
        return self.wait(context)

    def wait(self, context: Context) -> Any:
        """Do what ``execute`` does; another task that waits, too, may call it."""
        with self.hook:
            return self._wait(context)

    def _wait(self, context: Context) -> Any:
        self._task_instance = context["ti"]
        limit = self._limit.duration
        self._deadline_at = self._now() + limit
        if not self.deferrable:
            self._worker = WorkerWatch()
            return self._execute_poking(context)
        with final_unless_transient():
            watch = JobWatch(self.job_id, meter=self._meter())
            event = self._poll_before_deferring(watch, context)
            if event is not None:
                return self._finish(event, context)
        warn_without_triggerer(self.log)
        self.defer(
            trigger=JobTrigger(
                # As the service knows it, which may have an id of its own.
                job_id=watch.place.job_id,
                until=self._goal.value,
                training_conn_id=self.training_conn_id,
                deadline_at=self._deadline_at.isoformat(),
                poll_interval_seconds=self.poke_interval,
                stream_logs=self._poll.shows_log,
                cancel_on_kill=flag("cancel_on_kill", self.cancel_on_kill),
                max_cost=watch.meter.max_cost if watch.meter else None,
                owner=self._owner,
                watch=watch.to_json(),
            ),
            method_name="execute_complete",
            timeout=limit + _TRIGGERER_GRACE,
        )
        return None  # unreachable: defer raises

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """
        Resume after the trigger.

        If the triggerer reported too late, ``execution_timeout`` still leaves the task to its retries.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            if isinstance(error.__cause__, TaskDeferralTimeout) and self._limit.is_of_try:
                raise self._limit.error(self._timeout_text(JobPlace(job_id=self.job_id), None)) from error
            raise

    def execute_complete(self, context: Context, event: WaitEvent) -> str | None:
        """Turn the trigger's event into the task's end."""
        with final_unless_transient():
            return self._finish(event, context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; done when the wait's end is reached, or the next try is the one that waits."""
        if self._worker and self._worker.is_alone:
            raise AirflowFailException(f"the worker is gone: the next try waits for job {self.job_id!r}")
        with final_unless_transient():
            now, next_look = self._now(), timedelta(seconds=self.hook.min_poll_seconds)
            if self._looked_at is not None and self._looked_at <= now < self._looked_at + next_look:
                return PokeReturnValue(is_done=False)
            self._looked_at = now
            if self._watch is None:
                self._watch = remembered_watch(self.job_id, self._meter(), context)
            watch = self._watch
            job = self._look(watch, context)
            if job and job.state and self._goal.is_reached(job.state):
                return PokeReturnValue(is_done=True, xcom_value=self._finish(watch.reached(job), context))
        if self.reschedule:
            remember(watch, context)
        return PokeReturnValue(is_done=False)

    def on_kill(self) -> None:
        """
        Cancel the job if no task waits for it any more. Only while a worker runs the task.

        See ``JobTrigger.on_kill``.
        """
        if not (flag("cancel_on_kill", self.cancel_on_kill) and self._owner):
            return
        fate = fate_in_signal_handler(self._task_instance)
        if fate not in NOBODY_WAITS:
            self.log.info("job %s keeps running: the task was %s", self.job_id, fate)
            return
        # A hook of its own: the other one may be in the middle of a request.
        with TrainingHook(self.training_conn_id) as hook:
            job = hook.get_job(self.job_id)
            if why := why_left_alone(job, self._owner, is_success=fate is TaskFate.LAST_DONE):
                self.log.info("job %s is left alone: %s", self.job_id, why)
                return
            hook.cancel_job(self.job_id)
            self.log.info("job %s is being cancelled, as its task was ended", self.job_id)

    def _poll_before_deferring(self, watch: JobWatch, context: Context) -> WaitEvent | None:
        """
        Return the wait's end if it comes within seconds.

        ``None``: the wait is long enough to be deferred.
        """
        begun_at = self._now()
        pause, longest = self.hook.min_poll_seconds, _PAUSE_BEFORE_DEFERRING * (_POLLS_BEFORE_DEFERRING - 1)
        polls = _POLLS_BEFORE_DEFERRING if pause <= _PAUSE_BEFORE_DEFERRING else int(longest / pause) + 1
        for poll in range(polls):
            if poll:
                time.sleep(max(pause, _PAUSE_BEFORE_DEFERRING))
            job = self._look(watch, context)
            if job and job.state and self._goal.is_reached(job.state):
                return watch.reached(job)
            # Airflow ends a worker at execution_timeout, and says nothing of the job; the trigger does.
            if job is None or self._now() >= begun_at + self._limit.duration / 4:
                break  # a service that does not answer now is the triggerer's to wait for
        return None

    def _execute_poking(self, context: Context) -> Any:
        try:
            # The bare loop: what Airflow wraps around it warns if another task waits by this sensor.
            return inspect.unwrap(BaseSensorOperator.execute)(self, context)
        except AirflowSensorTimeout as error:
            watch = self._watch or JobWatch(self.job_id)
            raise AirflowSensorTimeout(self._timeout_text(watch.place, watch.state)) from error

    def _look(self, watch: JobWatch, context: Context) -> Job | None:
        """Return the job, or ``None`` if the service does not answer now; says what is new."""

        def seen(job: Job) -> None:
            self._owner = owner_within(job, context["ti"].dag_id, context["ti"].run_id)
            is_first, self.report = self.report is None, report_of(self.hook, job)
            if is_first and not (self.deferrable or self.reschedule):
                self._push_links(context)

        return self._poll.look(watch, self._deadline_at or self._now(), seen)

    def _push_links(self, context: Context) -> None:
        """Push the links now: Airflow does it when a worker puts the task down, at the job's end."""
        for link in self.operator_extra_links:
            context["ti"].xcom_push(key=link.xcom_key, value=link.get_link(self, ti_key=context["ti"]))

    def _meter(self) -> Meter | None:
        """
        Return prices and limit of cost, if the end of the job is waited for.

        :raises InvalidPrice: they cannot be read.
        """
        if self._goal is not Until.FINISHED:
            return None
        return Meter(prices=self.hook.prices, max_cost=parse_max_cost(self.max_cost))

    def _finish(self, event: WaitEvent, context: Context) -> str | None:
        """
        Return the job's state, or raise what the event stands for.

        What is known of trials and cost is kept in both cases.
        """
        self.report = make_report(
            self.hook,
            place_of(event),
            state=event["state"],
            reason=event["message"],
            job_dir=event.get("job_dir", ""),
        )
        for key in ("study", "cost"):
            if key in event:
                context["ti"].xcom_push(key=key, value=event[key])
        return state_at_end(
            event, lambda: self._limit.error(self._timeout_text(place_of(event), event["state"]))
        )

    @property
    def _limit(self) -> WaitLimit:
        """
        Return the limit of this try.

        Airflow 3.3 counts ``execution_timeout`` only while a worker runs the task.
        """
        limit, of_try = timedelta(seconds=self.timeout), self.execution_timeout
        if of_try and self.deferrable:
            limit = min(limit, of_try)
        return WaitLimit(limit, is_of_try=limit == of_try)

    def _timeout_text(self, job: JobPlace, state: str | None) -> str:
        seconds = self._limit.duration.total_seconds()
        error = poll_timeout(self.job_id, self._goal, state, seconds, self.hook.cancel_command(job))
        return f"{type(error).__name__}: {error}"

    @staticmethod
    def _now() -> datetime:
        return datetime.now(UTC)
