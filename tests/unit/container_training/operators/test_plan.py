"""What reading a DAG file with the task that plans costs."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ["docker", "google.cloud", "airflow.providers.google", "airflow.providers.docker", "rich"]


def test_the_task_that_plans_imports_nothing_heavy() -> None:
    # In a fresh interpreter; what Airflow itself loads while it starts is no concern of the DAG's.
    code = f"""
import json, sys
from airflow.sdk import BaseHook, BaseOperator, DAG
before = set(sys.modules)
import container_training.operators.plan
new = set(sys.modules) - before
print(json.dumps([name for name in {HEAVY!r} if name in new]))
"""

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(run.stdout.splitlines()[-1]) == []
