"""Where the secrets of a build come from, and what is said of a source that is no good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from container_training.hooks import build_secrets
from container_training.hooks.build_secrets import MAX_SECRET_BYTES, read_secrets
from training_api.errors import InvalidRequest


@pytest.fixture(autouse=True)
def masked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Airflow was told to mask."""
    told: list[str] = []
    monkeypatch.setattr(build_secrets, "mask_secret", told.append)
    return told


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_PYPI", json.dumps({"conn_type": "http", "password": "p4ss"}))
    return "connection:pypi"


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW_VAR_BUILD_TOKEN", "t0ken")
    return "variable:build_token"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "netrc"
    path.write_bytes(b"machine pypi\n\xff")
    return str(path)


def test_connections_variables_and_files_are_read(
    connection: str, variable: str, file: str, masked: list[str]
) -> None:
    assert read_secrets({"a": connection, "b": variable, "c": file}) == {
        "a": b"p4ss",
        "b": b"t0ken",
        "c": b"machine pypi\n\xff",
    }
    assert masked == ["p4ss", "t0ken", "machine pypi\n�"]


def test_without_sources_there_are_no_secrets() -> None:
    assert read_secrets({}) == {}


def test_every_bad_source_is_named_at_once_and_nothing_is_masked(
    connection: str, tmp_path: Path, masked: list[str]
) -> None:
    (tmp_path / "empty").touch()
    sources = {
        "good": connection,
        "relative": "netrc",
        "absent": str(tmp_path / "absent"),
        "folder": str(tmp_path),
        "empty": str(tmp_path / "empty"),
    }

    with pytest.raises(InvalidRequest) as caught:
        read_secrets(sources)

    assert {each.field: each.description.partition("' ")[2] for each in caught.value.violations} == {
        "secrets.relative": "must be connection:ID, variable:KEY or the absolute path of a file",
        "secrets.absent": "is not a file on this worker",
        "secrets.folder": "is not a file on this worker",
        "secrets.empty": "is empty",
    }
    assert masked == []


@pytest.mark.parametrize("extra_bytes", [0, 1])
def test_a_secret_has_the_size_that_buildkit_takes(tmp_path: Path, extra_bytes: int) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (MAX_SECRET_BYTES + extra_bytes))

    if not extra_bytes:
        assert len(read_secrets({"a": str(path)})["a"]) == MAX_SECRET_BYTES
    else:
        with pytest.raises(InvalidRequest, match=f"at most {MAX_SECRET_BYTES} bytes") as caught:
            read_secrets({"a": str(path)})
        assert "xxx" not in str(caught.value)


@pytest.mark.usefixtures("airflow_db")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("connection:absent", "is no connection of this Airflow"),
        ("variable:absent", "is no variable of this Airflow"),
    ],
)
def test_what_airflow_does_not_have_is_said(source: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        read_secrets({"a": source})
