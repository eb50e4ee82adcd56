"""Who may use the stack's Airflow: a person, and the search for orphans, which only reads."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

ADMIN = "admin"
ORPHAN_FINDER = "orphan_finder"
#: ``[core] simple_auth_manager_users``: user and role.
USERS = {ADMIN: "admin", ORPHAN_FINDER: "viewer"}
_OWNER_ONLY = 0o600


def ensure_password(file: Path, user: str) -> str:
    """
    Return the password of ``user`` in the simple auth manager's file; make a missing one.

    Airflow makes up those that are missing, but only when its API server starts: too late for the environment
    of the tasks.
    """
    found: dict[str, str] = json.loads(file.read_text("utf-8") or "{}") if file.exists() else {}
    if user not in found:
        found[user] = secrets.token_urlsafe(16)
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            output.write(json.dumps(found) + "\n")
    return found[user]
