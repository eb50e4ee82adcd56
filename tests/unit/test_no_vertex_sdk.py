"""Google's SDK of Vertex AI takes seconds to import: no DAG file does it, and one task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.test_layers import MODULES, imports_of

SDK = ("google.cloud.aiplatform", "google.cloud.aiplatform_v1", "vertexai")
#: The provider's modules that import it.
PROVIDERS = "airflow.providers.google.cloud"
MINE = sorted(name for name in MODULES if name.startswith(("container_training", "training_api")))
#: Imports every module of the Airflow side.
PROGRAM = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print(json.dumps(sorted({name for name in sys.modules if name.startswith(("google.cloud.", "vertexai"))})))
"""


def test_no_import_of_the_airflow_side_loads_it(tmp_path: Path) -> None:
    names = [name for name in MINE if not name.endswith("__main__")]
    assert {
        "container_training.operators.training",
        "container_training.hooks.vertex_address",
        "container_training.sensors.training",
        "container_training.triggers.poller",
        "training_api.clients.vertex.client",
    } <= set(names)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(names)],
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in loaded if name.startswith(SDK)] == []


def test_one_function_of_the_airflow_side_imports_it() -> None:
    """By a part of Google's provider, in a task that was asked to upload a model."""
    found = {
        (name, used)
        for name in MINE
        for used in imports_of(MODULES[name])
        if f"{used}.".startswith(tuple(f"{sdk}." for sdk in SDK))
        or (used.startswith(PROVIDERS) and "vertex_ai" in used)
    }

    assert found == {("container_training.hooks.vertex_models", f"{PROVIDERS}.hooks.vertex_ai.model_service")}
