"""Which jobs a person may see and cancel, from what Airflow lets that person do with DAGs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from training_api.job.job_id import label_value
from training_api.job.labels import DAG_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """
    A person's rights on jobs.

    A job names its DAG by a label, and labels are lossy: ``My.Dag`` and ``my-dag`` have the same one. So a
    label gives a right only if the person has it on every DAG of that label. Jobs of no DAG that Airflow
    knows are for those who may read, or edit, all DAGs.

    :param known: the ids of all DAGs in Airflow's database.
    :param readable: those of them that the person may read.
    :param reads_all: whether the person may read DAGs whatever their id.
    :param may_edit: tells whether the person may change task instances of a DAG; asked with ``None``: of any
        DAG.
    """

    known: frozenset[str]
    readable: frozenset[str]
    reads_all: bool
    may_edit: Callable[[str | None], bool]
    _by_label: dict[str, list[str]] = field(init=False, repr=False, compare=False)
    _edits: dict[str, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_label: dict[str, list[str]] = {}
        for dag_id in sorted(self.known):
            by_label.setdefault(label_value(dag_id), []).append(dag_id)
        object.__setattr__(self, "_by_label", by_label)
        object.__setattr__(self, "_edits", {})

    @property
    def labels(self) -> list[str] | None:
        """
        The values of ``airflow-dag`` whose jobs the user may see.

        ``None``: all jobs, also those without the label.
        """
        if self.reads_all:
            return None
        return [label for label, dags in self._by_label.items() if self.readable.issuperset(dags)]

    def dags_of(self, labels: Mapping[str, str]) -> list[str]:
        """
        Return the ids of the DAGs that may have submitted the job with ``labels``.

        Usually one, or none.
        """
        return self._by_label.get(labels.get(DAG_LABEL, ""), [])

    def may_read(self, labels: Mapping[str, str]) -> bool:
        """Whether the person may see the job with ``labels``."""
        dags = self.dags_of(labels)
        return self.reads_all or (bool(dags) and self.readable.issuperset(dags))

    def may_cancel(self, labels: Mapping[str, str]) -> bool:
        """Whether the person may cancel the job with ``labels``."""
        if not self.may_read(labels):
            return False
        label = labels.get(DAG_LABEL, "")
        if label not in self._edits:
            dags = self.dags_of(labels)
            self._edits[label] = all(map(self.may_edit, dags)) if dags else self.may_edit(None)
        return self._edits[label]
