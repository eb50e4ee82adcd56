"""The project's Airflow plugin; the only module that Airflow loads from this folder (see ``.airflowignore``)."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from container_training import listener
from container_training.dashboard.lazy import LazyApp

#: What a proxy puts before Airflow's own paths; pages are named by whole paths.
_BASE = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + "/training"


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
        },
    ]
