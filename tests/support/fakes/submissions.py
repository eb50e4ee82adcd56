"""The task that submits, with a good job that a test changes."""

from __future__ import annotations

from typing import Any

from container_training.operators.training import SubmitTrainingJobOperator

IMAGE = "127.0.0.1:5000/demo/digits@sha256:" + "a" * 64


def make_operator(**changes: Any) -> SubmitTrainingJobOperator:
    fields = {
        "task_id": "submit",
        "image": IMAGE,
        "args": ["--epochs", 3],
        "job_dir": "gs://bucket/jobs/{job_id}",
    }
    operator = SubmitTrainingJobOperator(**{**fields, **changes})
    operator._sleep = lambda _: None
    return operator


def submit(context: Any, **changes: Any) -> str:
    return make_operator(**changes).execute(context)
