"""Collecting what a finished job left."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.metrics import report_cost
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.links.training import JOB_LINKS
from container_training.runtime.asset_extra import describe_outlets
from container_training.runtime.job_report import report_of
from container_training.runtime.lineage import collect_lineage
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.object_store import ObjectStore
from container_training.work.results.collection import (
    BILL_OF_MATERIALS_FILE,
    MAX_METRICS_BYTES,
    no_best_trial,
    no_metrics,
    parse_metrics,
    require_succeeded,
    state_times,
)
from container_training.work.results.job_report import JobReport
from container_training.work.template_values import flag, whole_number
from training_api.cloud_logging import LogEntry
from training_api.dialects.ml_v1.cost import Meter
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.trials import progress_line, study_result, trial_line
from training_api.errors import ResultsMissing, ServiceError
from training_api.job.results import JobResult, ResultFile, StudyResult
from training_api.retrying import TRANSIENT
from training_api.states import JobState

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

#: Key of the output with which a job trains the best configuration.
BEST_TRIAL_ARGS = "best_trial_args"
#: Key of the files' addresses with their generations, by name below the job folder.
URIS = "uris"


class CollectTrainingResultsOperator(TypedTask):
    """
    Returns the result of a job that SUCCEEDED: metrics, files, image, model, times.

    The result (:class:`JobResult`) is small: names, sizes and checksums of the files, not their contents. If
    the job left no readable metrics file, the task fails without a retry, and the error names the files that
    are there.

    For a tuning job it is the result of the best trial, and ``study`` has the figures of the study and a
    table of the trials. The XCom key ``best_trial_args`` has the arguments that train the best configuration
    again: ``SubmitTrainingJobOperator(args=collect.output["best_trial_args"])``. ``cost`` says what the job
    has cost, if the connection has prices. The XCom key ``uris`` has the address of each file with its
    generation, by its name below the job's folder, for jobs that read these very files.

    The event of each asset among its ``outlets`` says in ``extra`` what was made: ``job_id``, ``job_url``,
    ``image``, ``metrics``, ``model_uri``, ``job_dir`` and ``reused``.

    :param job_id: the job. (templated)
    :param accept_partial: accept a tuning job that FAILED or was CANCELLED, as ``max_cost`` does, if one of
        its trials ended well. With ``trigger_rule="all_done"`` the task runs after a wait that failed.
        (templated)
    :param max_trials: rows of the table of trials; the best ones are kept. (templated)
    :param metrics_file: path below the job's folder; a JSON object of at most 1 MiB. (templated)
    :param model_file: path below the job's folder; ``model_uri`` is ``None`` if it does not exist.
        (templated)
    :param reused: whether the job is an earlier one, as ``SubmitTrainingJobOperator(reuse_results=...)`` says
        under the key ``reused``. The result then costs nothing. (templated)
    :param max_files: maximum number of files to list; the log says if there are more. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :param gcp_conn_id: Google connection that may read the job's folder. (templated)
    :return: the result as JSON values.
    """

    template_fields: Sequence[str] = (
        "job_id",
        "metrics_file",
        "model_file",
        "max_files",
        "accept_partial",
        "max_trials",
        "reused",
        "training_conn_id",
        "gcp_conn_id",
    )
    operator_extra_links = JOB_LINKS
    ui_color = "#e0f3e2"

    def __init__(
        self,
        *,
        job_id: str,
        metrics_file: str = "metrics.json",
        model_file: str = "model.joblib",
        max_files: int | str = 1000,
        accept_partial: bool | str = False,
        max_trials: int | str = 500,
        reused: bool | str = False,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.metrics_file = metrics_file
        self.model_file = model_file
        self.max_files = max_files
        self.accept_partial = accept_partial
        self.max_trials = max_trials
        self.reused = reused
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id
        #: The job as it was seen, for extra links and callbacks.
        self.report: JobReport | None = None
        self._done: tuple[Job, JobResult] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the job's result as JSON values."""
        return self.collect(context)

    def collect(self, context: Context) -> dict[str, Any]:
        """Do what ``execute`` does; another task that collects, too, may call it."""
        hook = TrainingHook(self.training_conn_id)
        with hook, StorageHook(self.gcp_conn_id) as storage, final_unless_transient():
            max_trials = whole_number("max_trials", self.max_trials)
            accepts_partial = flag("accept_partial", self.accept_partial)
            reused = flag("reused", self.reused)
            job, meter = hook.get_job(self.job_id), Meter(prices=hook.prices)
            self.report = report_of(hook, job)
            now = datetime.now(UTC)
            study = study_result(job, now, meter.cost_per_second(job), max_trials=max_trials)
            require_succeeded(job, study if accepts_partial else None)
            cost = meter.cost(job, now)
            if reused and cost is not None:
                cost = cost.model_copy(update={"total": 0.0, "seconds": 0.0})
            result = self._collect(job, hook, storage, study)
            result = result.model_copy(update={"cost": cost, "reused": reused})
        self._say(result, meter)
        if cost is not None:
            report_cost(context["ti"].dag_id, cost.total, cost.currency)
        if result.study and result.study.best:
            context["ti"].xcom_push(key=BEST_TRIAL_ARGS, value=result.study.best.args)
        context["ti"].xcom_push(key=URIS, value=_by_name(result))
        self._done = (job, result)
        value = result.model_dump(mode="json")
        describe_outlets(self.outlets, context, result)
        return value

    @property
    def job(self) -> Job | None:
        """The job, once its results are collected."""
        return self._done[0] if self._done else None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return the model that the job left, and what the result says."""
        return collect_lineage(*self._done) if self._done else None

    def _say(self, result: JobResult, meter: Meter) -> None:
        self.log.info("job %s: %s in %.1f s", self.job_id, result.metrics, result.seconds.total)
        if result.reused:
            self.log.info("these are the results of an earlier job of the same content: %s", result.job_url)
        if result.study:
            self.log.info("%s", progress_line(result.study))
            for row in result.study.trials:
                self.log.info("%s", trial_line(row))
        if result.cost:
            self.log.info("%s", meter.text(result.cost))

    def _collect(
        self, job: Job, hook: TrainingHook, storage: StorageHook, study: StudyResult | None
    ) -> JobResult:
        training = job.training_input or TrainingInput()
        if not training.job_dir:
            raise ResultsMissing(
                f"job {self.job_id!r} has no jobDir, so it could leave no results; set job_dir"
            )
        best = study.best if study else None
        if study is not None and best is None:
            raise no_best_trial(self.job_id, study)
        folder = (best.job_dir if best else training.job_dir).rstrip("/") + "/"
        store = storage.get_conn()
        hook.job_buckets.check(store, folder)
        max_files = whole_number("max_files", self.max_files)
        files, has_more = store.list_files(folder, max_files)
        if has_more:
            self.log.warning(
                "%s holds more than %d files; the result lists the first ones", folder, max_files
            )
        model_uri = folder + self.model_file
        model = next((file for file in files if file.uri == model_uri), None)
        if model is None and has_more:
            model = store.find(model_uri)
        if study is not None and best is not None and model:
            study = study.model_copy(update={"best": best.model_copy(update={"model_uri": model_uri})})
        bill_uri = f"{training.job_dir.rstrip('/')}/{BILL_OF_MATERIALS_FILE}"
        has_bill = any(file.uri == bill_uri for file in files)
        if not has_bill and (has_more or best is not None):  # a trial's folder is not the job's
            has_bill = store.find(bill_uri) is not None
        return JobResult(
            job_id=self.job_id,
            state=job.state or JobState.SUCCEEDED,
            image=(training.master_config and training.master_config.image_uri) or "",
            job_dir=training.job_dir,
            metrics=self._metrics(store, folder, files, study),
            model_uri=model_uri if model else None,
            model_generation=model.generation if model else None,
            bill_of_materials_uri=bill_uri if has_bill else None,
            files=files,
            seconds=state_times(job, self._service_log(hook)).seconds(),
            study=study,
            job_url=self.report.record_url if self.report else None,
        )

    def _metrics(
        self, store: ObjectStore, folder: str, files: Sequence[ResultFile], study: StudyResult | None
    ) -> dict[str, Any]:
        uri = folder + self.metrics_file
        content = store.read(uri, MAX_METRICS_BYTES)
        if content is not None:
            return parse_metrics(content, uri)
        if study is not None and study.best is not None:
            # A trial owes its report, not a file.
            return {study.metric_tag: study.best.objective}
        raise no_metrics(self.job_id, uri, folder, (file.uri.removeprefix(folder) for file in files))

    def _service_log(self, hook: TrainingHook) -> list[LogEntry]:
        try:
            return list(hook.read_service_log(self.job_id))
        except TRANSIENT:
            raise
        except ServiceError as error:
            self.log.warning(
                "seconds per state are taken from the job's times, as its log is not readable: %s", error
            )
            return []


def _by_name(result: JobResult) -> dict[str, str]:
    """
    Return the addresses of a result's files by name.

    The name is the path below the folder of the job, or of its best trial.
    """
    best = result.study.best if result.study else None
    folder = f"{(best.job_dir if best else result.job_dir).rstrip('/')}/"
    return {file.uri.removeprefix(folder): file.pinned_uri for file in result.files}
