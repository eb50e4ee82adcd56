"""
Requests that name a project by its number, as answers do.

An ASGI middleware puts the id into the path before anything looks at it: routes, rights and the audit log
then know the id only. A number cannot be turned into an id: it is looked up among the projects that have
jobs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from training_api.job.project_number import project_number
from training_service.api.vertex_v1.paths import PREFIX

_NUMBERED = re.compile(rf"(?P<before>{PREFIX}/v1/projects/)(?P<number>[0-9]{{1,18}})(?P<after>/.*)?")


#: How often the projects are read at most for numbers that none of them has.
_READ_SECONDS = 1.0


class ProjectIds:
    """
    The ids of projects by their numbers; safe for threads.

    :param projects: returns the ids of all projects that have jobs.
    """

    def __init__(
        self, projects: Callable[[], Iterable[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._projects = projects
        self._clock = clock
        self._known: dict[int, str] = {}
        self._read_at = -_READ_SECONDS
        self._lock = Lock()

    def learn(self, project: str) -> None:
        """Know the number of a project from now on, unless a project that has jobs has it."""
        if not project.isdecimal():  # which stands for itself
            self._known.setdefault(project_number(project), project)

    def id_of(self, number: str) -> str:
        """Return the id of the project with this number; where none has it, the number itself."""
        found = self._known.get(int(number))
        if found is None:
            with self._lock:
                if int(number) not in self._known and self._clock() >= self._read_at + _READ_SECONDS:
                    # An id that is a number must not hide the project that has this number.
                    ids = sorted(self._projects(), key=str.isdecimal, reverse=True)
                    self._known |= {project_number(each): each for each in ids}
                    self._read_at = self._clock()
            found = self._known.get(int(number), number)
        return found


class ProjectNumbers:
    """Names the project of a request by its id."""

    def __init__(self, app: ASGIApp, ids: ProjectIds) -> None:
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        found = _NUMBERED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found:
            project = await run_in_threadpool(self._ids.id_of, found["number"])
            # In place: what is around looks at the route that this scope gets.
            scope["path"] = f"{found['before']}{project}{found['after'] or ''}"
        await self._app(scope, receive, send)
