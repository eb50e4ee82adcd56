"""``backup``: copies the service's SQLite database while the service runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from training_api.command_line.outcome import run_command


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser("backup", help="copy the service's SQLite database; the service may run")
    parser.add_argument("file", type=Path, metavar="FILE", help="the copy; it must not exist")
    parser.add_argument(
        "--database-url", help="SQLAlchemy URL of the store; default: TRAINING_DATABASE_URL, as of serve"
    )
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> int:
    from training_service.settings import ServiceSettings
    from training_service.store.backup import back_up

    back_up(options.database_url or ServiceSettings().database_url, options.file)
    print(f"the database is in {options.file}", file=sys.stderr)
    return 0
