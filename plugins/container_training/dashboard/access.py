"""
Who asks, and what Airflow lets them do.

An app that a plugin mounts inherits no authentication, so each of our routes depends on ``RightsDep`` or
``ConnectionsDep``.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.sdk import conf
from fastapi import Depends, HTTPException, Request

from container_training.airflow_internals.database import airflow_database, dag_ids
from container_training.airflow_internals.login import (
    UserDep,
    authorized_dag_ids,
    is_authorized_for_any_dag,
    may_edit_task_instances,
    may_read_connection,
)
from container_training.dashboard.airflow_side.connections import training_connections
from container_training.dashboard.airflow_side.rights import Rights

#: A header that no form and no other site's page can send without asking first.
ACTION_HEADER = "X-Training-Action"


def rights_of(user: UserDep) -> Rights:
    """
    Return what the user may do.

    It is read anew with each request, so that a right that is revoked is gone.
    """
    with airflow_database() as session:
        known = dag_ids(session)
    readable = authorized_dag_ids(user, "GET")
    return Rights(
        known=known,
        readable=readable & known,
        # Some auth managers answer "any DAG at all?" where no DAG is named: then the known ones decide.
        reads_all=known <= readable and is_authorized_for_any_dag(user, "GET"),
        may_edit=lambda dag_id: _may_edit(user, dag_id, known),
    )


RightsDep = Annotated[Rights, Depends(rights_of)]


def connections_of(user: UserDep) -> list[str]:
    """Return the connections to training services that Airflow shows the user, sorted."""
    return [conn_id for conn_id in training_connections() if may_read_connection(user, conn_id)]


ConnectionsDep = Annotated[list[str], Depends(connections_of)]


def _may_edit(user: Any, dag_id: str | None, known: frozenset[str]) -> bool:
    """To cancel a job is to end a task: whoever may mark the DAG's task instances may do it."""
    if dag_id is None and not (
        known <= authorized_dag_ids(user, "PUT") and is_authorized_for_any_dag(user, "PUT")
    ):
        return False
    return may_edit_task_instances(user, dag_id)


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
