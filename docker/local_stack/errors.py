"""The errors of the local stack; each is printed as one message, without a traceback."""

from __future__ import annotations

from pathlib import Path


class LocalStackError(Exception):
    """
    Something the local stack cannot do; the message says what is wrong and the way out.

    ::

        LocalStackError
        + PartFailed        a part did not start or did not become healthy in time
        + PortTaken         somebody else listens where a part should
        + EngineMissing     no Docker Engine answers, and none can be started here
        + PackagesMissing   a program of the operating system is missing and cannot be installed
    """


class PartFailed(LocalStackError):
    """A part did not start, or did not become healthy in time."""

    def __init__(self, part: str, reason: str, log: Path | None = None, log_tail: str = "") -> None:
        message = f"{part} {reason}"
        if log is not None:
            shown = log_tail.strip() or "(empty)"
            message += f"; the end of its log {log}:\n{shown}"
        super().__init__(message)
        self.part = part


class PortTaken(LocalStackError):
    """Somebody else listens on the address that a part needs."""


class EngineMissing(LocalStackError):
    """No Docker Engine answers, and none can be started here."""


class PackagesMissing(LocalStackError):
    """A program of the operating system is missing and cannot be installed here."""
