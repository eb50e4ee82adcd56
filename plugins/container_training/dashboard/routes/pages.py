"""
The pages' HTML, which has no data in it, and the files that it loads.

A new page: its title in ``_TITLES``, a route here, its content in ``pages/NAME.html``, its script in
``static/NAME.js`` (which starts from ``shell.js``), and, if people go there from anywhere, a link in
``pages/frame.html`` and a view in the plugin.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote, urlencode

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.task_jobs import job_of_task
from container_training.dashboard.routes.assets import MEDIA_TYPES, assets, content_digest
from training_api.job.job_id import TaskKey

_PAGES = Path(__file__).parents[1] / "pages"
#: Name of a page, which its script and its HTML have -> its title.
_TITLES = {"jobs": "Jobs", "job": "Job", "fleet": "Fleet", "task": "No job"}
_YEAR = "private, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> RedirectResponse:
    """Send to the list of jobs."""
    return RedirectResponse(f"{_root(request)}/jobs")


@router.get("/jobs")
def jobs_page(request: Request) -> HTMLResponse:
    """Return the list of jobs."""
    return _page(request, "jobs")


@router.get("/jobs/{name:path}")
def job_page(name: str, request: Request) -> HTMLResponse:
    """
    Return the page of a job, by its id or its resource name, whether the job exists or not.

    Its data come from ``job_api``, which checks the user's rights.
    """
    return _page(request, "job")


@router.get("/fleet")
def fleet_page(request: Request) -> HTMLResponse:
    """Return the fleet as a whole."""
    return _page(request, "fleet")


@router.get("/task")
def task_page(
    request: Request,
    rights: RightsDep,
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: str = "-1",
) -> Response:
    """
    Send to the page of the job that a task is about; the tab of the task shows it.

    :param map_index: Airflow leaves ``{MAP_INDEX}`` as it is for a task that is not mapped.
    """
    index = int(map_index) if map_index.isdecimal() else -1
    key = TaskKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index)
    found = job_of_task(key) if dag_id in rights.readable else None
    if found is None:
        return _page(request, "task")
    query = urlencode({"conn_id": found.conn_id})
    return RedirectResponse(f"{_root(request)}/jobs/{quote(found.job_id, safe='')}?{query}", status_code=303)


@router.get("/static/{digest}/{name:path}")
def static_file(digest: str, name: str, request: Request) -> Response:
    """
    Return a file.

    A path with an older digest gets the newest content, which browsers do not keep.
    """
    content = assets().get(name)
    if content is None:
        raise HTTPException(404, f"there is no file {name!r}")
    tag = f'"{content_digest()}"'
    headers = {"Cache-Control": _YEAR if digest == content_digest() else "private, no-cache", "ETag": tag}
    if request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=MEDIA_TYPES[Path(name).suffix], headers=headers)


def login_page(request: Request) -> HTMLResponse:
    """Return what somebody without a login sees: 401, and the way to the login."""
    root = _root(request)
    airflow = root.removesuffix("/training")
    address = f"{root}{request.url.path.removeprefix(root)}"
    query = f"?{request.url.query}" if request.url.query else ""
    login = f"{airflow}/auth/login?next={quote(address + query, safe='')}"
    text = _template("login").substitute(login=escape(login, quote=True))
    return HTMLResponse(text, status_code=401)


@cache
def theme_script() -> str:
    """
    Return the one script that is part of the page.

    It must run before anything is painted, and also if no file comes.
    """
    return (_PAGES / "theme.js").read_text("utf-8")


def theme_digest() -> str:
    """
    Return the SHA-256 by which a policy allows that script.

    Source: W3C, Content Security Policy Level 3, hash-source.
    """
    return f"sha256-{b64encode(hashlib.sha256(theme_script().encode()).digest()).decode()}"


def _page(request: Request, name: str) -> HTMLResponse:
    root = _root(request)
    values = {
        "root": escape(root, quote=True),
        "static": f"{escape(root, quote=True)}/static/{content_digest()}",
        "theme": theme_script(),
    }
    current = {f"{page}_current": ' aria-current="page"' if page == name else "" for page in _TITLES}
    main = _template(name).substitute(values)
    text = _template("frame").substitute(values, **current, title=_TITLES[name], name=name, main=main)
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


def _root(request: Request) -> str:
    """
    Return the path under which the app is mounted.

    ``/training``, with what a proxy puts before it.
    """
    return str(request.scope.get("root_path", "")).rstrip("/")


@cache
def _template(name: str) -> Template:
    return Template((_PAGES / f"{name}.html").read_text("utf-8"))
