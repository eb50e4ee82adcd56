"""
Who asks, and what Airflow lets them do.

The only module that uses ``airflow.api_fastapi``'s own security functions, which are no public API: what a
new version of Airflow changes, changes here. An app that a plugin mounts inherits no authentication, so each
of our routes goes through ``User``.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import GetUserDep, requires_authenticated
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select

from container_training.dashboard.airflow_side.connections import training_connections
from container_training.dashboard.airflow_side.database import airflow_database
from container_training.dashboard.airflow_side.rights import Rights

#: For the app as a whole: without a login there is no answer but 401.
REQUIRES_LOGIN = Depends(requires_authenticated())
#: A header that no form and no other site's page can send without asking first.
ACTION_HEADER = "X-Training-Action"


def rights_of(user: GetUserDep) -> Rights:
    """
    Return what the user may do.

    It is read anew with each request, so that a right that is revoked is gone.
    """
    manager = get_auth_manager()
    with airflow_database() as session:
        known = frozenset(session.scalars(select(DagModel.dag_id)))
    readable = frozenset(manager.get_authorized_dag_ids(user=user, method="GET"))
    return Rights(
        known=known,
        readable=readable & known,
        # Some auth managers answer "any DAG at all?" where no DAG is named: then the known ones decide.
        reads_all=known <= readable and manager.is_authorized_dag(method="GET", user=user),
        may_edit=lambda dag_id: _may_edit(manager, user, dag_id, known),
    )


RightsDep = Annotated[Rights, Depends(rights_of)]


def connections_of(user: GetUserDep) -> list[str]:
    """Return the connections to training services that Airflow shows the user, sorted."""
    manager = get_auth_manager()
    return [
        conn_id
        for conn_id in training_connections()
        if manager.is_authorized_connection(
            method="GET",
            details=ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id)),
            user=user,
        )
    ]


ConnectionsDep = Annotated[list[str], Depends(connections_of)]


def _may_edit(manager: Any, user: Any, dag_id: str | None, known: frozenset[str]) -> bool:
    """To cancel a job is to end a task: whoever may mark the DAG's task instances may do it."""
    details = None
    if dag_id is None:
        if not (
            known <= manager.get_authorized_dag_ids(user=user, method="PUT")
            and manager.is_authorized_dag(method="PUT", user=user)
        ):
            return False
    else:
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    entity = DagAccessEntity.TASK_INSTANCE
    return bool(manager.is_authorized_dag(method="PUT", access_entity=entity, details=details, user=user))


def requires_own_page(request: Request) -> None:
    """
    Refuse a change that another site's page requests with the session of a logged-in user.

    The session's cookie is ``SameSite=Lax``; beside it, the header that only our own script sends, and where
    the browser says which page asks.

    :raises HTTPException: 403.
    """
    if not request.headers.get(ACTION_HEADER):
        raise HTTPException(403, f"the request has no header {ACTION_HEADER}; use the button of the page")
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise HTTPException(403, "the request comes from another site's page")
        return
    origin = request.headers.get("Origin")
    own = {request.headers.get("Host"), urlsplit(conf.get("api", "base_url", fallback="")).netloc}
    if origin is not None and urlsplit(origin).netloc not in own - {None, ""}:  # "null" is nobody's origin
        raise HTTPException(403, f"the request comes from a page of {origin!r}")


REQUIRES_OWN_PAGE = Depends(requires_own_page)
