"""
Passwords of the stack's Airflow: made once, for their owner alone.

They are kept beside those that Airflow makes itself.
"""

import json
from pathlib import Path

from local_stack.people.airflow_users import ensure_password


def test_password_is_made_once_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "airflow" / "passwords.json"

    first = ensure_password(file, "finder")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"admin": "x"}))

    assert ensure_password(file, "finder") == first
    assert len(first) >= 20
    assert json.loads(file.read_text()) == {"finder": first, "admin": "x"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_file_that_airflow_has_just_made_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    file.touch()

    assert ensure_password(file, "finder")
