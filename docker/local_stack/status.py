"""What runs, where, since when: a table for people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from local_stack.errors import LocalStackError
from local_stack.machines.swarm import Machine
from local_stack.parts.machines import Machines
from local_stack.parts.object_store import ObjectStore
from local_stack.parts.part import StackPart
from local_stack.processes.manager import ProcessInfo
from local_stack.settings import Part
from local_stack.stack import LocalStack


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUse:
    """
    Age and memory of a program and its children.

    ``memory_bytes`` counts shared pages proportionally (PSS).
    """

    uptime_seconds: float
    memory_bytes: int


def program_use(pid: int) -> ProgramUse | None:
    """Return what the program ``pid`` uses now, or None if it is gone."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return ProgramUse(
            uptime_seconds=time.time() - process.create_time(), memory_bytes=sum(map(_memory_bytes, family))
        )
    except psutil.NoSuchProcess:
        return None


def print_status(stack: LocalStack) -> bool:
    """
    Print one row a program, and which engine is used.

    :return: whether all parts that this stack runs are healthy.
    """
    table = Table(box=None, pad_edge=False)
    for column in ("part", "address", "state", "since", "pid", "memory"):
        table.add_column(column, justify="right" if column in {"pid", "memory"} else "left", no_wrap=True)
    known = stack.processes.all()
    is_all_healthy = True
    for name, part in stack.parts.items():
        if name is Part.MACHINES and not part.settings.is_advertised:
            continue
        programs = [known[program] for program in part.program_names() if program in known]
        healthy = _health(part)
        is_all_healthy = is_all_healthy and (healthy or not programs)
        address = _address(part)
        if not programs:
            state = {True: "healthy", False: "down"}[healthy]
            if name is Part.ENGINE and healthy:
                state = "healthy (not ours)"
            table.add_row(name.value, address, state, "", "", "")
        for info in programs:
            table.add_row(info.name, address, _state(info, healthy), *_use_columns(info))
    # Wide enough for long image names even where there is no terminal.
    console = Console(soft_wrap=True, width=None if Console().is_terminal else 160)
    console.print(table)
    try:
        console.print(f"\n{stack.engine.describe()}")
    except LocalStackError as error:
        console.print(f"\n{error}")
    _print_machines(stack, console)
    store = stack.parts.get(Part.OBJECT_STORE)
    if isinstance(store, ObjectStore) and (use := store.use()):
        console.print(f"object store: {use}")
    console.print(f"state and logs: {stack.settings.state_dir.absolute()}")
    return is_all_healthy


def what_stays(machines: Sequence[Machine], *, has_engine: bool) -> list[str]:
    """
    Return what `make down` leaves on purpose, in sentences: the swarm. Pure.

    :param machines: that were in it before.
    :param has_engine: whether the engine, which may be the stack's own, still runs.
    """
    if not machines:
        return []
    others = [each.name for each in machines if not each.is_manager]
    kind = "machine" if len(others) == 1 else "machines"
    names = f" ({', '.join(others)})" if others else ""
    left = (
        "the engine still manages its swarm"
        if has_engine
        else "the engine, which manages a swarm, is stopped"
    )
    way_out = "`docker swarm leave` on each, and then `docker swarm leave --force` here, ends it"
    return [f"{left}, with {len(others)} other {kind}{names}; jobs on them run on; {way_out}"]


def swarm_machines(stack: LocalStack) -> list[Machine]:
    """Return the machines of the stack's swarm; empty: none, or its engine does not answer."""
    part = stack.parts.get(Part.MACHINES)
    if not isinstance(part, Machines) or not part.settings.is_advertised:
        return []
    try:
        return part.machines()
    except LocalStackError:
        return []


def _print_machines(stack: LocalStack, console: Console) -> None:
    machines = swarm_machines(stack)
    if not machines:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("machine", "address", "role", "state", "availability", "cores", "memory", "engine"):
        justify: Literal["right", "left"] = "right" if column in {"cores", "memory"} else "left"
        table.add_column(column, justify=justify, no_wrap=True)
    for each in machines:
        table.add_row(
            each.name,
            each.address,
            "manager" if each.is_manager else "worker",
            each.state,
            each.availability,
            f"{each.cpus:g}",
            f"{each.memory_bytes / 2**30:.1f} GiB",
            each.engine_version,
        )
    console.print()
    console.print(table)


def _state(info: ProcessInfo, is_healthy: bool) -> str:
    if info.pid is None:
        return info.state.lower()
    return "healthy" if is_healthy else f"{info.state.lower()}, not healthy"


def _use_columns(info: ProcessInfo) -> tuple[str, str, str]:
    use = program_use(info.pid) if info.pid is not None else None
    if use is None:
        return "", "", ""
    uptime = timedelta(seconds=round(use.uptime_seconds))
    return str(uptime), str(info.pid), f"{use.memory_bytes / 2**20:.0f} MiB"


def _health(part: StackPart) -> bool:
    try:
        return part.is_healthy()
    except LocalStackError:  # the engine is needed to answer, and is down
        return False


def _address(part: StackPart) -> str:
    try:
        return part.address()
    except LocalStackError:
        return "unknown: the engine does not answer"


def _memory_bytes(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return 0
    return int(getattr(memory, "pss", memory.rss))
