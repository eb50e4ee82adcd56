"""The command ``object-store``."""

from __future__ import annotations

import argparse
import logging
import sqlite3
import sys
from ipaddress import ip_interface
from pathlib import Path

from object_store.server import FolderInUse, Settings, serve

_FLOOR_BYTES = 256 << 20


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="object-store", description="Cloud Storage's JSON API over a folder of this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("serve", help="serve a folder until SIGTERM or SIGINT")
    command.add_argument(
        "--root", type=Path, required=True, metavar="DIR", help="the folder; made if it is not there"
    )
    command.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    command.add_argument("--port", type=int, default=9023, help="default: %(default)s")
    command.add_argument(
        "--training-url", metavar="URL", help="the training service, which knows what jobs may do"
    )
    command.add_argument(
        "--allow-host",
        action="append",
        default=["host.docker.internal"],
        metavar="NAME",
        help="a name under which clients reach the store, beside localhost and addresses; may be given again",
    )
    command.add_argument(
        "--containers-host", metavar="ADDRESS", help="a second address to listen on, which containers reach"
    )
    command.add_argument(
        "--clients",
        metavar="ADDRESS/BITS",
        help="one more address to listen on, and its network of users: who comes there from elsewhere may do "
        "what a container may",
    )
    command.add_argument(
        "--floor-bytes",
        type=int,
        default=_FLOOR_BYTES,
        metavar="N",
        help="nothing is written when the disk has less free; default: %(default)s",
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        serve(
            Settings(
                root=given.root,
                host=given.host,
                port=given.port,
                training_url=given.training_url,
                hosts=given.allow_host,
                containers_host=given.containers_host,
                clients=ip_interface(given.clients) if given.clients else None,
                floor_bytes=given.floor_bytes,
            )
        )
    except (FolderInUse, ValueError, OSError, sqlite3.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
