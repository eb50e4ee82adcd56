"""Migrates Airflow's database, and makes the users that are missing."""

import json
import sys
from pathlib import Path

from airflow.__main__ import main


def run(*arguments: str) -> None:
    """Run a command of Airflow here: the command line of a process would show a password."""
    sys.argv = ["airflow", *arguments]
    main()


run("db", "migrate")
for name, user in json.loads(Path("/run/secrets/airflow-users").read_text()).items():
    address = f"{name}@example.com"
    run("users", "create", "--username", name, "--firstname", name, "--lastname", "-", "--email", address,
        "--role", user["role"], "--password", user["password"])  # fmt: skip
