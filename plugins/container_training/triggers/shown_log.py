"""What a wait has shown already: read from the task's own log, which outlives a kill."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import conf

from container_training.airflow_internals.tasks import log_file_of
from training_api.states import JobState


@dataclass(slots=True)
class ShownLog:
    """
    The lines of a task's log that triggerers before this one have written.

    :param state: of the job, as it was last said; ``None``: it was not said.
    :param since: when that was said.
    """

    state: JobState | None = None
    since: datetime | None = None
    #: Of each line its hash and how often it stands there: logs are long.
    _lines: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, entries: Iterable[tuple[str, str]], job_id: str) -> ShownLog:
        """Return what is in a log of pairs of time and line."""
        shown, said = cls(), re.compile(rf"job {re.escape(job_id)} is ([A-Z]+)(,|$)")
        for time, line in entries:
            if found := said.match(line):
                shown.state, shown.since = JobState(found[1]), datetime.fromisoformat(time)
            shown._lines[hash(line)] += 1
        return shown

    def take(self, line: str) -> bool:
        """Return whether ``line`` stands there; each of several equal ones counts once."""
        if not self._lines[hash(line)]:
            return False
        self._lines[hash(line)] -= 1
        return True


def read_shown_log(task_instance: Any, job_id: str) -> ShownLog:
    """
    Return what earlier triggerers have written to the log of this try.

    Airflow gives each triggerer a file of its own for a task, and shows all files that it finds. Files that
    this machine does not have are none to go on from: nobody may see them any more. With remote logs, only
    the last triggerer's file is stored, which must be whole.
    """
    if task_instance is None or conf.getboolean("logging", "remote_logging", fallback=False):
        return ShownLog()
    path = log_file_of(task_instance)
    files = sorted(path.parent.glob(f"{path.name}.trigger.*.log"), key=lambda file: file.stat().st_mtime)
    return ShownLog.of(_entries(files), job_id)


def _entries(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    yield str(entry["timestamp"]), str(entry["event"])
                except (ValueError, KeyError, TypeError):
                    continue  # the last line of a killed process may be half of one
