"""Vertex AI's custom training, as the service asks for it. Pure."""

from __future__ import annotations

from training_api.dialects.vertex_v1.environment import VARIABLES, environment, host_name
from training_api.dialects.vertex_v1.failure_words import failure_text, replica_name, restart_scope
from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.pool_tasks import BUCKET_FOLDER
from training_api.dialects.vertex_v1.pools import ROLES
from training_api.dialects.vertex_v1.reader import NAME
from training_api.dialects.vertex_v1.summary import summary
from training_api.dialects.vertex_v1.trial_spec import trial_of
from training_api.dialects.vertex_v1.variables import expanded
from training_api.job.dialect import Dialect, JobField

_STUDY = "studySpec"

VERTEX_V1 = Dialect(
    name=NAME,
    environment=environment,
    variables=VARIABLES,
    expanded=expanded,
    trial=trial_of,
    host_name=host_name,
    task_name=replica_name,
    restart_scope=restart_scope,
    failure_text=failure_text,
    fields={
        "study": _STUDY,
        "study.goal": f"{_STUDY}.metrics[0].goal",
        "study.metric_tag": f"{_STUDY}.metrics[0].metricId",
        "study.max_failed_trials": "maxFailedTrialCount",
        "study.parameters": f"{_STUDY}.parameters",
        "max_wait": "jobSpec.scheduling.maxWaitDuration",
        "max_running": "jobSpec.scheduling.timeout",
        **{
            f"installs.{role}.uris": f"jobSpec.workerPoolSpecs[{place}].pythonPackageSpec.packageUris"
            for place, role in enumerate(ROLES)
        },
    },
    read_filter=read_filter,
    filter_fields={
        "display_name": JobField.DISPLAY_NAME,
        "state": JobField.STATE,
        "create_time": JobField.CREATED,
        "labels.": JobField.LABELS,
    },
    summary=summary,
    bucket_folder=BUCKET_FOLDER,
)
