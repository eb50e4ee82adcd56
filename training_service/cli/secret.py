"""``secret set | list | rm``: the secrets that jobs may name, on the service's machine."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from training_api.command_line.outcome import UsageError, run_command

if TYPE_CHECKING:
    from training_service.access.secret_store import SecretStore

_Command = Callable[[argparse.Namespace, "SecretStore", str], None]


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its own commands to the parser's ``commands``."""
    parser = commands.add_parser("secret", help="set, list and remove the secrets that jobs may name")
    own = parser.add_subparsers(dest="secret_command", metavar="COMMAND", required=True)
    setting = _add(own, "set", _set, "make or replace a secret; its value is read from standard input")
    setting.add_argument("name", metavar="NAME")
    _add(own, "list", _list, "list names, and when each was written; values are never shown")
    removal = _add(own, "rm", _remove, "remove a secret; containers that have it keep it")
    removal.add_argument("name", metavar="NAME")


def _add(
    commands: argparse._SubParsersAction[Any], name: str, command: _Command, help_: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.add_argument("--project", metavar="PROJECT", help="default: GOOGLE_CLOUD_PROJECT")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(command, options)))
    return parser


def _run(command: _Command, options: argparse.Namespace) -> int:
    from training_service.access.secret_store import SecretStore
    from training_service.settings import ServiceSettings

    project = options.project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise UsageError("which project? Give --project, or set GOOGLE_CLOUD_PROJECT")
    command(options, SecretStore(ServiceSettings().secrets_folder), project)
    return 0


def _set(options: argparse.Namespace, store: SecretStore, project: str) -> None:
    # An argument would stand in the list of processes and in the shell's history.
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {options.name}: ").encode()
    else:
        value = sys.stdin.buffer.read()
    store.put(project, options.name, value)


def _list(_: argparse.Namespace, store: SecretStore, project: str) -> None:
    for name, written_at in store.written(project).items():
        print(f"{name}\t{written_at:%Y-%m-%dT%H:%M:%SZ}")


def _remove(options: argparse.Namespace, store: SecretStore, project: str) -> None:
    store.remove(project, options.name)
