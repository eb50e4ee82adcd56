"""The images that this service has pulled, and when it last used them."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from training_api.states import LIVING
from training_service.store.database import from_us, to_us, writing
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import jobs, pulled_images

_c = pulled_images.c


class PullStore:
    """Reads and writes ``pulled_images`` by reference; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def record_pull(self, reference: str, at: datetime) -> None:
        """Record that this service pulls an image that the engine lacks; call it before the pull."""
        values = {"reference": reference, "used_us": to_us(at)}
        with writing(self._engine).begin() as connection:
            connection.execute(
                conflict_insert(connection.dialect.name, pulled_images)
                .values(**values)
                .on_conflict_do_update(index_elements=["reference"], set_={"used_us": values["used_us"]})
            )

    def record_use(self, reference: str, at: datetime) -> None:
        """Record that a job uses an image, if this service has pulled it."""
        with writing(self._engine).begin() as connection:
            connection.execute(
                sa.update(pulled_images).where(_c.reference == reference).values(used_us=to_us(at))
            )

    def forget(self, reference: str) -> None:
        """Drop the record of an image that is gone."""
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(pulled_images).where(_c.reference == reference))

    def by_use(self) -> list[tuple[str, datetime]]:
        """Return the references with their last use, the least recently used first."""
        query = sa.select(_c.reference, _c.used_us).order_by(_c.used_us, _c.reference)
        with self._engine.connect() as connection:
            return [(row.reference, from_us(row.used_us)) for row in connection.execute(query)]

    def wanted(self) -> tuple[set[str], set[str]]:
        """Return the images of active jobs: references as requested, and ids of the engine."""
        query = sa.select(jobs.c.spec, jobs.c.images).where(jobs.c.state.in_(sorted(LIVING)))
        references: set[str] = set()
        ids: set[str] = set()
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                roles = mapping_of(row.spec).get("roles") or ()
                references |= {str(mapping_of(role).get("image", "")) for role in roles}
                references |= mapping_of(row.images).keys()
                ids |= {str(image_id) for image_id in mapping_of(row.images).values()}
        return references, ids
