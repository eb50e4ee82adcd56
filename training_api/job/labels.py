"""Labels of jobs that say whose they are and what they train. Pure."""

from __future__ import annotations

OWNER_LABEL = "airflow-owner"
REQUEST_LABEL = "airflow-request"
DAG_LABEL = "airflow-dag"
TASK_LABEL = "airflow-task"
RUN_LABEL = "airflow-run"
#: They say whose task a job is of; people's rights to the job follow from it.
ORIGIN_LABELS = (OWNER_LABEL, REQUEST_LABEL, DAG_LABEL, TASK_LABEL, RUN_LABEL)
#: Users set it: which model a job trains; jobs of one model make one history.
MODEL_LABEL = "model"
#: On a job that is meant to outlive its DAG run.
DETACHED_LABEL = "airflow-detached"
