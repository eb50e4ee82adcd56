"""
Airflow's login and its auth manager: for the API server only.

An app that a plugin mounts inherits no authentication.
"""

from __future__ import annotations

from typing import Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import GetUserDep, requires_authenticated
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from fastapi import Depends

__all__ = ["REQUIRES_LOGIN", "UserDep"]

#: For an app as a whole: without a login there is no answer but 401.
REQUIRES_LOGIN = Depends(requires_authenticated())
#: Who asks: the annotation of a parameter of a route.
UserDep = GetUserDep

_Method = Literal["GET", "PUT"]


def authorized_dag_ids(user: Any, method: _Method) -> frozenset[str]:
    """Return the ids of the DAGs that the user may read (``GET``) or edit (``PUT``)."""
    return frozenset(get_auth_manager().get_authorized_dag_ids(user=user, method=method))


def is_authorized_for_any_dag(user: Any, method: _Method) -> bool:
    """
    Whether the user may read or edit DAGs where none is named.

    Some auth managers answer "any DAG at all?".
    """
    return get_auth_manager().is_authorized_dag(method=method, user=user)


def may_edit_task_instances(user: Any, dag_id: str | None) -> bool:
    """Whether the user may mark task instances of a DAG; ``None``: where none is named."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)) if dag_id is not None else None
    entity = DagAccessEntity.TASK_INSTANCE
    manager = get_auth_manager()
    return manager.is_authorized_dag(method="PUT", access_entity=entity, details=details, user=user)


def may_read_connection(user: Any, conn_id: str) -> bool:
    """Whether Airflow shows the user the connection."""
    details = ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id))
    return get_auth_manager().is_authorized_connection(method="GET", details=details, user=user)
