"""Plots of a tuning job, written beside its results."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.links.training import JOB_LINKS
from container_training.runtime.job_report import report_of
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.object_store import ObjectStore
from container_training.work.results.job_report import JobReport
from container_training.work.results.plots.trial_plots import best_so_far, parallel_coordinates
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trials import study_of, trial_rows
from training_api.errors import ResultsMissing
from training_api.job.results import TrialRow
from training_api.job.tuning.study_spec import StudySpec

if TYPE_CHECKING:
    from airflow.sdk import Context

_PLOTS = {"parallel-coordinates": parallel_coordinates, "best-so-far": best_so_far}
_FOLDER = "plots"
#: Pixels of the PNG a point: readable on a screen of high resolution.
_SCALE = 2.0


class _PlotLink(BaseOperatorLink):
    """
    A button of the task that opens one plot.

    Airflow asks for the address when the task has ended, and keeps it.
    """

    plot = ""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the page, or nothing if it was not written."""
        return str(operator.pages.get(self.plot, ""))


class ParallelCoordinatesLink(_PlotLink):
    """Opens the parallel-coordinates plot."""

    name = "Parallel coordinates"
    plot = "parallel-coordinates"


class BestSoFarLink(_PlotLink):
    """Opens the best-so-far curve."""

    name = "Best so far"
    plot = "best-so-far"


class PlotTrialsOperator(TypedTask):
    """
    Draws the trials of a tuning job, and writes the plots as HTML and PNG beside its results.

    ``parallel-coordinates`` has a line for each trial over its hyperparameters and objective. ``best-so-far``
    has the best objective after each trial. The files are in ``plots/`` in the job's folder, and the task has
    a button for each. The HTML needs no network: all that draws it is in the file. The job need not have
    ended or succeeded.

    :param job_id: the job. (templated)
    :param training_conn_id: connection of the training service. (templated)
    :param gcp_conn_id: Google connection that may write to the job's folder. (templated)
    :return: ``{"parallel-coordinates": {"html": URI, "png": URI}, "best-so-far": ...}``.
    """

    template_fields: Sequence[str] = ("job_id", "training_conn_id", "gcp_conn_id")
    operator_extra_links = (ParallelCoordinatesLink(), BestSoFarLink(), *JOB_LINKS)
    ui_color = "#e0f3e2"

    def __init__(
        self,
        *,
        job_id: str,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id
        self.pages: dict[str, str] = {}
        #: The job as it was seen, for extra links and callbacks.
        self.report: JobReport | None = None

    def execute(self, context: Context) -> dict[str, dict[str, str]]:
        """Return the addresses of the plots."""
        hook = TrainingHook(self.training_conn_id)
        with hook, StorageHook(self.gcp_conn_id) as storage, final_unless_transient():
            job = hook.get_job(self.job_id)
            self.report = report_of(hook, job)
            study, folder = self._study(job)
            store = storage.get_conn()
            hook.job_buckets.check(store, folder)
            return self._write(study, trial_rows(job, datetime.now(UTC)), folder, store)

    def _study(self, job: Job) -> tuple[StudySpec, str]:
        study = study_of(job)
        if study is None:
            raise ResultsMissing(f"job {self.job_id!r} has no trials to plot: it has no hyperparameters")
        job_dir = job.training_input.job_dir if job.training_input else None
        if not job_dir:
            raise ResultsMissing(f"job {self.job_id!r} has no jobDir to write plots to; set job_dir")
        return study, f"{job_dir.rstrip('/')}/{_FOLDER}"

    def _write(
        self, study: StudySpec, rows: Sequence[TrialRow], folder: str, store: ObjectStore
    ) -> dict[str, dict[str, str]]:
        vl_convert = _import_vl_convert()
        written: dict[str, dict[str, str]] = {}
        for name, draw in _PLOTS.items():
            spec = draw(self.job_id, study, rows)
            html = _page(vl_convert, spec)
            png = vl_convert.vegalite_to_png(spec, scale=_SCALE)
            written[name] = {"html": f"{folder}/{name}.html", "png": f"{folder}/{name}.png"}
            store.write_if_changed(written[name]["html"], html, "text/html")
            store.write_if_changed(written[name]["png"], png, "image/png")
            self.pages[name] = store.browser_url(written[name]["html"])
            self.log.info("%s: %s and %s", name, written[name]["html"], written[name]["png"])
        return written


def _page(vl_convert: Any, spec: Mapping[str, Any]) -> bytes:
    """Return a plot as a page whose script ends where it should, whatever a trainer has named."""
    mark = f"less-than-{secrets.token_hex(8)}"
    marked = json.loads(json.dumps(spec).replace("<", mark))
    html: str = vl_convert.vegalite_to_html(marked, bundle=True)
    return html.replace(mark, r"\u003c").encode()


def _import_vl_convert() -> Any:
    # Imported on use: 84 MB with a JavaScript engine, which no DAG parse may load, and an extra.
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise AirflowFailException(
            "plots are drawn by vl-convert-python, which is not installed here; where tasks run, "
            "pip install 'airflow-container-training[plots]'"
        ) from error
    return vl_convert
