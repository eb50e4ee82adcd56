"""The number of a project, which is known only by name. Pure."""

from __future__ import annotations

import hashlib

_MAX_NUMBER_DIGITS = 18  # of a 64-bit number


def project_number(project: str) -> int:
    """
    Return the project's number: its id if that is one, else twelve digits derived from it.

    Locally a project has no number; the derived one is always the same.
    """
    if project.isdecimal() and len(project) <= _MAX_NUMBER_DIGITS:
        return int(project)
    digest = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big")
    return 10**11 + digest % (9 * 10**11)
