"""The filter of the list of jobs: as the page's address has it, and as the service takes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from training_api.errors import FieldViolation, InvalidRequest
from training_api.filtering import quoted
from training_api.job.job_id import label_value
from training_api.job.labels import DAG_LABEL
from training_api.states import JobState
from training_api.wire import format_timestamp

#: Rows of a page.
PAGE_SIZE = 50
#: ``since``: how long ago.
SINCE = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """
    The list's filter.

    :param states: any of these; empty: all.
    :param dag: id of a DAG; empty: all.
    :param label: ``key=value``, or ``key`` for all jobs that have it; several are separated by commas, and
        all must hold.
    :param name: a part of the job's id, or of its display name.
    :param since: a key of ``SINCE``; empty: since ever.
    :param start: created at or after; empty, or ISO 8601 with a time zone.
    :param end: created before; the same.
    """

    states: Sequence[JobState] = ()
    dag: str = ""
    label: str = ""
    name: str = ""
    since: str = ""
    start: str = ""
    end: str = ""

    def filter(self, now: datetime, *, with_states: bool = True) -> str:
        """
        Return the filter of ``jobs:search``.

        Pure.

        :param with_states: without them, the counts of the answer are those of all states.
        :raises InvalidRequest: names each part that cannot be read.
        """
        violations: list[FieldViolation] = []
        clauses: list[str] = []
        if self.states and with_states:
            clauses.append("(" + " OR ".join(f"state={state}" for state in self.states) + ")")
        if self.name:
            clauses.append(f"(jobId:{quoted(self.name)} OR displayName:{quoted(f'*{self.name}*')})")
        clauses += _label_clauses(self.label, violations)
        clauses += self._time_clauses(now, violations)
        if violations:
            raise InvalidRequest(violations)
        return " AND ".join(clauses)

    def dags(self, allowed: Sequence[str] | None) -> list[str] | None:
        """Return which of the visible labels of DAGs are requested; ``None``: all jobs."""
        if not self.dag:
            return None if allowed is None else list(allowed)
        wanted = label_value(self.dag)
        return [wanted] if allowed is None or wanted in allowed else []

    def _time_clauses(self, now: datetime, violations: list[FieldViolation]) -> list[str]:
        clauses = []
        if self.since:
            if self.since in SINCE:
                # Whole minutes: pages that are opened side by side then ask the same question.
                start = (now - SINCE[self.since]).replace(second=0, microsecond=0)
                clauses.append(f'createTime>="{format_timestamp(start)}"')
            else:
                rule = f"must be one of {', '.join(SINCE)}, got {self.since!r}"
                violations.append(FieldViolation(field="since", description=rule))
        for name, op, text in (("from", ">=", self.start), ("to", "<", self.end)):
            if text:
                moment = _moment(text)
                if moment is None:
                    rule = f"must be a time like 2026-01-31T12:00:00Z, got {text!r}"
                    violations.append(FieldViolation(field=name, description=rule))
                else:
                    clauses.append(f'createTime{op}"{format_timestamp(moment)}"')
        return clauses


def _label_clauses(text: str, violations: list[FieldViolation]) -> list[str]:
    clauses = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, has_value, value = (piece.strip() for piece in part.partition("="))
        if not _LABEL_KEY.fullmatch(key):
            rule = (
                "must be KEY=VALUE or KEY, where a key begins with a-z and has only a-z, 0-9, '-' and '_', "
                f"got {part!r}"
            )
            violations.append(FieldViolation(field="label", description=rule))
        elif not has_value:
            clauses.append(f"labels.{key}:*")
        else:
            clauses.append(f"labels.{key}={quoted(value)}")
    return clauses


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def of_task(dag_id: str, run_id: str, task_id: str) -> str:
    """
    Return the filter for the jobs that a task submitted. Pure.

    Labels are lossy, so other jobs may be among them.
    """
    pairs = {DAG_LABEL: dag_id, "airflow-run": run_id, "airflow-task": task_id}
    return " AND ".join(f"labels.{key}={quoted(label_value(value))}" for key, value in pairs.items())
