"""Objects in Cloud Storage over the Google provider's own hook and connection."""

from __future__ import annotations

import os

from container_training.hooks.closing import ClosingHook
from container_training.work.object_store import ObjectStore
from training_api.cached import cached_property


class StorageHook(ClosingHook):
    """
    Reads and writes the job folders of one Google connection; close it after use.

    :param gcp_conn_id: connection of type ``google_cloud_platform``, as for ``GCSHook``.
    :param patience_seconds: see ``ObjectStore``.
    """

    conn_name_attr = "gcp_conn_id"
    default_conn_name = "google_cloud_default"
    kept = ("store",)

    def __init__(
        self, gcp_conn_id: str = default_conn_name, *, patience_seconds: float | None = None
    ) -> None:
        super().__init__()
        self.gcp_conn_id = gcp_conn_id
        self.patience_seconds = patience_seconds

    @cached_property
    def store(self) -> ObjectStore:
        """The object store; made on first use."""
        # Imported here: it takes about a second, which no DAG parse may cost.
        from airflow.providers.google.cloud.hooks.gcs import GCSHook

        self.get_connection(self.gcp_conn_id)  # whose error says more than the provider's
        client = GCSHook(gcp_conn_id=self.gcp_conn_id).get_conn()
        return ObjectStore(client, self.patience_seconds)

    def get_conn(self) -> ObjectStore:
        """Return the object store, the same one each time."""
        return self.store


def object_store_endpoint() -> str:
    """
    Return the URL of a local object store; empty: Google's own.

    It is found as Google's client does, without importing that.
    """
    host = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return host if "://" in host or not host else f"http://{host}"
