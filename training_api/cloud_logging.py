"""
The part of the Logging API (v2 ``entries:list``) with which gcloud and sensors read logs.

A line of a job has ``resource.type`` ``ml_job``, ``resource.labels.job_id`` and
``resource.labels.task_name``; the service's own lines have the task name ``service`` [issue:
tensorflow/tensorflow#18984; sdk: log_utils.py].
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from training_api.wire import Int32, Timestamp, WireModel

#: Task name of the service's own lines: state changes, scaling, limits.
SERVICE_TASK_NAME = "service"
JOB_RESOURCE_TYPE = "ml_job"
#: Label of the lines of a trial [contract, section 3: real entries].
TRIAL_LABEL = "ml.googleapis.com/trial_id"


class Severity(StrEnum):
    """Severities used here, as the Logging API names them."""

    DEFAULT = "DEFAULT"
    DEBUG = "DEBUG"
    INFO = "INFO"
    NOTICE = "NOTICE"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"
    ALERT = "ALERT"
    EMERGENCY = "EMERGENCY"

    @property
    def number(self) -> int:
        """
        The value in ``google.logging.type.LogSeverity``.

        The hundreds from 0, DEFAULT, to 800, EMERGENCY.
        """
        return 100 * list(Severity).index(self)


class MonitoredResource(WireModel):
    """``MonitoredResource``."""

    type: str = JOB_RESOURCE_TYPE
    labels: dict[str, str] = {}


class LogEntry(WireModel):
    """
    ``LogEntry``: exactly one payload is set.

    :param timestamp: when the line was written.
    :param receive_timestamp: when it was stored; grows with every stored line.
    :param proto_payload: an ``AuditLog``, in entries of the audit log.
    """

    log_name: str
    resource: MonitoredResource
    timestamp: Timestamp
    receive_timestamp: Timestamp | None = None
    severity: Severity = Severity.DEFAULT
    insert_id: str
    labels: dict[str, str] = {}
    text_payload: str | None = None
    json_payload: dict[str, Any] | None = None
    proto_payload: dict[str, Any] | None = None

    @property
    def message(self) -> str:
        """The line's text, whichever payload carries it."""
        if self.text_payload is not None:
            return self.text_payload
        return str((self.json_payload or {}).get("message", ""))

    @property
    def task_name(self) -> str:
        """The replica that wrote the line, or ``service``."""
        return self.resource.labels.get("task_name", "")

    @property
    def trial_id(self) -> str:
        """The trial of a tuning job that the line is about; empty for lines of the job itself."""
        return self.labels.get(TRIAL_LABEL, "")


class ListLogEntriesRequest(WireModel):
    """Body of ``entries:list``."""

    resource_names: list[str] = []
    project_ids: list[str] = []
    filter: str = ""
    order_by: str = "timestamp asc"
    page_size: Int32 = 50
    page_token: str = ""


class ListLogEntriesResponse(WireModel):
    """Answer of ``entries:list``."""

    entries: list[LogEntry] | None = None
    next_page_token: str | None = None
