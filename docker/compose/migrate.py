"""Brings Airflow's database to the version of the image, and makes its users unless they are there."""

import json
import sys
from pathlib import Path

from airflow.__main__ import main


def run(*arguments: str) -> None:
    """Run a command of Airflow in this process: the command line of another one would show a password."""
    sys.argv = ["airflow", *arguments]
    main()


run("db", "migrate")
for name, user in json.loads(Path("/run/secrets/airflow-users").read_text()).items():
    address = f"{name}@example.com"
    run("users", "create", "--username", name, "--firstname", name, "--lastname", "-", "--email", address,
        "--role", user["role"], "--password", user["password"])  # fmt: skip
