"""``serve``: runs the service."""

from __future__ import annotations

import argparse
from typing import Any

#: Options that replace the setting of the same name.
_SETTINGS = ("host", "port", "database_url", "require_auth", "tokens_file")


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser("serve", help="run the service until it is stopped (settings: TRAINING_*)")
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, help="port to listen on; default 8470")
    parser.add_argument("--database-url", help="SQLAlchemy URL of the store")
    parser.add_argument(
        "--require-auth",
        action="store_true",
        default=None,
        help="refuse callers without a bearer token, and what the IAM policies do not let them do",
    )
    parser.add_argument("--tokens-file", help="bearer tokens and their principals, YAML or JSON, mode 0600")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # A second of imports that the other commands do not need.
    from training_service.server import serve
    from training_service.settings import ServiceSettings

    chosen = {name: value for name in _SETTINGS if (value := getattr(options, name)) is not None}
    return serve(ServiceSettings(**chosen))
