"""The store of secrets: what it gives, what it refuses, and that it shows no value."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from container_engines.base import GivenSecrets
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import InvalidJobSpec, SecretUnusable
from training_api.job.job_spec import JobSpec
from training_service.access.secret_store import MAX_BYTES, SecretStore

VALUE = "a-value-that-nobody-shows"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "secrets"


@pytest.fixture
def store(folder: Path) -> SecretStore:
    store = SecretStore(folder, {"TF_CONFIG"})
    store.put("demo", "key", f"{VALUE}\n".encode())
    return store


def make_spec(**secrets: str) -> JobSpec:
    labels = {f"secret-{name}": variable for name, variable in secrets.items()}
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/p/i:1"))
    return job_spec_from_wire("demo", Job(job_id="job", labels=labels, training_input=training))


def test_a_secret_is_a_file_as_it_was_written_or_a_variable_without_the_line_end(store: SecretStore) -> None:
    store.put("demo", "bytes", b"\0\xff")

    file, variable = store.given(make_spec(key="", bytes="")), store.given(make_spec(key="api_key"))

    assert (file.files, file.environment) == ({"key": f"{VALUE}\n".encode(), "bytes": b"\0\xff"}, {})
    assert (variable.files, variable.environment) == ({}, {"API_KEY": VALUE})


def test_a_secret_is_its_owners_alone_whatever_was_there(folder: Path, store: SecretStore) -> None:
    folder.chmod(0o755)
    (folder / "demo").chmod(0o755)
    (folder / "demo/key").chmod(0o644)

    store.put("demo", "key", b"new")

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "demo", folder / "demo/key")]
    assert modes == [0o700, 0o700, 0o600]
    assert [path.name for path in (folder / "demo").iterdir()] == ["key"]


def test_what_is_given_shows_no_value() -> None:
    given = GivenSecrets(files={"key": VALUE.encode()}, environment={"KEY": VALUE})

    assert VALUE not in repr(given)


def test_names_are_listed_and_removed(store: SecretStore) -> None:
    store.put("demo", "other", b"x")
    store.remove("demo", "key")

    assert list(store.written("demo")) == ["other"]
    assert list(store.written("nobody")) == []
    with pytest.raises(SecretUnusable, match="has no secret 'key'"):
        store.remove("demo", "key")


def test_a_missing_secret_is_refused_with_the_place_and_the_command(store: SecretStore, folder: Path) -> None:
    with pytest.raises(InvalidJobSpec) as caught:
        store.check(make_spec(key="", absent="absent_key"))

    (violation,) = caught.value.violations
    assert violation.field == "labels.secret-absent"
    assert str(folder / "demo/absent") in violation.description
    assert "secret set absent --project demo" in violation.description


def test_a_secret_of_another_project_is_none(store: SecretStore) -> None:
    with pytest.raises(SecretUnusable, match="project 'other' has no secret 'key'"):
        store.given(replace(make_spec(key=""), project="other"))


def _link_the_file(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _link_the_project(path: Path) -> None:
    path.parent.rename(path.parent.parent / "elsewhere")
    path.parent.symlink_to(path.parent.parent / "elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_link_the_file, "links are not followed"),
        (_link_the_project, "links are not followed"),
        (_pipe, "is no file"),
        (lambda path: path.chmod(0o640), "mode 0640; chmod go="),
        (lambda path: path.parent.chmod(0o750), "mode 0750; chmod go="),
        (lambda path: path.parent.parent.chmod(0o711), "mode 0711; chmod go="),
        (lambda path: path.write_bytes(VALUE.encode() * MAX_BYTES), f"more than {MAX_BYTES} bytes"),
    ],
)
def test_what_is_no_private_file_is_not_read(
    store: SecretStore, folder: Path, change: Callable[[Path], None], why: str
) -> None:
    change(folder / "demo/key")

    with pytest.raises(SecretUnusable, match=why) as caught:
        store.given(make_spec(key=""))

    assert VALUE not in str(caught.value)


@pytest.mark.parametrize("content", [VALUE.encode() + b"\xff", VALUE.encode() + b"\0"])
def test_what_is_no_text_cannot_be_a_variable_and_is_not_shown(store: SecretStore, content: bytes) -> None:
    store.put("demo", "key", content)

    with pytest.raises(SecretUnusable, match="give it as a file") as caught:
        store.given(make_spec(key="api_key"))

    assert VALUE not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def test_a_variable_of_the_service_is_not_replaced(store: SecretStore) -> None:
    with pytest.raises(SecretUnusable, match="the service itself sets TF_CONFIG"):
        store.given(make_spec(key="tf_config"))


@pytest.mark.parametrize("content", [b"", b"x" * (MAX_BYTES + 1)])
def test_an_empty_or_a_large_value_is_not_written(store: SecretStore, content: bytes) -> None:
    with pytest.raises(SecretUnusable, match=f"1 to {MAX_BYTES} bytes, got {len(content)}"):
        store.put("demo", "key", content)

    assert store.given(make_spec(key="x")).environment == {"X": VALUE}


@pytest.mark.parametrize(
    ("project", "name"),
    [("..", "key"), ("demo/..", "key"), ("demo", "../key"), ("demo", ".key"), ("demo", "Key")],
)
def test_a_name_leads_to_no_other_folder(store: SecretStore, project: str, name: str) -> None:
    for act in (lambda: store.put(project, name, b"x"), lambda: store.remove(project, name)):
        with pytest.raises(SecretUnusable, match=r"no project's id|the name of a secret"):
            act()
