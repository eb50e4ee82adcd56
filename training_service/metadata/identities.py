"""The job of a container's address, by the engine, and the job's account, by its record."""

from __future__ import annotations

from container_engines.base import Engine
from training_api.errors import EngineError
from training_api.job.dialect import Dialects
from training_api.job.project_number import project_number
from training_service.metadata.tree import DEFAULT_REGION, JobIdentity
from training_service.model.projects import account_of
from training_service.store.jobs.job_store import JobStore


class JobIdentities:
    """Finds identities; nothing is kept, as addresses are used again."""

    def __init__(self, engine: Engine, store: JobStore, dialects: Dialects) -> None:
        self._engine = engine
        self._store = store
        self._dialects = dialects

    def find(self, address: str) -> JobIdentity | None:
        """
        Return who runs at ``address``.

        ``None``: no container of a job that has not ended, or the engine does not answer.

        The account is the job's ``serviceAccount``, else the service agent of its dialect.
        """
        try:
            uid = self._engine.job_at(address)
        except EngineError:
            return None
        record = self._store.find_by_uid(uid) if uid else None
        if record is None or record.state.is_terminal:
            return None
        email = account_of(record.spec, self._dialects)
        if not email:
            return None
        return JobIdentity(
            project=record.spec.project,
            number=project_number(record.spec.project),
            email=email,
            job_id=record.spec.job_id,
            job_uid=record.uid,
            region=record.spec.region or DEFAULT_REGION,
        )
