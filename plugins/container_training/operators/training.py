"""Submitting a job, exactly once; waiting for it in the same task, if wanted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import NEVER_EXPIRE, conf  # type: ignore[attr-defined]  # the stub lacks it

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.links.training import JOB_LINKS
from container_training.operators.completion import JobCompletion, pushed_before
from container_training.operators.reuse import JobContent
from container_training.runtime.job_description import JobArguments, JobDescriptionOperator
from container_training.runtime.job_report import report_of
from container_training.runtime.job_submission import JobSubmission, TaskSide, Wanted
from container_training.runtime.killing import TaskFate, fate_in_signal_handler
from container_training.runtime.lineage import SubmittedJob, joined_lineage, submit_lineage
from container_training.runtime.triggerer import is_deferrable
from container_training.work.results.job_report import JobReport
from container_training.work.submission.job_attempt import for_attempt
from container_training.work.template_values import connections, flag, mapping
from training_api.cached import cached_property
from training_api.dialects.ml_v1.cost import parse_max_cost
from training_api.dialects.ml_v1.intent import (
    INTENT_KEY,
    Intent,
    owner_labels,
    request_hash,
    why_left_alone,
)
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import InvalidArgument, JobNotFound
from training_api.job.job_id import TaskKey, job_id_for, numbered_job_id

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from training_api.job.job_spec import JobSpec

_CANCELLED_FATES = frozenset({TaskFate.ENDED, TaskFate.DONE, TaskFate.LAST_DONE, TaskFate.RESTARTED})


class SubmitTrainingJobOperator(JobDescriptionOperator):
    """
    Submits a training job and returns its id; never submits a second one by accident.

    The arguments of :class:`JobDescriptionOperator` describe the job; it is checked before anything is sent.
    With ``wait_for_completion=True`` the task also does what ``TrainingJobSensor`` and
    ``CollectTrainingResultsOperator`` do, and returns the result.

    The task stores what it means to submit before the call. After a retry, a clear, a lost answer or a dead
    worker, the next run checks the service first. It adopts its own job with the same request if that job is
    alive or succeeded. If that job failed or was cancelled, it submits the next attempt under the next id.

    :param wait_for_completion: wait for the job's end and collect its results; the job must have a folder.
        After a failed job, clear the task to submit the next attempt. (templated)
    :param deferrable: wait in the triggerer; default: Airflow's ``[operators] default_deferrable``.
    :param wait_timeout: limit of the wait; default: Airflow's ``[sensors] default_timeout`` (7 days). The job
        then continues.
    :param metrics_file: path below the job's folder, to collect. (templated)
    :param model_file: path below the job's folder, to collect. (templated)
    :param max_cost: the limit of cost that the wait keeps. Before the job is submitted, it is checked that
        there is a price for every machine of the job. (templated)
    :param detached: the job may outlive its DAG run; ``CancelOrphanJobsOperator`` leaves it alone.
        (templated)
    :param reuse_results: train nothing if an earlier job of the project with the same content SUCCEEDED and
        its results are still there; return the id of that job. The content is the request without the job's
        folder, limits of time, priority and labels; images by digest; packages and ``data_uris`` by the
        generations of their objects. If an image has no digest, the job is trained. (templated)
    :param reuse_from: more connections whose earlier jobs will do, asked in this order where the task's own
        has none. A service that cannot be asked is left out. (templated)
    :param data_uris: ``gs://`` objects or folders that the job reads; a folder stands for all objects below
        it. Their generations are read before the job is submitted, and returned under the XCom key ``data``.
        (templated)
    :param result_files: what the folder of an earlier job (of a tuning job: the folder of its best trial)
        must hold for its results to be reused; default: ``metrics_file`` and ``model_file``. A name that ends
        in ``/`` stands for anything below it. (templated)
    :param vertex_options: what only Vertex AI has, such as ``{"strategy": "SPOT"}``; for a connection of type
        ``vertex_training``. See ``VertexOptions``. (templated)
    :param gcp_conn_id: Google connection that may list ``data_uris`` and the folders of jobs; not used
        without ``wait_for_completion``, ``reuse_results`` and ``data_uris``. (templated)
    :return: the job's id; with ``wait_for_completion`` the result, as of ``CollectTrainingResultsOperator``,
        and the id under the XCom key ``job_id``. The XCom key ``job`` has the whole job, ``reused`` whether
        it is an earlier one, and ``training_conn_id`` the connection of its service.
    """

    template_fields: Sequence[str] = (
        *JobDescriptionOperator.template_fields,
        "wait_for_completion",
        "metrics_file",
        "model_file",
        "max_cost",
        "detached",
        "reuse_results",
        "reuse_from",
        "data_uris",
        "result_files",
        "vertex_options",
        "gcp_conn_id",
    )
    template_fields_renderers = {
        **JobDescriptionOperator.template_fields_renderers,
        "data_uris": "json",
        "reuse_from": "json",
        "result_files": "json",
        "vertex_options": "json",
    }
    operator_extra_links = JOB_LINKS
    ui_color = "#f6e8db"

    def __init__(
        self,
        *,
        wait_for_completion: bool | str = False,
        deferrable: bool | None = None,
        wait_timeout: timedelta | float | None = None,
        metrics_file: str = "metrics.json",
        model_file: str = "model.joblib",
        max_cost: float | str | None = None,
        detached: bool | str = False,
        reuse_results: bool | str = False,
        reuse_from: Sequence[str] = (),
        data_uris: Sequence[str] | str = (),
        result_files: Sequence[str] | None = None,
        vertex_options: Mapping[str, Any] | str | None = None,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[JobArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.wait_for_completion = wait_for_completion
        self.deferrable = is_deferrable(deferrable)
        self.wait_timeout = wait_timeout
        self.metrics_file = metrics_file
        self.model_file = model_file
        self.max_cost = max_cost
        self.detached = detached
        self.reuse_results = reuse_results
        self.reuse_from = reuse_from
        self.data_uris = data_uris
        self.result_files = result_files
        self.vertex_options = vertex_options
        self.gcp_conn_id = gcp_conn_id
        #: The job as it was seen last, for extra links and callbacks.
        self.report: JobReport | None = None
        self._done: SubmittedJob | None = None
        self._completion: JobCompletion | None = None
        self._intent: Intent | None = None
        self._is_over = False
        self._task_instance: Any = None
        self._sleep: Callable[[float], None] = time.sleep

    @cached_property
    def hook(self) -> TrainingHook:
        """The hook of this task's connection."""
        return TrainingHook(self.training_conn_id, patience_seconds=0.0)  # ``_settle`` asks again

    def execute(self, context: Context) -> str | dict[str, Any]:
        """Return the id of the job, submitted now or before, or its result."""
        done = self._submit_once(context)
        job_id = done.job.job_id or ""
        if not self._waits:
            return job_id
        context["ti"].xcom_push(key="job_id", value=job_id)
        self._completion = completion = JobCompletion(self, job_id, is_reused=done.is_reused)
        return self._complete(completion, lambda: completion.execute(context))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the wait's trigger."""
        job_id, is_reused, record = (pushed_before(key, context) for key in ("job_id", "reused", "data"))
        # A task that an earlier version deferred has pushed none.
        self.training_conn_id = pushed_before("training_conn_id", context) or self.training_conn_id
        self._completion = completion = JobCompletion(self, job_id, is_reused=is_reused)
        result = self._complete(completion, lambda: completion.resume(next_method, next_kwargs, context))
        if completion.job is not None:
            self._done = SubmittedJob(job=completion.job, is_reused=is_reused, record=record or ())
        return result

    def _submit_once(self, context: Context) -> SubmittedJob:
        self._task_instance = context["ti"]
        key = TaskKey.of(self._task_instance)
        with (
            self.hook,
            StorageHook(self.gcp_conn_id) as storage,
            final_unless_transient(),
            ExitStack() as elsewhere,
        ):
            request = self._request(context)
            hooks = [elsewhere.enter_context(hook) for hook in self._hooks_elsewhere()]
            content = self._content(self._check(request, key), request, storage, hooks)
            intent = self._stored_intent(context)
            job = self._earlier_job(key, request, content, context) if intent is None else None
            if job is None:
                intent = intent or self._first_intent(key, request, context)
                job = self._settle(key, request, intent, content, context)
            is_reused = job is content.taken
            hook = content.taken_from if is_reused else self.hook
            self.report = report_of(hook, job)
        if self._is_over:
            self._cancel_own()
        self.training_conn_id = hook.training_conn_id
        self.log.info("job %s is %s", job.job_id, job.state)
        context["ti"].xcom_push(key="job", value=job.to_wire())
        context["ti"].xcom_push(key="reused", value=is_reused)
        context["ti"].xcom_push(key="training_conn_id", value=self.training_conn_id)
        record = content.record(context.get("task_state_store"))
        if record:
            context["ti"].xcom_push(key="data", value=record)
        self._done = SubmittedJob(job=job, is_reused=is_reused, record=record)
        return self._done

    @property
    def _waits(self) -> bool:
        return flag("wait_for_completion", self.wait_for_completion)

    def _complete(self, completion: JobCompletion, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return act()
        finally:  # links and callbacks need it however the wait ends
            self.report = completion.report or self.report

    def on_kill(self) -> None:
        """
        Cancel the job if it is this task's own and no other try may have it.

        That is so if a person ended or cleared the task. If a worker is stopped, a time limit is reached, or
        the scheduler has given the task to another worker, the job is left to the next try, which may have
        adopted it already. A job that does not exist yet is cancelled by ``execute``, if it is still running.

        While the task waits, it does what ``TrainingJobSensor`` does: a cleared task keeps its job.
        """
        if self._completion is not None:
            self._completion.on_kill()
            return
        fate = fate_in_signal_handler(self._task_instance)
        if fate not in _CANCELLED_FATES:
            self.log.info("the task was %s; the next try adopts its job", fate)
            return
        self._is_over = True
        self._cancel_own()

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return what the job will read, as far as the arguments say so."""
        return submit_lineage(self.image, self._data_uris)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return what the job reads and writes, and which it is."""
        collected = self._completion.lineage(task_instance) if self._completion else None
        return joined_lineage(submit_lineage(self.image, self._data_uris, self._done, self.report), collected)

    @property
    def _data_uris(self) -> Sequence[str]:
        return self.data_uris.split() if isinstance(self.data_uris, str) else self.data_uris

    def _check(self, request: Job, key: TaskKey) -> JobSpec:
        """Apply the API's rules here, so that all mistakes are found before the call."""
        probe = Intent(request_hash="0", job_id=self._job_id(request, key, 1), owner="0")
        job = for_attempt(request, probe.job_id, self._labels(key, probe, {}))
        spec = self.hook.client.check_job(job, self._options)
        if self._waits and not (request.training_input and request.training_input.job_dir):
            raise InvalidArgument(
                "wait_for_completion=True collects results from the job's folder, and this job has none; set "
                "job_dir, like 'gs://my-bucket/jobs/{job_id}'"
            )
        if parse_max_cost(self.max_cost) is not None:
            self.hook.prices.cost_per_second(request.training_input or TrainingInput())
        return spec

    def _hooks_elsewhere(self) -> list[TrainingHook]:
        """Return hooks of the other connections; what one cannot answer, it is not asked again."""
        return [
            TrainingHook(name, patience_seconds=0.0)
            for name in connections("reuse_from", self.reuse_from)
            if name != self.training_conn_id
        ]

    def _content(
        self, spec: JobSpec, request: Job, storage: StorageHook, elsewhere: Sequence[TrainingHook]
    ) -> JobContent:
        files = [self.metrics_file, self.model_file] if self.result_files is None else self.result_files
        return JobContent(
            spec,
            request.training_input or TrainingInput(),
            self._options,
            data_uris=self._data_uris,
            is_reused=flag("reuse_results", self.reuse_results),
            hook=self.hook,
            elsewhere=elsewhere,
            store=storage.get_conn,
            result_files=files,
            retrying=self._submission.retrying(),
            say=lambda level, line: self.log.log(level, "%s", line),
        )

    def _earlier_job(self, key: TaskKey, request: Job, content: JobContent, context: Context) -> Job | None:
        """
        Return the earlier job that makes this task's own needless.

        It is asked for only before there is an intent: with one, a submission may be on its way, and its job
        must not be forgotten.
        """
        first = self._job_id(request, key, 1)
        if not _keeps_intents(context) and self._submission.find(first) is not None:
            return None
        return content.earlier_job()

    @cached_property
    def _submission(self) -> JobSubmission:
        return JobSubmission(self.hook, self.log, sleep=self._sleep)

    @cached_property
    def _options(self) -> Mapping[str, Any]:
        return mapping("vertex_options", self.vertex_options)

    def _job_id(self, request: Job, key: TaskKey, attempt: int) -> str:
        chosen = self.job_id or request.job_id
        return numbered_job_id(chosen, attempt) if chosen else job_id_for(key, attempt)

    def _settle(
        self, key: TaskKey, request: Job, intent: Intent, content: JobContent, context: Context
    ) -> Job:
        task = TaskSide(
            job_id=lambda attempt: self._job_id(request, key, attempt),
            labels=lambda intent: self._labels(key, intent, content.labels),
            store=lambda intent: self._store(intent, context),
            earlier_job=content.earlier_job,
            before_submitting=lambda: content.store_record(context.get("task_state_store")),
        )
        hash_ = request_hash(request, self._options)
        wanted = Wanted(key=key, job=request, request_hash=hash_, options=self._options)
        return self._submission.settle(wanted, intent, task)

    def _first_intent(self, key: TaskKey, request: Job, context: Context) -> Intent:
        # Without a store the token must be found again by itself; with one, it is nobody else's to guess.
        owner = uuid.uuid4().hex if _keeps_intents(context) else key.digest[:32]
        job_id = self._job_id(request, key, 1)
        # A try before this one may have sent a create, and has left no note of it.
        was_lost = context.get("task_state_store") is None and context["ti"].try_number > 1
        return self._store(
            Intent(
                request_hash=request_hash(request, self._options),
                job_id=job_id,
                owner=owner,
                asked_at=time.time() if was_lost and not self._has_unique_ids else None,
            ),
            context,
        )

    @property
    def _has_unique_ids(self) -> bool:
        return self.hook.client.capabilities.has_unique_ids

    def _stored_intent(self, context: Context) -> Intent | None:
        store = context.get("task_state_store")
        self._intent = Intent.from_json(store.get(INTENT_KEY)) if store is not None else None
        return self._intent

    def _store(self, intent: Intent, context: Context) -> Intent:
        store = context.get("task_state_store")
        if store is not None:
            store.set(INTENT_KEY, dict(intent.to_json()), retention=NEVER_EXPIRE)
        self._intent = intent
        return intent

    def _cancel_own(self) -> None:
        intent = self._intent
        if intent is None or (self._done and self._done.is_reused):
            return
        # A hook of its own: the other one may be in the middle of a request.
        with TrainingHook(self.training_conn_id) as hook:
            try:
                job = hook.get_job(intent.name)
            except JobNotFound:
                return
            if not why_left_alone(job, intent.owner):
                hook.cancel_job(job.job_id or "")
                self.log.info("job %s is being cancelled, as its task was stopped", job.job_id)

    def _labels(self, key: TaskKey, intent: Intent, more: Mapping[str, str]) -> Mapping[str, str]:
        is_detached = flag("detached", self.detached)
        return {**owner_labels(key, intent, detached=is_detached), **more}


def _keeps_intents(context: Context) -> bool:
    """Whether what a task has stored is still there when it is cleared after a success."""
    forgets = conf.getboolean("state_store", "clear_on_success", fallback=False)
    return context.get("task_state_store") is not None and not forgets
