"""A database as version 8 had it, with specifications of form 1."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from training_service.store.database import writing
from training_service.store.tables import jobs, meta

_ALGORITHMS = {"BAYESIAN": "ALGORITHM_UNSPECIFIED", "GRID": "GRID_SEARCH", "RANDOM": "RANDOM_SEARCH"}
#: What form 2 adds to a specification, and to its study.
_NEWER = ("output_dir", "use_chief", "service_account", "region", "packages")


def to_version_8(database: sa.Engine) -> None:
    """Write all jobs of ``database`` as a service of version 8 stored them; close it afterwards."""
    with writing(database).begin() as connection:
        for sequence, spec in connection.execute(sa.select(jobs.c.sequence, jobs.c.spec)).all():
            same = sa.update(jobs).where(jobs.c.sequence == sequence)
            connection.execute(same.values(spec=form_1(spec)))
        connection.exec_driver_sql("ALTER TABLE jobs RENAME COLUMN request TO training_input")
        connection.exec_driver_sql("ALTER TABLE jobs DROP COLUMN dialect")
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="8"))


def form_1(spec: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored of a specification in the form before."""
    older = {name: value for name, value in spec.items() if name not in _NEWER} | {"form": 1}
    if spec["study"]:
        kept = {name: value for name, value in spec["study"].items() if name != "parameters"}
        stops = kept.pop("stopping") != "NONE"
        kept.pop("selection")
        algorithm = _ALGORITHMS[kept["algorithm"]]
        older["study"] = kept | {"algorithm": algorithm, "stops_early": stops}
    if not spec["secrets"]:
        # The first versions of the form had none.
        del older["secrets"]
    return older
