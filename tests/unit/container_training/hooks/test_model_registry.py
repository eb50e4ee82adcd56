"""The registry of one model: a folder, and MLflow where a connection names a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from container_training.hooks.model_registry import ModelRegistryHook, mlflow_of
from container_training.hooks.service_address import InvalidConnection
from container_training.work.models.champion import Reading
from tests.support.fakes.fake_bucket import FakeBucket

FOLDER = "gs://bucket/models/digits"


def connection(**changes: Any) -> Connection:
    return Connection(**{"conn_id": "m", "conn_type": "mlflow_registry", "host": "mlflow.test"} | changes)


@pytest.mark.usefixtures("airflow_db")
def test_without_a_connection_the_folder_is_all_there_is(bucket: FakeBucket) -> None:
    with ModelRegistryHook(FOLDER) as hook:
        assert hook.get_conn().read() == Reading()
        assert hook._mlflow is None


@pytest.mark.usefixtures("airflow_db", "bucket")
def test_a_connection_that_somebody_chose_must_exist() -> None:
    with (
        pytest.raises(AirflowNotFoundException),
        ModelRegistryHook(FOLDER, registry_conn_id="absent") as hook,
    ):
        hook.get_conn()


@pytest.mark.usefixtures("bucket")
def test_the_default_connection_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"conn_type": "mlflow_registry", "host": "mlflow.test", "port": 5500}
    monkeypatch.setenv("AIRFLOW_CONN_MODEL_REGISTRY_DEFAULT", json.dumps(stored))

    with ModelRegistryHook(FOLDER) as hook:
        hook.get_conn()
        mirror = hook._mlflow

    assert mirror is not None
    assert str(mirror._http.base_url).startswith("http://mlflow.test:5500")
    assert mirror._http.is_closed


@pytest.mark.parametrize(
    ("changes", "folder", "model"),
    [
        ({}, FOLDER, "digits"),
        ({}, f"{FOLDER}/", "digits"),
        ({"extra": json.dumps({"model": "digits-eu"})}, FOLDER, "digits-eu"),
        ({"extra": json.dumps({"model": ""})}, FOLDER, "digits"),
    ],
)
def test_the_name_in_mlflow_is_the_connections_or_the_folders(
    changes: dict[str, Any], folder: str, model: str
) -> None:
    with mlflow_of(connection(**changes), folder) as mirror:
        assert mirror._model == model


def test_a_connection_without_a_host_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidConnection, match="connection 'm' has no host: the host of the MLflow server"):
        mlflow_of(connection(host=None), FOLDER)
