"""
The files that browsers load: styles, scripts and vendored libraries.

Their address changes with their content.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parents[1] / "static"
#: By the end of the name; nothing else is served.
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def assets() -> dict[str, bytes]:
    """
    Return the files by their path below ``static/``.

    They are read once, so that a request cannot reach another file.
    """
    return {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }


@cache
def content_digest() -> str:
    """
    Return 12 hex digits that stand for all files together.

    One digest for all, in the folder's name: modules import each other by relative names, and so stay within
    one version.
    """
    digest = hashlib.sha256()
    for name, content in assets().items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]
