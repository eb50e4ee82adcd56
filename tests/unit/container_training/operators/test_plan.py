"""What reading a DAG file with the task that plans costs."""

from __future__ import annotations

from tests.support.fresh_airflow import FreshAirflow

HEAVY = ["docker", "google.cloud", "airflow.providers.google", "airflow.providers.docker", "rich"]


def test_the_task_that_plans_imports_nothing_heavy(fresh_airflow: FreshAirflow) -> None:
    # What Airflow itself loads while it starts is no concern of the DAG's.
    code = f"""
import json, sys
before = set(sys.modules)
import container_training.operators.plan
new = set(sys.modules) - before
print(json.dumps([name for name in {HEAVY!r} if name in new]))
"""

    assert fresh_airflow.run(code) == []
