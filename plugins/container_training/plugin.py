"""The project's Airflow plugin; the distribution's entry point ``airflow.plugins`` names it."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import conf

from container_training import listener
from container_training.dashboard.lazy import LazyApp

#: What a proxy puts before Airflow's own paths; pages are named by whole paths.
_BASE = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + "/training"
_ICON = {
    "icon": f"{_BASE}/static/-/icons/jobs.svg",
    "icon_dark_mode": f"{_BASE}/static/-/icons/jobs-dark.svg",
}


class ContainerTrainingPlugin(AirflowPlugin):
    """Registers what the project adds to Airflow's own pages."""

    name = "container_training"
    listeners = [listener]
    fastapi_apps = [{"app": LazyApp(), "url_prefix": "/training", "name": "Training dashboard"}]
    external_views = [
        {
            "name": "Training jobs",
            "href": f"{_BASE}/jobs",
            "destination": "nav",
            "category": "browse",
            "url_route": "training-jobs",
            **_ICON,
        },
        {
            "name": "Training job",
            "href": f"{_BASE}/task?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
            "destination": "task_instance",
            "url_route": "training-job",
            **_ICON,
        },
        {
            "name": "Training fleet",
            "href": f"{_BASE}/fleet",
            "destination": "nav",
            "category": "browse",
            "url_route": "training-fleet",
        },
    ]
