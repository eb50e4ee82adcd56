"""Names of a job that are pure functions of the Airflow task: its id, and label values."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

MAX_JOB_ID_LENGTH = 128
MAX_LABEL_LENGTH = 63
_DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKey:
    """
    The Airflow task instance that submits a job, without its try number.

    :param map_index: -1 for a task that is not mapped.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of(cls, task_instance: Any) -> TaskKey:
        """Return the key of ``task_instance``: anything with dag_id, task_id, run_id and map_index."""
        map_index = task_instance.map_index
        return cls(
            dag_id=task_instance.dag_id,
            task_id=task_instance.task_id,
            run_id=task_instance.run_id,
            map_index=map_index if isinstance(map_index, int) else -1,
        )

    @property
    def digest(self) -> str:
        """64 hex digits that stand for this key."""
        text = json.dumps([self.dag_id, self.task_id, self.run_id, self.map_index])
        return hashlib.sha256(text.encode()).hexdigest()


def job_id_for(key: TaskKey, attempt: int) -> str:
    """
    Return the id of the ``attempt``-th job of ``key``: ``<dag>_<task>_<12 hex>_<attempt>``.

    Pure. Valid by ``job_spec.JOB_ID``: the readable part is cut to fit, the digest keeps ids apart.

    :param attempt: 1 for the first job; a failed or cancelled job makes place for the next.
    """
    tail = f"_{key.digest[:_DIGEST_LENGTH]}_{attempt}"
    head = _slug(f"{key.dag_id}_{key.task_id}")[: MAX_JOB_ID_LENGTH - len(tail)].rstrip("_")
    return head + tail


def numbered_job_id(job_id: str, attempt: int) -> str:
    """
    Return the id of the ``attempt``-th job if the user chose the first one's.

    ``job_id``, ``job_id_2`` ...
    """
    if attempt == 1:
        return job_id
    tail = f"_{attempt}"
    return job_id[: MAX_JOB_ID_LENGTH - len(tail)] + tail


def label_value(text: str) -> str:
    """
    Return ``text`` as the value of a label: ``[a-z0-9_-]``, at most 63 long.

    Pure. What is too long keeps its beginning and ends in a digest, so that two run ids never share a label
    by length.
    """
    value = re.sub(r"[^a-z0-9_-]", "-", text.lower())
    if len(value) <= MAX_LABEL_LENGTH:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{value[: MAX_LABEL_LENGTH - 9]}-{digest}"


def _slug(text: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return slug if slug[:1].isalpha() else f"job_{slug}"
