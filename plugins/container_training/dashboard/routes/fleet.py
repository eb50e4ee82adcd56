"""The API of the fleet page: the present, the past, the models' ages, and the orphans."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.airflow_side.tasks import AirflowTasks
from container_training.dashboard.service_side.questions import question
from container_training.dashboard.shared import ANSWERS, SERVICES
from container_training.dashboard.views.fleet import history_view, models_view
from container_training.dashboard.views.views import state_counts
from container_training.work.orphans.orphans import Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch, live_jobs
from training_api.clients.shared_answers import Answers
from training_api.fleet.history import FleetHistoryRequest
from training_api.fleet.wire import FleetResponse, Room, SearchJobsRequest
from training_api.job.labels import DAG_LABEL

router = APIRouter(prefix="/api", include_in_schema=False)
#: Two looks at all live tasks of Airflow are so far apart.
_ORPHAN_SECONDS = 20.0
#: As many orphans as a person looks at.
_MAX_ORPHANS = 100
#: The DAG of this project that cancels orphans.
MAINTENANCE_DAG = "cancel_orphans"
#: By which costs are told apart: ``dag``, or a label's key after this.
BY_DAG = "dag"
BY_LABEL = "label:"

_HOUR = 3600
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """
    A stretch of time until now: how long, and how finely levels and costs are shown.

    :param reports: what the service said of it, for as long as that serves: the past changes slowly.
    """

    seconds: int
    step_seconds: int
    cost_seconds: int
    reports: Answers


WINDOWS: Mapping[str, Window] = {
    "24h": Window(seconds=_DAY, step_seconds=600, cost_seconds=_HOUR, reports=Answers(5.0)),
    "7d": Window(seconds=7 * _DAY, step_seconds=_HOUR, cost_seconds=_DAY // 4, reports=Answers(10.0)),
    "30d": Window(seconds=30 * _DAY, step_seconds=4 * _HOUR, cost_seconds=_DAY, reports=Answers(30.0)),
}

ConnId = Annotated[str, Query(max_length=250)]
By = Annotated[str, Query(pattern=rf"^({BY_DAG}|{BY_LABEL}[a-z][a-z0-9_-]{{0,62}})$")]

_ORPHANS = Answers(_ORPHAN_SECONDS)


@router.get("/fleet")
def fleet(
    rights: RightsDep,
    conn_id: ConnId = DEFAULT_CONN_ID,
    window: Literal["24h", "7d", "30d"] = "24h",
    by: By = BY_DAG,
    version: str = "",
    known: str = "",
) -> dict[str, Any]:
    """
    Return the fleet as far as the person may see its jobs.

    :param version: the newest that the page knows of; of now, an answer from before it does not serve.
    :param known: the report that the page has; it is not sent again.
    """
    service = SERVICES.get(conn_id)
    labels = rights.labels
    whole: FleetResponse = ANSWERS.get((conn_id, "fleet", version), service.ops.fleet)
    report = WINDOWS[window].reports.get(
        (conn_id, by, None if labels is None else frozenset(labels), service.ops),
        lambda: _report(service, rights, labels, window, by, whole),
    )
    return {
        "now": _of_now(service, rights, labels, version, whole, report),
        "report": None if report["id"] == known else report,
        "isAll": rights.reads_all,
        "hasPrices": bool(service.prices.per_second),
        "problems": [
            text for text in (_hold(whole.hold), service.price_problem, service.limit_problem) if text
        ],
    }


@router.get("/fleet/orphans")
def orphans(rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """Return the jobs that no task of this Airflow looks after, as far as the user may see them."""
    service = SERVICES.get(conn_id)
    found: list[Orphan] = _ORPHANS.get((conn_id, service.ops), lambda: _find_orphans(service))
    seen = [orphan for orphan in found if rights.may_read(orphan.job.labels or {})]
    # Those that are surely orphans first.
    seen.sort(key=lambda orphan: orphan.verdict is not Verdict.ORPHAN)
    return {
        "jobs": [_orphan_view(orphan) for orphan in seen[:_MAX_ORPHANS]],
        "orphans": sum(orphan.verdict is Verdict.ORPHAN for orphan in seen),
        "total": len(seen),
        "maintenanceDag": MAINTENANCE_DAG if MAINTENANCE_DAG in rights.readable else None,
    }


def _hold(why: str) -> str:
    """Return the sentence that says that no job starts; empty: jobs do."""
    return f"The training service admits no job: {why}." if why else ""


def _of_now(
    service: Service,
    rights: Rights,
    labels: list[str] | None,
    version: str,
    whole: FleetResponse,
    report: dict[str, Any],
) -> dict[str, Any]:
    request = question(SearchJobsRequest, dags=labels, page_size=1)
    asked = (service.conn_id, request.model_dump_json(), version)
    states = ANSWERS.get(asked, lambda: service.ops.search_jobs(request)).states
    return {
        "capacity": _room(whole.capacity),
        # What others' jobs hold is not for those who may not see them: the report has the person's own.
        "used": _room(whole.used) if rights.reads_all else report["held"],
        "states": state_counts(states),
    }


def _report(
    service: Service,
    rights: Rights,
    labels: list[str] | None,
    window: str,
    by: str,
    whole: FleetResponse,
) -> dict[str, Any]:
    shown = WINDOWS[window]
    request = question(
        FleetHistoryRequest,
        window_seconds=shown.seconds,
        step_seconds=shown.step_seconds,
        cost_step_seconds=shown.cost_seconds,
        dags=labels,
        cost_label=DAG_LABEL if by == BY_DAG else by.removeprefix(BY_LABEL),
        prices=dict(service.prices.per_second),
    )
    history = service.ops.history(request)
    name = _dag_names(rights) if by == BY_DAG else str
    return {
        **history_view(history, by=by, currency=service.prices.currency, cost_name=name),
        "id": f"{time.monotonic_ns():x}",
        "window": window,
        "held": {kind: series.now for kind, series in history.use.items()} if whole.capacity else None,
        # A reader who sees only some jobs cannot tell that a model was never trained.
        "models": models_view(history, service.retraining_limits, with_untrained=rights.reads_all),
    }


def _orphan_view(orphan: Orphan) -> dict[str, Any]:
    job = orphan.job
    return {
        "id": job.job_id,
        "state": job.state,
        "createTime": job.create_time.timestamp() if job.create_time else None,
        "isOrphan": orphan.verdict is Verdict.ORPHAN,
        "why": orphan.why,
    }


def _dag_names(rights: Rights) -> Callable[[str], str]:
    """Return what gives a label its DAG's id, where there is one DAG of it."""

    def name(label: str) -> str:
        dags = rights.dags_of({DAG_LABEL: label})
        return dags[0] if len(dags) == 1 else label

    return name


def _room(room: Room | None) -> dict[str, Any] | None:
    return room.to_wire() if room else None


def _find_orphans(service: Service) -> list[Orphan]:
    return OrphanSearch(AirflowTasks()).among(live_jobs(service.ops))
