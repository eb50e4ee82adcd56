"""
Runs a program and notes each file that it makes or changes outside its folder.

``python -m benchmarks.fuzz.witness FOLDER MODULE [ARGUMENT ...]``; the notes are in ``FOLDER/outside.log``.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

NOTES = "outside.log"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events of Python, and which of their arguments are paths that change.
_CHANGES = {
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "sqlite3.connect": (0,),
}
_OF_EVERYBODY = frozenset({"/dev/null", "/dev/tty", ":memory:"})


def watch(folder: Path) -> None:
    """Note what this process changes outside ``folder``; this cannot be undone."""
    inside = os.path.realpath(folder)
    notes = os.open(Path(inside) / NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            paths = arguments[:1] if isinstance(flags, int) and flags & _WRITING else ()
        else:
            paths = tuple(arguments[place] for place in _CHANGES.get(event, ()))
        for path in paths:
            # A number is a descriptor, whose file was opened before.
            if isinstance(path, str | bytes | os.PathLike) and _is_outside(os.fsdecode(path), inside):
                os.write(notes, f"{event} {os.fsdecode(path)!r}\n".encode())

    sys.addaudithook(look)


def _is_outside(path: str, inside: str) -> bool:
    found = os.path.realpath(path.partition("?")[0].removeprefix("file:"))
    return path not in _OF_EVERYBODY and found != inside and not found.startswith(inside + os.sep)


if __name__ == "__main__":
    _, _folder, _module, *_arguments = sys.argv
    watch(Path(_folder))
    sys.argv = [_module, *_arguments]
    runpy.run_module(_module, run_name="__main__", alter_sys=True)
