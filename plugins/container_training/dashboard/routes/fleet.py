"""The API of the fleet page: the present, the past, the models' ages, and the orphans."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.airflow_side.tasks import AirflowTasks
from container_training.dashboard.answers import Answers
from container_training.dashboard.service_side.fleet_jobs import FleetJob, Ledger
from container_training.dashboard.service_side.fleet_report import BY_DAG, BY_LABEL, WINDOWS, fleet_report
from container_training.dashboard.shared import ANSWERS, SERVICES
from container_training.dashboard.views.views import state_counts
from container_training.work.models.age import MODEL_LABEL, ModelAge, Retraining, model_ages
from container_training.work.orphans.orphans import Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch
from training_api.dialects.ml_v1.promised_room import capacity_from
from training_api.dialects.ml_v1.resources import Job
from training_api.fleet.wire import FleetResponse, Room, SearchJobsRequest
from training_api.job.capacity import Capacity
from training_api.job.labels import DAG_LABEL
from training_api.states import JobState

router = APIRouter(prefix="/api", include_in_schema=False)
#: The past changes slowly: how long what was reckoned of it serves.
_REPORT_SECONDS = 5.0
#: Two looks at all live tasks of Airflow are so far apart.
_ORPHAN_SECONDS = 20.0
#: As many orphans as a person looks at.
_MAX_ORPHANS = 100
#: The DAG of this project that cancels orphans.
MAINTENANCE_DAG = "cancel_orphans"

ConnId = Annotated[str, Query(max_length=250)]
By = Annotated[str, Query(pattern=rf"^({BY_DAG}|{BY_LABEL}[a-z][a-z0-9_-]{{0,62}})$")]


class Ledgers:
    """
    Ledgers by connection; safe for several threads.

    The key is the client that the connection has now.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[object, Ledger]] = {}

    def get(self, service: Service) -> Ledger:
        """Return the ledger of ``service``; a changed connection gets a new one."""
        with self._lock:
            kept = self._kept.get(service.conn_id)
            if kept is None or kept[0] is not service.ops:
                kept = self._kept[service.conn_id] = (service.ops, Ledger(service.ops.search_jobs))
            return kept[1]


LEDGERS = Ledgers()
_REPORTS = Answers(_REPORT_SECONDS)
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
    now = datetime.now(UTC)
    labels = rights.labels
    whole: FleetResponse = ANSWERS.get((conn_id, "fleet", version), service.ops.fleet)
    seen = None if labels is None else frozenset(labels)
    report = _REPORTS.get(
        (conn_id, window, by, seen, service.ops),
        lambda: _report(service, rights, seen, window, by, now, whole),
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
    request = SearchJobsRequest(dags=labels, page_size=1)
    question = (service.conn_id, request.model_dump_json(), version)
    states = ANSWERS.get(question, lambda: service.ops.search_jobs(request)).states
    return {
        "capacity": _room(whole.capacity),
        # What others' jobs hold is not for those who may not see them: the report has the person's own.
        "used": _room(whole.used) if rights.reads_all else report["held"],
        "states": state_counts(states),
    }


def _report(
    service: Service,
    rights: Rights,
    seen: frozenset[str] | None,
    window: str,
    by: str,
    now: datetime,
    whole: FleetResponse,
) -> dict[str, Any]:
    snapshot = LEDGERS.get(service).snapshot()
    jobs = _visible(snapshot.jobs, seen)
    capacity = capacity_from(whole.capacity, whole.largest) if whole.capacity else None
    report = fleet_report(
        jobs,
        WINDOWS[window],
        now.timestamp(),
        capacity=capacity,
        prices=service.prices,
        by=by,
        dag_name=_dag_names(rights),
    )
    ages = model_ages(
        _retrainings([*jobs, *_visible(snapshot.older_models, seen)]),
        service.retraining_limits,
        now,
        # Whoever cannot see all jobs cannot tell that a model was never trained.
        with_untrained=rights.reads_all,
    )
    oldest = min((job.created for job in jobs if job.state is JobState.QUEUED), default=None)
    return report | {
        "id": f"{time.monotonic_ns():x}",
        "window": window,
        "isCut": snapshot.since is not None and snapshot.since > report["from"],
        "since": snapshot.since,
        "oldestQueued": oldest,
        "held": _held(report, capacity),
        "models": [_model_view(age) for age in ages],
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


def _visible(jobs: tuple[FleetJob, ...], seen: frozenset[str] | None) -> list[FleetJob]:
    """Return the jobs whose DAG's label is one of ``seen``; ``None``: all."""
    return list(jobs) if seen is None else [job for job in jobs if job.dag in seen]


def _retrainings(jobs: list[FleetJob]) -> list[Retraining]:
    return [
        Retraining(
            model=job.labels[MODEL_LABEL],
            job_id=job.job_id,
            ended_at=datetime.fromtimestamp(job.ended, UTC),
            good=job.state is JobState.SUCCEEDED,
        )
        for job in jobs
        if job.ended is not None and job.labels.get(MODEL_LABEL) and job.state is not JobState.CANCELLED
    ]


def _model_view(age: ModelAge) -> dict[str, Any]:
    return {
        "model": age.model,
        "lastGood": _retraining_view(age.last_good),
        "latest": _retraining_view(age.latest),
        "limitSeconds": age.limit.total_seconds() if age.limit else None,
        "ageSeconds": age.age.total_seconds() if age.age is not None else None,
        "isOverdue": age.is_overdue,
    }


def _retraining_view(each: Retraining | None) -> dict[str, Any] | None:
    if each is None:
        return None
    return {"id": each.job_id, "endTime": each.ended_at.timestamp(), "good": each.good}


def _dag_names(rights: Rights) -> Callable[[str], str]:
    """Return what gives a label its DAG's id, where there is one DAG of it."""

    def name(label: str) -> str:
        dags = rights.dags_of({DAG_LABEL: label})
        return dags[0] if len(dags) == 1 else label

    return name


def _held(report: dict[str, Any], capacity: Capacity | None) -> dict[str, Any] | None:
    return {kind: found["now"] for kind, found in report["use"].items()} if capacity else None


def _room(room: Room | None) -> dict[str, Any] | None:
    return room.to_wire() if room else None


def _find_orphans(service: Service) -> list[Orphan]:
    jobs = [
        Job(
            job_id=job.job_id,
            state=job.state,
            labels=job.labels,
            create_time=datetime.fromtimestamp(job.created, UTC),
        )
        for job in LEDGERS.get(service).snapshot().jobs
        if job.ended is None
    ]
    return OrphanSearch(AirflowTasks()).among(jobs)
