"""
Fetches objects to where a command names them as files, and becomes the command.

It is brought into the containers of jobs whose words name objects below a folder such as ``/gcs``. Runs as
``run_package.py`` does, with its exit codes; 127: there is no such command.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from object_download import ObjectDenied, ObjectMissing, StoreUnavailable, TargetUnwritable, download

EXIT_NO_OBJECT = 66
EXIT_UNAVAILABLE = 69
EXIT_UNWRITABLE = 73
EXIT_NO_COMMAND = 127
_READ_ONLY_FILE, _READ_ONLY_FOLDER = 0o444, 0o555


def main(arguments: Sequence[str]) -> NoReturn:
    """Fetch and run."""
    at = list(arguments).index("--")
    parser = argparse.ArgumentParser(prog="fetch_files", allow_abbrev=False)
    parser.add_argument("--folder", required=True, help="where buckets are shown")
    parser.add_argument("--object", action="append", required=True, help="BUCKET/NAME; may be repeated")
    options, command = parser.parse_args(arguments[:at]), list(arguments[at + 1 :])
    try:
        for name in options.object:
            fetch(Path(options.folder), name)
    except (ObjectMissing, ObjectDenied) as error:
        fail(
            f"{error}; {options.folder} has only the objects that env, command and args name, as they are when the "
            "container starts, and nothing is written back: write to gs:// by a client of Cloud Storage",
            EXIT_NO_OBJECT,
        )
    except StoreUnavailable as error:
        fail(str(error), EXIT_UNAVAILABLE)
    except TargetUnwritable as error:
        fail(str(error), EXIT_UNWRITABLE)
    protect(Path(options.folder))
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell, and the words are the job's own
    except OSError as error:
        fail(f"{command[0]!r} cannot be run: {error.strerror}", EXIT_NO_COMMAND)


def fetch(folder: Path, name: str) -> None:
    """Write the object ``BUCKET/NAME`` below ``folder``."""
    target = folder / name
    begun = time.monotonic()
    size = download(f"gs://{name}", target, say)
    say(f"{target}: {size} bytes in {time.monotonic() - begun:.1f} s")


def protect(folder: Path) -> None:
    """Make what is below ``folder`` read-only: a trainer's files would be lost in silence."""
    for path in sorted(folder.rglob("*"), reverse=True):
        # The image may have put links there, and files of another user.
        if path.is_symlink():
            continue
        with suppress(PermissionError):
            path.chmod(_READ_ONLY_FOLDER if path.is_dir() else _READ_ONLY_FILE)


def fail(message: str, exit_code: int) -> NoReturn:
    """End with a word on why the trainer does not start."""
    print(f"The job cannot start: {message}", file=sys.stderr)
    sys.exit(exit_code)


def say(message: str) -> None:
    """Write a line to the job's log."""
    print(f"[runtime] {message}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
