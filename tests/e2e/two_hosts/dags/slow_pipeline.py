"""A pipeline whose phases take seconds each, with an image that no two runs share."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from container_training.pipeline import training_pipeline

CONNECTION = "conn.training_default.extra_dejson"

with DAG("slow_pipeline", schedule=None):
    training_pipeline(
        context_dir=Path(__file__).parents[1] / "trainer",
        image=f"{{{{ {CONNECTION}.image_prefix }}}}/slow",
        build_args={
            "BASE_IMAGE": f"{{{{ {CONNECTION}.base_image }}}}",
            "RUN_ID": "{{ run_id }}",
            "TEST_RUN": os.environ.get("TESTS_RUN_ID", ""),
        },
        test_args=["--seconds", "6"],
        args=["--seconds", "20"],
        preflight=False,
        labels={"run": "{{ run_id | lower | replace(':', '-') | replace('+', '-') | replace('.', '-') }}"},
    )
