"""
The registry of one model: a folder of the object store.

MLflow follows it if a connection names a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from container_training.hooks.closing import ClosingHook
from container_training.hooks.importing import importing
from container_training.hooks.service_address import InvalidConnection
from container_training.hooks.storage import StorageHook
from container_training.work.models.mlflow_registry import MlflowRegistry
from container_training.work.models.registry import ModelRegistry
from container_training.work.object_store import ObjectStore, require_uri
from training_api.cached import cached_property

if TYPE_CHECKING:
    from container_training.work.models.data_snapshots import SnapshotStore


class ModelRegistryHook(ClosingHook):
    """
    The versions, the champion and the snapshots below one folder; close it after use.

    :param model_folder: ``gs://`` folder of the model; its last part is the model's name in MLflow.
    :param registry_conn_id: connection of type ``mlflow_registry``: MLflow follows the pointer. Without one -
        the default need not exist - the folder is all there is.
    """

    conn_name_attr = "registry_conn_id"
    default_conn_name = "model_registry_default"
    conn_type = "mlflow_registry"
    hook_name = "MLflow model registry"
    kept = ("_storage", "_mlflow")

    def __init__(
        self,
        model_folder: str,
        *,
        gcp_conn_id: str = StorageHook.default_conn_name,
        registry_conn_id: str = default_conn_name,
    ) -> None:
        super().__init__()
        self.model_folder = model_folder
        self.gcp_conn_id = gcp_conn_id
        self.registry_conn_id = registry_conn_id

    @property
    def registry(self) -> ModelRegistry:
        """The registry, over connections that are kept."""
        return ModelRegistry(self._store, self.model_folder, self._mlflow)

    @property
    def snapshots(self) -> SnapshotStore:
        """The snapshots of data of this model, over the same connections."""
        with importing():
            from container_training.work.models.data_snapshots import SnapshotStore
        return SnapshotStore(self._store, self.model_folder)

    def get_conn(self) -> ModelRegistry:
        """Return the registry."""
        return self.registry

    @property
    def _store(self) -> ObjectStore:
        require_uri("model_folder", self.model_folder)
        return self._storage.get_conn()

    @cached_property
    def _storage(self) -> StorageHook:
        return StorageHook(self.gcp_conn_id)

    @cached_property
    def _mlflow(self) -> MlflowRegistry | None:
        try:
            connection = self.get_connection(self.registry_conn_id)
        except AirflowNotFoundException:
            if self.registry_conn_id != self.default_conn_name:
                raise
            return None
        return mlflow_of(connection, self.model_folder)


def mlflow_of(connection: Connection, model_folder: str) -> MlflowRegistry:
    """
    Return the MLflow server that ``connection`` names.

    :raises InvalidConnection: it names no host.
    """
    if not connection.host:
        raise InvalidConnection(connection.conn_id, "host", "the host of the MLflow server")
    port = f":{connection.port}" if connection.port else ""
    login = (connection.login, connection.password or "") if connection.login else None
    return MlflowRegistry(
        f"{connection.schema or 'http'}://{connection.host}{port}",
        connection.extra_dejson.get("model") or model_folder.rstrip("/").rpartition("/")[2],
        login=login,
        token="" if login else connection.password or "",
    )
