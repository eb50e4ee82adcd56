"""
Which containers report metrics, and when the last report of each is stored.

What reads the reports is a ``StreamReading``: in this process on one machine (``metric_reader.py``), by the
agents of the machines on a swarm (``node_streams.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from container_engines.base import Engine, ObservedReplica, StillStarting
from training_api.errors import EngineUnavailable, FieldViolation, InvalidJobSpec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempt
from training_api.states import ReplicaState
from training_service.intake.metric_stream import StreamName, StreamReading
from training_service.model.records import JobRecord


class MetricCollector:
    """
    Has the metrics of the jobs read that it is shown; safe for threads.

    :param note: writes a warning to the job's log.
    :param reads_all: read also the reports of jobs that are no trials; nobody but people looks at them.
    """

    def __init__(
        self, reading: StreamReading, *, note: Callable[[JobRecord, str], None], reads_all: bool = False
    ) -> None:
        self._reading = reading
        self._note = note
        self._reads_all = reads_all
        #: Guards which containers there are.
        self._lock = threading.Lock()
        self._containers: dict[str, StreamName | None] = {}

    def start(self, job_uids: Iterable[str] = ()) -> None:
        """
        Begin; remove folders of jobs other than ``job_uids``.

        Those are the jobs that have not ended.
        """
        self._reading.start(job_uids)

    def stop(self) -> None:
        """End the reading: trainers go on, and what they report is read by the next service."""
        self._reading.stop()

    def prepare(self, record: JobRecord, replica: ReplicaId, machine: str = "") -> str:
        """
        Make the folder of a replica that is about to start; call it before each start.

        :param machine: which of the engine's ``hosts`` it is to start on; empty: the only one.
        :return: absolute path, on that machine, of what the container is to see as ``METRIC_FOLDER``; empty:
            it reports no metrics.
        :raises EngineError: the folder cannot be made.
        """
        if not self._reports(record, replica):
            return ""
        try:
            return self._reading.open(_stream_of(record, replica, record.attempts.of(replica)), machine)
        except StillStarting:
            raise
        except EngineUnavailable as error:
            if record.trial is not None:
                raise
            # Only people look at them: the job does not wait for what reads them.
            self._note(record, f"The job has no curves: {error}")
            return ""

    @property
    def drained(self) -> frozenset[str]:
        """Containers whose reports are stored to the last, and those that report nothing."""
        drained = self._reading.drained
        with self._lock:
            return frozenset(
                container
                for container, stream in self._containers.items()
                if stream is None or stream in drained
            )

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container's reports are read; returns at once."""
        reports = self._reports(record, observed.replica)
        stream = _stream_of(record, observed.replica, observed.attempt) if reports else None
        with self._lock:
            self._containers[observed.container_id] = stream
        if stream:
            has_ended = observed.state is ReplicaState.EXITED
            self._reading.follow(stream, observed.machine, has_ended=has_ended)

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are no longer ``present``."""
        with self._lock:
            self._containers = {key: name for key, name in self._containers.items() if key in present}

    def remove(self, job_uid: str) -> None:
        """Remove a job's folders, once its containers are gone."""
        self._reading.remove(job_uid)
        with self._lock:
            self._containers = {
                container: stream
                for container, stream in self._containers.items()
                if stream is None or stream.job_uid != job_uid
            }

    def _reports(self, record: JobRecord, replica: ReplicaId) -> bool:
        return replica.role is ReplicaRole.MASTER and (record.trial is not None or self._reads_all)


def _stream_of(record: JobRecord, replica: ReplicaId, attempt: Attempt) -> StreamName:
    return StreamName(job_uid=record.uid, task_name=replica.task_name, source=str(attempt))


def check_metrics_can_be_read(spec: JobSpec, engine: Engine) -> None:
    """
    Let a job pass unless this engine cannot read the metrics of its trials.

    :raises InvalidJobSpec: it cannot.
    """
    if spec.study and not engine.can_read_metrics:
        raise InvalidJobSpec(
            [
                FieldViolation(
                    field="study",
                    description="tuning needs the metrics of trials, which are read on the machines that run them; this service "
                    "has an engine on another machine, or a swarm without node agents: set TRAINING_AGENT_IMAGE and "
                    "TRAINING_AGENT_URL (docs/more-machines.md), or use an engine on the service's machine",
                )
            ]
        )
