"""Submitting a job, exactly once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from container_training.clients.job_file import load_job_file
from container_training.core.errors import JobConflict, JobNotFound
from container_training.core.intent import Intent, Step, is_owned, next_step, owner_labels, request_hash
from container_training.core.job_id import TaskKey, job_id_for, numbered_job_id
from container_training.core.job_request import JobFields, job_request
from container_training.core.job_spec import job_spec_from_wire
from container_training.core.retrying import TRANSIENT
from container_training.core.wire import Job
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook
from container_training.operators.dag_folder import dag_folder

if TYPE_CHECKING:
    from airflow.sdk import Context

_MEMORY = "job_intent"
#: How long one attempt of the task asks a service that does not answer; after that, Airflow's retries take over.
_PATIENCE_SECONDS = 60.0
_MAX_CONFLICTS = 3
#: In ``job_dir``; not a template of Airflow's, as the id is chosen after those are rendered.
JOB_ID_MARK = "{job_id}"


class SubmitTrainingJobOperator(BaseOperator):
    """
    Submits a training job and returns its id; never a second one by accident.

    The job is described by a job file, by ``job`` in the API's own form, by fields, or by all of these: ``job`` overrides the
    file and a field that is set overrides both, field by field, as gcloud's flags override its ``--config``. ``args``, like the
    user's arguments after gcloud's ``--``, and ``labels`` take the place of those in the file. The description is checked before
    anything is sent. All arguments are templated, the contents of the file are not.

    What the task means to submit is stored before the call. Whatever happens then - a retry, a clear, a lost answer,
    a dead worker - the next run looks first: its own job with the same request is adopted if it lives or succeeded;
    after one that failed or was cancelled, the next attempt is submitted under the next id.

    :param config_file: path of a YAML or JSON file with any subset of the ``Job`` resource; a relative one starts at the folder
        of the DAG's file.
    :param job: ``Job`` resource as a mapping, or as JSON text.
    :param job_id: id of the first attempt; default: a pure function of DAG, task, run and map index.
    :param image: ``masterConfig.imageUri``, best by digest.
    :param args: arguments of the image; text is split as a shell would.
    :param command: replaces the image's entry point (``masterConfig.containerCommand``).
    :param job_dir: ``gs://`` folder for the results; the service passes it on as ``--job-dir``. ``{job_id}`` in it stands for
        the job's id, so that every attempt has a folder of its own.
    :param default_job_dir: the same, for a job whose folder is given neither by ``job_dir`` nor by ``job`` nor by the file.
    :param labels: labels of the job; those that begin with ``airflow-`` are set by this operator.
    :param region: default ``us-central1``, unless ``job`` or the file names one.
    :param max_wait_time: limit on waiting for a machine, like ``3600s``.
    :param max_running_time: limit on running, like ``3600s``.
    :param priority: 0 to 1000, higher first.
    :param package_uris: packages to run in place of an image, as ``PackageTrainerOperator`` returns them.
    :param python_module: what runs of them, ``trainer.task``.
    :param runtime_version: what they run on, like ``2.11``.
    :param python_version: one that the runtime version has, like ``3.7``.
    :return: the job's id.
    """

    template_fields: Sequence[str] = (
        "config_file",
        "job",
        "job_id",
        "image",
        "args",
        "command",
        "job_dir",
        "default_job_dir",
        "labels",
        "region",
        "scale_tier",
        "master_type",
        "max_wait_time",
        "max_running_time",
        "priority",
        "service_account",
        "network",
        "package_uris",
        "python_module",
        "runtime_version",
        "python_version",
        "training_conn_id",
    )
    template_fields_renderers = {"job": "json", "labels": "json"}
    ui_color = "#f6e8db"

    def __init__(
        self,
        *,
        config_file: str | None = None,
        job: Mapping[str, Any] | str | None = None,
        job_id: str | None = None,
        image: str | None = None,
        args: Sequence[Any] | str | None = None,
        command: Sequence[Any] | str | None = None,
        job_dir: str | None = None,
        default_job_dir: str | None = None,
        labels: Mapping[str, str] | None = None,
        region: str | None = None,
        scale_tier: str | None = None,
        master_type: str | None = None,
        max_wait_time: str | None = None,
        max_running_time: str | None = None,
        priority: int | str | None = None,
        service_account: str | None = None,
        network: str | None = None,
        package_uris: Sequence[str] | str | None = None,
        python_module: str | None = None,
        runtime_version: str | None = None,
        python_version: str | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config_file = config_file
        self.job = job
        self.job_id = job_id
        self.image = image
        self.args = args
        self.command = command
        self.job_dir = job_dir
        self.default_job_dir = default_job_dir
        self.labels = labels
        self.region = region
        self.scale_tier = scale_tier
        self.master_type = master_type
        self.max_wait_time = max_wait_time
        self.max_running_time = max_running_time
        self.priority = priority
        self.service_account = service_account
        self.network = network
        self.package_uris = package_uris
        self.python_module = python_module
        self.runtime_version = runtime_version
        self.python_version = python_version
        self.training_conn_id = training_conn_id
        self._intent: Intent | None = None
        self._is_killed = False
        self._sleep: Callable[[float], None] = time.sleep

    @cached_property
    def hook(self) -> TrainingHook:
        """The hook of this task's connection."""
        return TrainingHook(self.training_conn_id)

    def execute(self, context: Context) -> str:
        """Return the id of the job that this task stands for, submitted now or before."""
        key = TaskKey.of(context["ti"])
        with final_unless_transient():
            request = self._request(context)
            self._check(request, key)
            intent = self._stored_intent(context) or self._first_intent(key, request, context)
            job = self._settle(key, request, intent, context)
        if self._is_killed:
            self._cancel_own()
        self.log.info("job %s is %s", job.job_id, job.state)
        context["ti"].xcom_push(key="job", value=job.to_wire())
        return job.job_id or ""

    def on_kill(self) -> None:
        """Cancel the job if it is there already and is this task's own; ``execute`` looks again if it goes on."""
        self._is_killed = True
        self._cancel_own()

    def _request(self, context: Context) -> Job:
        fields = JobFields(
            image=self.image,
            args=self.args,
            command=self.command,
            job_dir=self.job_dir,
            default_job_dir=self.default_job_dir,
            labels=self.labels,
            region=self.region,
            scale_tier=self.scale_tier,
            master_type=self.master_type,
            max_wait_time=self.max_wait_time,
            max_running_time=self.max_running_time,
            priority=self.priority,
            service_account=self.service_account,
            network=self.network,
            package_uris=self.package_uris,
            python_module=self.python_module,
            runtime_version=self.runtime_version,
            python_version=self.python_version,
        )
        return job_request(self.job, fields, self._file(context))

    def _file(self, context: Context) -> Mapping[str, Any]:
        """Return what the job file holds; empty text, as of a template, names none."""
        if not self.config_file:
            return {}
        return load_job_file(dag_folder(context) / self.config_file)

    def _check(self, request: Job, key: TaskKey) -> None:
        """Apply the API's rules here, so that a mistake is found before the call and in all its parts."""
        probe = Intent(request_hash="0", job_id=self._job_id(request, key, 1), owner="0")
        job_spec_from_wire(self.hook.project, _labelled(request, key, probe))

    def _job_id(self, request: Job, key: TaskKey, attempt: int) -> str:
        chosen = self.job_id or request.job_id
        return numbered_job_id(chosen, attempt) if chosen else job_id_for(key, attempt)

    def _settle(self, key: TaskKey, request: Job, intent: Intent, context: Context) -> Job:
        """Look, decide, act, until one job stands for this task; a lost answer is followed by another look."""
        retrying = Retrying(
            retry=retry_if_exception_type(TRANSIENT),
            wait=wait_random_exponential(multiplier=0.5, max=10),
            stop=stop_after_delay(_PATIENCE_SECONDS),
            sleep=self._sleep,
            before_sleep=self._say_retry,
            reraise=True,
        )
        wanted = request_hash(request)
        conflicts = 0
        while True:
            found = retrying(self._find, intent.job_id)
            step = next_step(key, intent, wanted, found)
            if step is Step.ADOPT and found is not None:
                self.log.info("job %s is this task's own, with the same request: adopted", intent.job_id)
                return found
            if step is Step.NEXT_ATTEMPT:
                self.log.info(
                    "job %s of this task is %s: submitting the next attempt",
                    intent.job_id,
                    found and found.state,
                )
                job_id = self._job_id(request, key, intent.attempt + 1)
                intent = self._store(intent.next(job_id, wanted), context)
                continue
            if intent.request_hash != wanted:
                intent = self._store(Intent(**{**intent.to_json(), "request_hash": wanted}), context)  # type: ignore[arg-type]
            job = retrying(self._submit, _labelled(request, key, intent))
            if job is not None:
                return job
            conflicts += 1
            if conflicts >= _MAX_CONFLICTS:
                raise JobConflict(
                    f"job id {intent.job_id!r} is taken, but no job with this id can be read; choose another job_id",
                    code=409,
                    status="ALREADY_EXISTS",
                )

    def _find(self, job_id: str) -> Job | None:
        try:
            return self.hook.get_job(job_id)
        except JobNotFound:
            return None

    def _submit(self, job: Job) -> Job | None:
        """Return the submitted job, or ``None`` if its id is taken: perhaps by an earlier call whose answer was lost."""
        try:
            created = self.hook.submit_job(job)
        except JobConflict:
            return None
        self.log.info("job %s was submitted: %s", created.job_id, job.to_wire())
        return created

    def _say_retry(self, state: RetryCallState) -> None:
        if state.outcome is not None and state.next_action is not None:
            self.log.warning("%s; asking again in %.1f s", state.outcome.exception(), state.next_action.sleep)

    def _first_intent(self, key: TaskKey, request: Job, context: Context) -> Intent:
        # Without a store the token must be found again by itself; with one, it is nobody else's to guess.
        owner = key.digest[:32] if context.get("task_state_store") is None else uuid.uuid4().hex
        job_id = self._job_id(request, key, 1)
        return self._store(Intent(request_hash=request_hash(request), job_id=job_id, owner=owner), context)

    def _stored_intent(self, context: Context) -> Intent | None:
        store = context.get("task_state_store")
        intent = Intent.from_json(store.get(_MEMORY)) if store is not None else None
        self._intent = intent
        return intent

    def _store(self, intent: Intent, context: Context) -> Intent:
        store = context.get("task_state_store")
        if store is not None:
            store.set(_MEMORY, dict(intent.to_json()), retention=NEVER_EXPIRE)
        self._intent = intent
        return intent

    def _cancel_own(self) -> None:
        intent = self._intent
        if intent is None:
            return
        hook = TrainingHook(self.training_conn_id)  # the other one may be in the middle of a request
        try:
            job = hook.get_job(intent.job_id)
        except JobNotFound:
            return
        if is_owned(job, intent.owner):
            hook.cancel_job(intent.job_id)
            self.log.info("job %s is being cancelled, as its task was stopped", intent.job_id)


def _labelled(request: Job, key: TaskKey, intent: Intent) -> Job:
    """Return the job of one attempt: its id, its labels, and its own job folder."""
    labels = {**(request.labels or {}), **owner_labels(key, intent)}
    training = request.training_input
    if training is not None and training.job_dir:
        folder = training.job_dir.replace(JOB_ID_MARK, intent.job_id)
        training = training.model_copy(update={"job_dir": folder})
    return request.model_copy(update={"job_id": intent.job_id, "labels": labels, "training_input": training})
