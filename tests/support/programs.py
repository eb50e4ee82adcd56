"""Which programs of the operating system the tests find on this machine."""

from __future__ import annotations

import functools

from local_stack.parts.database import server_program
from local_stack.parts.newer_docker import find_newer_docker
from local_stack.processes.packages import find_program
from local_stack.settings import StackSettings


@functools.cache
def is_there(program: str) -> bool:
    """
    Whether ``program`` is there.

    PostgreSQL's server and ``newer docker`` count, too, which are not on PATH.
    """
    if program == "newer docker":
        return find_newer_docker(StackSettings()) is not None
    found = server_program(program) if program == "postgres" else find_program(program)
    return found is not None
