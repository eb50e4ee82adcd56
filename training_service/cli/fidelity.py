"""``fidelity``: prints docs/fidelity.md."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "fidelity", help="print docs/fidelity.md: what of the API is served, field by field"
    )
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> int:
    from training_service.fidelity.page import fidelity_page  # the service itself does not need it

    sys.stdout.write(fidelity_page())
    return 0
