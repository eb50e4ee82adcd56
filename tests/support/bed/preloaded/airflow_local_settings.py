"""
Airflow's settings of the tests: modules that are imported once, by what forks.

Each task is a fork of the scheduler's, and each read of a DAG file one of the DAG processor's. To import
Google's SDK of Vertex AI takes one of them ten seconds of a core, the hook of Cloud Storage one.
"""

from __future__ import annotations

import importlib
import os
import sys

FORKING = {"scheduler", "dag-processor"}

if FORKING & set(sys.argv):
    for module in os.environ["TESTS_PRELOADED"].split():
        importlib.import_module(f"airflow.providers.google.cloud.{module}")
