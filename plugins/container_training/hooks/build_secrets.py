"""Reads the values of a build's secrets from files, Airflow connections and variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow.sdk import BaseHook, Variable
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from training_api.errors import FieldViolation, InvalidRequest

#: BuildKit's own limit.
MAX_SECRET_BYTES = 500 * 1024
_CONNECTION, _VARIABLE = "connection:", "variable:"


def read_secrets(sources: Mapping[str, str]) -> dict[str, bytes]:
    """
    Return the value of each secret by its id, and have Airflow mask it in the task's log.

    :param sources: by id: ``connection:ID`` is the password of a connection, ``variable:KEY`` a variable,
        anything else the absolute path of a file on the worker.
    :raises InvalidRequest: a source that does not exist, is empty or too large; all of them. Values are not
        in the message.
    """
    values: dict[str, bytes] = {}
    violations = []
    for id_, source in sources.items():
        try:
            values[id_] = _checked(_value(source))
        except (OSError, ValueError) as error:
            violations.append(FieldViolation(field=f"secrets.{id_}", description=f"{source!r} {error}"))
    if violations:
        raise InvalidRequest(violations)
    for value in values.values():
        mask_secret(value.decode("utf-8", "replace").strip())
    return values


def _value(source: str) -> bytes:
    if source.startswith(_CONNECTION):
        try:
            password = BaseHook.get_connection(source.removeprefix(_CONNECTION)).password
        except AirflowNotFoundException as error:
            raise ValueError("is no connection of this Airflow; add it under Admin > Connections") from error
        return (password or "").encode()
    if source.startswith(_VARIABLE):
        variable = Variable.get(source.removeprefix(_VARIABLE), default=None)
        if variable is None:
            raise ValueError("is no variable of this Airflow; add it under Admin > Variables")
        return str(variable).encode()
    path = Path(source)
    if not path.is_absolute():
        raise ValueError("must be connection:ID, variable:KEY or the absolute path of a file")
    if not path.is_file():
        raise ValueError("is not a file on this worker")
    return path.read_bytes()


def _checked(value: bytes) -> bytes:
    if not value:
        raise ValueError("is empty")
    if len(value) > MAX_SECRET_BYTES:
        raise ValueError(f"must have at most {MAX_SECRET_BYTES} bytes, got {len(value)}")
    return value
