"""supervisord's configuration file, and one file per program, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local_stack.errors import LocalStackError

OWNER_VARIABLE = "LOCAL_STACK_OWNER"
"""Variable in the environment of each program; its value is the state folder of its stack."""

PRIVATE_UMASK = 0o077
"""Files of the programs, and their logs, are their owner's alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    One supervised program.

    :param name: also the name of its log file.
    :param command: argument list; never seen by a shell.
    :param environment: added to the environment in which the stack was started.
    :param stop_signal: what asks it to end, without the prefix ``SIG``.
    :param stop_wait_seconds: after that it is killed, and its process group with it.
    :param start_retries: how often a start that fails at once is tried again.
    :param umask: permissions that files of the program do not get.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    stop_signal: str = "TERM"
    stop_wait_seconds: int = 10
    start_retries: int = 3
    umask: int = PRIVATE_UMASK


def render_main(*, state_dir: Path, socket: Path, log_dir: Path) -> str:
    """Return the configuration of supervisord itself; the programs are included one file each."""
    state = _escape(str(state_dir))
    return f"""\
; Written by local_stack at each start; changes are lost.
[supervisord]
directory = {state}
pidfile = {state}/supervisord.pid
logfile = {_escape(str(log_dir))}/supervisord.log
logfile_maxbytes = 5MB
logfile_backups = 1
umask = {PRIVATE_UMASK:03o}
childlogdir = {_escape(str(log_dir))}

[unix_http_server]
file = {_escape(str(socket))}
chmod = 0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[include]
; Relative to this file: supervisord splits absolute paths at their spaces.
files = programs/*.conf
"""


def render_program(program: Program, *, log: Path, owner: Path) -> str:
    """
    Return the configuration of one program.

    ``autostart`` is off because the stack starts each program when what it needs is healthy.

    :param owner: state folder, noted in the program's environment so that leftovers are found.
    :raises LocalStackError: supervisord's format cannot express a value of the environment or the command.
    """
    environment = {**program.environment, OWNER_VARIABLE: str(owner)}
    variables = [f"{name}={_quote(name, value)}" for name, value in sorted(environment.items())]
    lines = [
        f"[program:{program.name}]",
        f"command = {_escape(shlex.join(program.command))}",
        f"directory = {_escape(str(program.directory or owner))}",
        f"environment = {','.join(variables)}",
        "autostart = false",
        "autorestart = true",
        "startsecs = 1",
        f"startretries = {program.start_retries}",
        f"stopsignal = {program.stop_signal}",
        f"stopwaitsecs = {program.stop_wait_seconds}",
        "killasgroup = true",
        f"umask = {program.umask:03o}",
        "redirect_stderr = true",
        f"stdout_logfile = {_escape(str(log))}",
        "stdout_logfile_maxbytes = 10MB",
        "stdout_logfile_backups = 1",
    ]
    return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    """Make a value safe from supervisord's ``%(name)s`` expansion and from its comments."""
    if "\n" in value or " ;" in value or " #" in value:
        raise LocalStackError(
            f"supervisord reads a line break, ' ;' and ' #' as an end of the value, got {value!r}"
        )
    return value.replace("%", "%%")


def _quote(name: str, value: str) -> str:
    """
    Quote the value of an environment variable.

    supervisord splits with a lexer that knows quotes but no escapes, and then strips all quotes at both ends
    (supervisor.datatypes.dict_of_key_value_pairs), so some values cannot be written.
    """
    quote = "'" if '"' in value else '"'
    if quote in value or value.strip("'\"") != value:
        # Not the value itself: it may be a secret.
        raise LocalStackError(
            f"the environment variable {name} must not begin or end with a quote, nor contain both kinds of "
            "quotes"
        )
    try:
        return quote + _escape(value) + quote
    except LocalStackError as error:
        raise LocalStackError(
            f"the environment variable {name} must not contain a line break, ' ;' or ' #'"
        ) from error
