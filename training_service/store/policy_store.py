"""IAM policies in the database: read, then write if nobody else wrote in between."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from training_api.iam.wire import Policy
from training_service.store.database import writing
from training_service.store.tables import policies


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """A policy without its etag, and the version behind the etag; 0: none was ever written."""

    policy: Policy
    version: int


class PolicyStore:
    """Reads and writes ``policies`` by resource name (``projects/P/jobs/J``); safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def get(self, resource: str) -> StoredPolicy:
        """Return the policy of ``resource``; the empty one if none was written."""
        query = sa.select(policies.c.policy, policies.c.version).where(policies.c.resource == resource)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return StoredPolicy(policy=Policy(), version=0)
        return StoredPolicy(policy=Policy.model_validate(row.policy), version=row.version)

    def replace(self, resource: str, policy: Policy, *, seen_version: int) -> bool:
        """
        Write ``policy`` as version ``seen_version + 1`` if the stored one is ``seen_version``.

        :return: whether it was; ``False``: another writer was first, and nothing was written.
        """
        values = {"policy": policy.to_wire(), "version": seen_version + 1}
        same = sa.and_(policies.c.resource == resource, policies.c.version == seen_version)
        with writing(self._engine).begin() as connection:
            if seen_version:
                return connection.execute(sa.update(policies).where(same).values(**values)).rowcount == 1
            try:
                with connection.begin_nested():
                    insert_policy(connection, resource, policy)
            except IntegrityError:
                return False
        return True


def insert_policy(connection: sa.Connection, resource: str, policy: Policy) -> None:
    """
    Write the first policy of ``resource`` in the caller's transaction.

    :raises sqlalchemy.exc.IntegrityError: it has one.
    """
    values = {"resource": resource, "policy": policy.to_wire(), "version": 1}
    connection.execute(sa.insert(policies).values(**values))
