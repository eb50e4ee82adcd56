"""The job of a container, by the engine, and the job's account, by its record."""

from __future__ import annotations

from container_engines.base import Engine
from training_api.errors import EngineError
from training_api.job.dialect import Dialects
from training_api.job.project_number import project_number
from training_service.access.identity import IdentityTokens
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import DEFAULT_REGION, JobIdentity
from training_service.model.projects import account_of
from training_service.store.jobs.job_store import JobStore


class JobCallers:
    """Finds callers; nothing is kept, as addresses are used again."""

    def __init__(self, engine: Engine, store: JobStore, dialects: Dialects, tokens: IdentityTokens) -> None:
        self._engine = engine
        self._store = store
        self._dialects = dialects
        self._tokens = tokens

    def at(self, address: str) -> JobCaller | None:
        """
        Return who runs at ``address``, where there is one machine.

        ``None``: no container of a job that has not ended, or the engine does not answer.
        """
        try:
            uid = self._engine.job_at(address)
        except EngineError:
            return None
        return self._caller(uid) if uid else None

    def on(self, machine: str, container_id: str) -> JobCaller | None:
        """
        Return which replica of a job is this container of this machine.

        ``None``: none, as far as the engine knows now, or the job has ended.

        :raises EngineError: the engine does not answer.
        """
        uid = self._engine.job_on(machine, container_id)
        return self._caller(uid) if uid else None

    def _caller(self, job_uid: str) -> JobCaller | None:
        """
        Return a job's caller.

        Its account is the job's ``serviceAccount``, else the service agent of its dialect.
        """
        record = self._store.find_by_uid(job_uid)
        if record is None or record.state.is_terminal:
            return None
        email = account_of(record.spec, self._dialects)
        if not email:
            return None
        identity = JobIdentity(
            project=record.spec.project,
            number=project_number(record.spec.project),
            email=email,
            job_id=record.spec.job_id,
            job_uid=record.uid,
            region=record.spec.region or DEFAULT_REGION,
        )
        return JobCaller(identity=identity, tokens=self._tokens)
