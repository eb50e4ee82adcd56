"""How long ended things are kept. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """
    Limits of what the service keeps; 0, or no time: no limit.

    :param jobs: how long a job, and all that belongs to it, is kept after its end.
    :param logs: how long log entries, those of the audit log among them, are kept after they were stored.
    :param log_bytes: text of all log entries together; the oldest are removed first.
    :param series: how long a job's measurements and usage are kept after its end.
    :param image_bytes: images on the engine that this service has pulled, together; the least recently used
        are removed first.
    """

    jobs: timedelta = timedelta(days=90)
    logs: timedelta = timedelta(days=30)
    log_bytes: int = 0
    series: timedelta = timedelta(days=30)
    image_bytes: int = 0
