"""Which programs of the operating system the tests find on this machine."""

from __future__ import annotations

import functools

from local_stack.parts.database import server_program
from local_stack.processes.packages import find_program


@functools.cache
def is_there(program: str) -> bool:
    """Whether ``program`` is installed, PostgreSQL's server included, which is not on PATH."""
    found = server_program(program) if program == "postgres" else find_program(program)
    return found is not None
