"""
The audit log: who did what, apart from the logs of jobs.

Its entries have the form of Cloud Audit Logs [docs: docs.cloud.google.com/logging/docs/audit, AuditLog], so
that ``entries:list`` and its clients read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.cloud_logging import LogEntry, MonitoredResource, Severity
from training_api.filtering import And, Comparison, Filter, parse_filter
from training_service.model.clock import Clock, utc_now
from training_service.model.paging import foreign_token
from training_service.store.database import from_us, to_us, writing
from training_service.store.sql.filter_sql import (
    FieldSql,
    constant_field,
    filter_to_sql,
    json_field,
    rank_field,
    text_field,
    time_field,
)
from training_service.store.tables import audit_entries

#: Where entries of no project are: Cloud Storage's name for a project that is not said.
NO_PROJECT = "_"
#: Of the whole log; upkeep removes the oldest.
MOST_ENTRIES = 100_000
_LOG = "cloudaudit.googleapis.com"
_RESOURCE_TYPE = "audited_resource"
_c = audit_entries.c
_LOG_NAME = sa.literal("projects/", sa.Text) + _c.project + sa.literal(f"/logs/{_LOG}%2Factivity", sa.Text)
_SEVERITY = sa.case((_c.failed, Severity.ERROR.value), else_=Severity.NOTICE.value)
_FIELDS: dict[str, FieldSql] = {
    "logName": text_field(_LOG_NAME),
    "timestamp": time_field(_c.at_us),
    "severity": rank_field(_SEVERITY, {each.value: each.number for each in Severity}),
    "resource.type": constant_field(_RESOURCE_TYPE),
    "resource.labels.project_id": text_field(_c.project),
}
_LONGEST_TOKEN = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    One thing that somebody did, or was refused.

    :param project: empty: the request names none.
    :param payload: the ``AuditLog``; nothing that is secret.
    """

    project: str
    payload: dict[str, Any]
    failed: bool


class AuditStore:
    """Reads and writes the audit log; safe for threads, and beside other services."""

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def append(self, entry: AuditEntry) -> None:
        """Store one entry."""
        values = {"project": entry.project or NO_PROJECT, "payload": entry.payload, "failed": entry.failed}
        with writing(self._engine).begin() as connection:
            connection.execute(sa.insert(audit_entries).values(at_us=to_us(self._clock()), **values))

    def remove_before(self, moment: datetime | None, limit: int) -> int:
        """
        Remove at most ``limit`` entries, oldest first, and return how many.

        :param moment: those from before it; ``None``: only those beyond ``MOST_ENTRIES``.
        """
        newest = sa.select(sa.func.max(_c.id)).scalar_subquery()
        unwanted = _c.id <= newest - MOST_ENTRIES
        if moment is not None:
            unwanted = sa.or_(unwanted, _c.at_us < to_us(moment))
        oldest = sa.select(_c.id).where(unwanted).order_by(_c.id).limit(limit)
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.delete(audit_entries).where(_c.id.in_(oldest))).rowcount

    def list_page(
        self,
        *,
        projects: Sequence[str],
        filter_text: str,
        page_size: int,
        page_token: str = "",
        descending: bool = False,
    ) -> tuple[list[LogEntry], str]:
        """
        Return a page in the order of time, and the next page's token (empty: none).

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the token is invalid.
        """
        query = sa.select(audit_entries).where(_c.project.in_(projects))
        if (tree := parse_filter(filter_text)) is not None:
            prefixes = {"protoPayload.": lambda key: json_field(_c.payload, key)}
            query = query.where(filter_to_sql(tree, _FIELDS, prefixes))
        if page_token:
            last = _read_token(page_token)
            query = query.where(_c.id < last if descending else _c.id > last)
        query = query.order_by(_c.id.desc() if descending else _c.id).limit(page_size + 1)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        token = str(rows[page_size - 1].id) if len(rows) > page_size else ""
        return [_entry(row) for row in rows[:page_size]], token


def asks_for_audit_log(filter_text: str) -> bool:
    """Tell whether a filter wants the audit log: it asks for it by ``logName``."""
    return _wants(parse_filter(filter_text))


def _wants(tree: Filter | None) -> bool:
    match tree:
        case And(operands):
            return any(_wants(operand) for operand in operands)
        case Comparison(path="logName", op="=" | ":", value=value):
            return _LOG in value
    return False


def _entry(row: Any) -> LogEntry:
    at = from_us(row.at_us)
    labels = {
        "project_id": row.project,
        "service": row.payload.get("serviceName", ""),
        "method": row.payload.get("methodName", ""),
    }
    return LogEntry(
        log_name=f"projects/{row.project}/logs/{_LOG}%2Factivity",
        resource=MonitoredResource(type=_RESOURCE_TYPE, labels=labels),
        timestamp=at,
        receive_timestamp=at,
        severity=Severity.ERROR if row.failed else Severity.NOTICE,
        insert_id=f"audit-{row.id}",
        proto_payload=row.payload,
    )


def _read_token(token: str) -> int:
    """:raises InvalidRequest: ``token`` is none of this log's."""
    if not (token.isascii() and token.isdecimal() and len(token) <= _LONGEST_TOKEN):
        raise foreign_token(token)
    return int(token)
