"""
Airflow's settings of the end-to-end tests: what forks imports Google's SDK beforehand.

The SDK takes ten seconds of a core. Each task of ``test_google_operators.py`` is a fork of the scheduler's, and
each read of its DAG files one of the DAG processor's; there are about forty of them.
"""

from __future__ import annotations

import importlib
import sys

FORKING = {"scheduler", "dag-processor"}
MODULES = ("gcs", "vertex_ai.custom_job", "vertex_ai.hyperparameter_tuning_job")

if FORKING & set(sys.argv):
    for module in MODULES:
        importlib.import_module(f"airflow.providers.google.cloud.operators.{module}")
